package e2e_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// TestQuantizedSizes: blocks quantized on the device decode to the same values as blocks from package quant, for
// elements of all magnitudes, from subnormal numbers to the format's limit. Larger numbers and NaN are errors in both.
// Blocks of ordinary magnitudes are the same bit for bit.
func TestQuantizedSizes(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := t.Context()
	var values [][]float32
	var graphs []*ir.Graph
	for _, q := range ir.QuantizeFormats() {
		per := q.BlockElems()
		x := blocksOfSizes(rand.New(rand.NewPCG(uint64(q), 1)), per, quant.Limit(q))
		values, graphs = append(values, x), append(graphs, devtest.Build(t, func(b *frontend.Builder) {
			s, in := b.State("s", q, len(x)/per, per), b.Input("x", ir.F32, len(x)/per, per)
			b.Output("y", in.Slice(0, 0, 1))
			b.Update(s, in.Quantize(q))
		}))
	}
	devtest.CompileShaders(t, devtest.OpenDevice(t).Caps(), graphs...)
	for i, q := range ir.QuantizeFormats() {
		t.Run(q.String(), func(t *testing.T) {
			per, most, x, g := q.BlockElems(), quant.Limit(q), values[i], graphs[i]
			want := make([]byte, len(x)/per*q.BlockBytes())
			if err := quant.Quantize(want, q, x, nil); err != nil {
				t.Fatal(err)
			}
			decoded := make([]float32, len(x))
			if err := quant.Dequantize(decoded, q, want); err != nil {
				t.Fatal(err)
			}
			block := func(all []byte, i int) []byte { return all[i*q.BlockBytes():][:q.BlockBytes()] }
			devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
				exe, err := dev.LoadGraph(ctx, g, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer exe.Close()
				run := func(x []float32) error {
					in, err := vkc.Of(x, len(x)/per, per)
					if err != nil {
						t.Fatal(err)
					}
					_, err = exe.Run(ctx, vkc.Tensors{"x": in})
					return err
				}
				if err := run(x); err != nil {
					t.Fatal(err)
				}
				have, err := exe.ReadState("s")
				if err != nil {
					t.Fatal(err)
				}
				made, err := vkc.Values[float32](have)
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range made {
					if v != decoded[i] {
						at := i / per
						t.Fatalf("block %d of %g\nis   %x\nwant %x", at, x[at*per:][:per], block(have.Bytes, at),
							block(want, at))
					}
				}
				bits := ordinaryBlocks(len(x)/per, per)
				if err := run(bits); err != nil {
					t.Fatal(err)
				}
				if have, err = exe.ReadState("s"); err != nil {
					t.Fatal(err)
				}
				same := make([]byte, len(want))
				if err := quant.Quantize(same, q, bits, nil); err != nil {
					t.Fatal(err)
				}
				for at := range len(x) / per {
					if !bytes.Equal(block(have.Bytes, at), block(same, at)) {
						t.Fatalf("block %d of %g\nis   %x\nwant %x", at, bits[at*per:][:per], block(have.Bytes, at),
							block(same, at))
					}
				}
				for _, v := range []float32{math.Nextafter32(most, math.MaxFloat32), math.MaxFloat32,
					float32(math.Inf(-1)), float32(math.NaN())} {
					bad := slices.Clone(x)
					bad[len(x)/2] = v
					if err := run(bad); err == nil {
						t.Errorf("%g is quantized, and is above %g", v, most)
					}
				}
			})
		})
	}
}

// ordinaryBlocks returns random blocks of four magnitudes, down to those whose weighted squares are denormal. In one
// block of five, several scales are equally good.
func ordinaryBlocks(blocks, per int) (x []float32) {
	rng := rand.New(rand.NewPCG(5, 6))
	for block := range blocks {
		for range per {
			if block%5 == 0 {
				x = append(x, float32(rng.IntN(9)-4))
			} else {
				x = append(x, float32(rng.NormFloat64()*[]float64{1, 300, 1e-6, 1e-8}[block%4]))
			}
		}
	}
	return x
}

// blocksOfSizes returns blocks with maxima of every magnitude.
func blocksOfSizes(rng *rand.Rand, per int, most float32) (x []float32) {
	block := func(f func(i int) float32) {
		for i := range per {
			x = append(x, f(i))
		}
	}
	for e := -150; e <= 128; e++ {
		top := min(float32(math.Ldexp(1+rng.Float64(), e)), most)
		spread := float64(rng.IntN(3)) * 8
		block(func(int) float32 {
			return top * float32((2*rng.Float64()-1)*math.Exp2(-spread*rng.Float64()))
		})
		at := len(x) - per + rng.IntN(per)
		x[at] = top
		if top == most && rng.IntN(2) == 0 {
			break
		}
	}
	block(func(int) float32 { return most })
	block(func(int) float32 { return -most })
	block(func(i int) float32 { return most * float32(1-2*(i%2)) })
	block(func(i int) float32 { return float32(math.Copysign(0, float64(i%2)-1)) })
	block(func(i int) float32 { return math.Float32frombits(uint32(rng.IntN(1 << 23))) })
	block(func(i int) float32 { return math.Float32frombits(uint32(rng.IntN(1<<24)) ^ uint32(i&1)<<31) })
	for range 40 { // exponents of any kind in one block
		block(func(i int) float32 {
			return max(-most, min(most, float32(math.Ldexp(rng.NormFloat64(), rng.IntN(270)-145))))
		})
	}
	return x
}
