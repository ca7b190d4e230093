package vkc_test

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// TestReplicas runs a batch on one Vulkan device opened four times: every device has its share, and each result has the
// bits that one device gives.
func TestReplicas(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devices, err := vkc.OpenDevices("vulkan, vulkan,vulkan,vulkan")
	vktest.Need(t, err)
	g, err := frontend.Build("norms", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 4, 300)
		b.Output("y", x.Softmax(-1).MatMul(b.Input("w", ir.F32, 300, 40)))
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := devices.LoadGraph(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := devtest.Noise(t, 300, 40)
	var in []vkc.Tensors
	for range 24 {
		in = append(in, vkc.Tensors{"x": devtest.Noise(t, 4, 300), "w": w})
	}
	before := make([]vkc.Traffic, len(devices))
	for i, d := range devices {
		before[i] = d.Traffic()
	}
	results, err := r.RunBatch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range devices {
		if d.Traffic() == before[i] {
			t.Errorf("device %d ran nothing", i)
		}
	}
	for i, have := range results {
		want, err := r.Executables()[0].Run(t.Context(), in[i])
		if err != nil {
			t.Fatal(err)
		}
		if string(have.Outputs["y"].Bytes) != string(want.Outputs["y"].Bytes) {
			t.Errorf("run %d differs from that of one device", i)
		}
	}
	if _, err := r.Run(t.Context(), in[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := devices.Close(); err != nil {
		t.Error(err)
	}
}

// TestReplicasCount: a run that is over does not count any more once its caller knows, or the next ones would go
// elsewhere.
func TestReplicasCount(t *testing.T) {
	devices, err := vkc.OpenDevices("cpu,cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	g, err := frontend.Build("twice", func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 1).MulScalar(2)) })
	if err != nil {
		t.Fatal(err)
	}
	r, err := devices.LoadGraph(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 1000 {
		if _, err := r.Start(t.Context(), vkc.Tensors{"x": devtest.Noise(t, 1)}).Wait(); err != nil {
			t.Fatal(err)
		}
		if under := vkc.Under(r); !slices.Equal(under, []int{0, 0}) {
			t.Fatalf("after the only run %v are under way, by device", under)
		}
	}
}

func TestReplicasRefuse(t *testing.T) {
	_, err := vkc.OpenDevices("cpu,,cpu")
	devtest.WantError(t, err, "a name is missing")
	devices, err := vkc.OpenDevices("cpu,cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	g, err := frontend.Build("counter", func(b *frontend.Builder) {
		s := b.State("s", ir.F32, 1)
		b.Update(s, s.AddScalar(1))
		b.Output("y", s)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = devices.LoadGraph(t.Context(), g, nil)
	devtest.WantError(t, err, `it has states, "s" the first`)
}
