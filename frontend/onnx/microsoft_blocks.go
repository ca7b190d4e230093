package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// microsoftBlockOps are ONNX Runtime's ops with weights of a few bits, in blocks that share a scale.
var microsoftBlockOps = table{
	"MatMulNBits": controlOp(func(c *call) []*value { return one(matmulNBits(c)) }).
		leaves("accuracy_level", "it sets a minimum precision for sums, and vkc sums in f32").
		leaves("weight_prepacked", "vkc reads no weights in the layout of a GPU, and these have another dtype or "+
			"shape"),
	"MatMulNBitsMlp": controlOp(func(c *call) []*value { return matmulNBitsMLP(c) }).
		leaves("accuracy_level", "it sets a minimum precision for sums, and vkc sums in f32"),
	"MatMulNBitsQkv": controlOp(func(c *call) []*value { return matmulNBitsQKV(c) }).
		leaves("accuracy_level", "it sets a minimum precision for sums, and vkc sums in f32"),
	"MatMulBnb4": controlOp(func(c *call) []*value { return one(matmulBnb4(c)) }).leaves("training_mode", ""+
		"it affects only training"),
	"GatherBlockQuantized": controlOp(func(c *call) []*value { return one(gatherBlockQuantized(c)) }),
	"MoE":                  tensorOp(func(c *call) tensor { return c.mixture(moeWeights(c)) }),
	"QMoE": controlOp(func(c *call) []*value { return one(c.mixture(qmoeWeights(c))) }).
		leaves("accuracy_level", "it sets a minimum precision for sums, and vkc sums in f32"),
}

// blocked is a matrix [rows, columns] of unsigned numbers with a few bits, in blocks along its rows. A block has a
// scale and a zero point: element = (number - zero) * scale.
type blocked struct {
	c *call
	// Numbers of the node's inputs: the matrix as bytes, with the first number in the lowest bits; the scales [rows,
	// blocks]; and the zero points, or -1 if the op has no such input.
	packed, scales, zeros int
	bits                  int // of a number
	rows, columns         int
	block                 int // elements of a block
	// order, if set, lists the columns in the order of the blocks: element i of a row's blocks is column order[i]. It
	// includes the unused columns at the end of the last block.
	order []int
}

// blocks returns the number of blocks of a row.
func (b *blocked) blocks() int { return (b.columns + b.block - 1) / b.block }

// checkBits fails unless a byte holds a whole number of values with the given number of bits.
func (c *call) checkBits(bits int) {
	if bits != 2 && bits != 4 && bits != 8 {
		c.fail("attribute bits is %d: want 2, 4 or 8", bits)
	}
}

// check fails if the sizes, the packed matrix and the scales do not fit each other.
func (b *blocked) check() {
	b.c.checkBits(b.bits)
	// A block must fill whole bytes.
	if b.rows < 1 || b.columns < 1 || b.block < 8/b.bits || b.block*b.bits%8 != 0 {
		b.c.fail("a matrix of %d rows and %d columns in blocks of %d", b.rows, b.columns, b.block)
	}
	blocks := int64(b.rows) * int64(b.blocks()) // of the whole matrix
	for _, operand := range []struct {
		what  string
		input int
		want  int64
	}{{"packed weights", b.packed, blocks * int64(b.block*b.bits/8)}, {"scales", b.scales, blocks}} {
		n, err := b.c.shapeOf(b.c.input(operand.input)).Numel()
		if err != nil || !n.Is(int(operand.want)) {
			b.c.fail("the %s, input %d, have %s elements: want %d", operand.what, operand.input, n,
				operand.want)
		}
	}
}

// hasZeros reports whether there are zero points.
func (b *blocked) hasZeros() bool { return b.zeros >= 0 && b.c.has(b.zeros) }

// unpacked returns the numbers of `bits` bits in a u8 tensor, [..., bytes], as [..., bytes*8/bits]. The first number is
// in the lowest bits.
func unpacked(x tensor, bits int) tensor {
	if bits == 8 {
		return x
	}
	mask := x.Lit(float64(int(1)<<bits - 1))
	parts := make([]tensor, 8/bits)
	for i := range parts {
		parts[i] = x.Shr(x.Lit(float64(i * bits))).And(mask)
	}
	s := x.Shape()
	return stacked(parts, x.Rank()).Reshape(s[:len(s)-1], -1)
}

// unpackedData is unpacked for a constant: it returns the numbers of `bits` bits in packed, as a byte each.
func unpackedData(packed []byte, bits int) []byte {
	if bits == 8 {
		return packed
	}
	per, mask := 8/bits, byte(1<<bits-1)
	out := make([]byte, len(packed)*per)
	for i := range out {
		out[i] = packed[i/per] >> (i % per * bits) & mask
	}
	return out
}

// matrix returns the matrix in a block format of vkc, if a format represents the same numbers, and otherwise in dtype
// t.
func (b *blocked) matrix(t ir.DType) tensor {
	b.check()
	if v := b.format(); v != nil {
		return b.c.asTensor(v)
	}
	blocks := b.blocks()
	numbers := b.numbers().Reshape(b.rows, blocks, b.block).Cast(ir.F32)
	scale := castTo(b.c.x(b.scales), ir.F32).Reshape(b.rows, blocks, 1)
	w := numbers.Sub(b.zeroPoints()).Mul(scale).Reshape(b.rows, blocks*b.block)
	if blocks*b.block != b.columns {
		w = w.Slice(1, 0, b.columns) // the last block may be longer than the matrix
	}
	return castTo(w, t)
}

// usualZero returns the zero point of a matrix without an input of zero points: 8 for 4 bits.
func (b *blocked) usualZero() float64 { return float64(int(1) << (b.bits - 1)) }

// zeroPoints returns the zero points as f32, one for all blocks or [rows, blocks, 1].
func (b *blocked) zeroPoints() tensor {
	if !b.hasZeros() {
		return b.c.b.Scalar(ir.F32, b.usualZero())
	}
	zero, blocks := b.c.x(b.zeros), b.blocks()
	if zero.DType() == ir.U8 { // packed like the matrix
		if list := unpacked(zero.Reshape(-1), b.bits); list.Dim(0).Is(b.rows * blocks) {
			zero = list
		} else { // the last byte of each row has unused bits
			zero = unpacked(zero.Reshape(b.rows, -1), b.bits).Slice(1, 0, blocks)
		}
	}
	return castTo(zero, ir.F32).Reshape(b.rows, blocks, 1)
}

// numbers returns the numbers of the matrix as u8, [rows, columns in the order of the blocks]. The columns include the
// unused ones at the end of the last block.
func (b *blocked) numbers() tensor {
	if bytes := b.constantNumbers(); bytes != nil {
		whole := &ir.Data{DType: ir.U8, Dims: []int{b.rows, b.blocks() * b.block}, Bytes: bytes}
		return b.c.asTensor(&value{name: b.c.in[b.packed].name, data: whole})
	}
	return b.ordered(unpacked(b.c.x(b.packed).Reshape(b.rows, -1), b.bits))
}

// constantNumbers is numbers for a constant matrix, a byte for each number. It returns nil if the matrix is no
// constant.
func (b *blocked) constantNumbers() []byte {
	d := constant(b.c.input(b.packed))
	if d == nil || d.DType != ir.U8 {
		return nil
	}
	numbers := unpackedData(d.Bytes, b.bits)
	if b.order == nil {
		return numbers
	}
	out := make([]byte, 0, len(numbers))
	for row := range slices.Chunk(numbers, len(b.order)) {
		for _, column := range b.order {
			out = append(out, row[column])
		}
	}
	return out
}

// ordered returns x with its last axis, the columns of the matrix, in the order of the blocks.
func (b *blocked) ordered(x tensor) tensor {
	if b.order == nil {
		return x
	}
	var at []int64
	for _, column := range b.order {
		if int64(column) < x.Dim(-1).Min() { // x may lack the unused columns
			at = append(at, int64(column))
		}
	}
	d, err := ir.FromInts(ir.I32, at, len(at))
	if err != nil {
		panic(nodeError{err})
	}
	return x.IndexSelect(-1, b.c.asTensor(&value{name: b.c.in[b.packed].name + ".order", data: d}))
}

// readOrder sets the order of columns from input g_idx, which has the block of each column. Columns of a block need not
// be neighbors, because GPTQ quantizes the columns with large activations first ("act-order", Frantar et al. 2022,
// arXiv:2210.17323).
func (b *blocked) readOrder(input int) {
	groups := b.c.ints(input)
	if len(groups) < b.columns {
		b.c.fail("input %d, %s (g_idx), has %d elements for %d columns", input, ir.Printable(b.c.in[input].name),
			len(groups), b.columns)
	}
	order := axesFrom(0, b.blocks()*b.block) // 0, 1, 2 and so on; unused columns stay at the end
	slices.SortStableFunc(order[:b.columns], func(i, j int) int { return groups[i] - groups[j] })
	for i, column := range order[:b.columns] {
		if groups[column] != i/b.block {
			b.c.fail("input %d, %s (g_idx), gives block %d not %d columns: want blocks of block_size columns, "+
				"numbered from 0", input, ir.Printable(b.c.in[input].name), i/b.block, b.block)
		}
	}
	if !slices.IsSorted(order) {
		b.order = order
	}
}

// format returns the matrix in a block format of vkc: q8_0, q4_0 or q4_1, which have 32 elements and an f16 scale per
// block. It returns nil if no format represents the same numbers, or if the inputs are not constants.
func (b *blocked) format() *value {
	const elems = 32
	d, s := constant(b.c.input(b.packed)), constant(b.c.input(b.scales))
	if d == nil || s == nil || d.DType != ir.U8 || b.columns%elems != 0 || b.block%elems != 0 || b.bits == 2 {
		return nil
	}
	scales, err := s.Floats()
	zeros, ok := b.constantZeros()
	if err != nil || !ok {
		return nil
	}
	t := ir.Q8_0
	switch {
	case zeros != nil:
		t = ir.Q4_1
	case b.bits == 4:
		t = ir.Q4_0
	}
	numbers := b.constantNumbers()
	var out []byte
	for row := range b.rows {
		for at := 0; at < b.columns; at += elems {
			i := row*b.blocks() + at/b.block
			head := []float64{scales[i]}
			if zeros != nil {
				head = append(head, -scales[i]*zeros[i]) // the block's minimum
			}
			if out, ok = appendHalves(out, head); !ok {
				return nil
			}
			out = appendBlock(out, numbers[row*b.blocks()*b.block+at:][:elems], b.bits)
		}
	}
	name := b.c.in[b.packed].name
	return &value{name: name, data: &ir.Data{DType: t, Dims: []int{b.rows, b.columns}, Bytes: out}}
}

// appendBlock appends the numbers of a block as q8_0 (8 bits) or q4_0 and q4_1 (4 bits) store them.
func appendBlock(out, numbers []byte, bits int) []byte {
	if bits == 8 {
		for _, v := range numbers { // unsigned around 128 in ONNX, and signed in q8_0
			out = append(out, v^128)
		}
		return out
	}
	half := len(numbers) / 2
	for k, low := range numbers[:half] { // a byte has elements k and k+half
		out = append(out, low|numbers[k+half]<<4)
	}
	return out
}

// constantZeros returns the zero points of the blocks, or nil if all are usualZero. ok is false if they are not
// constants, or if vkc has no format with zero points for this number of bits.
func (b *blocked) constantZeros() (zeros []float64, ok bool) {
	if !b.hasZeros() {
		return nil, true
	}
	z := constant(b.c.in[b.zeros])
	if z == nil || b.bits == 8 {
		return nil, false
	}
	if z.DType == ir.U8 {
		z = &ir.Data{DType: ir.U8, Dims: []int{len(z.Bytes) * 8 / b.bits}, Bytes: unpackedData(z.Bytes, b.bits)}
	}
	values, err := z.Floats()
	pitch, blocks := len(values)/b.rows, b.blocks() // a row's zero points may be padded
	if err != nil || len(values)%b.rows != 0 || pitch < blocks {
		return nil, false
	}
	for row := range b.rows {
		zeros = append(zeros, values[row*pitch:][:blocks]...)
	}
	if !slices.ContainsFunc(zeros, func(zero float64) bool { return zero != b.usualZero() }) {
		return nil, true
	}
	return zeros, true
}

// appendHalves appends values as f16. exact is false if rounding to f16 changed a value.
func appendHalves(out []byte, values []float64) (appended []byte, exact bool) {
	raw, back := make([]byte, 2*len(values)), make([]float64, len(values))
	ir.EncodeFloats(raw, ir.F16, values)
	ir.DecodeFloats(back, ir.F16, raw)
	return append(out, raw...), slices.Equal(values, back)
}

// times returns x times the transposed matrix, plus input number `bias`, if the node has it. -1 stands for no bias.
func (b *blocked) times(x tensor, bias int) tensor {
	y := b.ordered(x).MatMulT(b.matrix(x.DType()))
	if bias >= 0 && b.c.has(bias) {
		y = y.Add(b.c.x(bias))
	}
	return y
}

// matmulNBits builds MatMulNBits: a matmul by a matrix of few bits per element. Inputs 1 to 3 are the matrix, its
// scales and its zero points, 4 is the block of each column, and 5 a bias.
func matmulNBits(c *call) tensor {
	if n := c.inspector().intAttr("weight_prepacked", 0); n != 0 {
		c.fail("attribute weight_prepacked is %d: vkc reads no weights in the layout of a GPU", n)
	}
	b := &blocked{c: c, packed: 1, scales: 2, zeros: 3, bits: c.intAttr("bits", 4), rows: c.mustInt("N"),
		columns: c.mustInt("K"), block: c.mustInt("block_size")}
	b.check()
	if c.has(4) {
		b.readOrder(4)
	}
	return b.times(c.x(0), 5)
}

// nbits returns one of several matrices of an op. Input number `packed` has its bytes, and the next input its scales.
func (c *call) nbits(packed, rows int) *blocked {
	return &blocked{c: c, packed: packed, scales: packed + 1, zeros: -1, bits: c.intAttr("bits", 4), rows: rows,
		columns: c.mustInt("K"), block: c.mustInt("block_size")}
}

// normalizedSkip returns the sum of inputs 0 and 1 (a residual connection), and x, the RMS norm of the sum with the
// weights of input 2. Without input 1, sum is input 0. Without input 2, x is sum.
func (c *call) normalizedSkip() (x, sum tensor) {
	sum = c.x(0)
	if c.has(1) {
		sum = sum.Add(c.x(1))
	}
	x = sum
	if eps := c.floatAttr("epsilon", 1e-5); c.has(2) {
		x = x.RMSNorm(c.x(2), eps)
	}
	return x, sum
}

// matmulNBitsMLP builds MatMulNBitsMlp: the activation of one matmul times the result of another matmul.
func matmulNBitsMLP(c *call) []*value {
	x, sum := c.normalizedSkip()
	n := c.mustInt("N")
	gate, up := c.nbits(3, n).times(x, 5), c.nbits(6, n).times(x, 8)
	c.must("activation", AttrString)
	y := c.activated(gate, func(_ int, otherwise float64) float64 { return otherwise }).Mul(up)
	return several(y, sum)
}

// matmulNBitsQKV builds MatMulNBitsQkv: three matmuls of a norm.
func matmulNBitsQKV(c *call) []*value {
	x, sum := c.normalizedSkip()
	q, kv := c.mustInt("Nq"), c.mustInt("Nkv")
	return several(c.nbits(3, q).times(x, 5), c.nbits(6, kv).times(x, 8), c.nbits(9, kv).times(x, 11), sum)
}

// bnb4 has the values of the 16 numbers of 4 bits in the two types of bitsandbytes: fp4, and nf4 (Dettmers et al. 2023,
// arXiv:2305.14314).
var bnb4 = [2][16]float32{
	{0, 0.00520833333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25,
		0, -0.00520833333, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25},
	{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1},
}

// matmulBnb4 builds MatMulBnb4. The elements of the matrix, row after row, are in blocks that share a scale. The upper
// half of a byte has its first number.
func matmulBnb4(c *call) tensor {
	x, n, k, block := c.x(0), c.mustInt("N"), c.mustInt("K"), c.mustInt("block_size")
	kind := c.mustInt("quant_type")
	if kind < 0 || kind > 1 || n < 1 || k < 1 || block < 2 || block%2 != 0 {
		c.fail("attributes quant_type %d, N %d, K %d and block_size %d", kind, n, k, block)
	}
	all := int64(n) * int64(k)
	packed := c.x(1)
	if e, err := packed.Shape().Numel(); err != nil || !e.Is(int((all+1)/2)) {
		c.fail("the packed weights are %s: want %d bytes", packed, (all+1)/2)
	}
	packed = packed.Reshape(-1)
	numbers := packed.Shr(packed.Lit(4)).Stack(1, packed.And(packed.Lit(15))).Reshape(-1).Slice(0, 0, int(all))
	values := c.b.Const(bnb4[kind][:], 16).IndexSelect(0, numbers.Cast(ir.I32))
	scale := castTo(c.x(2), ir.F32).Reshape(-1, 1)
	scale = scale.Broadcast(scale.Dim(0), block).Reshape(-1).Slice(0, 0, int(all))
	w := castTo(values.Mul(scale).Reshape(n, k), x.DType())
	if c.flag("transB", true) {
		return x.MatMulT(w)
	}
	return matmul(x, w)
}

// gatherBlockQuantized builds GatherBlockQuantized: it selects slices along gather_axis from a tensor with blocks along
// quantize_axis. An index out of range gives zeros.
func gatherBlockQuantized(c *call) tensor {
	data, at, scales, zeros := c.x(0), castTo(c.x(1), ir.I32), c.x(2), c.optional(3)
	t := scales.DType()
	bits := 0 // of the numbers in a byte of data; 0 if data has a dtype of few bits
	if data.DType() == ir.U8 {
		bits = c.intAttr("bits", 4)
		c.checkBits(bits)
	}
	axis := c.axis(c.intAttr("gather_axis", 0), data.Rank())
	along := c.axis(c.intAttr("quantize_axis", 1), data.Rank())
	n := data.Dim(axis)
	if !n.IsStatic() || axis == along && bits != 0 {
		c.fail("gather_axis is %d and quantize_axis %d, for %s", axis, along, data)
	}
	// An index may count from the end.
	at = at.Lt(at.Lit(0)).Where(at.AddScalar(float64(n.Static())), at)
	inside := at.Ge(at.Lit(0)).And(at.Lt(at.Lit(float64(n.Static()))))
	take := func(x tensor) tensor { // the slices of x, which may have extent 1 along the axis
		s := x.Shape()
		if x.Dim(axis).Is(1) && !n.Is(1) {
			x = x.Broadcast(s[:axis], n, s[axis+1:])
		}
		return x.IndexSelect(axis, at.Reshape(-1)).Reshape(slices.Concat(s[:axis], at.Shape(), s[axis+1:]))
	}
	if axis != along { // dequantize only the slices
		data, scales = take(data), take(scales)
		if !zeros.IsZero() {
			zeros = take(zeros)
		}
		if axis < along {
			along += at.Rank() - 1
		}
	}
	y := c.dequantizedBlocks(data, scales, zeros, along, bits)
	if axis == along {
		y = take(y)
	}
	for range y.Rank() - at.Rank() - axis { // to broadcast against the axes after the indices
		inside = inside.Unsqueeze(inside.Rank())
	}
	return castTo(inside.Where(y, y.Lit(0)), t)
}

// dequantizedBlocks returns data as f32: number minus zero point, times scale. Blocks of data along axis `along` share
// a scale and a zero point. bits is the number of bits of a number in a byte, or 0 if data has a dtype of few bits.
// zeros may be the zero Tensor.
func (c *call) dequantizedBlocks(data, scales, zeros tensor, along, bits int) tensor {
	numbers := func(x tensor) tensor {
		if bits != 0 {
			x = unpacked(x, bits)
		}
		return castTo(x, ir.F32)
	}
	y, block := numbers(data), c.intAttr("block_size", 128)
	n := y.Dim(along)
	if block == 0 { // one block along the axis
		block = int(n.Max())
	}
	blocks := 0
	if n.IsStatic() && block > 0 {
		blocks = (n.Static() + block - 1) / block
	}
	if !scales.Dim(along).Is(blocks) {
		c.fail("scales %s for %s in blocks of %d along axis %d: want %d", scales, y, block, along, blocks)
	}
	scales = c.alongAxis(castTo(scales, ir.F32), y, along, block)
	switch {
	case !zeros.IsZero():
		y = y.Sub(c.alongAxis(numbers(zeros).Slice(along, 0, blocks), y, along, block))
	case bits != 0:
		y = y.SubScalar(float64(int(1) << (bits - 1))) // the default zero point
	}
	return y.Mul(scales)
}

// experts are the matrices of a mixture of experts, [experts, outputs, inputs], and their biases. The zero Tensor
// stands for the inputs that a node lacks.
type experts struct {
	first, second, third             tensor
	firstBias, secondBias, thirdBias tensor
	// weights, if set, are the weights of the experts' results. Then input 1 only selects the experts.
	weights tensor
}

// optional returns input i, or the zero Tensor.
func (c *call) optional(i int) tensor {
	if !c.has(i) {
		return tensor{}
	}
	return c.x(i)
}

func moeWeights(c *call) experts {
	return experts{first: c.x(2), firstBias: c.optional(3), second: c.x(4), secondBias: c.optional(5),
		third: c.optional(6), thirdBias: c.optional(7)}
}

// qmoeWeights dequantizes the experts of QMoE, which have blocks along their inputs, or a scale for each output.
func qmoeWeights(c *call) experts {
	c.choice("quant_type", "int")
	bits, block := c.intAttr("expert_weight_bits", 4), c.intAttr("block_size", 0)
	t := c.dtypeOf(c.input(0))
	if n := c.intAttr("weights_prepacked", -1); n > 0 {
		c.fail("attribute weights_prepacked is %d: vkc reads only weights in the order of their outputs", n)
	}
	matrix := func(packed, scales, zeros int) tensor {
		if !c.has(packed) {
			return tensor{}
		}
		s := c.shapeOf(c.in[packed])
		if len(s) != 3 || !s.IsStatic() || bits < 1 || bits > 8 {
			c.fail("expert weights are %s with %d bits: want [experts, outputs, bytes]", s, bits)
		}
		b := &blocked{c: c, packed: packed, scales: scales, zeros: zeros, bits: bits,
			rows: s[0].Static() * s[1].Static(), columns: s[2].Static() * 8 / bits, block: block}
		if block == 0 {
			b.block = b.columns // one scale for each output
		}
		w := b.matrix(t)
		if w.DType().IsBlock() { // it cannot be reshaped, so it is made with three axes
			v := b.format()
			v.data.Dims = []int{s[0].Static(), s[1].Static(), b.columns}
			return c.asTensor(v)
		}
		return w.Reshape(s[0], s[1], b.columns)
	}
	return experts{first: matrix(2, 3, 11), firstBias: c.optional(4), second: matrix(5, 6, 12),
		secondBias: c.optional(7), third: matrix(8, 9, 13), thirdBias: c.optional(10), weights: c.optional(14)}
}

// mixture builds a mixture of experts: the weighted sum of the results of the k experts with the highest scores. Input
// 0 has the tokens, and input 1 the scores [tokens, experts].
func (c *call) mixture(e experts) tensor {
	x, scores, k := c.x(0), castTo(c.x(1), ir.F32), c.intAttr("k", 1)
	c.only("use_sparse_mixer", 0, "experts are chosen by their scores")
	s, t := x.Shape(), x.DType()
	count := scores.Dim(-1)
	if scores.Rank() != 2 || !count.IsStatic() || k < 1 || k > count.Static() {
		c.fail("the best %d experts of %s: want [tokens, experts]", k, scores)
	}
	tokens := scores.Dim(0)
	x = x.Reshape(tokens, 1, x.Dim(-1))
	probabilities := scores.Softmax(1)
	best, at := probabilities.TopK(1, k)
	if !e.weights.IsZero() {
		best = castTo(e.weights, ir.F32).Gather(1, at)
	}
	if c.flag("normalize_routing_weights", false) {
		best = best.Div(best.SumKeep(1))
	}
	linear := func(x, w, bias tensor) tensor { // each token times the matrices of its experts: [tokens, k, outputs]
		y := x.MatMulID(w, at)
		if !bias.IsZero() {
			y = y.Add(bias.IndexSelect(0, at.Reshape(-1)).Reshape(tokens, k, bias.Dim(1)))
		}
		return y
	}
	h, third := linear(x, e.first, e.firstBias), tensor{}
	if !e.third.IsZero() {
		third = linear(x, e.third, e.thirdBias)
	}
	h = c.expertActivation(h, third)
	y := castTo(linear(h, e.second, e.secondBias), ir.F32)
	return castTo(y.Mul(best.Unsqueeze(2)).Sum(1), t).Reshape(s)
}

// expertActivation returns the activation of h [tokens, experts, elements], the results of the experts' first matrices,
// times `third`, the results of their third matrices. third may be the zero Tensor.
func (c *call) expertActivation(h, third tensor) tensor {
	fused, limit := c.intAttr("swiglu_fusion", 0), 0.0
	if c.hasAttr("swiglu_limit") {
		limit = c.floatAttr("swiglu_limit", 0)
	}
	kind := c.choice("activation_type", "relu", "gelu", "silu", "identity", "swiglu")
	if kind == "swiglu" {
		return c.swiglu(h, third, fused, limit)
	}
	if fused != 0 || limit != 0 {
		c.fail("attributes swiglu_fusion %d and swiglu_limit %v are for activation_type swiglu", fused, limit)
	}
	switch kind {
	case "relu":
		h = h.Relu()
	case "gelu":
		h = h.Gelu()
	case "silu":
		h = h.Silu()
	}
	if third.IsZero() {
		return h
	}
	return h.Mul(third)
}

// swiglu returns g * sigmoid(alpha*g) * (l+beta), with alpha and beta from the node's attributes. h and third are the
// results of the first and third matrices of experts. Attribute swiglu_fusion, `fused`, says what g and l are: 0 for h
// and third, 1 for elements that alternate in h, and 2 for the halves of h. A limit above 0 bounds g from above, and l
// from both sides.
func (c *call) swiglu(h, third tensor, fused int, limit float64) tensor {
	g, l := h, third
	switch s := h.Shape(); {
	case fused == 1 && third.IsZero():
		pairs := h.Reshape(s[0], s[1], -1, 2)
		g, l = pairs.Index(3, 0), pairs.Index(3, 1)
	case fused == 2 && third.IsZero() && s[2].IsStatic() && s[2].Static()%2 == 0:
		g, l = h.Slice(2, 0, s[2].Static()/2), h.Slice(2, s[2].Static()/2, s[2])
	case fused != 0 || third.IsZero():
		c.fail("attribute swiglu_fusion is %d, of first results %s", fused, h)
	}
	if limit > 0 {
		g, l = g.Min(g.Lit(limit)), l.Clamp(-limit, limit)
	}
	alpha, beta := c.floatAttr("activation_alpha", 1), c.floatAttr("activation_beta", 0)
	return wide(g, func(g tensor) tensor {
		return g.Mul(g.MulScalar(alpha).Sigmoid()).Mul(castTo(l, g.DType()).AddScalar(beta))
	})
}
