package e2e_test

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestHuge reads and writes rows of a state of VKC_TEST_HUGE GiB, in u8 and in f32: past 2 GiB offsets have more than
// 31 bits, past 4 GiB more than 32. Few drivers for CPUs allocate so much at once, so it runs only where asked.
func TestHuge(t *testing.T) {
	gib := hugeGiB(t)
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx, dev := t.Context(), devtest.OpenDevice(t)
	for _, dtype := range []ir.DType{ir.U8, ir.F32} {
		t.Run(dtype.String(), func(t *testing.T) {
			const cols = 1 << 16
			size := 1
			if dtype == ir.F32 {
				size = 4
			}
			rows := int(gib * (1 << 30) / float64(cols*size))
			g, err := frontend.Build("huge", func(b *frontend.Builder) {
				s, ids := b.State("s", dtype, rows, cols), b.Input("ids", ir.I32, 3)
				row := b.Input("row", dtype, 1, cols)
				at := b.Input("at", ir.I32)
				b.Output("before", s.IndexSelect(0, ids))
				b.Update(s, s.DynamicUpdateSlice(0, row, at))
			})
			if err != nil {
				t.Fatal(err)
			}
			caps := dev.Caps()
			caps.MaxStorageRange = min(caps.MaxStorageRange, 128<<20)
			p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
			if err != nil {
				t.Fatal(err)
			}
			exe, err := dev.Load(ctx, p, vkc.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			middle := min(rows-2, 1<<31/cols) // where a sign would be
			ids := devtest.TensorOf(t, []int32{0, int32(middle), int32(rows - 1)}, 3)
			for i, at := range []int{rows - 1, middle, 0, 1} {
				row := &ir.Data{DType: dtype, Dims: []int{1, cols}, Bytes: make([]byte, cols*size)}
				for j := range row.Bytes {
					row.Bytes[j] = byte(1 + i)
				}
				res, err := exe.Run(ctx, vkc.Tensors{"ids": ids, "row": row,
					"at": devtest.TensorOf(t, []int32{int32(at)})})
				if err != nil {
					t.Fatal(err)
				}
				want := [][3]byte{{0, 0, 0}, {0, 0, 1}, {0, 2, 1}, {3, 2, 1}}[i]
				have := res.Outputs["before"].Bytes
				for k, w := range want {
					part := have[k*cols*size : (k+1)*cols*size]
					if n := slices.IndexFunc(part, func(b byte) bool { return b != w }); n >= 0 {
						t.Errorf("step %d: row %d has %d at byte %d, want %d", i, k, part[n], n, w)
					}
				}
			}
		})
	}
}

// hugeGiB is how large tensors may be, or skips the test.
func hugeGiB(t *testing.T) float64 {
	gib, err := strconv.ParseFloat(os.Getenv("VKC_TEST_HUGE"), 64)
	if err != nil || gib <= 0 || gib > 15 {
		t.Skip("VKC_TEST_HUGE is not set to the GiB that a tensor may have, up to 15")
	}
	return gib
}

// matrix is the size of the state that testPositions fills and reads.
type matrix struct{ rows, cols int }

// hugeAt returns the value of an element after step n, 0 to 15; hugeOps computes the same in the graph. It is 0 at the
// beginning of each block of 32, so that q4_0 represents the values minus 8 exactly.
func hugeAt(n, row, col int) int {
	if col%32 == 0 {
		return 0
	}
	return (row*7 + col*3 + row/256 + n*(col%5)) % 16
}

func hugeOps(step, row, col frontend.Tensor) frontend.Tensor {
	v := row.MulScalar(7).Add(col.MulScalar(3)).Add(row.Div(row.Lit(256))).Add(step.Mul(col.Rem(col.Lit(5)))).
		Rem(row.Lit(16))
	return v.Mul(col.Rem(col.Lit(32)).Min(col.Lit(1)))
}

// TestHugePositions has a state of 4.6e9 elements, in q4_0 (2.4 GiB), in u8 (4.3 GiB) and in f16 (8.5 GiB). Lavapipe
// has buffers up to 4 GiB.
func TestHugePositions(t *testing.T) {
	gib := hugeGiB(t)
	dev := devtest.OpenDevice(t)
	m := matrix{70000, 1 << 16}
	for _, dtype := range []ir.DType{ir.Q4_0, ir.U8, ir.F16} {
		size := float64(dtype.BlockBytes()) * float64(m.rows*m.cols) / float64(dtype.BlockElems())
		if size > gib*(1<<30) || size > float64(dev.Caps().MaxBuffer) {
			t.Logf("%s takes %.1f GiB", dtype, size/(1<<30))
			continue
		}
		t.Run(dtype.String(), func(t *testing.T) { testPositions(t, dev, dev.Caps(), m, dtype) })
	}
}

// TestForcedPositions does the same in small, with the limits of the device forced down: kernels reach the state by
// its address, row by row, and compute positions in 64 bits.
func TestForcedPositions(t *testing.T) {
	dev := devtest.OpenDevice(t)
	caps := dev.Caps()
	if !caps.Features.BufferDeviceAddress || !caps.Features.Int64 {
		t.Skip("the device has no addresses of buffers, or no 64-bit integers")
	}
	caps.MaxStorageRange, caps.MaxPosition = 1<<10, 1000
	for _, dtype := range []ir.DType{ir.Q4_0, ir.U8, ir.F16} {
		t.Run(dtype.String(), func(t *testing.T) { testPositions(t, dev, caps, matrix{1200, 256}, dtype) })
	}
}

// testPositions fills a state and reads it in many ways, near its begin and near its end.
func testPositions(t *testing.T, dev *vkc.Device, caps device.Caps, m matrix, dtype ir.DType) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	p, err := vkc.Compile(t.Context(), m.graph(t, dtype), vkc.CompileOptions{Target: caps})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(p.Contents.GLSL, ""); !strings.Contains(text, "int64_t") ||
		!dtype.IsBlock() && !strings.Contains(text, "_row(uint(") {
		t.Error("no positions of 64 bits, or none that are counted in rows")
	}
	exe, err := dev.Load(t.Context(), p, vkc.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	last := int64(m.rows - 1)
	ids, elements := []int64{0, last * 15 / 16, last*15/16 + 1, last}, []int64{last, 0, last * 15 / 16}
	for n := range 3 {
		res, err := exe.Run(t.Context(), vkc.Tensors{"step": devtest.TensorOf(t, []int32{int32(n)}),
			"ids": devtest.TensorOf(t, ids, len(ids)), "elements": devtest.TensorOf(t, elements, len(elements), 1)})
		if err != nil {
			t.Fatal(err)
		}
		m.check(t, n-1, map[bool]float64{true: 8}[dtype.IsBlock()], res.Outputs, ids, elements)
	}
}

// graph reads the previous state and then stores the result of the step.
func (m matrix) graph(t *testing.T, dtype ir.DType) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("positions", func(b *frontend.Builder) {
		s, step := b.State("s", dtype, m.rows, m.cols), b.Input("step", ir.I32)
		ids, elements := b.Input("ids", ir.I64, 4), b.Input("elements", ir.I64, 3, 1)
		x := b.Iota(ir.I32, 1, 4, m.cols).Rem(step.Lit(3)).Cast(ir.F32).MulScalar(1.0 / 1024)
		f := s.Cast
		store := func(x frontend.Tensor) frontend.Tensor { return x.Cast(dtype) }
		if dtype.IsBlock() {
			f = func(ir.DType) frontend.Tensor { return s.Dequantize(ir.F32).AddScalar(8) }
			store = func(x frontend.Tensor) frontend.Tensor { return x.Cast(ir.F32).SubScalar(8).Quantize(dtype) }
			b.Output("product", x.MatMul(s.Dequantize(ir.F32).Transpose(1, 0)).Add(x.SumKeep(1).MulScalar(8)))
		} else {
			b.Output("product", x.Cast(ir.F16).MatMul(s.Cast(ir.F16).Transpose(1, 0)).Cast(ir.F32))
		}
		b.Output("rows", f(ir.F32).IndexSelect(0, ids))
		b.Output("elements", f(ir.F32).Gather(0, elements.Broadcast(3, m.cols)))
		b.Output("along", f(ir.F32).Sum(1))
		b.Output("across", f(ir.F32).Slice(0, m.rows-1000, m.rows).Sum(0))
		b.Output("all", f(ir.F32).Slice(1, 100, 164).Sum())
		b.Output("turned", f(ir.F32).Transpose(1, 0).Slice(0, m.cols-3, m.cols))
		b.Output("flipped", f(ir.F32).Flip(0).Slice(0, 0, 2))
		b.Output("flat", f(ir.F32).Reshape(m.rows*4, m.cols/4).Slice(0, m.rows*4-3, m.rows*4))
		row, col := b.Iota(ir.I32, 0, m.rows, m.cols), b.Iota(ir.I32, 1, m.rows, m.cols)
		b.Update(s, store(hugeOps(step, row, col)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// check compares the values read after step n with the expected ones. If n is -1, it expects the initial state.
func (m matrix) check(t *testing.T, n int, before float64, outputs vkc.Tensors, ids, elements []int64) {
	t.Helper()
	at := func(row, col int) float64 {
		if n < 0 {
			return before
		}
		return float64(hugeAt(n, row, col))
	}
	sum := func(count int, of func(i int) float64) (total float64) {
		for i := range count {
			total += of(i)
		}
		return total
	}
	want := map[string]func(i int) float64{
		"rows":     func(i int) float64 { return at(int(ids[i/m.cols]), i%m.cols) },
		"elements": func(i int) float64 { return at(int(elements[i/m.cols]), i%m.cols) },
		"turned":   func(i int) float64 { return at(i%m.rows, m.cols-3+i/m.rows) },
		"flipped":  func(i int) float64 { return at(m.rows-1-i/m.cols, i%m.cols) },
		"flat": func(i int) float64 {
			place := (m.rows*4-3)*(m.cols/4) + i
			return at(place/m.cols, place%m.cols)
		},
		"along": func(row int) float64 { return sum(m.cols, func(col int) float64 { return at(row, col) }) },
		"across": func(col int) float64 {
			return sum(1000, func(i int) float64 { return at(m.rows-1000+i, col) })
		},
		"all": func(int) float64 {
			return sum(m.rows*64, func(i int) float64 { return at(i/64, 100+i%64) })
		},
		"product": func(i int) float64 {
			row, weight := i%m.rows, func(col int) float64 { return float64(col%3) / 1024 }
			return sum(m.cols, func(col int) float64 { return weight(col) * at(row, col) })
		},
	}
	for name, f := range want {
		have, err := vkc.Values[float32](outputs[name])
		if err != nil {
			t.Fatal(err)
		}
		every := 1
		if name == "along" || name == "product" { // each takes as long as a row
			every = 37
		}
		tolerance := 0.0
		if name == "all" || name == "product" { // more than 2^24, or stored as f16
			tolerance = 1e-3
		}
		for i := 0; i < len(have); i += every {
			i = min(i, len(have)-1)
			if w := f(i); math.Abs(float64(have[i])-w) > tolerance*w {
				t.Errorf("after step %d, %s[%d] is %g, want %g", n, name, i, have[i], w)
				break
			}
		}
	}
}
