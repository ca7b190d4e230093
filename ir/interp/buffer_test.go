package interp

import "testing"

// TestRoomSize: a buffer is large enough, but not much larger than requested, and its size identifies its class.
func TestRoomSize(t *testing.T) {
	classes := map[int]int{}
	for n := 0; n < 1<<40; n += 1 + n/37 {
		size, class := bufferSize(n)
		again, same := bufferSize(size)
		if size < n || size > max(8, n+n/4+1) || again != size || same != class || class < 0 ||
			class >= len(buffers{}) {
			t.Fatalf("%d elements: a room of %d in class %d, which is %d in %d", n, size, class, again, same)
		}
		if have, ok := classes[class]; ok && have != size {
			t.Fatalf("class %d has rooms of %d and %d", class, have, size)
		}
		classes[class] = size
	}
}
