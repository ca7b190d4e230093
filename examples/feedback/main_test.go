package main

import "testing"

// TestLargest: the eigenvalue is right, and no more passes through the host than begins and ends the loop.
func TestLargest(t *testing.T) {
	const steps = 10
	length, traffic, err := largest(t.Context(), "cpu", steps)
	if err != nil {
		t.Fatal(err)
	}
	if length < size+1.99 || length > size+2.01 {
		t.Errorf("the eigenvalue is %v, want %d", length, size+2)
	}
	if traffic.In != 4*(size*size+size) || traffic.Out != 4*steps {
		t.Errorf("%v moved: want the matrix and a vector in, and a length a step out", traffic)
	}
}
