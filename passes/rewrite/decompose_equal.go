package rewrite

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// A scatter that combines updates (rows) with equal indices (keys) can sort the rows by key, with a stable sort. Then
// one kernel finds the first row of each key, and another folds the rows of each key in their original order. So the
// results have the same bits in every run. A key may have very many rows. Therefore a kernel before these folds each
// chunk of rows that has a single key.

// keyFold has the two kernels that fold sorted rows in one mode and dtype: chunks folds each chunk of rows with a
// single key, and rows folds all rows of each key.
type keyFold struct{ chunks, rows ir.Op }

// foldKey is a mode of folding, such as "add", and the dtype of the folded values.
type foldKey struct {
	mode string
	t    ir.DType
}

// keyFolds has the kernels of all modes and dtypes.
var keyFolds = map[foldKey]keyFold{}

// Bounds of the number of rows in a chunk.
const minEqualChunk, maxEqualChunk = 64, 4096

// firstEqual finds the first position of each wanted key in a list of sorted keys by binary search.
var firstEqual = ir.MustRegisterCustom(ir.CustomOp{
	Name: "vkc.first_equal",
	Doc: "Returns, for each element of wanted, the number of elements of sorted that are smaller. This is the " +
		"position of the first equal element, if there is one.",
	Args: []ir.ArgInfo{{Name: "sorted"}, {Name: "wanted"}},
	Infer: func(c *ir.Call) ([]ir.Type, error) {
		if c.DType(0) != ir.I32 || c.DType(1) != ir.I32 || len(c.Shape(0)) != 1 || len(c.Shape(1)) != 1 {
			return nil, errors.New("sorted and wanted are i32[N]")
		}
		return []ir.Type{{DType: ir.U32, Shape: c.Shape(1)}}, nil
	},
	Kernel: &ir.CustomKernel{
		Outputs: []string{"begins"}, Workgroup: [3]int{128},
		Grid: [3][]ir.GridRule{{{Of: "wanted", Axis: 0, Tile: 1024}}},
		Body: kernelSource("first_equal"),
	},
	Reference: reference(func(args []*ir.Data, _ ir.Attrs) []*ir.Data {
		sorted, wanted := ints(args[0]), ints(args[1])
		begins := make([]int64, len(wanted))
		for i, key := range wanted {
			first, _ := slices.BinarySearch(sorted, key)
			begins[i] = int64(first)
		}
		return []*ir.Data{ofInts(ir.U32, begins, len(wanted))}
	}),
})

// init registers the kernels of all modes and dtypes.
func init() {
	for t, name := range map[ir.DType]string{ir.F32: "float", ir.F64: "double", ir.I32: "int", ir.U32: "uint",
		ir.I64: "uvec2"} {
		for mode := range analysis.ScatterReductions {
			keyFolds[foldKey{mode, t}] = registerKeyFold(mode, t, name)
		}
	}
}

// neutralGLSL has the GLSL of the neutral values of min and max for integer dtypes.
var neutralGLSL = map[foldKey]string{
	{"min", ir.I32}: "0x7fffffff", {"max", ir.I32}: "int(0x80000000u)",
	{"min", ir.U32}: "0xffffffffu", {"max", ir.U32}: "0u",
	{"min", ir.I64}: "uvec2(0xffffffffu, 0x7fffffffu)", {"max", ir.I64}: "uvec2(0u, 0x80000000u)",
}

// foldPairsGLSL has GLSL statements that fold two i64 values, each given as two 32-bit words, for devices without
// 64-bit integers.
var foldPairsGLSL = map[string]string{
	"add": "uint low = a.x + b.x;\n    return uvec2(low, a.y + b.y + uint(low < a.x));",
	"mul": "uint high, low;\n    umulExtended(a.x, b.x, high, low);\n    return uvec2(low, high + a.x * b.y + a.y * b.x);",
	"min": "return int(b.y) < int(a.y) || b.y == a.y && b.x < a.x ? b : a;",
	"max": "return int(b.y) > int(a.y) || b.y == a.y && b.x > a.x ? b : a;",
}

// foldGLSL returns GLSL statements that return the fold of values a and b in a mode, and the GLSL of the mode's neutral
// value.
func foldGLSL(mode string, t ir.DType) (fold, none string) {
	switch mode {
	case "add":
		fold, none = "return a + b;", literal(t, "0")
	case "mul":
		fold, none = "return a * b;", literal(t, "1")
	}
	// An i64 is a pair of words in GLSL.
	if t == ir.I64 {
		fold = foldPairsGLSL[mode]
	}
	if none != "" {
		return fold, none
	}
	// min and max choose b if it is smaller or larger, and floats also if b is NaN.
	first := "b < a"
	if mode == "max" {
		first = "b > a"
	}
	none = neutralGLSL[foldKey{mode, t}]
	least := neutral(mode, t)
	switch t {
	case ir.F32:
		first += " || (floatBitsToUint(b) & 0x7fffffffu) > 0x7f800000u"
		none = fmt.Sprintf("uintBitsToFloat(0x%xu)", math.Float32bits(float32(least)))
	case ir.F64:
		first += " || isNaN64(b)"
		none = fmt.Sprintf("packDouble2x32(uvec2(0u, 0x%xu))", math.Float64bits(least)>>32)
	}
	if t != ir.I64 {
		fold = "return " + first + " ? b : a;"
	}
	return fold, none
}

// literal returns the GLSL constant of a dtype for a digit.
func literal(t ir.DType, digit string) string {
	switch t {
	case ir.F32:
		return digit + ".0"
	case ir.F64:
		return digit + ".0lf"
	case ir.U32:
		return digit + "u"
	case ir.I64:
		return "uvec2(" + digit + "u, 0u)"
	}
	return digit
}

// registerKeyFold registers the two kernels of a mode for dtype t. typ is the GLSL type of a value.
func registerKeyFold(mode string, t ir.DType, typ string) keyFold {
	f := keyFoldWriter{mode: mode, dtype: t, seen: t, typ: typ}
	f.pair = t == ir.I64
	if f.pair {
		f.seen = ir.U32
	}
	f.fold, f.none = foldGLSL(mode, t)
	return keyFold{ir.MustRegisterCustom(f.chunks()), ir.MustRegisterCustom(f.rows())}
}

// keyFoldWriter writes the two kernels of a [keyFold].
type keyFoldWriter struct {
	mode       string
	dtype      ir.DType
	seen       ir.DType // the dtype of values as the kernels see them
	pair       bool     // whether values are i64, which the kernels see as two u32 words along an extra axis
	typ        string   // the GLSL type of a value
	fold, none string   // the results of foldGLSL
}

// keyFoldTolerance is the tolerance of folded floats.
var keyFoldTolerance = ir.Tolerance{Eps: 64, Abs: 1e-6, Sum: true}

// chunkAttr is the attribute of both kernels.
var chunkAttr = ir.AttrInfo{Name: "chunk", Kind: ir.AttrInt, Doc: "rows of a chunk"}

// name returns the name of one of the kernels.
func (f keyFoldWriter) name(what string) string {
	return fmt.Sprintf("vkc.%s_%s_equal_%s", what, f.mode, f.dtype)
}

// functions returns the GLSL functions that fold two values.
func (f keyFoldWriter) functions() string {
	functions := fmt.Sprintf("TYPE fold(TYPE a, TYPE b) {\n    %s\n}", f.fold)
	if f.dtype == ir.F64 {
		functions = `bool isNaN64(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint high = bits.y & 0x7fffffffu;
    return high > 0x7ff00000u || high == 0x7ff00000u && bits.x > 0u;
}
` + functions
	}
	return functions
}

// glsl returns a source with the placeholders TYPE and NONE, the neutral value, filled in. more has other placeholders,
// each followed by its text.
func (f keyFoldWriter) glsl(source string, more ...string) string {
	return strings.NewReplacer(append(more, "TYPE", f.typ, "NONE", f.none)...).Replace(source)
}

// load returns the GLSL expression of the value at an index of an array.
func (f keyFoldWriter) load(array, at string) string {
	if f.pair {
		return fmt.Sprintf("uvec2(%[1]s[2u * (%[2]s)], %[1]s[2u * (%[2]s) + 1u])", array, at)
	}
	return array + "[" + at + "]"
}

// store returns the GLSL statements that store the variable sum at an index of an array.
func (f keyFoldWriter) store(array, at string) string {
	if f.pair {
		return fmt.Sprintf("uint to = 2u * (%[2]s);\n    %[1]s[to] = sum.x;\n    %[1]s[to + 1u] = sum.y;", array, at)
	}
	return array + "[" + at + "] = sum;"
}

// check returns an error unless the arguments are rows and then, for each row, its position in order and its key. The
// given number of arguments after the rows are i32.
func (f keyFoldWriter) check(c *ir.Call, ints int) error {
	rows := c.Shape(0)
	ok := c.DType(0) == f.seen && (len(rows) == 2 || f.pair && len(rows) == 3 && rows[2].Is(2)) &&
		c.Shape(1).Equal(rows[:1]) && c.Shape(2).Equal(rows[:1])
	for i := range ints {
		ok = ok && c.DType(1+i) == ir.I32
	}
	if !ok {
		return errors.New("rows are a matrix, with an i32 each in order and sorted")
	}
	return nil
}

// results returns the type of a result of n rows, as wide as the rows of the argument.
func (f keyFoldWriter) results(c *ir.Call, n ir.Dim) []ir.Type {
	shape := slices.Clone(c.Shape(0))
	if len(shape) > 0 {
		shape[0] = n
	}
	return []ir.Type{{DType: f.seen, Shape: shape}}
}

// chunks returns the op that folds each chunk of rows with a single key.
func (f keyFoldWriter) chunks() ir.CustomOp {
	return ir.CustomOp{
		Name: f.name("chunks"),
		Doc: "Folds the rows of each chunk that has a single key. sorted has the keys in ascending order, and " +
			"order[i] is the row of key i.",
		Args:  []ir.ArgInfo{{Name: "rows"}, {Name: "order"}, {Name: "sorted"}},
		Attrs: []ir.AttrInfo{chunkAttr, {Name: "chunks", Kind: ir.AttrInt, Doc: "largest number of chunks"}},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			return f.results(c, ir.D(c.Attrs.Int("chunks"))), f.check(c, 2)
		},
		Tol: keyFoldTolerance,
		Kernel: &ir.CustomKernel{
			Outputs: []string{"folded"}, Workgroup: [3]int{128},
			Grid:   [3][]ir.GridRule{{{Of: "folded", Axis: 0, Tile: 1}}, {{Of: "folded", Axis: 1, Tile: 32}}},
			Shared: f.glsl("shared TYPE parts[128];\n" + f.functions()), SharedBytes: 128 * f.dtype.BlockBytes(),
			Body: f.glsl(kernelSource("fold_chunks"), "ROW", f.load("rows", "uint(order[k]) * rows_dim1 + column"),
				"STORE", f.store("folded", "gl_WorkGroupID.x * folded_dim1 + column")),
		},
		Reference: reference(func(args []*ir.Data, a ir.Attrs) []*ir.Data {
			return foldReference(f.mode, f.dtype, args, a.Int("chunks"), func(sorted, _ []int64, i int) (int, int) {
				begin := i * a.Int("chunk")
				end := begin + a.Int("chunk")
				if end > len(sorted) || sorted[begin] != sorted[end-1] {
					return 0, 0
				}
				return begin, end
			})
		}),
	}
}

// rows returns the op that folds all rows of each key.
func (f keyFoldWriter) rows() ir.CustomOp {
	return ir.CustomOp{
		Name: f.name("rows"),
		Doc: "Folds, for each element of wanted, the rows that have it as their key. sorted has the keys in " +
			"ascending order, and order[i] is the row of key i. begins[j] is the first position of wanted[j] in " +
			"sorted. No row has a negative key. folded has the folds of the chunks with a single key.",
		Args: []ir.ArgInfo{{Name: "rows"}, {Name: "order"}, {Name: "sorted"}, {Name: "wanted"}, {Name: "begins"},
			{Name: "folded"}},
		Attrs: []ir.AttrInfo{chunkAttr},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			return f.results(c, c.Shape(3)[0]), f.check(c, 3)
		},
		Tol: keyFoldTolerance,
		Kernel: &ir.CustomKernel{
			Outputs: []string{"sums"}, Workgroup: [3]int{128}, Shared: f.glsl(f.functions()),
			Grid: [3][]ir.GridRule{{{Of: "sums", Axis: 0, Tile: 128}}, {{Of: "sums", Axis: 1, Tile: 64}}},
			Body: f.glsl(kernelSource("fold_rows"), "ROW", f.load("rows", "uint(order[k]) * rows_dim1 + column"),
				"CHUNK", f.load("folded", "k / uint(chunk) * sums_dim1 + column"),
				"STORE", f.store("sums", "row * sums_dim1 + column")),
		},
		Reference: reference(func(args []*ir.Data, a ir.Attrs) []*ir.Data {
			span := func(sorted, wanted []int64, i int) (begin, end int) {
				if wanted[i] < 0 {
					return 0, 0
				}
				begin, _ = slices.BinarySearch(sorted, wanted[i])
				end, _ = slices.BinarySearch(sorted, wanted[i]+1)
				return begin, end
			}
			return foldReference(f.mode, f.dtype, args, args[3].Dims[0], span)
		}),
	}
}

// foldReference computes the custom ops of keyFoldWriter in Go. Argument 0 has the rows, and argument 1 the order
// that sorts them by key. Argument 2 has the sorted keys, and argument 3, if present, the wanted keys. There are n
// result rows. For result row i, span returns begin and end: the row is the fold of the rows at positions begin to
// end-1 of the order.
func foldReference(mode string, t ir.DType, args []*ir.Data, n int,
	span func(sorted, wanted []int64, i int) (int, int)) []*ir.Data {
	order, sorted := ints(args[1]), ints(args[2])
	var wanted []int64
	if len(args) > 3 {
		wanted = ints(args[3])
	}
	width := args[0].Dims[1]
	// each calls fold with the positions of a result element and of an element that it folds, in order.
	each := func(fold func(to, from int)) {
		for i := range n {
			begin, end := span(sorted, wanted, i)
			for k := begin; k < end; k++ {
				for j := range width {
					fold(i*width+j, int(order[k])*width+j)
				}
			}
		}
	}
	switch {
	case t.IsFloat():
		return []*ir.Data{ofFloats(t, foldedBy(mode, neutral(mode, t), floats(args[0]), n*width, each), n, width)}
	case t == ir.I64: // these kernels have i64 elements as two 32-bit words
		sums := foldedBy(mode, neutralInteger(mode, t), joinWords(ints(args[0])), n*width, each)
		return []*ir.Data{ofInts(ir.U32, splitWords(sums), n, width, 2)}
	}
	sums := foldedBy(mode, neutralInteger(mode, t), ints(args[0]), n*width, each)
	for i, x := range sums {
		sums[i] = ir.Wrap(x, t)
	}
	return []*ir.Data{ofInts(t, sums, n, width)}
}

// joinWords returns the i64 that pairs of 32-bit words represent, low word first.
func joinWords(words []int64) []int64 {
	list := make([]int64, len(words)/2)
	for i := range list {
		list[i] = words[2*i] | words[2*i+1]<<32
	}
	return list
}

// splitWords returns the two 32-bit words of each element, the low one first.
func splitWords(list []int64) []int64 {
	words := make([]int64, 0, 2*len(list))
	for _, x := range list {
		words = append(words, int64(uint32(x)), int64(uint32(x>>32)))
	}
	return words
}

// foldedBy folds values in a mode into n results, which start at the neutral value none. each receives a function fold.
// For each value it must call fold(to, from), which folds rows[from] into result number `to`.
func foldedBy[T int64 | float64](mode string, none T, rows []T, n int, each func(fold func(to, from int))) []T {
	sums := make([]T, n)
	for i := range sums {
		sums[i] = none
	}
	each(func(to, from int) {
		switch mode {
		case "add":
			sums[to] += rows[from]
		case "mul":
			sums[to] *= rows[from]
		case "min":
			sums[to] = min(sums[to], rows[from])
		case "max":
			sums[to] = max(sums[to], rows[from])
		}
	})
	return sums
}

// sortedFolds returns [outer, W, inner] in the accumulator dtype: for each of the W wanted keys, the fold of the rows
// of updates [outer, K, inner] that have this key. It ignores keys, and wanted keys, outside of 0 to limit-1.
func (r *rewriter) sortedFolds(keys, wanted, updates *ir.Node, limit ir.Dim, mode string) *ir.Node {
	s, n, acc := updates.Shape(), wanted.Shape()[0], kernel.AccType(updates.DType())
	columns, err := s[0].Mul2(s[2])
	bailout.Check(err)
	keys, wanted = r.below(keys, limit), r.below(wanted, limit)
	order, sorted := r.orderBelow(keys, limit)
	rows := r.castTo(r.swapAxes(updates, 0, 1), acc)
	rows = r.reshape(rows, ir.Shape{s[1], columns})
	if acc == ir.I64 {
		pair := ir.Shape{s[1], columns, ir.D(1)}
		low, high := r.wordsOf(rows)
		rows = r.concat(2, r.reshape(low, pair), r.reshape(high, pair))
	}
	most := s[1].Max() // rows
	chunk := int64(minEqualChunk)
	for chunk < maxEqualChunk && chunk*chunk < most { // about as many chunks as rows in a chunk
		chunk *= 2
	}
	op, at := keyFolds[foldKey{mode, acc}], attr("chunk", chunk)
	folded := r.add(op.chunks, []*ir.Node{rows, order, sorted}, at, attr("chunks", ceil.Div(most, chunk)))
	begins := r.add(firstEqual, []*ir.Node{sorted, wanted})
	sums := r.add(op.rows, []*ir.Node{rows, order, sorted, wanted, begins, folded}, at)
	if acc == ir.I64 {
		word := func(i int) *ir.Node {
			x := r.slice(sums, []int64{0, 0, int64(i)}, ir.Shape{n, columns, ir.D(i + 1)})
			return r.reshape(x, ir.Shape{n, columns})
		}
		sums = r.fromWords(word(0), word(1))
	}
	return r.swapAxes(r.reshape(sums, ir.Shape{n, s[0], s[2]}), 0, 1)
}

// orderBelow sorts keys between -1 and limit-1. It returns the permutation that sorts them, and the sorted keys. More
// than maxSort keys are sorted digit by digit (radix sort); because the keys are bounded, they have few digits.
func (r *rewriter) orderBelow(keys *ir.Node, limit ir.Dim) (order, sorted *ir.Node) {
	n := keys.Shape()[0]
	if n.Max() <= maxSort {
		order = r.unary(ir.OpArgsort, keys, attr("axis", 0))
		return order, r.onAxis(ir.OpGather, 0, keys, order)
	}
	above := r.castTo(r.binary(ir.OpAdd, keys, r.scalar(ir.I32, 1)), ir.U32)
	s := radixSort{rewriter: r, keys: r.reshape(above, ir.Shape{ir.D(1), n}), keep: true}
	var digits []int
	for shift := 0; shift < bits.Len64(uint64(limit.Max())); shift += 8 { // a digit has 8 bits
		digits = append(digits, shift)
	}
	s.sortBy(digits)
	below := r.binary(ir.OpSub, r.castTo(s.keys, ir.I32), r.scalar(ir.I32, 1))
	return r.reshape(s.places, ir.Shape{n}), r.reshape(below, ir.Shape{n})
}

// within returns which indices are between 0 and limit-1 (inRange), and the indices as i32 (narrow). Where an index is
// out of range, narrow has an arbitrary value.
func (r *rewriter) within(indices *ir.Node, limit ir.Dim) (inRange, narrow *ir.Node) {
	positive := analysis.NeverNegative(indices.DType())
	indices = r.wideIndex(indices)
	t := indices.DType()
	inRange = r.binary(ir.OpLt, indices, r.castTo(r.dimValue(limit), t))
	if !positive {
		inRange = r.binary(ir.OpAnd, r.binary(ir.OpGe, indices, r.scalar(t, 0)), inRange)
	}
	return inRange, r.castTo(indices, ir.I32)
}

// below returns indices as i32. Indices outside of 0 to limit-1 become -1.
func (r *rewriter) below(indices *ir.Node, limit ir.Dim) *ir.Node {
	inRange, indices := r.within(indices, limit)
	return r.where(inRange, indices, r.scalar(ir.I32, -1))
}
