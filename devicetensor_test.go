package vkc_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// stepping gives x+1 and the sum of x, of any number of rows of four.
func stepping(t testing.TB, rows int) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("stepping", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", rows), 4)
		b.Output("next", x.AddScalar(1))
		b.Output("sum", x.Sum())
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func loadStepping(t *testing.T, dev *vkc.Device, rows int) *vkc.Executable {
	t.Helper()
	exe, err := dev.LoadGraph(t.Context(), stepping(t, rows), nil)
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, exe)
	return exe
}

func upload(t testing.TB, exe *vkc.Executable, d *ir.Data) *vkc.DeviceTensor {
	t.Helper()
	x, err := exe.Upload(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func floatsOf(t testing.TB, d *ir.Data, err error) []float32 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	v, err := vkc.Values[float32](d)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// given returns options for a run with an input on the device and outputs to keep there.
func given(x *vkc.DeviceTensor, keep ...string) vkc.RunOptions {
	return vkc.RunOptions{Inputs: map[string]*vkc.DeviceTensor{"x": x}, Keep: keep}
}

// TestFeedback feeds an output back as an input. No byte of it passes through the
// host.
func TestFeedback(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		const rows, times = 300, 25
		ctx := t.Context()
		exe, other := loadStepping(t, dev, rows), loadStepping(t, dev, rows)
		first := devtest.TensorOf(t, make([]float32, rows*4), rows, 4)
		before := dev.Traffic()
		x := upload(t, exe, first)
		if moved := dev.Traffic(); moved.In-before.In != rows*16 || moved.Out != before.Out {
			t.Errorf("an upload of %d bytes moved %v after %v", rows*16, moved, before)
		}
		before = dev.Traffic()
		for i := range times {
			program := exe // takes turns with another one
			if i%2 == 1 {
				program = other
			}
			res, err := program.Run(ctx, nil, given(x, "next", "sum"))
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Outputs) != 0 || len(res.Kept) != 2 {
				t.Fatalf("outputs %v, kept %v", res.Outputs, res.Kept)
			}
			x.Close()
			x = res.Kept["next"]
			if i < times-1 {
				res.Kept["sum"].Close()
				continue
			}
			if after := dev.Traffic(); after != before {
				t.Errorf("%d runs moved %v through the host, before they had begun it was %v", times, after, before)
			}
			d, err := res.Kept["sum"].Read(ctx)
			if v := floatsOf(t, d, err); v[0] != (times-1)*rows*4 || len(d.Dims) != 0 {
				t.Errorf("the last sum is %v of shape %v", v, d.Dims)
			}
			res.Kept["sum"].Close()
		}
		d, err := x.Read(ctx)
		if v := floatsOf(t, d, err); !slices.Equal(v, slices.Repeat([]float32{times}, rows*4)) {
			t.Errorf("the loop gave %v…, want %d", v[:4], times)
		}
		// A run without device tensors is as ever.
		res, err := exe.Run(ctx, vkc.Tensors{"x": d})
		if err != nil {
			t.Fatal(err)
		}
		if v := floatsOf(t, res.Outputs["next"], nil); v[0] != times+1 || v[len(v)-1] != times+1 {
			t.Errorf("the next run gave %v…", v[:4])
		}
		x.Close()
	})
}

// TestFeedbackKeepsNothing: values that were closed leave no memory.
func TestFeedbackKeepsNothing(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev := devtest.OpenDevice(t)
	exe := loadStepping(t, dev, 64)
	run := func() {
		x := upload(t, exe, devtest.TensorOf(t, make([]float32, 8), 2, 4))
		for range 3 {
			res, err := exe.Run(t.Context(), nil, given(x, "next"))
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
			x = res.Kept["next"]
		}
		x.Close()
		if err := vk.Of(dev).WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	memory, live := vk.Of(dev).MemoryStats().InUse, vk.Of(dev).Live()["buffer"]
	for range 5 {
		run()
	}
	if after, n := vk.Of(dev).MemoryStats().InUse, vk.Of(dev).Live()["buffer"]; after != memory || n != live {
		t.Errorf("%d bytes in %d buffers, and after five more loops %d in %d", memory, live, after, n)
	}
}

// TestReadParts reads rows and bytes.
func TestReadParts(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		exe := loadStepping(t, dev, 8)
		values := make([]float32, 12)
		for i := range values {
			values[i] = float32(i)
		}
		data := devtest.TensorOf(t, values, 3, 4)
		x := upload(t, exe, data)
		defer x.Close()
		if x.DType() != ir.F32 || !slices.Equal(x.Dims(), []int{3, 4}) || x.Size() != 48 {
			t.Errorf("it is %v of %d bytes", x, x.Size())
		}
		before := dev.Traffic()
		rows, err := x.ReadRows(t.Context(), 1, 2)
		if v := floatsOf(t, rows, err); !slices.Equal(v, values[4:]) || !slices.Equal(rows.Dims, []int{2, 4}) {
			t.Errorf("rows 1 and 2 are %v", v)
		}
		if moved := dev.Traffic().Out - before.Out; moved != 32 {
			t.Errorf("reading two rows of 16 bytes moved %d", moved)
		}
		p := make([]byte, 8)
		if n, err := x.ReadAt(p, 44); n != 4 || err != io.EOF || !slices.Equal(p[:4], data.Bytes[44:]) {
			t.Errorf("the last 4 bytes are %v, %d, %v", p, n, err)
		}
		all, err := io.ReadAll(io.NewSectionReader(x, 0, x.Size()))
		if err != nil || !slices.Equal(all, data.Bytes) {
			t.Errorf("all bytes are %v, %v", all, err)
		}
		none, err := x.ReadRows(t.Context(), 3, 0)
		if err != nil || none.Elems() != 0 {
			t.Errorf("no rows are %v, %v", none, err)
		}
		for _, bad := range [][2]int{{-1, 1}, {0, 4}, {4, 0}, {0, -1}} {
			_, err := x.ReadRows(t.Context(), bad[0], bad[1])
			devtest.WantError(t, err, "and there are 3")
		}
		// A tensor may have no elements.
		empty := upload(t, exe, devtest.TensorOf(t, []float32{}, 0, 4))
		defer empty.Close()
		res, err := exe.Run(t.Context(), nil, given(empty, "next"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Kept["next"].Close()
		if d, err := res.Kept["next"].Read(t.Context()); err != nil || !slices.Equal(d.Dims, []int{0, 4}) {
			t.Errorf("nothing is %v, %v", d, err)
		}
	})
}

// TestDeviceTensorErrors: misuse is an error with an explanation, and has no effect.
func TestDeviceTensorErrors(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		ctx := t.Context()
		exe := loadStepping(t, dev, 8)
		x := upload(t, exe, devtest.TensorOf(t, make([]float32, 8), 2, 4))
		defer x.Close()
		elsewhere, err := vkc.OpenDevice("cpu")
		if err != nil {
			t.Fatal(err)
		}
		far := upload(t, loadStepping(t, elsewhere, 8), devtest.TensorOf(t, make([]float32, 8), 2, 4))
		ints := upload(t, exe, devtest.TensorOf(t, make([]int32, 8), 2, 4))
		flat := upload(t, exe, devtest.TensorOf(t, make([]float32, 8), 8))
		defer ints.Close()
		defer flat.Close()
		closed := upload(t, exe, devtest.TensorOf(t, make([]float32, 8), 2, 4))
		closed.Close()
		if err := closed.Close(); err != nil {
			t.Error(err)
		}
		next := devtest.TensorOf(t, make([]float32, 8), 2, 4)
		for _, tt := range []struct {
			in   vkc.Tensors
			opt  vkc.RunOptions
			want string
		}{
			{nil, given(closed), `input "x": f32[2 4] (uploaded): the tensor is already closed`},
			{nil, given(far), "lies on another device (CPU ("},
			{nil, given(ints), `input "x" is i32[2 4] (uploaded), want f32[N,4]`},
			{nil, given(flat), `input "x" has shape [8], want [N,4]`},
			{nil, given(nil), `input "x" is a nil device tensor, want f32[N,4]`},
			{vkc.Tensors{"x": next}, given(x), `input "x" is given twice`},
			{nil, vkc.RunOptions{Inputs: map[string]*vkc.DeviceTensor{"x": x, "y": x}}, `unknown input "y": the graph has x`},
			{nil, given(x, "nxt"), `keep output "nxt": the program has no such output, but next, sum`},
			{nil, given(x, "next", "next"), `"next" is in RunOptions.Keep twice`},
			{nil, vkc.RunOptions{Inputs: given(x).Inputs, Keep: []string{"next"}, Into: vkc.Tensors{"next": next}},
				`"next" is in RunOptions.Keep and in Into`},
			{nil, vkc.RunOptions{}, `input "x" is missing`},
		} {
			_, err := exe.Run(ctx, tt.in, tt.opt)
			devtest.WantError(t, err, tt.want)
		}
		_, err = closed.Read(ctx)
		devtest.WantError(t, err, "read f32[2 4] (uploaded): the tensor is already closed")
		if !errors.Is(err, vk.ErrClosed) || !errors.Is(err, runtime.ErrClosed) {
			t.Errorf("%v is no ErrClosed", err)
		}
		var none *vkc.DeviceTensor
		_, err = none.Read(ctx)
		devtest.WantError(t, err, "device tensor is nil")
		if none.Close() != nil || none.Size() != 0 || none.Dims() != nil || none.String() != "no tensor" {
			t.Error("a nil tensor is something")
		}
		_, err = exe.Upload(ctx, nil)
		devtest.WantError(t, err, "nil")
		_, err = exe.Upload(ctx, &ir.Data{DType: ir.F32, Dims: []int{2}})
		devtest.WantError(t, err, "needs 8 bytes, have 0")
		if err := elsewhere.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = far.Read(ctx)
		devtest.WantError(t, err, "closed")
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseDuringRuns closes tensors that runs of other goroutines read: a run either has
// begun, and ends as if the tensor were open, or is refused.
func TestCloseDuringRuns(t *testing.T) {
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		ctx := t.Context()
		exe := loadStepping(t, dev, 64)
		for range 5 {
			x := upload(t, exe, devtest.TensorOf(t, slices.Repeat([]float32{2}, 64*4), 64, 4))
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 5 {
						res, err := exe.Run(ctx, nil, given(x, "next"))
						if errors.Is(err, vk.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						d, err := res.Kept["next"].Read(ctx)
						if err != nil || !slices.Equal(floatsOf(t, d, err), slices.Repeat([]float32{3}, 64*4)) {
							t.Errorf("a run gave %v, %v", d, err)
						}
						res.Kept["next"].Close()
					}
				})
			}
			wg.Go(func() { x.Read(ctx); x.Close() })
			wg.Wait()
		}
	})
}

// TestCopyTo: a tensor copied to another device is an input of programs there, of several chunks and of nothing, and is
// its own when the first is closed.
func TestCopyTo(t *testing.T) {
	ctx := t.Context()
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		for _, name := range []string{"vulkan", "cpu"} {
			other, err := vkc.OpenDevice(name)
			vktest.Need(t, err)
			t.Cleanup(func() { other.Close() })
			const rows = 300<<10 + 1 // above 4 MiB
			there, here := loadStepping(t, other, rows), loadStepping(t, dev, rows)
			values := make([]float32, 4*rows)
			for i := range values {
				values[i] = float32(i % 4099)
			}
			x := upload(t, here, devtest.TensorOf(t, values, rows, 4))
			if _, err := there.Run(ctx, nil, given(x, "next", "sum")); err == nil {
				t.Error("an input of another device is taken")
			}
			y, err := x.CopyTo(ctx, there)
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
			res, err := there.Run(ctx, nil, given(y, "next", "sum"))
			if err != nil {
				t.Fatal(err)
			}
			res.Kept["sum"].Close()
			d, err := res.Kept["next"].Read(ctx)
			for i, have := range floatsOf(t, d, err) {
				if have != values[i]+1 {
					t.Fatalf("element %d is %v, want %v", i, have, values[i]+1)
				}
			}
			res.Kept["next"].Close()
			if _, err := x.CopyTo(ctx, there); !errors.Is(err, runtime.ErrClosed) {
				t.Errorf("a closed tensor: %v", err)
			}
			if err := y.Close(); err != nil {
				t.Error(err)
			}
			empty := upload(t, here, devtest.TensorOf(t, []float32{}, 0, 4))
			none, err := empty.CopyTo(ctx, there)
			if err != nil || none.Size() != 0 {
				t.Errorf("of nothing: %v, %v", none, err)
			}
			none.Close()
			empty.Close()
			if _, err := there.UploadFrom(ctx, ir.F32, []int{2}, bytes.NewReader(make([]byte, 7))); err == nil {
				t.Error("8 bytes of 7 are taken")
			}
		}
	})
}

// BenchmarkFeedback is one turn of a loop over 4 MiB, through the host and on the device.
func BenchmarkFeedback(b *testing.B) {
	dev, err := vkc.OpenDevice("vulkan")
	if err != nil {
		b.Skip(err)
	}
	defer dev.Close()
	const rows = 1 << 18
	exe, err := dev.LoadGraph(b.Context(), stepping(b, rows), nil)
	if err != nil {
		b.Skip(err)
	}
	defer exe.Close()
	data := &ir.Data{DType: ir.F32, Dims: []int{rows, 4}, Bytes: make([]byte, rows*16)}
	moved := func(b *testing.B, before vkc.Traffic) {
		after := dev.Traffic()
		b.ReportMetric(float64(after.In-before.In+after.Out-before.Out)/float64(b.N), "moved-B/op")
	}
	b.Run("host", func(b *testing.B) {
		in, before := vkc.Tensors{"x": data}, dev.Traffic()
		for b.Loop() {
			res, err := exe.Run(b.Context(), in)
			if err != nil {
				b.Fatal(err)
			}
			in["x"] = res.Outputs["next"]
		}
		moved(b, before)
	})
	b.Run("device", func(b *testing.B) {
		x := upload(b, exe, data)
		before := dev.Traffic()
		for b.Loop() {
			res, err := exe.Run(b.Context(), nil, given(x, "next", "sum"))
			if err != nil {
				b.Fatal(err)
			}
			x.Close()
			res.Kept["sum"].Close()
			x = res.Kept["next"]
		}
		moved(b, before)
		x.Close()
	})
}
