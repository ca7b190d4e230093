package vkc_test

import (
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// sharing is a program that adds n*w to a state.
func sharing(t *testing.T, name string, n float64, state ...any) *ir.Graph {
	t.Helper()
	g, err := frontend.Build(name, func(b *frontend.Builder) {
		s, w := b.State("s", ir.F32, state...), b.Weight("w", ir.F32, 4)
		b.Update(s, s.Add(w.MulScalar(n)))
		b.Output("before", s)
		own := b.State(name, ir.F32)
		b.Update(own, own.AddScalar(1))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestShare: executables share weights and states. Each is closed separately, and shared memory lives until the last of
// them is closed.
func TestShare(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		ctx := t.Context()
		weights := vkc.WeightMap{"w": devtest.TensorOf(t, []float32{1, 2, 3, 4}, 4)}
		first, err := dev.LoadGraph(ctx, sharing(t, "first", 1, 4), weights)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Run(ctx, nil); err != nil {
			t.Fatal(err)
		}
		second, err := dev.LoadGraph(ctx, sharing(t, "second", 10, 4), nil, vkc.LoadOptions{Share: first})
		if err != nil {
			t.Fatal(err)
		}
		state := func(exe *vkc.Executable, name string) float32 {
			t.Helper()
			d, err := exe.ReadState(name)
			if err != nil {
				t.Fatal(err)
			}
			v, err := vkc.Values[float32](d)
			if err != nil {
				t.Fatal(err)
			}
			return v[len(v)-1]
		}
		if v := state(second, "s"); v != 4 {
			t.Errorf("loading left %v of a shared state, want 4", v)
		}
		var wg sync.WaitGroup
		for range 5 {
			for _, exe := range []*vkc.Executable{first, second} {
				wg.Go(func() {
					if _, err := exe.Run(ctx, nil); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if a, b := state(first, "s"), state(second, "s"); a != 4+5*4+5*40 || b != a {
			t.Errorf("the shared state is %v and %v, want %v", a, b, 4+5*4+5*40)
		}
		if a, b := state(first, "first"), state(second, "second"); a != 6 || b != 5 {
			t.Errorf("states of their own are %v and %v, want 6 and 5", a, b)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Run(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if v := state(second, "s"); v != 264 {
			t.Errorf("after one is closed: %v, want 264", v)
		}
		_, err = dev.LoadGraph(ctx, sharing(t, "third", 1, 4), nil, vkc.LoadOptions{Share: first})
		devtest.WantError(t, err, "share with another program", "closed")
		_, err = dev.LoadGraph(ctx, sharing(t, "fourth", 1, 2, 4), nil, vkc.LoadOptions{Share: second})
		devtest.WantError(t, err, "f32[2,4]", "f32[4]")
		_, err = dev.LoadGraph(ctx, sharing(t, "fifth", 1, 4), nil, vkc.LoadOptions{Share: &vkc.Executable{}})
		devtest.WantError(t, err, "share")
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
