package glsl_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/randblocks"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime/vk"
)

var randomProducts = flag.Int("products", 24, "number of random matmuls to run on the device")

// tensor is the content of a buffer: the bytes, and the values that they decode to.
type tensor struct {
	bytes  []byte
	values []float64
}

func randomTensor(t *testing.T, r *rand.Rand, dtype ir.DType, elems int64) tensor {
	t.Helper()
	values := make([]float64, elems)
	for i := range values {
		values[i] = r.Float64()*2 - 1
	}
	size, err := dtype.BytesFor(elems)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor{make([]byte, size), values}
	if dtype.IsInteger() {
		return randomIntegers(r, dtype, x)
	}
	if !dtype.IsBlock() {
		ir.EncodeFloats(x.bytes, dtype, values)
		ir.DecodeFloats(x.values, dtype, x.bytes)
		return x
	}
	randblocks.Fill(x.bytes, dtype, -1, 1, r)
	narrow := make([]float32, elems)
	if err := quant.Dequantize(narrow, dtype, x.bytes); err != nil {
		t.Fatal(err)
	}
	for i, v := range narrow {
		values[i] = float64(v)
	}
	return x
}

// randomIntegers fills a tensor with integers. Many of them are extremes.
func randomIntegers(r *rand.Rand, dtype ir.DType, x tensor) tensor {
	lo, hi := ir.IntRange(dtype)
	list := make([]int64, len(x.values))
	for i := range list {
		list[i] = lo + r.Int64N(hi-lo+1)
		if r.IntN(4) == 0 {
			list[i] = []int64{lo, hi}[r.IntN(2)]
		}
		x.values[i] = float64(list[i])
	}
	ir.EncodeInts(x.bytes, dtype, list)
	return x
}

// randomBytes returns int8 elements, with a scale for every 32. Scales are at most 1/127, so that values are as large
// as in other tensors.
func randomBytes(r *rand.Rand, elems int64, scales tensor) tensor {
	for i := range scales.values {
		scales.values[i] /= 127
	}
	ir.EncodeFloats(scales.bytes, ir.F32, scales.values)
	ir.DecodeFloats(scales.values, ir.F32, scales.bytes)
	x := tensor{make([]byte, elems), make([]float64, elems)}
	for i := range x.bytes {
		n := r.IntN(255) - 127
		x.bytes[i], x.values[i] = byte(n), float64(n)*scales.values[i/32]
	}
	return x
}

// eval returns an extent for a value of all symbols.
func eval(d ir.Dim, symbol int64) int64 { return d.Mul*symbol + d.Add }

// reference computes the matmul by loops, as its definition says. in has the tensors by binding, without the result.
func (p product) reference(symbol int64, in map[string]tensor) []float64 {
	batch := int64(1)
	for _, d := range p.batch {
		batch *= eval(d, symbol)
	}
	m, n, k := eval(p.m, symbol), eval(p.n, symbol), eval(p.k, symbol)
	out := make([]float64, batch*m*n)
	for z := range batch {
		for i := range m {
			for j := range n {
				var sums [2]float64
				squares := 0.0
				for l := range k {
					a := in["a"].values[z*m*k+pick(p.transA, l*m+i, i*k+l)]
					switch {
					case p.prologue && p.integers():
						a = max(a, leastInteger)
					case p.prologue:
						a = max(a+0.5, 0)
					}
					at := pick(p.transB, j*k+l, l*n+j)
					if !p.sharedB {
						at += z * n * k
					}
					if p.norm {
						squares += a * a
						a *= in["norm_weight"].values[l]
					}
					a = p.operand(a)
					sums[0] += a * p.operand(in["b"].values[at])
					if p.gated {
						sums[1] += a * p.operand(in["gate"].values[at])
					}
				}
				if p.integers() {
					sums = [2]float64{wrapped(sums[0]), wrapped(sums[1])}
				}
				if p.norm {
					size := math.Sqrt(squares/float64(k) + normEps)
					sums[0], sums[1] = sums[0]/size, sums[1]/size
				}
				out[z*m*n+pick(p.across, j*m+i, i*n+j)] = p.epilogue(sums, j, in)
			}
		}
	}
	return out
}

// wrapped converts a sum to i32.
func wrapped(sum float64) float64 { return float64(ir.Wrap(int64(sum), ir.I32)) }

// operand rounds a value to the dtype that operands may be rounded to.
func (p product) operand(v float64) float64 {
	if p.operands == ir.Invalid || p.integers() {
		return v
	}
	return ir.RoundTo(v, p.operands)
}

func (p product) epilogue(sums [2]float64, col int64, in map[string]tensor) float64 {
	if p.integers() && (p.gated || p.bias || p.half) {
		sums[0], sums[1] = sums[0]*sumScale, sums[1]*sumScale
	}
	y := sums[0]
	if p.plusOne {
		y++
	}
	if p.gated {
		y = max(y, 0) * sums[1]
	}
	if p.bias {
		y += in["bias"].values[col]
	}
	return y
}

func pick[T any](cond bool, a, b T) T {
	if cond {
		return a
	}
	return b
}

// guard is the number of elements after a result that must stay unchanged.
const guard = 64

// runOnDevice runs a shader once over tensors by binding. It returns the bytes of the result, with guard more elements.
func runOnDevice(t *testing.T, d *vk.Device, sh *glsl.Shader, k *kernel.Kernel, module []byte, in map[string]tensor,
	symbol int64, outElems int64) []byte {
	t.Helper()
	ctx := context.Background()
	var ranges []vk.BufferRange
	var result *vk.Buffer
	var size int64
	for _, b := range k.Bindings {
		data := in[b.Name].bytes
		if b.Layout == kernel.LayoutPlanes {
			data = kernel.PackPlanes(b.DType, data)
		}
		if b.Name == "params" {
			data = binary.LittleEndian.AppendUint32(nil, uint32(symbol))
		}
		if b.Write {
			size = (outElems + guard) * int64(b.DType.BlockBytes())
			data = make([]byte, size)
			for i := range data {
				data[i] = 0x5a
			}
		}
		buf, err := d.NewBuffer(b.Name, int64(max((len(data)+15)&^15, 16)), vk.DeviceMemory) // as programs lay them out
		check(t, err)
		defer buf.Close()
		check(t, d.Upload(ctx, buf, 0, data))
		if b.Write {
			result = buf
		}
		ranges = append(ranges, vk.Whole(buf))
	}
	bindings, err := d.NewBindings([]vk.BindingSet{{Name: k.Name, Buffers: ranges}})
	check(t, err)
	defer bindings.Close()
	pipeline, err := d.NewPipeline(vk.PipelineDesc{Name: k.Name, Code: module, Buffers: len(ranges),
		SubgroupSize: sh.SubgroupSize, FullSubgroups: sh.SubgroupSize > 0})
	check(t, err)
	defer pipeline.Close()
	grid, err := sh.Grid.Eval(map[string]int64{"T": symbol})
	check(t, err)
	list := d.NewCommandList()
	if grid[0] > 0 && grid[1] > 0 && grid[2] > 0 {
		list.BindPipeline(pipeline)
		list.Bind(bindings, 0)
		list.Dispatch(grid[0], grid[1], grid[2])
	}
	recording, err := d.Record(k.Name, list)
	check(t, err)
	defer recording.Close()
	check(t, d.Run(ctx, recording))
	out := make([]byte, size)
	check(t, d.Download(ctx, out, result, 0))
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// matCase is a matmul under a schedule, at one or more values of symbol T.
type matCase struct {
	name    string
	p       product
	s       kernel.Schedule
	symbols []int64
}

// properties are the properties that kernels of few rows depend on. The format of B only changes how elements are
// decoded, so it meets the properties that decoding depends on: among them each way to read blocks, and whether a run
// is part of 32 elements, 32 or more. The other properties, and how rows become bytes, meet each other. A norm or a
// gate doubles a kernel.
func (c matCase) properties() pairs.Of {
	p, s := c.p, vecOf(c.s)
	reader := vecOf(normalized(p, s))
	decoding := []any{p.layout, p.bytes, isPreloading(p, s), s.Subnormals, s.Tables, s.Copies > 0}
	return pairs.Of{Name: p.b.String(),
		PerName: append([]any{cmp.Compare(s.TileK, 32), [2]any{reader.Decode, reader.Subnormals}}, decoding...),
		Properties: append(decoding, p.byteRows, s.RoundRows, s.Digits > 0, s.TileK, p.a, p.m.Static() > 2, p.gated,
			p.bias, p.prologue, p.norm, s.LanesPerRow > 8, s.ThreadN > 1, s.Coarsen > 0, s.Prefetch.Mode, s.StageRows),
		Cost: unrolledBy(c.s) * pick(p.norm, 3.0, 1) * pick(p.gated, 2.0, 1)}
}

// unrolledBy estimates the length of a schedule's kernel, which a software device compiles in proportional time: the
// multiplications that an invocation unrolls. A matrix unit is a loop there, of some hundred instructions a fragment.
func unrolledBy(s kernel.Schedule) float64 {
	n := kernel.Numbers(s)
	least := func(name string) float64 { return max(1, n[name]) }
	if frag := n["frag_m"] * n["frag_n"]; frag > 0 {
		return 16 + least("tile_m")*least("tile_n")/frag
	}
	return 1 + least("thread_m")*least("thread_n")*least("coarsen")*least("tile_k")/64
}

// vecOf returns the parameters of a matvec, and zero for other schedules.
func vecOf(s kernel.Schedule) kernel.MatVec {
	v, _ := s.(kernel.MatVec)
	return v
}

func tiled(m, n, k, tm, tn int) kernel.MatTile {
	return kernel.MatTile{Launch: kernel.Launch{Variant: kernel.VarMatTile, Workgroup: m / tm * (n / tn), Vec: 4},
		Tile: kernel.Tile{TileM: m, TileN: n, TileK: k}, ThreadM: tm, ThreadN: tn}
}

func twoStages(s kernel.MatTile) kernel.MatTile {
	s.Stages = 2
	return s
}

func paired(s kernel.MatTile) kernel.MatTile {
	s.Paired = true
	return s
}

func inSteps(s kernel.MatTile) kernel.MatTile {
	s.Steps = true
	return s
}

// direct is a schedule of the direct variant: an invocation computes rows rows of cols columns, k elements of the
// contraction axis at a time.
func direct(wg, rows, cols, k int) kernel.Schedule {
	return kernel.MatDirect{Launch: kernel.Launch{Variant: kernel.VarMatDirect, Workgroup: wg, Vec: 4},
		Tile: kernel.Tile{TileM: rows, TileN: wg * cols, TileK: k}, ThreadM: rows, ThreadN: cols}
}

// vec is a matvec schedule for m rows: lanes lanes share a sum, and each of groups groups takes cols columns.
func vec(m, lanes, groups, cols, subgroup int) kernel.MatVec {
	return kernel.MatVec{Launch: kernel.Launch{Variant: kernel.VarMatVec, Workgroup: lanes * groups, Vec: 4,
		Subgroup: subgroup}, Tile: kernel.Tile{TileM: m, TileN: groups * cols},
		LanesPerRow: lanes, ThreadM: m, ThreadN: cols}
}

var (
	d  = ir.D
	tT = ir.Symbol("T", 70)
)

func matCases() []matCase {
	f32, f16, bf16, q4, q8 := ir.F32, ir.F16, ir.BF16, ir.Q4_0, ir.Q8_0
	small, wide := tiled(16, 16, 8, 2, 2), tiled(32, 64, 16, 4, 8)
	return []matCase{
		{"whole tiles", product{m: d(32), n: d(32), k: d(32), a: f32, b: f32}, small, nil},
		{"partial tiles", product{m: d(17), n: d(35), k: d(36), a: f32, b: f32}, small, nil},
		{"odd contraction", product{m: d(17), n: d(35), k: d(37), a: f32, b: f32}, small, nil},
		{"short contraction", product{m: d(5), n: d(6), k: d(1), a: f32, b: f32}, wide, nil},
		{"B transposed", product{m: d(33), n: d(70), k: d(40), a: f32, b: f32, transB: true}, wide, nil},
		{"A transposed", product{m: d(33), n: d(70), k: d(42), a: f32, b: f32, transA: true}, wide, nil},
		{"f16 by bf16", product{m: d(40), n: d(64), k: d(48), a: f16, b: bf16, transB: true, half: true}, wide, nil},
		{"q4_0", product{m: d(20), n: d(24), k: d(96), a: f32, b: q4, transB: true, bias: true}, small, nil},
		{"q8_0 gated", product{m: d(20), n: d(24), k: d(64), a: f16, b: q8, transB: true, gated: true, prologue: true},
			small, nil},
		{"batch", product{batch: []ir.Dim{d(2), d(3)}, m: d(9), n: d(10), k: d(11), a: f32, b: f32, prologue: true,
			bias: true}, small, nil},
		{"batch of A only", product{batch: []ir.Dim{d(3)}, m: d(9), n: d(10), k: d(12), a: f32, b: f32, sharedB: true},
			small, nil},
		{"T rows", product{m: tT, n: d(20), k: d(16), a: f32, b: f32, transB: true, gated: true},
			small, []int64{0, 1, 16, 33, 70}},
		{"T columns", product{m: d(20), n: tT, k: d(16), a: f32, b: f32}, small, []int64{0, 1, 16, 33, 70}},
		{"T deep", product{m: d(20), n: d(9), k: tT, a: f32, b: f32}, small, []int64{0, 1, 4, 33, 70}},
		{"4T deep", product{m: d(20), n: d(9), k: tT.Times(4), a: f32, b: f32, transB: true}, small, []int64{0, 1, 70}},
		{"T batch", product{batch: []ir.Dim{tT}, m: d(2), n: d(3), k: d(4), a: f32, b: f32}, small, []int64{0, 1, 70}},
		{"two stages", product{m: d(33), n: d(70), k: d(43), a: f32, b: f32, gated: true}, twoStages(small), nil},
		{"two stages, T deep", product{m: d(20), n: d(9), k: tT, a: f32, b: f32, transB: true},
			twoStages(small), []int64{0, 1, 4, 33, 70}},
		{"paired", product{m: d(33), n: d(70), k: d(43), a: f32, b: f32, transB: true, bias: true}, paired(wide), nil},
		{"steps", product{m: d(64), n: d(64), k: d(64), a: f32, b: f32, transB: true, bias: true}, inSteps(wide), nil},
		{"steps, columns of four", product{m: d(33), n: d(68), k: d(43), a: f32, b: f32, gated: true, bias: true},
			inSteps(wide), nil},
		{"steps, odd columns", product{batch: []ir.Dim{d(2)}, m: d(33), n: d(71), k: d(43), a: f16, b: bf16,
			transA: true, transB: true, half: true}, inSteps(wide), nil},
		{"steps in two stages, paired", product{m: d(130), n: d(132), k: d(40), a: f32, b: f32, transB: true},
			paired(inSteps(twoStages(tiled(64, 64, 8, 8, 8)))), nil},
		{"large tiles in steps, paired", product{m: d(130), n: d(135), k: d(41), a: f32, b: f32, transB: true,
			bias: true}, paired(inSteps(twoStages(tiled(128, 128, 8, 8, 16)))), nil},
		{"middling tiles in deep steps, paired", product{batch: []ir.Dim{d(2)},
			m: d(70), n: d(132), k: d(49), a: f16, b: f32, transA: true, half: true},
			paired(inSteps(twoStages(tiled(64, 128, 16, 8, 8)))), nil},
		{"small deep tiles", product{m: d(40), n: d(33), k: d(96), a: f32, b: q8, transB: true, gated: true},
			tiled(32, 32, 32, 2, 2), nil},
		{"steps, T deep and wide", product{m: d(20), n: tT, k: tT, a: f32, b: f32},
			paired(inSteps(tiled(16, 32, 12, 4, 4))), []int64{0, 1, 4, 33, 70}},
		{"steps across, both operands", product{batch: []ir.Dim{d(2)}, m: d(68), n: d(100), k: d(43), a: f32, b: f16,
			transA: true, bias: true}, paired(inSteps(twoStages(tiled(64, 64, 16, 8, 4)))), nil},
		{"steps across, T times 4 columns", product{m: d(20), n: tT.Times(4), k: tT, a: f32, b: f32},
			inSteps(twoStages(tiled(16, 32, 8, 4, 4))), []int64{0, 1, 4, 33, 70}},
		{"steps in tiles of 96", product{m: d(200), n: d(192), k: d(40), a: f32, b: f32},
			paired(inSteps(twoStages(tiled(96, 96, 16, 12, 4)))), nil},
		{"steps of q8_0, T rows", product{m: tT, n: d(40), k: d(64), a: f32, b: q8, transB: true, prologue: true},
			inSteps(twoStages(tiled(16, 32, 16, 4, 8))), []int64{0, 1, 4, 33, 70}},
		{"one sum per invocation", product{m: d(9), n: d(9), k: d(9), a: f32, b: f32}, tiled(8, 8, 8, 1, 1), nil},

		{"i8", product{m: d(33), n: d(70), k: d(64), a: ir.I8, b: ir.I8, operands: ir.I8, transB: true}, small, nil},
		{"u8 columns, two stages", product{m: d(33), n: d(70), k: d(68), a: ir.U8, b: ir.U8, operands: ir.U8},
			twoStages(wide), nil},
		{"i8 odd, scaled", product{batch: []ir.Dim{d(2)}, m: d(17), n: d(35), k: d(37), a: ir.I8, b: ir.I8,
			operands: ir.I8, transB: true, bias: true}, small, nil},
		{"u8 T deep, gated", product{m: d(20), n: d(9), k: tT, a: ir.U8, b: ir.U8, operands: ir.U8, transA: true,
			gated: true}, small, []int64{0, 1, 4, 33, 70}},
		{"i8 prologue", product{m: d(20), n: d(24), k: d(40), a: ir.I8, b: ir.I8, operands: ir.I8, prologue: true,
			plusOne: true}, small, nil},
		{"direct i8", product{m: d(33), n: d(70), k: d(40), a: ir.I8, b: ir.I8, operands: ir.I8, transB: true},
			direct(8, 6, 3, 8), nil},
		{"direct u8 odd, scaled", product{m: d(17), n: d(35), k: d(37), a: ir.U8, b: ir.U8, operands: ir.U8,
			bias: true, half: true}, direct(8, 6, 3, 8), nil},
		{"matvec i8", product{m: d(3), n: d(41), k: d(132), a: ir.I8, b: ir.I8, operands: ir.I8, transB: true},
			vec(3, 16, 2, 2, 8), nil},
		{"matvec i8 in fours", product{m: d(1), n: d(41), k: d(144), a: ir.I8, b: ir.I8, operands: ir.I8,
			transB: true}, vec(1, 8, 4, 1, 8), nil},
		{"matvec u8 in fours, gated", product{m: d(5), n: d(41), k: d(80), a: ir.U8, b: ir.U8, operands: ir.U8,
			transB: true, gated: true}, vec(5, 8, 2, 2, 0), nil},
		{"matvec u8 columns, scaled", product{m: d(1), n: d(50), k: d(41), a: ir.U8, b: ir.U8, operands: ir.U8,
			bias: true}, vec(1, 4, 16, 1, 0), nil},

		{"direct whole tiles", product{m: d(32), n: d(64), k: d(32), a: f32, b: f32, transB: true},
			direct(16, 16, 4, 8), nil},
		{"direct partial tiles", product{m: d(17), n: d(35), k: d(37), a: f32, b: f32}, direct(8, 6, 3, 8), nil},
		{"direct one row", product{m: d(1), n: d(41), k: d(36), a: f16, b: bf16, transB: true, half: true},
			direct(8, 1, 1, 16), nil},
		{"direct A transposed", product{m: d(33), n: d(70), k: d(42), a: f32, b: f32, transA: true, bias: true},
			direct(16, 16, 4, 4), nil},
		{"direct q8_0 gated", product{m: d(20), n: d(24), k: d(64), a: f16, b: q8, transB: true, gated: true,
			prologue: true}, direct(8, 10, 2, 8), nil},
		{"direct T rows", product{batch: []ir.Dim{d(2)}, m: tT, n: d(20), k: d(16), a: f32, b: f32, transB: true,
			gated: true}, direct(8, 16, 2, 8), []int64{0, 1, 16, 33, 70}},
		{"direct T columns", product{m: d(20), n: tT, k: d(16), a: f32, b: f32},
			direct(8, 16, 4, 8), []int64{0, 1, 16, 33, 70}},
		{"direct T deep", product{m: d(20), n: d(9), k: tT, a: f32, b: f32},
			direct(8, 7, 2, 8), []int64{0, 1, 4, 33, 70}},

		{"matvec", product{m: d(1), n: d(40), k: d(128), a: f32, b: f32, transB: true}, vec(1, 8, 4, 1, 8), nil},
		{"matvec shared", product{m: d(1), n: d(41), k: d(132), a: f32, b: f32, transB: true, bias: true},
			vec(1, 16, 4, 2, 0), nil},
		{"matvec two subgroups", product{m: d(3), n: d(41), k: d(132), a: f32, b: f16, transB: true},
			vec(3, 16, 2, 2, 8), nil},
		{"matvec odd", product{m: d(2), n: d(13), k: d(37), a: f32, b: f32, transB: true, prologue: true},
			vec(2, 8, 4, 1, 8), nil},
		{"matvec q4_0", product{m: d(1), n: d(30), k: d(256), a: f32, b: q4, transB: true, half: true},
			vec(1, 8, 4, 2, 8), nil},
		{"matvec q8_0 gated", product{m: d(8), n: d(30), k: d(64), a: f32, b: q8, transB: true, gated: true,
			bias: true}, vec(8, 8, 4, 1, 8), nil},
		{"matvec columns", product{m: d(1), n: d(50), k: d(40), a: f32, b: f32}, vec(1, 4, 16, 1, 0), nil},
		{"matvec columns alone", product{m: d(4), n: d(50), k: d(41), a: f32, b: bf16, gated: true},
			vec(4, 1, 32, 2, 0), nil},
		{"matvec many results", product{m: d(8), n: d(64), k: d(16), a: f32, b: f32}, vec(8, 2, 8, 4, 0), nil},
		{"matvec batch", product{batch: []ir.Dim{d(2), d(3)}, m: d(1), n: d(20), k: d(24), a: f32, b: f32,
			transB: true}, vec(1, 8, 2, 1, 0), nil},
		{"matvec T deep", product{batch: []ir.Dim{d(2)}, m: d(1), n: d(20), k: tT, a: f32, b: f32},
			vec(1, 4, 8, 1, 0), []int64{0, 1, 5, 70}},
		{"matvec T columns", product{batch: []ir.Dim{d(2)}, m: d(2), n: tT, k: d(16), a: f32, b: f32, transB: true},
			vec(2, 8, 2, 1, 8), []int64{0, 1, 70}},
		{"matvec few T rows", product{m: ir.Symbol("T", 4), n: d(20), k: d(16), a: f32, b: f32, transB: true},
			vec(4, 8, 2, 1, 8), []int64{0, 1, 3, 4}},
	}
}

// randomMatCases are matmuls of random shape, dtype and fusion, each under a random schedule that passes Check.
func randomMatCases(t *testing.T, caps device.Caps, count int) []matCase {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 13))
	coin := func() bool { return r.IntN(2) == 0 }
	power := func(most int) int { return 1 << r.IntN(most) }
	var cases []matCase
	for len(cases) < count {
		p := product{m: d(1 + r.IntN(70)), n: d(1 + r.IntN(70)), k: d(1 + r.IntN(70)), a: ir.F32, b: ir.F32,
			transA: coin(), transB: coin(), sharedB: coin(), prologue: coin(), bias: coin(), gated: coin()}
		if coin() {
			p.k = d(32 * (1 + r.IntN(3)))
			if p.transB {
				p.b = []ir.DType{ir.F16, ir.Q4_0, ir.Q8_0}[r.IntN(3)]
			}
		}
		if coin() {
			p.batch = []ir.Dim{d(1 + r.IntN(3))}
		}
		var s kernel.Schedule
		switch r.IntN(3) {
		case 0:
			tm, tn := power(4), power(4)
			tile := tiled(tm*power(5), tn*power(5), 4*power(4), tm, tn)
			tile.Stages, tile.Paired, tile.Steps = r.IntN(3), coin(), coin()
			s = tile
		case 1:
			s = direct(8*power(4), 1+r.IntN(20), 1+r.IntN(4), 4*power(3))
		default:
			p.m = d(1 + r.IntN(2*schedule.MaxMatVecRows))
			subgroup := []int{0, int(caps.SubgroupSize)}[r.IntN(2)]
			s = vec(rowsOfMatVec(p.m.Static()), power(6), power(6), power(3), subgroup)
		}
		if fits(p.kernel(), s, caps) == nil {
			cases = append(cases, matCase{name: fmt.Sprintf("%d %v", len(cases), s), p: p, s: s})
		}
	}
	return cases
}

// normCases are the cases of a list that can have the factor of a norm, with it. The factor changes rows and sums, but
// no weights.
func normCases(caps device.Caps, list []matCase) []matCase {
	var cases []matCase
	for _, c := range list {
		c.name, c.p.norm = c.name+" of a norm", true
		c.s = relying(caps, c.s)
		if fits(c.p.kernel(), c.s, caps) == nil {
			cases = append(cases, c)
		}
	}
	return cases
}

// TestMatMulOnDevice runs matmuls of all kinds, and random ones, on this machine's Vulkan device, and compares with
// loops. If the device cannot guarantee the schedule's subgroup size, the case uses shared memory instead. A schedule
// that still cannot run is a failure.
func TestMatMulOnDevice(t *testing.T) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	caps := dev.Caps()
	blocks := blockCases()
	cases := slices.Concat(matCases(), pairs.Pick(normCases(caps, matCases()), func(c matCase) pairs.Of {
		return pairs.Of{Name: c.p.b.String(), Properties: []any{c.s.Config().Variant, len(c.p.batch) > 0, c.p.gated,
			c.p.bias}, Cost: unrolledBy(c.s)}
	}), pairs.Pick(slices.Concat(blocks, normCases(caps, blocks)), matCase.properties),
		randomMatCases(t, caps, *randomProducts))
	shaders, kernels := make([]*glsl.Shader, len(cases)), make([]*kernel.Kernel, len(cases))
	sources := make([]spirv.Shader, len(cases))
	for i := range cases {
		c := &cases[i]
		if len(c.symbols) == 0 {
			c.symbols = []int64{0}
		}
		if c.s.Config().Subgroup > 0 {
			c.s = relying(caps, c.s)
		}
		kernels[i] = c.p.kernel()
		sh, err := glsl.Emit(kernels[i], c.s, caps, kernels[i].Symbols())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if declared := declaredShared(t, sh.Source); sh.SharedBytes != declared {
			t.Errorf("%s: claims %d bytes of shared memory, declares %d", c.name, sh.SharedBytes, declared)
		}
		shaders[i], sources[i] = sh, spirv.Shader{Name: fmt.Sprintf("case%d", i), Source: sh.Source,
			TargetEnv: envFor(sh.Needs)}
	}
	modules := compileSampled(t, sources)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			notLong(t, caps, modules[i])
			for _, symbol := range c.symbols {
				c.compare(t, dev, shaders[i], kernels[i], modules[i], symbol)
			}
		})
	}
}

// maxModule is the longest SPIR-V, in bytes, that drivers on the CPU compile in seconds. Their time grows faster than
// the length, to minutes. A random case may be longer.
const maxModule = 128 << 10

// notLong skips a case that a software device would compile for too long.
func notLong(t *testing.T, caps device.Caps, module []byte) {
	t.Helper()
	if caps.Type == device.DeviceCPU && len(module) > maxModule {
		t.Skipf("%d bytes of SPIR-V, more than %d: %s would compile it for long", len(module), maxModule, caps.Name)
	}
}

var shared = regexp.MustCompile(
	`(?m)^shared (float|int|uint|vec2|vec4|ivec4|uvec2|uvec4) \w+\[(\d+)\](?:\[(\d+)\])?;`)

// declaredShared adds up the shared memory that a shader declares.
func declaredShared(t *testing.T, source string) int {
	t.Helper()
	total := 0
	for _, m := range shared.FindAllStringSubmatch(source, -1) {
		n, err := strconv.Atoi(m[2])
		check(t, err)
		if m[3] != "" {
			copies, err := strconv.Atoi(m[3])
			check(t, err)
			n *= copies
		}
		total += n * map[string]int{"float": 4, "int": 4, "uint": 4, "vec2": 8, "uvec2": 8, "vec4": 16, "ivec4": 16,
			"uvec4": 16}[m[1]]
	}
	return total
}

// compileAll compiles, optimizes and validates shaders.
func compileAll(t testing.TB, sources []spirv.Shader) [][]byte {
	t.Helper()
	tools := toolchain(t)
	modules, err := modulesOf(tools, sources, spirv.Options{Optimize: true, Validate: tools.Val.Found()})
	check(t, err)
	return modules
}

// compileSampled compiles and validates shaders, and optimizes a part of them: see sampled.
func compileSampled(t testing.TB, sources []spirv.Shader) [][]byte {
	t.Helper()
	tools := toolchain(t)
	modules, err := sampled(tools, sources, spirv.Options{Validate: tools.Val.Found()})
	check(t, err)
	return modules
}

// relying is a schedule that relies on the reliable subgroup size.
func relying(caps device.Caps, s kernel.Schedule) kernel.Schedule {
	return launched(s, func(l *kernel.Launch) { l.Subgroup = reliable(caps, s) })
}

// reliable returns the schedule's subgroup size if the device has it, else 0.
func reliable(caps device.Caps, s kernel.Schedule) int {
	vec := vecOf(s)
	shared := vec.Coarsen > 0 || vec.RoundRows
	if own := int(caps.SubgroupSize); shared && caps.RequiredSubgroupSize && vec.LanesPerRow%own == 0 {
		return own // any size will do, because whole subgroups share rows
	}
	if uint32(s.Config().Subgroup) < caps.MinSubgroupSize || uint32(s.Config().Subgroup) > caps.MaxSubgroupSize ||
		!caps.RequiredSubgroupSize {
		return 0
	}
	return s.Config().Subgroup
}

// addedTo returns a tensor with the bytes of high and the values of high plus low.
func addedTo(high, low tensor) tensor {
	sum := tensor{bytes: high.bytes, values: slices.Clone(high.values)}
	for i, v := range low.values {
		sum.values[i] += v
	}
	return sum
}

func (c matCase) compare(t *testing.T, dev *vk.Device, sh *glsl.Shader, k *kernel.Kernel, module []byte, symbol int64) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(symbol)))
	in := map[string]tensor{}
	for _, b := range k.Bindings {
		if b.Read && b.Name != "params" && !(c.p.bytes && b.Name == "a") {
			in[b.Name] = randomTensor(t, r, b.DType, b.Elems)
			if b.Codebook != ir.Invalid {
				in[b.Name] = tensor{bytes: quant.Codebook(b.Codebook).Bytes}
			}
		}
	}
	if c.p.bytes {
		in["a"] = randomBytes(r, k.Bindings[0].Elems, in["scales"])
	}
	if c.p.halves {
		in["a"] = addedTo(in["a"], in["a_low"])
	}
	want := c.p.reference(symbol, in)
	out := k.Bindings[k.Stores[0].Bind].DType
	raw := runOnDevice(t, dev, sh, k, module, in, symbol, int64(len(want)))
	size := out.BlockBytes()
	got := make([]float64, len(want))
	if out == ir.I32 {
		sums := make([]int64, len(want))
		ir.DecodeInts(sums, out, raw[:len(want)*size])
		for i, n := range sums {
			got[i] = float64(n)
		}
	} else {
		ir.DecodeFloats(got, out, raw[:len(want)*size])
	}
	// f32 sums of values below 1 in another order than the reference's.
	tolerance := 4e-7 * float64(8+c.p.k.Max())
	switch out {
	case ir.F16:
		tolerance = 2e-3
	case ir.I32:
		tolerance = 0
	}
	if c.p.halfSums { // each addition rounds
		tolerance = 1e-3 * float64(c.p.k.Max())
	}
	if c.p.loose { // independent roundings to f16 of values below 1
		tolerance = 1e-3 * math.Sqrt(float64(c.p.k.Max()))
	}
	if c.p.norm { // rows grow to a size of 1
		tolerance *= 4
	}
	if c.p.byteRows { // elements of A below 1 are off by up to 1/254
		tolerance = 6 * 2.3e-3 * math.Sqrt(float64(c.p.k.Max()))
		if c.p.gated { // by another sum
			tolerance *= 4
		}
		if c.p.norm {
			tolerance *= 2
		}
	}
	for i := range want {
		if diff := math.Abs(got[i] - want[i]); !(diff <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("T=%d: element %d is %g, want %g (tolerance %.2g)\n%s", symbol, i, got[i], want[i], tolerance,
				numbered(sh.Source))
		}
	}
	for i, b := range raw[len(want)*size:] {
		if b != 0x5a {
			t.Fatalf("T=%d: byte %d behind the result was written", symbol, i)
		}
	}
}
