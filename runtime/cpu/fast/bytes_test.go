package fast

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/quant"
)

func needBytes(t *testing.T) {
	if vector == nil || len(byteFormats()) == 0 {
		t.Skip("this processor has no products of bytes")
	}
}

// TestRoundBytes compares the rounding of groups with the one in Go, on floats of any bits, and checks that it writes
// nothing else.
func TestRoundBytes(t *testing.T) {
	needBytes(t)
	rng := rand.New(rand.NewPCG(10, 1))
	for range 200 {
		const groups = 3
		x := make([]float32, groups*ir.ByteGroup)
		for g := range groups {
			group := x[g*ir.ByteGroup:][:ir.ByteGroup]
			if copy(group, anyFloats(rng, ir.ByteGroup)); rng.IntN(2) == 0 {
				scale := math.Ldexp(1, rng.IntN(280)-150)
				for i := range group {
					group[i] = float32(rng.NormFloat64() * scale)
				}
			}
		}
		bytes, scales, sums := make([]int8, len(x)+1), make([]float32, groups+1), make([]float32, groups+1)
		bytes[len(x)], scales[groups], sums[groups] = 7, 7, 7
		roundBytes(&bytes[0], &scales[0], &sums[0], &x[0], groups)
		again, records := make([]int8, len(x)+1), make([]float32, groups*recordWords+1)
		again[len(x)], records[groups*recordWords] = 7, 7
		if vector.panels != nil {
			roundRecords(&again[0], &records[0], &x[0], groups)
		}
		if vector.panels != nil && (!slices.Equal(again, bytes) || records[groups*recordWords] != 7) {
			t.Fatalf("records have bytes %v, want %v", again, bytes)
		}
		for g := range groups {
			want := make([]int8, ir.ByteGroup)
			scale, sum := roundGroup(want, x[g*ir.ByteGroup:][:ir.ByteGroup])
			have := bytes[g*ir.ByteGroup:][:ir.ByteGroup]
			if !same(scales[g], scale, 0) || !same(sums[g], sum, 0) || scale == scale && !slices.Equal(have, want) {
				t.Fatalf("%g gives %v times %g with sum %g, want %v times %g with sum %g",
					x[g*ir.ByteGroup:][:ir.ByteGroup], have, scales[g], sums[g], want, scale, sum)
			}
			r, halves := records[g*recordWords:][:recordWords], [2]int32{}
			for i, v := range have {
				halves[i/16] -= 128 * int32(v)
			}
			if words := as[int32](r[2:]); vector.panels != nil && (!same(r[0], scale, 0) || !same(r[1], sum, 0) ||
				scale == scale && !slices.Equal(words, []int32{halves[0] + halves[1], halves[0], halves[1]})) {
				t.Fatalf("%v has the record %v, want %v, %v and sums of %v", have, r, scale, sum, halves)
			}
		}
		if bytes[len(x)] != 7 || scales[groups] != 7 || sums[groups] != 7 {
			t.Fatal("it writes past the groups")
		}
	}
}

// byteFormats are the formats with products by int8 rows.
func byteFormats() []ir.DType {
	return slices.DeleteFunc(ir.DTypes(), func(t ir.DType) bool {
		return vector.byteDots.of(t) == nil && vector.panels.of(t) == nil
	})
}

// scale is the scale of a group.
func (r *byteRows) scale(group int) float32 {
	if vector.panels != nil {
		return r.records[group*recordWords]
	}
	return r.scales[group]
}

// finiteBlocks returns blocks of random bits with finite scales.
func finiteBlocks(t *testing.T, rng *rand.Rand, d ir.DType, n int) *interp.Stored {
	t.Helper()
	size := d.BlockBytes()
	s := &interp.Stored{DType: d, Bytes: randomBytes(rng, n*size)}
	dec := make([]float32, d.BlockElems())
	for i := range n {
		for {
			if err := s.Decode(dec, i*d.BlockElems()); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(dec, func(x float32) bool { return x-x != 0 }) {
				break
			}
			copy(s.Bytes[i*size:], randomBytes(rng, size))
		}
	}
	return s
}

// TestMultiplyBytes compares int8 dot products with sums over the decoded blocks and bytes. It checks that nothing else
// is written.
func TestMultiplyBytes(t *testing.T) { eachWidth(t, testMultiplyBytes) }

func testMultiplyBytes(t *testing.T) {
	needBytes(t)
	rng := rand.New(rand.NewPCG(11, 1))
	for _, d := range byteFormats() {
		for _, blocks := range []int{1, 2, 5} {
			for _, cols := range []int{1, 2, 3, 4, 5, 9, 15, 16, 17, 35} {
				const row, extra = 1, 2
				rows := []int{1, 15, 3}[blocks%3]
				k := blocks * d.BlockElems()
				a := &byteRows{}
				a.resize((row + rows) * k)
				x := make([]float32, (row+rows)*k)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				a.round(x, 0, len(x)/ir.ByteGroup)
				s := finiteBlocks(t, rng, d, blocks*(cols+1))
				b := make([]float32, cols*k)
				if err := s.Decode(b, k); err != nil {
					t.Fatal(err)
				}
				out := make([]float32, rows*(cols+extra))
				for i := range out {
					out[i] = 7
				}
				if vector.panels != nil && blocks%2 == 0 {
					// The first row is not multiplied.
					list := interleavedRows(&interp.Stored{DType: d, Bytes: s.Bytes[len(s.Bytes)/(cols+1):]}, cols, k)
					packed := &interp.Stored{DType: d, Bytes: as[byte](list)}
					multiplyBytes(out, cols+extra, a, row, packed, true, 0, rows, cols, k,
						make([]float32, bytesRoom(d, true, rows, k)))
				} else {
					multiplyBytes(out, cols+extra, a, row, s, false, k, rows, cols, k,
						make([]float32, bytesRoom(d, false, rows, k)))
				}
				for i, have := range out {
					r, c := i/(cols+extra), i%(cols+extra)
					if c >= cols {
						if have != 7 {
							t.Fatalf("%s: it writes past %d columns", d, cols)
						}
						continue
					}
					sum, size := 0.0, 0.0
					for e := range k {
						at := (row+r)*k + e
						p := float64(a.bytes[at]) * float64(a.scale(at/ir.ByteGroup)) * float64(b[c*k+e])
						sum, size = sum+p, size+math.Abs(p)
					}
					if math.Abs(float64(have)-sum) > 1e-6*size {
						t.Fatalf("%s, %d blocks, row %d, column %d of %d: %g, want %g", d, blocks, r, c, cols, have,
							sum)
					}
				}
			}
		}
	}
}

// TestByteProducts compares matmuls with precision int8, of one matrix and of several, with the interpreter's. It
// checks that a row has the same bits alone and among other rows, and that full precision is more accurate.
func TestByteProducts(t *testing.T) { eachWidth(t, testByteProducts) }

func testByteProducts(t *testing.T) {
	needBytes(t)
	rng := rand.New(rand.NewPCG(12, 1))
	for _, d := range byteFormats() {
		for _, c := range []struct{ matrices, rows int }{{1, 1}, {1, 3}, {1, 70}, {3, 1}, {2, 3}, {2, 70}} {
			const cols, k = 30, 512
			x, w := make([]float64, c.matrices*c.rows*k), make([]float32, c.matrices*cols*k)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			for i := range w {
				w[i] = float32(rng.NormFloat64())
			}
			blocks, err := ir.NewData(d, dims(c.matrices, cols, k)...)
			if err != nil {
				t.Fatal(err)
			}
			if err := quant.Quantize(blocks.Bytes, d, w, nil); err != nil {
				t.Fatal(err)
			}
			run := func(precision string, x []float64,
				replace func(*ir.Graph) []*interp.Kernel) (*ir.Data, ir.Tolerance) {
				rows := dims(c.matrices, len(x)/c.matrices/k, k)
				g := ir.NewGraph("product")
				add := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
					n, err := g.Add(op, args, attrs, "")
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				leaf := func(op ir.Op, name string, d ir.DType, dims ...int) *ir.Node {
					return add(op, nil, ir.Attr{Name: "name", Value: name}, ir.Attr{Name: "dtype", Value: d},
						ir.Attr{Name: "shape", Value: ir.ShapeOf(dims...)})
				}
				args := []*ir.Node{leaf(ir.OpInput, "x", ir.F32, rows...), leaf(ir.OpWeight, "w", d, blocks.Dims...)}
				y := add(ir.OpMatMul, args,
					ir.Attr{Name: "transpose_b", Value: true}, ir.Attr{Name: "precision", Value: precision})
				if err := g.Output("y", y); err != nil {
					t.Fatal(err)
				}
				p, err := interp.New(g, interp.Options{Weights: oneWeight{blocks}, Replace: replace, Poison: true})
				if err != nil {
					t.Fatal(err)
				}
				in, err := ir.FromFloats(ir.F32, x, rows...)
				if err != nil {
					t.Fatal(err)
				}
				out, err := p.Run(context.Background(), map[string]*ir.Data{"x": in}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return out["y"], interp.ToleranceOf(g, y)
			}
			what := fmt.Sprintf("%d matrices of %d rows by %s", c.matrices, c.rows, d)
			want, _ := run(ir.PrecisionFull, x, nil)
			have, tolerance := run(ir.PrecisionBytes, x, Kernels)
			near := interp.Compare(have, want, tolerance)
			if err := near.Err(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			full, tolerance := run(ir.PrecisionFull, x, Kernels)
			nearer := interp.Compare(full, want, tolerance)
			if err := nearer.Err(); err != nil || nearer.WorstAbs*10 > near.WorstAbs {
				t.Errorf("%s: off by %g with bytes and %g without (%v): are they bytes?", what, near.WorstAbs,
					nearer.WorstAbs, err)
			}
			var first []float64 // the first row of each matrix
			var bits []byte
			for i := range c.matrices {
				first = append(first, x[i*c.rows*k:][:k]...)
				bits = append(bits, have.Bytes[i*c.rows*cols*4:][:cols*4]...)
			}
			if alone, _ := run(ir.PrecisionBytes, first, Kernels); !slices.Equal(alone.Bytes, bits) {
				t.Errorf("%s: the first has other bits alone", what)
			}
		}
	}
}

// dims is the extents of some matrices: two of one matrix.
func dims(matrices, rows, cols int) []int {
	if matrices == 1 {
		return []int{rows, cols}
	}
	return []int{matrices, rows, cols}
}

// oneWeight is the weights of a graph that has one.
type oneWeight struct{ *ir.Data }

func (w oneWeight) Weight(string) (*ir.Data, error) { return w.Data, nil }
