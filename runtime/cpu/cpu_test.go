package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// graphText adds a weight to the input, and counts into a state.
const graphText = `graph "g" {
  symbol T <= 8
  %x = input {name="x", dtype=f32, shape=[T,2]} : f32[T,2]
  %w = weight {name="w", dtype=f32, shape=[2]} : f32[2]
  %s = state {name="sum", dtype=f32, shape=[2]} : f32[2]
  %1 = add %x, %w : f32[T,2]
  %2 = add %s, %w : f32[2]
  update %s = %2
  output "y" %1
}
`

type weightMap map[string]*ir.Data

func (m weightMap) Weight(name string) (*ir.Data, error) {
	if d, ok := m[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no weight %q", name)
}

func floats(t *testing.T, values []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(ir.F32, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func graph(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func load(t *testing.T) runtime.Executable {
	t.Helper()
	e, err := Load(graph(t, graphText), weightMap{"w": floats(t, []float64{10, 20}, 2)}, Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func checkState(t *testing.T, e runtime.Executable, want ...float64) {
	t.Helper()
	d, err := e.ReadState("sum")
	if err != nil {
		t.Fatal(err)
	}
	have, err := d.Floats()
	if diff := cmp.Diff(want, have); err != nil || diff != "" {
		t.Errorf("state: %v %s", err, diff)
	}
}

func TestRun(t *testing.T) {
	e := load(t)
	in := map[string]*ir.Data{"x": floats(t, []float64{1, 2, 3, 4}, 2, 2)}
	for range 2 {
		r, err := e.Run(t.Context(), in, runtime.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have, err := r.Outputs["y"].Floats()
		if diff := cmp.Diff([]float64{11, 22, 13, 24}, have); err != nil || diff != "" {
			t.Errorf("output: %v %s", err, diff)
		}
		if r.Profile != nil {
			t.Error("a profile that nobody asked for")
		}
	}
	checkState(t, e, 20, 40)
	r, err := e.Run(t.Context(), in, runtime.RunOptions{Profile: true, Symbols: map[string]int64{"T": 2}})
	if err != nil || r.Profile == nil || r.Profile.Wall <= 0 {
		t.Errorf("profile %+v, %v", r, err)
	}
}

func TestStates(t *testing.T) {
	e := load(t)
	checkState(t, e, 0, 0)
	mine := floats(t, []float64{1, 2}, 2)
	if err := e.WriteState("sum", mine); err != nil {
		t.Fatal(err)
	}
	mine.Bytes[3] = 0xff // WriteState must have made a copy
	checkState(t, e, 1, 2)
	if err := e.ResetStates(); err != nil {
		t.Fatal(err)
	}
	checkState(t, e, 0, 0)
	if err := e.WriteState("sum", floats(t, []float64{1}, 1)); err == nil || !strings.Contains(err.Error(), "f32[2]") {
		t.Errorf("state of another shape: %v", err)
	}
	if _, err := e.ReadState("x"); err == nil || !strings.Contains(err.Error(), "has sum") {
		t.Errorf("unknown state: %v", err)
	}
}

// TestConcurrency runs a program from many goroutines: each gets its own results, and no
// update of the state is lost.
func TestConcurrency(t *testing.T) {
	e := load(t)
	const goroutines, runs = 8, 10
	var group sync.WaitGroup
	for i := range goroutines {
		in := map[string]*ir.Data{"x": floats(t, []float64{float64(i), 1}, 1, 2)}
		want := []float64{float64(i) + 10, 21}
		group.Go(func() {
			for range runs {
				r, err := e.Run(t.Context(), in, runtime.RunOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if have, err := r.Outputs["y"].Floats(); err != nil || !slices.Equal(have, want) {
					t.Errorf("goroutine %d got %v, %v, want %v", i, have, err, want)
				}
				if _, err := e.ReadState("sum"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	checkState(t, e, 10*goroutines*runs, 20*goroutines*runs)
}

// TestRunErrors checks that a run that fails leaves the state alone.
func TestRunErrors(t *testing.T) {
	e := load(t)
	x := floats(t, []float64{1, 2}, 1, 2)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		in   map[string]*ir.Data
		want string
	}{
		{"missing input", t.Context(), nil, `input "x" is missing, want f32[T,2]`},
		{"wrong shape", t.Context(), map[string]*ir.Data{"x": floats(t, []float64{1}, 1)}, "want [T,2]"},
		{"canceled", over, map[string]*ir.Data{"x": x}, "canceled"},
	}
	for _, tt := range tests {
		if _, err := e.Run(tt.ctx, tt.in, runtime.RunOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	checkState(t, e, 0, 0)
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load(graph(t, graphText), nil, Options{}); err == nil || !strings.Contains(err.Error(), `"w"`) {
		t.Errorf("no weights: %v", err)
	}
	wrong := weightMap{"w": floats(t, []float64{1, 2, 3}, 3)}
	if _, err := Load(graph(t, graphText), wrong, Options{}); err == nil || !strings.Contains(err.Error(), `"w"`) {
		t.Errorf("weight of another shape: %v", err)
	}
	if _, err := Load(ir.NewGraph("empty"), nil, Options{}); err == nil ||
		!strings.Contains(err.Error(), "computes nothing") {
		t.Errorf("empty graph: %v", err)
	}
}

func TestInterface(t *testing.T) {
	e := load(t)
	var have []string
	for _, list := range [][]runtime.Port{e.Inputs(), e.Outputs(), e.States()} {
		for _, p := range list {
			have = append(have, p.String())
		}
	}
	if diff := cmp.Diff([]string{"x: f32[T,2]", "y: f32[T,2]", "sum: f32[2]"}, have); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]runtime.Symbol{{Name: "T", Bound: 8}}, e.Symbols()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(e.Device(), "2 workers") {
		t.Errorf("device %q", e.Device())
	}
}

func TestClose(t *testing.T) {
	e := load(t)
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	_, run := e.Run(t.Context(), nil, runtime.RunOptions{})
	_, read := e.ReadState("sum")
	for _, err := range []error{run, read, e.WriteState("sum", nil), e.ResetStates()} {
		if !errors.Is(err, runtime.ErrProgramClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
