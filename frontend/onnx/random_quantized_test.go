package onnx_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
)

var (
	randomGraphs = flag.Int("graphs", 300, "TestRandomQuantized: how many random models to import")
	firstSeed    = flag.Uint64("seed", 1, "TestRandomQuantized: the seed of the first random model")
)

// qtype is a type of quantized integers in ONNX.
type qtype struct {
	name      string
	number    int64
	bits      int
	low, high int64
}

var qtypes = []qtype{{"uint8", 2, 8, 0, 255}, {"int8", 3, 8, -128, 127}, {"uint16", 4, 16, 0, 65535},
	{"int16", 5, 16, -32768, 32767}, {"uint4", 21, 4, 0, 15}, {"int4", 22, 4, -8, 7}}

// raw returns integers as the content of a tensor: two of 4 bits share a byte, the first in its low half.
func (q qtype) raw(list []int64) (content []byte) {
	for i, v := range list {
		switch {
		case q.bits == 16:
			content = append(content, byte(v), byte(v>>8))
		case q.bits == 8:
			content = append(content, byte(v))
		case i%2 == 0:
			content = append(content, byte(v&15))
		default:
			content[len(content)-1] |= byte(v&15) << 4
		}
	}
	return content
}

// random returns n integers, many of them at the ends of the range.
func (q qtype) random(r *rand.Rand, n int) (list []int64) {
	for range n {
		v := q.low + r.Int64N(q.high-q.low+1)
		if r.IntN(5) == 0 {
			v = []int64{q.low, q.high}[r.IntN(2)]
		}
		list = append(list, v)
	}
	return list
}

// data returns integers as a tensor of the types that inputs and results of models have.
func (q qtype) data(t *testing.T, list []int64, dims ...int) *ir.Data {
	to := map[string]ir.DType{"uint8": ir.U8, "int8": ir.I8, "uint16": ir.U16, "int16": ir.I16}[q.name]
	d, err := ir.FromInts(to, list, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// saturated rounds x to the nearest integer, halves to even ones, adds a zero point and saturates.
func (q qtype) saturated(x float64, zero int64) int64 {
	y := math.RoundToEven(x) + float64(zero)
	return int64(math.Max(float64(q.low), math.Min(float64(q.high), y)))
}

// qmodel is a random model with its inputs and the results that the specification defines.
type qmodel struct {
	*rand.Rand
	t                      *testing.T
	what                   string
	ports, constants, list []msg
	in                     map[string]*ir.Data
	want                   map[string][]float64
	slack                  map[string][]float64 // by which each element may be off
	opset                  int64
}

// give adds a tensor of integers: a constant or, if its type is an input's, often an input.
func (m *qmodel) give(name string, q qtype, list []int64, dims ...int64) {
	if q.bits >= 8 && m.IntN(2) == 0 {
		m.ports = append(m.ports, port(name, q.number, anyDims(dims)...))
		m.in[name] = q.data(m.t, list, intDims(dims)...)
		return
	}
	m.constants = append(m.constants, tensorOf(name, q.number, dims).bytes(9, q.raw(list)))
}

// giveFloats adds a tensor of floats, often as an input.
func (m *qmodel) giveFloats(name string, list []float64, dims ...int64) {
	if m.IntN(2) == 0 {
		m.ports = append(m.ports, port(name, float, anyDims(dims)...))
		m.in[name] = f32(m.t, list, intDims(dims)...)
		return
	}
	var values []float32
	for _, x := range list {
		values = append(values, float32(x))
	}
	m.constants = append(m.constants, floats(name, values, dims...))
}

func anyDims(dims []int64) (list []any) {
	for _, d := range dims {
		list = append(list, int(d))
	}
	return list
}

func intDims(dims []int64) (list []int) {
	for _, d := range dims {
		list = append(list, int(d))
	}
	return list
}

// scales returns n scales: mostly powers of two, so that all arithmetic is exact.
func (m *qmodel) scales(n int) (list []float64) {
	for range n {
		s := math.Ldexp(1, m.IntN(7)-5)
		if m.IntN(3) == 0 {
			s = float64(float32(0.01 + m.Float64()))
		}
		list = append(list, s)
	}
	return list
}

// expect adds a result. Where rounding decides between two integers, an element may be off by one.
func (m *qmodel) expect(name string, want []float64, slack []float64) {
	m.want[name], m.slack[name] = want, slack
}

// grid says which scale and zero point each element of a tensor has: all the same, one along an axis, or one for each
// block along it.
type grid struct {
	dims  []int64 // of the tensor
	axis  int
	block int64
	kind  int // 0: one, 1: along the axis, 2: in blocks
	own   []int64
}

// grid returns a random grid for a tensor.
func (m *qmodel) grid(dims []int64, blocks bool) grid {
	g := grid{dims: dims, axis: m.IntN(len(dims)), kind: m.IntN(2)}
	if blocks && m.IntN(2) == 0 {
		g.kind, g.block = 2, 1+m.Int64N(dims[g.axis])
		if d := dims[g.axis]; (d+g.block-1)/g.block == 1 && m.IntN(2) == 0 {
			g.block = max(1, d/2)
		}
		g.own = slices.Clone(dims)
		g.own[g.axis] = (dims[g.axis] + g.block - 1) / g.block
	}
	if g.kind == 1 {
		g.own = []int64{dims[g.axis]}
	}
	return g
}

// count returns the number of scales.
func (g grid) count() int { return product(g.own) }

func product(dims []int64) int {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	return n
}

// at returns the number of the scale of element i.
func (g grid) at(i int) int {
	coord := make([]int64, len(g.dims))
	for a := len(g.dims) - 1; a >= 0; a-- {
		coord[a], i = int64(i)%g.dims[a], i/int(g.dims[a])
	}
	switch g.kind {
	case 1:
		return int(coord[g.axis])
	case 2:
		coord[g.axis] /= g.block
		n := int64(0)
		for a, c := range coord {
			n = n*g.own[a] + c
		}
		return int(n)
	}
	return 0
}

// attributes returns the node's attributes axis and block_size.
func (g grid) attributes(r *rand.Rand) (list []msg) {
	axis := int64(g.axis)
	if r.IntN(3) == 0 {
		axis -= int64(len(g.dims))
	}
	list = append(list, intAttr("axis", axis))
	if g.kind == 2 {
		list = append(list, intAttr("block_size", g.block))
	}
	return list
}

// shape returns random dims.
func (m *qmodel) shape() (dims []int64) {
	for range 1 + m.IntN(4) {
		dims = append(dims, 1+m.Int64N(6))
	}
	return dims
}

// quantizeDequantize makes QuantizeLinear, and DequantizeLinear of its result.
func (m *qmodel) quantizeDequantize() {
	q := qtypes[m.IntN(len(qtypes))]
	dims := m.shape()
	g := m.grid(dims, true)
	scales, n := m.scales(g.count()), product(dims)
	var zeros []int64
	if m.IntN(4) > 0 || q.name != "uint8" {
		zeros = q.random(m.Rand, len(scales))
		if m.IntN(4) == 0 {
			zeros = make([]int64, len(scales))
		}
	}
	x, quantized, dequantized := make([]float64, n), make([]float64, n), make([]float64, n)
	slackQ, slackD := make([]float64, n), make([]float64, n)
	for i := range x {
		k := g.at(i)
		zero := int64(0)
		if zeros != nil {
			zero = zeros[k]
		}
		steps := float64(q.low-zero) - 3 + m.Float64()*float64(q.high-q.low+6)
		if m.IntN(3) == 0 {
			steps = math.Round(2*steps) / 2
		}
		x[i] = float64(float32(steps * scales[k]))
		exact := float64(float32(x[i]) / float32(scales[k]))
		y := q.saturated(exact, zero)
		quantized[i] = float64(y)
		dequantized[i] = float64(float32(y-zero) * float32(scales[k]))
		// A device may divide with an error of a few units.
		if isTie(exact) && math.Ldexp(math.Round(math.Log2(scales[k])), 0) != math.Log2(scales[k]) {
			slackQ[i], slackD[i] = 1, scales[k]
		}
		slackD[i] += math.Abs(dequantized[i]) * 0x1p-22
	}
	m.giveFloats("x", x, dims...)
	m.giveFloats("scale", scales, g.own...)
	ins := names("x", "scale")
	if zeros != nil {
		m.give("zero", q, zeros, g.own...)
		ins = append(ins, "zero")
	}
	attributes := g.attributes(m.Rand)
	m.list = append(m.list, node("QuantizeLinear", ins, names("q"), attributes...),
		node("DequantizeLinear", append(names("q"), ins[1:]...), names("d"), attributes...))
	m.what = fmt.Sprintf("QuantizeLinear to %s, grid %+v", q.name, g)
	if q.bits >= 8 {
		m.expect("q", quantized, slackQ)
	}
	m.expect("d", dequantized, slackD)
}

// isTie reports whether x is so close to the middle of two integers that rounding may go either way.
func isTie(x float64) bool { return math.Abs(x-math.Floor(x)-0.5) < 1e-5*(math.Abs(x)+1) }

// dequantize makes DequantizeLinear of constants or inputs.
func (m *qmodel) dequantize() {
	q := qtypes[m.IntN(len(qtypes))]
	dims := m.shape()
	g := m.grid(dims, true)
	scales, x := m.scales(g.count()), q.random(m.Rand, product(dims))
	zeros := make([]int64, len(scales))
	m.give("x", q, x, dims...)
	m.giveFloats("scale", scales, g.own...)
	ins := names("x", "scale")
	if m.IntN(3) > 0 {
		zeros = q.random(m.Rand, len(scales))
		m.give("zero", q, zeros, g.own...)
		ins = append(ins, "zero")
	}
	want, slack := make([]float64, len(x)), make([]float64, len(x))
	for i, v := range x {
		k := g.at(i)
		want[i] = float64(float32(v-zeros[k]) * float32(scales[k]))
		slack[i] = math.Abs(want[i]) * 0x1p-22
	}
	m.list = append(m.list, node("DequantizeLinear", ins, names("d"), g.attributes(m.Rand)...))
	m.what = fmt.Sprintf("DequantizeLinear of %s, grid %+v", q.name, g)
	m.expect("d", want, slack)
}

// dynamic makes DynamicQuantizeLinear.
func (m *qmodel) dynamic() {
	dims := m.shape()
	x := make([]float64, product(dims))
	low, high := float32(0), float32(0)
	offset := float64(m.IntN(3)-1) * 2
	for i := range x {
		x[i] = float64(float32(offset + 4*m.Float64() - 2))
		low, high = min(low, float32(x[i])), max(high, float32(x[i]))
	}
	scale := (high - low) / 255
	u8 := qtypes[0]
	zero := int64(math.Max(0, math.Min(255, math.RoundToEven(float64(-low/scale)))))
	want, slack := make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		exact := float64(float32(x[i]) / scale)
		want[i] = float64(u8.saturated(exact, zero))
		if isTie(exact) {
			slack[i] = 1
		}
		if isTie(float64(-low / scale)) {
			slack[i]++
		}
	}
	m.giveFloats("x", x, dims...)
	m.list = append(m.list, node("DynamicQuantizeLinear", names("x"), names("y", "scale", "zero")))
	m.what = "DynamicQuantizeLinear"
	m.expect("y", want, slack)
	m.expect("scale", []float64{float64(scale)}, []float64{float64(scale) * 0x1p-22})
	m.expect("zero", []float64{float64(zero)}, []float64{0})
	if isTie(float64(-low / scale)) {
		m.slack["zero"][0] = 1
	}
}

// byteType returns uint8 or int8.
func (m *qmodel) byteType() qtype { return qtypes[m.IntN(2)] }

// matMul makes QLinearMatMul or MatMulInteger, of matrices or of stacks of them.
func (m *qmodel) matMul() {
	a, b, y := m.byteType(), m.byteType(), m.byteType()
	rows, inner, cols := 1+m.Int64N(5), 1+m.Int64N(70), 1+m.Int64N(5)
	batch := 1
	aDims, bDims := []int64{rows, inner}, []int64{inner, cols}
	if m.IntN(3) == 0 {
		batch = 1 + m.IntN(3)
		aDims = append([]int64{int64(batch)}, aDims...)
	}
	x, w := a.random(m.Rand, batch*int(rows*inner)), b.random(m.Rand, int(inner*cols))
	integer := m.IntN(2) == 0
	// Zero points per row are a vector if a is a matrix, and a column for each matrix of a stack.
	perRow, perColumn := m.IntN(3) == 0, m.IntN(2) == 0
	az, bz := a.random(m.Rand, 1), b.random(m.Rand, 1)
	var azDims, bzDims []int64
	if perRow {
		az, azDims = a.random(m.Rand, batch*int(rows)), []int64{rows}
		if len(aDims) == 3 {
			azDims = []int64{int64(batch), rows, 1}
		}
	}
	if perColumn {
		bz, bzDims = b.random(m.Rand, int(cols)), []int64{cols}
	}
	as, bs, ys := m.scales(len(az)), m.scales(len(bz)), m.scales(1)[0]
	ys *= float64(inner) * 16
	ys = math.Ldexp(1, int(math.Round(math.Log2(ys))))
	yz := y.random(m.Rand, 1)
	want, slack := []float64{}, []float64{}
	for i := range batch * int(rows) {
		for j := range int(cols) {
			sum := int64(0)
			zeroA, zeroB := az[i%len(az)], bz[j%len(bz)]
			for k := range int(inner) {
				sum += (x[i*int(inner)+k] - zeroA) * (w[k*int(cols)+j] - zeroB)
			}
			if integer {
				want, slack = append(want, float64(sum)), append(slack, 0)
				continue
			}
			exact := float64(sum) * as[i%len(as)] * bs[j%len(bs)] / ys
			want = append(want, float64(y.saturated(exact, yz[0])))
			off := 0.0
			if isTie(exact) {
				off = 1
			}
			slack = append(slack, off)
		}
	}
	m.give("a", a, x, aDims...)
	m.give("b", b, w, bDims...)
	m.give("az", a, az, azDims...)
	m.give("bz", b, bz, bzDims...)
	m.what = fmt.Sprintf("matmul of %s %v by %s %v, zero points %v %v", a.name, aDims, b.name, bDims, azDims, bzDims)
	if integer {
		m.list = append(m.list, node("MatMulInteger", names("a", "b", "az", "bz"), names("y")))
	} else {
		m.giveFloats("as", as, azDims...)
		m.giveFloats("bs", bs, bzDims...)
		m.giveFloats("ys", []float64{ys})
		m.give("yz", y, yz)
		m.list = append(m.list, node("QLinearMatMul", names("a", "as", "az", "b", "bs", "bz", "ys", "yz"), names("y")))
	}
	m.expect("y", want, slack)
}

// conv makes QLinearConv or ConvInteger.
func (m *qmodel) conv() {
	xt, wt, yt := m.byteType(), m.byteType(), m.byteType()
	groups := 1 + m.IntN(2)
	c := byteConv{channels: groups * (1 + m.IntN(3)), outs: groups * (1 + m.IntN(3)), groups: groups,
		side: 3 + m.IntN(5), window: 1 + m.IntN(3), stride: 1 + m.IntN(2), low: m.IntN(2), high: m.IntN(2), dilation: 1}
	if c.dilation = 1 + m.IntN(2); c.dilation*(c.window-1)+1 > c.side {
		c.dilation = 1
	}
	integer := m.IntN(2) == 0
	batch := 1 + m.IntN(2)
	image := c.channels * c.side * c.side
	x, w := xt.random(m.Rand, batch*image), wt.random(m.Rand, c.outs*c.channels/groups*c.window*c.window)
	xz, wz := xt.random(m.Rand, 1), wt.random(m.Rand, 1)
	var wzDims []int64
	if m.IntN(2) == 0 {
		wz, wzDims = wt.random(m.Rand, c.outs), []int64{int64(c.outs)}
	}
	c.xz, c.wz = xz[0], wz
	xs, ws := m.scales(1)[0], m.scales(len(wz))
	terms := float64(c.channels / groups * c.window * c.window)
	ys := math.Ldexp(1, int(math.Round(math.Log2(xs*128*math.Sqrt(terms)))))
	yz := yt.random(m.Rand, 1)
	var bias []int64
	if !integer && m.IntN(2) == 0 {
		for range c.outs {
			bias = append(bias, m.Int64N(20000)-10000)
		}
	}
	want, slack := []float64{}, []float64{}
	for i := range batch {
		area := c.outSide() * c.outSide()
		for j, sum := range c.sums(x[i*image:(i+1)*image], w) {
			o := j / area
			if integer {
				want, slack = append(want, float64(sum)), append(slack, 0)
				continue
			}
			if bias != nil {
				sum += bias[o]
			}
			exact := float64(sum) * xs * ws[o%len(ws)] / ys
			if len(ws) == 1 {
				exact = float64(sum) * xs * ws[0] / ys
			}
			want = append(want, float64(yt.saturated(exact, yz[0])))
			off := 0.0
			if isTie(exact) {
				off = 1
			}
			slack = append(slack, off)
		}
	}
	side := int64(c.side)
	m.give("x", xt, x, int64(batch), int64(c.channels), side, side)
	m.give("w", wt, w, int64(c.outs), int64(c.channels/groups), int64(c.window), int64(c.window))
	m.give("xz", xt, xz)
	m.give("wz", wt, wz, wzDims...)
	m.what = fmt.Sprintf("convolution %+v of %s by %s", c, xt.name, wt.name)
	if integer {
		m.list = append(m.list, node("ConvInteger", names("x", "w", "xz", "wz"), names("y"), c.attributes()...))
	} else {
		m.giveFloats("xs", []float64{xs})
		m.giveFloats("ws", ws, wzDims...)
		m.giveFloats("ys", []float64{ys})
		m.give("yz", yt, yz)
		ins := names("x", "xs", "xz", "w", "ws", "wz", "ys", "yz")
		if bias != nil {
			var content []byte
			for _, v := range bias {
				content = append(content, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
			}
			m.constants = append(m.constants, tensorOf("bias", 6, []int64{int64(c.outs)}).bytes(9, content))
			ins = append(ins, "bias")
		}
		m.list = append(m.list, node("QLinearConv", ins, names("y"), c.attributes()...))
	}
	m.expect("y", want, slack)
}

// TestRandomQuantized imports random models with quantized ops, and compares their results with definitions of the ops
// that are written from the specification. It runs each on the reference and on the CPU fast path.
//
//	go test ./frontend/onnx -run TestRandomQuantized -graphs 100000 -timeout 0
func TestRandomQuantized(t *testing.T) {
	for i := range uint64(*randomGraphs) {
		seed := *firstSeed + i
		m := &qmodel{Rand: rand.New(rand.NewPCG(seed, 0x716d)), t: t, in: map[string]*ir.Data{},
			want: map[string][]float64{}, slack: map[string][]float64{}, opset: 21}
		kinds := []func(*qmodel){(*qmodel).quantizeDequantize, (*qmodel).dequantize, (*qmodel).dynamic,
			(*qmodel).matMul, (*qmodel).conv, (*qmodel).nbits, (*qmodel).sums}
		kinds[m.IntN(len(kinds))](m)
		if err := m.check(); err != nil {
			t.Errorf("seed %d, %s: %v", seed, m.what, err)
		}
	}
}

// check imports the model, runs it, and compares its results.
func (m *qmodel) check() error {
	var results []string
	for name := range m.want {
		results = append(results, name)
	}
	slices.Sort(results)
	content := model(m.opset, graph(inputs(m.ports...), weights(m.constants...), nodes(m.list...), outputs(results...)))
	f, err := onnx.NewReader(content, onnx.Options{})
	if err != nil {
		return err
	}
	var first map[string]*ir.Data
	for _, reference := range []bool{true, false} {
		exe, err := cpu.Load(f.Graph, f, cpu.Options{Reference: reference, Workers: 1})
		if err != nil {
			return err
		}
		r, err := exe.Run(context.Background(), m.in, runtime.RunOptions{})
		if err != nil {
			return err
		}
		for _, name := range results {
			list, err := r.Outputs[name].Floats()
			if err != nil {
				ints, errInts := r.Outputs[name].Ints()
				if errInts != nil {
					return err
				}
				for _, v := range ints {
					list = append(list, float64(v))
				}
			}
			if len(list) != len(m.want[name]) {
				return fmt.Errorf("%s has %d elements, want %d", name, len(list), len(m.want[name]))
			}
			for i, have := range list {
				if !(math.Abs(have-m.want[name][i]) <= m.slack[name][i]) {
					return fmt.Errorf("%s[%d] of %v is %v, want %v ± %v (reference: %t)", name, i, r.Outputs[name],
						have, m.want[name][i], m.slack[name][i], reference)
				}
			}
			integers := !r.Outputs[name].DType.IsFloat()
			if first != nil && integers && !bytes.Equal(first[name].Bytes, r.Outputs[name].Bytes) {
				err := interp.Compare(r.Outputs[name], first[name], ir.Tolerance{}).Err()
				if err != nil && allZero(m.slack[name]) {
					return err
				}
			}
		}
		first = r.Outputs
		if err := exe.Close(); err != nil {
			return err
		}
	}
	return nil
}

func allZero(list []float64) bool {
	return !slices.ContainsFunc(list, func(x float64) bool { return x != 0 })
}

// msDomain is the domain of ops of ONNX Runtime.
const msDomain = "com.microsoft"

// nbits makes MatMulNBits: rows of floats by a matrix with blocks of integers of 2, 4 or 8 bits along its inner axis.
func (m *qmodel) nbits() {
	bits := int64([]int{2, 4, 8}[m.IntN(3)])
	block := int64(16) << m.IntN(3)
	rows, cols, inner := 1+m.Int64N(5), 1+m.Int64N(40), 1+m.Int64N(150)
	if m.IntN(2) == 0 {
		inner = block * (1 + m.Int64N(3))
	}
	blocks, each := (inner+block-1)/block, block*bits/8
	codes := make([]byte, cols*blocks*each)
	for i := range codes {
		codes[i] = byte(m.IntN(256))
	}
	code := func(list []byte, start, i int64) int64 {
		return int64(list[start+i*bits/8]>>(i*bits%8)) & (1<<bits - 1)
	}
	scales, x := m.scales(int(cols*blocks)), make([]float64, rows*inner)
	zeroBytes := (blocks*bits + 7) / 8 // of a column
	var zeros []byte
	if m.IntN(2) == 0 {
		zeros = make([]byte, cols*zeroBytes)
		for i := range zeros {
			zeros[i] = byte(m.IntN(256))
		}
	}
	for i := range x {
		x[i] = float64(m.IntN(17)-8) / 8
	}
	want, slack := []float64{}, []float64{}
	for i := range rows {
		for j := range cols {
			sum, size := 0.0, 0.0
			for k := range inner {
				b := k / block
				zero := int64(1) << (bits - 1)
				if zeros != nil {
					zero = code(zeros, j*zeroBytes, b)
				}
				term := x[i*inner+k] * float64(code(codes, (j*blocks+b)*each, k%block)-zero) * scales[j*blocks+b]
				sum, size = sum+term, size+math.Abs(term)
			}
			want, slack = append(want, sum), append(slack, size*1e-5)
		}
	}
	m.ports = append(m.ports, port("x", float, int(rows), int(inner)))
	m.in["x"] = f32(m.t, x, int(rows), int(inner))
	var values []float32
	for _, s := range scales {
		values = append(values, float32(s))
	}
	m.constants = append(m.constants, bytesOf("w", 2, codes, cols, blocks, each), floats("scales", values, cols*blocks))
	ins := names("x", "w", "scales")
	if zeros != nil {
		m.constants = append(m.constants, bytesOf("zeros", 2, zeros, cols*zeroBytes))
		ins = append(ins, "zeros")
	}
	m.list = append(m.list, of(msDomain, node("MatMulNBits", ins, names("y"), intAttr("K", inner), intAttr("N", cols),
		intAttr("bits", bits), intAttr("block_size", block))))
	m.what = fmt.Sprintf("MatMulNBits of %d bits, blocks of %d, %d by %d by %d, zero points: %t", bits, block, rows,
		inner, cols, zeros != nil)
	m.expect("y", want, slack)
}

// sums makes QLinearAdd, QLinearMul or QLinearConcat.
func (m *qmodel) sums() {
	q := m.byteType()
	dims := m.shape()
	n := product(dims)
	a, b := q.random(m.Rand, n), q.random(m.Rand, n)
	az, bz, yz := q.random(m.Rand, 1), q.random(m.Rand, 1), q.random(m.Rand, 1)
	as, bs, ys := m.scales(1), m.scales(1), m.scales(1)
	m.give("a", q, a, dims...)
	m.give("b", q, b, dims...)
	for name, list := range map[string][]int64{"az": az, "bz": bz, "yz": yz} {
		m.constants = append(m.constants, tensorOf(name, q.number, nil).bytes(9, q.raw(list)))
	}
	for name, list := range map[string][]float64{"as": as, "bs": bs, "ys": ys} {
		m.constants = append(m.constants, floats(name, []float32{float32(list[0])}))
	}
	x, y := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = float64(a[i]-az[0])*as[0], float64(b[i]-bz[0])*bs[0]
	}
	want, slack := []float64{}, []float64{}
	add := func(exact float64) {
		off := 0.0
		if isTie(exact) {
			off = 1
		}
		want, slack = append(want, float64(q.saturated(exact, yz[0]))), append(slack, off)
	}
	op := []string{"QLinearAdd", "QLinearMul", "QLinearConcat"}[m.IntN(3)]
	ins := names("a", "as", "az", "b", "bs", "bz", "ys", "yz")
	var attributes []msg
	switch op {
	case "QLinearAdd":
		for i := range n {
			add((x[i] + y[i]) / ys[0])
		}
	case "QLinearMul":
		for i := range n {
			add(x[i] * y[i] / ys[0])
		}
	default:
		ins = names("ys", "yz", "a", "as", "az", "b", "bs", "bz")
		axis := m.IntN(len(dims))
		attributes = append(attributes, intAttr("axis", int64(axis)))
		inner := product(dims[axis:])
		for i := 0; i < n; i += inner {
			for _, list := range [][]float64{x, y} {
				for _, v := range list[i : i+inner] {
					add(v / ys[0])
				}
			}
		}
	}
	m.list = append(m.list, of(msDomain, node(op, ins, names("y"), attributes...)))
	m.what = fmt.Sprintf("%s of %s%v", op, q.name, dims)
	m.expect("y", want, slack)
}
