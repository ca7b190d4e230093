package e2e_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestInitialStates: states begin with the same bits on a device, the CPU fast path and the reference, from a graph and
// from a bundle, after loading and after a reset.
func TestInitialStates(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev, ctx := devtest.OpenDevice(t), t.Context()
	firsts := map[string]ir.Initial{
		"zeros": {}, "constant": ir.InitialConstant(0.3), "uniform": ir.InitialUniform(-2, 3, 7),
		"normal": ir.InitialNormal(1, 0.02, 9), "weight": ir.InitialWeight("w"),
	}
	g := devtest.Build(t, func(b *frontend.Builder) {
		for name, first := range firsts {
			for _, d := range []ir.DType{ir.F32, ir.F16, ir.BF16} {
				if name == "weight" && d != ir.F32 {
					continue
				}
				s := b.StateFrom(first, name+" "+d.String(), d, 7, 31)
				b.Update(s, s.MulScalar(2))
			}
		}
		count := b.StateFrom(ir.InitialConstant(-3), "count", ir.I32)
		b.Update(count, count.AddScalar(1))
		b.Output("count", count)
	})
	weights := vkc.WeightMap{"w": devtest.Noise(t, 7, 31)}
	program, err := dev.Compile(ctx, g, vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "states.vkb")
	if err := program.Save(path, weights); err != nil {
		t.Fatal(err)
	}
	saved, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	want := map[string][]byte{}
	check := func(where string, exe *vkc.Executable) {
		for _, port := range exe.States() {
			d, err := exe.ReadState(port.Name)
			if err != nil {
				t.Fatal(where, err)
			}
			if want[port.Name] == nil {
				want[port.Name] = d.Bytes
			}
			if !bytes.Equal(d.Bytes, want[port.Name]) {
				t.Errorf("%s: state %q has other bits", where, port.Name)
			}
		}
	}
	reference, err := vkc.OpenDevice("reference")
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	cpu, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	for where, load := range map[string]func() (*vkc.Executable, error){
		"reference": func() (*vkc.Executable, error) { return reference.LoadGraph(ctx, g, weights) },
		"cpu":       func() (*vkc.Executable, error) { return cpu.LoadGraph(ctx, g, weights) },
		"device":    func() (*vkc.Executable, error) { return dev.LoadGraph(ctx, g, weights) },
		"bundle":    func() (*vkc.Executable, error) { return dev.Load(ctx, saved, vkc.LoadOptions{}) },
	} {
		exe, err := load()
		if err != nil {
			t.Fatal(where, err)
		}
		check(where, exe)
		if _, err := exe.Run(ctx, nil); err != nil {
			t.Fatal(where, err)
		}
		if d, err := exe.ReadState("normal f32"); err != nil || bytes.Equal(d.Bytes, want["normal f32"]) {
			t.Errorf("%s: a run changed nothing: %v", where, err)
		}
		if err := exe.ResetStates(); err != nil {
			t.Fatal(where, err)
		}
		check(where+", after a reset", exe)
		own, err := exe.NewStates()
		if err != nil {
			t.Fatal(where, err)
		}
		for again := range 2 {
			for name, bits := range want {
				if d, err := own.Read(name); err != nil || !bytes.Equal(d.Bytes, bits) {
					t.Errorf("%s, own states %d: state %q has other bits: %v", where, again, name, err)
				}
			}
			if _, err := exe.Run(ctx, nil, vkc.RunOptions{States: own}); err != nil {
				t.Fatal(where, err)
			}
			if err := own.Reset(); err != nil {
				t.Fatal(where, err)
			}
		}
		if err := own.Close(); err != nil {
			t.Error(where, err)
		}
		if err := exe.Close(); err != nil {
			t.Error(where, err)
		}
	}
	if !bytes.Equal(want["weight f32"], weights["w"].Bytes) {
		t.Error("the state that begins as a weight is another one")
	}
	for _, d := range []*vkc.Device{dev, cpu} {
		if exe, err := d.LoadGraph(ctx, g, nil); err == nil || !strings.Contains(err.Error(), `"w"`) {
			t.Errorf("without the weight the error is %v", err)
			exe.Close()
		}
	}
}
