package rewrite

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

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
