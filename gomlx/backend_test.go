package gomlx

import (
	"flag"
	"testing"

	"github.com/gomlx/compute/support/backendtest"
)

var deviceName = flag.String("device", "reference", "the device of the suite, as vkc.OpenDevice takes it")

func open(t *testing.T, device string) *Backend {
	t.Helper()
	b, err := New(device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// TestSuite runs GoMLX's own tests of backends.
func TestSuite(t *testing.T) {
	backendtest.RunAll(t, open(t, *deviceName), nil)
}
