package rewrite

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// RoundRows quantizes the rows of a matmul with a quantized weight to int8, if the matmul's precision is int8 and the
// pricer says that it is faster: both operands are then small integers with scales, which the kernel multiplies in
// integer arithmetic. RoundRows adds the quantization to the graph, as [ir.ByteSteps] defines it. Later passes make
// matmuls of the same rows share the quantized rows, and fuse the quantization with the op that computes the rows.
//
// Rows that are already stored in an 8-bit or 4-bit block format need no quantization: the matmul multiplies their
// integers, with any precision.
//
// If many rows must be exact, RoundRows can store each element as the sum of two f16 values, which cooperative matrices
// multiply (splitRows).
func RoundRows(g *ir.Graph, pricer kernel.Pricer) (*ir.Graph, error) {
	if pricer == nil {
		return g, nil
	}
	norms := roundedNorms(g, pricer)
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		if !multipliesBlocks(n) {
			return nil
		}
		var rows, factor *ir.Node
		switch blocks := rowsInBlocks(args[0]); {
		case blocks != nil && suitsRows(n, kernel.FormStoredRows, pricer):
			rows = r.bytesOf(blocks)
		case roundsRows(n, pricer):
			x := args[0]
			// The factor of a row is applied after the matmul, so that rounding need not wait for the sum along the
			// row.
			if norms[n.Arg(0)] {
				x, factor = r.takeNormApart(x)
			}
			rows = r.roundToBytes(x)
		case areExact(n) && suitsRows(n, kernel.FormHalves, pricer):
			rows, factor = r.splitRows(args[0])
		default:
			return nil
		}
		out := r.binary(ir.OpMatMul, rows, args[1], attr("transpose_b", true))
		if factor != nil {
			out = r.binary(ir.OpMul, out, factor)
		}
		return r.castTo(out, n.DType())
	})
}

// roundsRows reports whether RoundRows should quantize the rows of matmul n.
func roundsRows(n *ir.Node, pricer kernel.Pricer) bool {
	return multipliesBlocks(n) && analysis.Precision(n) == ir.PrecisionBytes &&
		suitsRows(n, kernel.FormQuantizedRows, pricer)
}

// areExact reports whether the rows of matmul n are f32 and may not be rounded, and there are several. Rows of narrower
// floats are exact in f16 or bf16 anyway, and need no splitting.
func areExact(n *ir.Node) bool {
	a := n.Arg(0)
	if a.Shape()[a.Rank()-2].Is(1) {
		return false
	}
	if a.Op() == ir.OpCast {
		a = a.Arg(0)
	}
	return !ir.AllowsHalf(analysis.Precision(n)) && a.DType() == ir.F32
}

// suitsRows reports whether the device prefers a form of int8 rows for matmul n with a quantized weight.
func suitsRows(n *ir.Node, form kernel.Form, pricer kernel.Pricer) bool {
	return kernel.Suits(pricer, kernel.Work{Form: form, Format: blocksOf(n.Arg(1)),
		Rows: n.Arg(0).Shape()[n.Rank()-2], Columns: n.Shape()[n.Rank()-1], Depth: n.Arg(0).Shape()[n.Rank()-1]})
}

// roundedNorms returns the rms norms that only matmuls read, all of them with rows that RoundRows quantizes.
func roundedNorms(g *ir.Graph, pricer kernel.Pricer) map[*ir.Node]bool {
	norms, shown := map[*ir.Node]bool{}, shownNodes(g)
	for i, users := range g.Users() {
		n := g.Nodes()[i]
		norms[n] = n.Op() == ir.OpRMSNorm && !shown[n] && !slices.ContainsFunc(users, func(u *ir.Node) bool {
			return !roundsRows(u, pricer) || u.Arg(1) == n
		})
	}
	return norms
}

// takeNormApart splits an rms norm into rows x and a factor per row. The factor does not change the integers of
// quantized rows. So x is quantized without waiting for the sum along the row, and the matmul's result is multiplied by
// the factor.
func (r *rewriter) takeNormApart(n *ir.Node) (x, factor *ir.Node) {
	x = r.castTo(n.Arg(0), ir.F32)
	mean := r.foldAlong(ir.OpMean, r.unary(ir.OpSqr, x), int64(n.Rank()-1))
	factor = r.unary(ir.OpRsqrt, r.binary(ir.OpAdd, mean, r.scalar(ir.F32, n.Attrs().Float("eps"))))
	if len(n.Args()) > 1 {
		x = r.binary(ir.OpMul, x, r.castTo(n.Arg(1), ir.F32))
	}
	return x, factor
}

// multipliesBlocks reports whether n is a matmul with a quantized weight, and with a contraction axis that is a
// multiple of ir.ByteGroup.
func multipliesBlocks(n *ir.Node) bool {
	if n.Op() != ir.OpMatMul || n.Attrs().Bool("transpose_a") || !n.Attrs().Bool("transpose_b") {
		return false
	}
	a := n.Arg(0)
	k := a.Shape()[a.Rank()-1]
	return blocksOf(n.Arg(1)) != ir.Invalid && a.Rank() == n.Rank() && k.IsStatic() && k.Add > 0 &&
		k.Add%ir.ByteGroup == 0
}

// blocksOf returns the block format of b, or of the argument if b is a dequantize, or ir.Invalid.
func blocksOf(b *ir.Node) ir.DType {
	if b.Op() == ir.OpDequantize {
		b = b.Arg(0)
	}
	if b.DType().IsBlock() {
		return b.DType()
	}
	return ir.Invalid
}

// roundToBytes returns x quantized to int8 and dequantized again, with a scale per group of ir.ByteGroup elements, as
// [ir.ByteSteps] defines it.
func (r *rewriter) roundToBytes(x *ir.Node) *ir.Node {
	shape := x.Shape()
	k := shape[len(shape)-1].Add
	groups := append(shape[:len(shape)-1:len(shape)-1], ir.D(int(k/ir.ByteGroup)), ir.D(ir.ByteGroup))
	x = r.reshape(r.castTo(x, ir.F32), groups)
	top := r.foldAlong(ir.OpReduceMax, r.unary(ir.OpAbs, x), int64(len(groups)-1))
	as := func(t ir.DType, x *ir.Node) *ir.Node {
		return r.unary(ir.OpBitcast, x, attr("dtype", t))
	}
	word := func(v uint32) *ir.Node { return r.scalar(ir.U32, float64(v)) }
	// steps is 127/top, by an integer division of mantissas, because devices divide floats differently. For a mantissa
	// of 16 bits and exponent bits e, top is mantissa * 2^(e-142). So steps is quotient * 2^(117-e).
	bits := as(ir.U32, top)
	const exponents = 0x7f800000 // the exponent bits of an f32
	mantissa := r.binary(ir.OpOr, word(0x8000), r.binary(ir.OpAnd, word(0x7fff), r.binary(ir.OpShr, bits, word(8))))
	quotient := r.unary(ir.OpCast, r.binary(ir.OpDiv, word(127<<25), mantissa), attr("dtype", ir.F32))
	power := r.binary(ir.OpSub, word(117<<23), r.binary(ir.OpAnd, bits, word(exponents)))
	steps := as(ir.F32, r.binary(ir.OpAdd, as(ir.U32, quotient), power))
	least := math.Float32bits(ir.LeastByteTop)
	// A group that is nearly 0, infinite or NaN has only zeros. The unsigned difference tests both bounds at once.
	normal := r.binary(ir.OpLt, r.binary(ir.OpSub, bits, word(least)), word(exponents-least))
	steps = r.where(normal, steps, r.scalar(ir.F32, 0))
	bytes := r.unary(ir.OpCast, r.unary(ir.OpRound, r.binary(ir.OpMul, x, steps)), attr("dtype", ir.I8))
	scale := r.binary(ir.OpMul, top, r.scalar(ir.F32, 1.0/127))
	return r.reshape(r.binary(ir.OpMul, r.unary(ir.OpCast, bytes, attr("dtype", ir.F32)), scale), shape)
}

// splitRows returns rows that are sums of two f16 values, and a factor for each row: x is about rows times factor. The
// factor is the power of two that brings the largest finite element of the row to the top of f16's range. So the error
// is at most 2^-22 of the element, or 2^-39 of the row's largest element if that is more. Infinities and NaN stay. The
// upper part is rounded by integer operations, because a driver's compiler could take the remainder of a conversion to
// f16 and back for 0.
func (r *rewriter) splitRows(x *ir.Node) (rows, factor *ir.Node) {
	x = r.castTo(x, ir.F32)
	as := func(t ir.DType, x *ir.Node) *ir.Node { return r.unary(ir.OpBitcast, x, attr("dtype", t)) }
	word := func(v uint32) *ir.Node { return r.scalar(ir.U32, float64(v)) }
	const (
		exponents = 0x7f800000 // the bits of an f32's exponent
		bias      = 127        // of exponents
		top       = 14         // the exponent of the largest element
		dropped   = 13         // bits of an f32's fraction that an f16 does not have
		half      = 1 << (dropped - 1)
		kept      = math.MaxUint32 << dropped & math.MaxUint32
	)
	size := r.binary(ir.OpAnd, as(ir.U32, x), word(0x7fffffff))
	finite := r.binary(ir.OpLt, size, word(exponents))
	largest := r.foldAlong(ir.OpReduceMax, r.where(finite, size, word(0)), int64(x.Rank()-1))
	power := r.binary(ir.OpMax, r.binary(ir.OpAnd, largest, word(exponents)), word((top+1)<<23))
	scaled := r.where(finite, r.binary(ir.OpMul, x, as(ir.F32, r.binary(ir.OpSub, word((2*bias+top)<<23), power))),
		r.scalar(ir.F32, 0))
	rounded := r.binary(ir.OpAdd, as(ir.U32, scaled), word(half))
	high := as(ir.F32, r.binary(ir.OpAnd, rounded, word(kept)))
	low := r.castTo(r.binary(ir.OpSub, scaled, high), ir.F16)
	high = r.castTo(r.where(finite, high, x), ir.F16)
	return r.binary(ir.OpAdd, r.castTo(high, ir.F32), r.castTo(low, ir.F32)),
		as(ir.F32, r.binary(ir.OpSub, power, word(top<<23)))
}

// storedRows has the block formats for activations: small integers (levels) with an f16 scale per 32 elements. A matmul
// with a quantized weight multiplies the integers without quantizing the rows again. Each row of the table decodes
// element i of a block in GLSL and in Go, as ggml defines the format. In GLSL, x has the blocks as 16-bit words, and a
// block begins at word first with its scale.
var storedRows = map[ir.DType]struct {
	op    ir.Op
	glsl  string // the level of element i of a block
	level func(block []byte, i int) int8
}{
	ir.Q8_0: {glsl: "int(uint(x[first + 1u + i / 2u]) << 24u - 8u * (i & 1u)) >> 24",
		level: func(block []byte, i int) int8 { return int8(block[2+i]) }},
	ir.Q4_0: {glsl: "int(uint(x[first + 1u + i % 16u / 2u]) >> 8u * (i & 1u) + 4u * (i / 16u) & 15u) - 8",
		level: func(block []byte, i int) int8 { return int8(block[2+i%16]>>(i/16*4)&15) - 8 }},
}

// storedRowElems is the number of elements that a workgroup decodes.
const storedRowElems = 4096

// init registers a custom op for each format.
func init() {
	for t, row := range storedRows {
		row.op = ir.MustRegisterCustom(storedRowsOp(t, row.glsl, row.level))
		storedRows[t] = row
	}
}

// storedRowsOp returns the custom op that decodes blocks of format t to integers and a scale per block.
func storedRowsOp(t ir.DType, level string, levelOf func([]byte, int) int8) ir.CustomOp {
	return ir.CustomOp{
		Name: "vkc.bytes_of_" + t.String(),
		Doc:  "Unpacks blocks of " + t.String() + " to int8 values and one scale per block.",
		Args: []ir.ArgInfo{{Name: "x"}},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			s := c.Shape(0)
			// The capacity of the slice makes append copy the shape.
			blocks := append(s[:len(s)-1:len(s)-1], ir.D(int(s[len(s)-1].Add/ir.ByteGroup)))
			return []ir.Type{{DType: ir.I8, Shape: s}, {DType: ir.F32, Shape: blocks}}, nil
		},
		Kernel: &ir.CustomKernel{
			Outputs: []string{"levels", "scales"}, Workgroup: [3]int{128},
			Grid: [3][]ir.GridRule{{{Of: "levels", Axis: ir.AllAxes, Tile: storedRowElems}}},
			Body: strings.NewReplacer("LEVEL", level, "WORDS", fmt.Sprint(t.BlockBytes()/2, "u")).Replace(
				`uint begin = gl_WorkGroupID.x * 4096u, end = min(begin + 4096u, levels_size);
for (uint e = begin + gl_LocalInvocationID.x; e < end; e += 128u) {
    uint block = e / 32u, first = block * WORDS, i = e % 32u;
    levels[e] = int8_t(LEVEL);
    if (i == 0u) scales[block] = unpackHalf2x16(uint(x[first])).x;
}`),
		},
		Reference: reference(func(args []*ir.Data, _ ir.Attrs) []*ir.Data {
			d := args[0]
			levels := &ir.Data{DType: ir.I8, Dims: d.Dims, Bytes: make([]byte, d.Elems())}
			scales := make([]float64, d.Elems()/ir.ByteGroup)
			for n := range scales {
				block := d.Bytes[n*t.BlockBytes() : (n+1)*t.BlockBytes()]
				ir.DecodeFloats(scales[n:n+1], ir.F16, block)
				for i := range ir.ByteGroup {
					levels.Bytes[n*ir.ByteGroup+i] = byte(levelOf(block, i))
				}
			}
			dims := append(d.Dims[:len(d.Dims)-1:len(d.Dims)-1], d.Dims[len(d.Dims)-1]/ir.ByteGroup)
			return []*ir.Data{levels, ofFloats(ir.F32, scales, dims...)}
		}),
	}
}

// rowsInBlocks returns the blocks that a dequantizes, if these are activations in a format of storedRows. It returns
// nil otherwise.
func rowsInBlocks(a *ir.Node) *ir.Node {
	if a.Op() != ir.OpDequantize || a.DType() != ir.F32 || a.Arg(0).Op() == ir.OpWeight {
		return nil
	}
	if _, ok := storedRows[a.Arg(0).DType()]; !ok {
		return nil
	}
	return a.Arg(0)
}

// bytesOf dequantizes blocks in the form in which fusion finds int8 rows: integers times a scale per group.
func (r *rewriter) bytesOf(blocks *ir.Node) *ir.Node {
	op := storedRows[blocks.DType()].op
	levels, scales := r.unary(op, blocks), r.unary(op, blocks, attr("output", int64(1)))
	shape := blocks.Shape()
	last := len(shape) - 1
	groups := append(shape[:last:last], ir.D(int(shape[last].Add/ir.ByteGroup)), ir.D(ir.ByteGroup))
	scales = r.reshape(scales, append(groups[:last+1:last+1], ir.D(1)))
	return r.reshape(r.binary(ir.OpMul, r.castTo(r.reshape(levels, groups), ir.F32), scales), shape)
}
