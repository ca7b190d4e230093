package vkc_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// counter sums its inputs over all runs.
func counter(t *testing.T) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("counter", func(b *frontend.Builder) {
		n := b.Sym("N", 8)
		x, sum := b.Input("x", ir.F32, n), b.State("sum", ir.F32)
		b.Update(sum, sum.Add(x.Sum()))
		b.Output("double", x.MulScalar(2))
		b.Output("before", sum)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestInto has outputs written into the caller's memory. Memory that does not
// fit is refused before states change.
func TestInto(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		ctx := t.Context()
		exe, err := dev.LoadGraph(ctx, counter(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		in := vkc.Tensors{"x": devtest.TensorOf(t, []float32{1, 2, 3}, 3)}
		into := devtest.TensorOf(t, make([]float32, 3), 3)
		memory := &into.Bytes[0]
		res, err := exe.Run(ctx, in, vkc.RunOptions{Into: vkc.Tensors{"double": into}})
		if err != nil {
			t.Fatal(err)
		}
		if res.Outputs["double"] != into || &into.Bytes[0] != memory {
			t.Error("the output is not the tensor that was given for it")
		}
		if v, err := vkc.Values[float32](into); err != nil || !slices.Equal(v, []float32{2, 4, 6}) {
			t.Errorf("got %v, %v", v, err)
		}
		if v, err := vkc.Values[float32](res.Outputs["before"]); err != nil || v[0] != 0 {
			t.Errorf("the other output: %v, %v", v, err)
		}
		// The memory of an input may take an output.
		own := vkc.Tensors{"x": in["x"]}
		if _, err := exe.Run(ctx, own, vkc.RunOptions{Into: vkc.Tensors{"double": own["x"]}}); err != nil {
			t.Fatal(err)
		}
		if v, _ := vkc.Values[float32](own["x"]); !slices.Equal(v, []float32{2, 4, 6}) {
			t.Errorf("in place: %v", v)
		}
		for _, tt := range []struct {
			into vkc.Tensors
			want string
		}{
			{vkc.Tensors{"double": devtest.TensorOf(t, make([]float32, 4), 4)}, `output "double": the tensor given for it is f32[4], in this run it is f32[3]`},
			{vkc.Tensors{"double": devtest.TensorOf(t, make([]int32, 3), 3)}, "is i32[3], in this run it is f32[3]"},
			{vkc.Tensors{"double": nil}, "nil"},
			{vkc.Tensors{"double": {DType: ir.F32, Dims: []int{3}}}, "needs 12 bytes, have 0"},
			{vkc.Tensors{"doubel": into}, `no such output, but double, before`},
		} {
			_, err := exe.Run(ctx, in, vkc.RunOptions{Into: tt.into})
			devtest.WantError(t, err, tt.want)
		}
		_, err = exe.Run(ctx, in, vkc.RunOptions{}, vkc.RunOptions{})
		devtest.WantError(t, err, "2 RunOptions: give at most one")
		if sum, err := exe.ReadState("sum"); err != nil {
			t.Error(err)
		} else if v, _ := vkc.Values[float32](sum); v[0] != 12 {
			t.Errorf("the state is %v after two runs that did and some that did not begin, want 12", v)
		}
	})
}

// TestGoroutines runs one executable from many goroutines: each gets its own
// results, and no update of the state is lost.
func TestGoroutines(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		ctx := t.Context()
		exe, err := dev.LoadGraph(ctx, counter(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		const goroutines, runs = 8, 20
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				n := i%8 + 1
				values, want := make([]float32, n), make([]float32, n)
				values[0], want[0] = float32(i), float32(2*i)
				in := vkc.Tensors{"x": devtest.TensorOf(t, values, n)}
				into := vkc.Tensors{"double": devtest.TensorOf(t, make([]float32, n), n)}
				for range runs {
					res, err := exe.Run(ctx, in, vkc.RunOptions{Into: into})
					if err != nil {
						t.Error(err)
						return
					}
					if v, err := vkc.Values[float32](res.Outputs["double"]); err != nil || !slices.Equal(v, want) {
						t.Errorf("goroutine %d got %v, %v", i, v, err)
						return
					}
					if _, err := exe.ReadState("sum"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		sum, err := exe.ReadState("sum")
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := vkc.Values[float32](sum); v[0] != runs*goroutines*(goroutines-1)/2 {
			t.Errorf("the sum is %v, want %d", v, runs*goroutines*(goroutines-1)/2)
		}
	})
}

// TestBundleBytes opens a bundle that is held in memory.
func TestBundleBytes(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	g, weights := readGraph(t, "mlp.ir"), mlpWeights(t)
	p, err := dev.Compile(t.Context(), g, vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mlp.vkb")
	if err := p.Save(path, weights); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	program, err := vkc.OpenBundleBytes(content)
	if err != nil {
		t.Fatal(err)
	}
	testRuns(t, dev, program, g, weights, vkc.LoadOptions{})
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	for _, broken := range [][]byte{nil, content[:100], content[:len(content)-1]} {
		if _, err := vkc.OpenBundleBytes(broken); err == nil {
			t.Errorf("%d bytes of a bundle are one", len(broken))
		}
	}
}

// TestLoadGraphOptions: progress tells of every stage, and weights are given
// once.
func TestLoadGraphOptions(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	g, weights := readGraph(t, "mlp.ir"), mlpWeights(t)
	last := map[runtime.Stage]vkc.Progress{}
	exe, err := dev.LoadGraph(t.Context(), g, weights,
		vkc.LoadOptions{Progress: func(p vkc.Progress) { last[p.Stage] = p }})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	for _, stage := range []runtime.Stage{runtime.StageShaders, runtime.StagePipelines, runtime.StageWeights,
		runtime.StageWarm} {
		if p := last[stage]; p.Total == 0 || p.Done != p.Total {
			t.Errorf("%s ended at %d of %d", stage, p.Done, p.Total)
		}
	}
	_, err = dev.LoadGraph(t.Context(), g, weights, vkc.LoadOptions{Weights: weights})
	devtest.WantError(t, err, "weights are given twice")
	_, err = dev.LoadGraph(context.Background(), g, weights, vkc.LoadOptions{}, vkc.LoadOptions{})
	devtest.WantError(t, err, "2 LoadOptions")
}

// TestWhyHints: the reason for the device ends with a hint if broadcasting makes a large tensor of small ones.
func TestWhyHints(t *testing.T) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for n, hint := range map[int]bool{1000: false, 3000: true} {
		g, err := frontend.Build("pairs", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, n)
			b.Output("y", x.Unsqueeze(1).Sub(x).Sqr().Sum())
		})
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.LoadGraph(context.Background(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		if why := exe.Why(); strings.Contains(why, "; hint: sub") != hint || !strings.HasPrefix(why, dev.Why()) {
			t.Errorf("%d: %s", n, why)
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
}
