package cpu_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/apitest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// api is this package.
var api apitest.Package

// TestNothing loads nothing, and calls an executable with nothing before and
// after it is closed.
func TestNothing(t *testing.T) {
	api.Complete(t, (*cpu.Device)(nil))
	api.Calls(t, &cpu.Device{}, cpu.Load)
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=f32, shape=[2]}
		%s = state {name="s", dtype=f32, shape=[2]}
		%y = add %x, %s
		update %s = %y
		output "y" %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := cpu.Load(g, nil, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api.Calls(t, open{exe})
	if err := exe.Close(); err != nil {
		t.Fatal(err)
	}
	api.Calls(t, exe)
	if _, err := exe.Run(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error %v", err)
	}
}

// open hides the Close of an executable.
type open struct{ runtime.Executable }

func (open) Close() error { return nil }
