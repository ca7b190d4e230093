package ceil

import "testing"

func TestDivRoundsUp(t *testing.T) {
	for _, c := range []struct{ n, by, want int }{{0, 4, 0}, {1, 4, 1}, {4, 4, 1}, {5, 4, 2}, {-1, 4, 0}, {-4, 4, -1},
		{-5, 4, -1}, {7, 1, 7}} {
		if got := Div(c.n, c.by); got != c.want {
			t.Errorf("Div(%d, %d) = %d, want %d", c.n, c.by, got, c.want)
		}
		if got := Multiple(int64(c.n), int64(c.by)); got != int64(c.want*c.by) {
			t.Errorf("Multiple(%d, %d) = %d, want %d", c.n, c.by, got, c.want*c.by)
		}
	}
}
