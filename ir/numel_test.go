package ir

import "testing"

func TestSameNumel(t *testing.T) {
	T, S := Symbol("T", 8), Symbol("S", 4)
	tests := []struct {
		a, b Shape
		want bool
	}{
		{ShapeOf(6, 4), ShapeOf(3, 8), true},
		{ShapeOf(6, 4), ShapeOf(3, 7), false},
		{ShapeOf(), ShapeOf(1, 1), true},
		{ShapeOf(6, 0), ShapeOf(0, 5, 7), true},
		{ShapeOf(6, 0), ShapeOf(6), false},
		{Shape{D(0), T}, ShapeOf(0), true},
		{Shape{T, D(6)}, Shape{T.Times(2), D(3)}, true},
		{Shape{T, S}, Shape{S, T}, true},
		{Shape{T, S}, Shape{T, T}, false},
		{Shape{T.Times(2), T.Times(2)}, Shape{T, D(2), T, D(2)}, true},
		{Shape{T, D(4), D(8), T.Plus(3), D(5)}, Shape{T.Times(4), T.Times(40).Plus(120)}, true},
		{Shape{T.Plus(1), T.Plus(-1)}, Shape{T, T}, false},
		{Shape{T.Plus(1), D(2)}, Shape{T.Times(2).Plus(2)}, true},
		{Shape{T.Plus(1)}, Shape{S.Plus(1)}, false},
	}
	for _, tt := range tests {
		if tt.a.SameNumel(tt.b) != tt.want || tt.b.SameNumel(tt.a) != tt.want {
			t.Errorf("%s and %s have as many elements: want %v", tt.a, tt.b, tt.want)
		}
	}
}
