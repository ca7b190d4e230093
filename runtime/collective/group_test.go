package collective_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// absent never comes to an exchange.
type absent struct{ runtime.Executable }

func (absent) Run(context.Context, map[string]*ir.Data, ...runtime.RunOptions) (*runtime.Result, error) {
	return &runtime.Result{Outputs: map[string]*ir.Data{"y": {}}}, nil
}

// processors is a group of two processors with an unprobed transport. wrap replaces the second one's programs.
func processors(t *testing.T, wrap func(runtime.Executable) runtime.Executable) *collective.Group {
	t.Helper()
	one := collective.Traits{Caps: device.Caps{Name: "processor", Type: device.DeviceCPU}, Processor: true}
	g, err := collective.New([]collective.Traits{one, one}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.LoadGraph = func(_ context.Context, rank int, graph *ir.Graph) (runtime.Executable, error) {
		exe, err := cpu.Load(graph, nil, cpu.Options{})
		if rank == 1 && err == nil {
			exe = wrap(exe)
		}
		return exe, err
	}
	g.List[0].Unprobed = true
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// TestProbe: a group takes a transport that its devices exchange values by, and excludes one by which a value does not
// arrive.
func TestProbe(t *testing.T) {
	works := processors(t, func(e runtime.Executable) runtime.Executable { return e })
	if waits, err := works.Waits(t.Context(), []int{8}); err != nil || !waits || works.List[0].Unprobed {
		t.Errorf("waits %v, %v; transports %+v", waits, err, works.List)
	}
	fails := processors(t, func(e runtime.Executable) runtime.Executable { return absent{e} })
	if err := fails.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := fails.Probe(t.Context(), collective.Shared, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	fails.Unlock()
	if why := errors.Join(fails.Failed...); len(fails.List) != 0 || why == nil ||
		!strings.Contains(why.Error(), "kernels wait for one another: processor timed out after") {
		t.Errorf("transports %+v; %v", fails.List, why)
	}
}

// TestLock: one caller at a time has a group, and a context ends the wait of another one.
func TestLock(t *testing.T) {
	g := processors(t, func(e runtime.Executable) runtime.Executable { return e })
	if err := g.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Lock(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v", err)
	}
	g.Unlock()
	if err := g.Lock(t.Context()); err != nil {
		t.Error(err)
	}
}
