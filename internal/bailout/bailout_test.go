package bailout_test

import (
	"errors"
	"testing"

	"github.com/vkc-go/vkc/internal/bailout"
)

// TestCaught: work ends at its first error, which Caught returns. A panic of another kind is not an error.
func TestCaught(t *testing.T) {
	first := errors.New("first")
	work := func(do func()) (err error) {
		defer bailout.Caught(&err)
		bailout.Check(nil)
		do()
		return nil
	}
	if err := work(func() {}); err != nil {
		t.Error(err)
	}
	err := work(func() {
		bailout.Check(first)
		t.Error("the work goes on")
	})
	if err != first {
		t.Errorf("error %v, want %v", err, first)
	}
	defer func() {
		if thrown := recover(); thrown != "a bug" {
			t.Errorf("recovered %v", thrown)
		}
	}()
	t.Error(work(func() { panic("a bug") }))
}
