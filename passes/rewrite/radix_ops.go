package rewrite

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// The kernels of a radix sort (Knuth, The Art of Computer Programming, 5.2.5). They sort keys by one digit of eight
// bits at a time, lowest bits first, and each pass is stable. A pass counts the digits in every chunk of a row,
// computes by a scan the positions of each chunk's elements with each digit, and then moves all elements to their
// positions.
//
// No kernel family has such loops, so they are custom ops with a Go reference. They need no subgroups, and no more
// shared memory and invocations than every device has.
const (
	radixDigits = 256
	radixChunk  = 4096 // elements that a workgroup counts or moves
	radixLanes  = 128
)

var (
	floatKey = ir.MustRegisterCustom(ir.CustomOp{
		Name:  "vkc.float_key",
		Doc:   "Maps a float to an unsigned sort key in the order of sort. -0 and 0 have the same key. NaN is last.",
		Args:  []ir.ArgInfo{{Name: "x"}},
		Attrs: []ir.AttrInfo{{Name: "descending", Kind: ir.AttrBool, Default: false}},
		Infer: inferKey,
		Body: `uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
uint key = bits == magnitude || magnitude == 0u ? magnitude | 0x80000000u : ~bits;
if (magnitude > 0x7f800000u) key = 0xffffffffu;
return descending ? ~key : key;`,
		Float: func(x []float64, a ir.Attrs) float64 {
			key := math.Float32bits(float32(x[0]))
			switch magnitude := key & math.MaxInt32; {
			case x[0] != x[0]:
				key = math.MaxUint32
			case key == magnitude || magnitude == 0:
				key = magnitude | 1<<31
			default:
				key = ^key
			}
			if a.Bool("descending") {
				key = ^key
			}
			return float64(key)
		},
	})
	integerKey = ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc.integer_key",
		Doc:  "Maps an integer to an unsigned sort key in the order of sort. least is the dtype's smallest value.",
		Args: []ir.ArgInfo{{Name: "x"}},
		Attrs: []ir.AttrInfo{{Name: "least", Kind: ir.AttrInt, Default: int64(0)},
			{Name: "descending", Kind: ir.AttrBool, Default: false}},
		Infer: inferKey,
		Body: `uint key = uint(x) - uint(least);
return descending ? ~key : key;`,
		Int: func(x []int64, a ir.Attrs) int64 {
			key := uint32(x[0] - int64(a.Int("least")))
			if a.Bool("descending") {
				key = ^key
			}
			return int64(key)
		},
	})
	// doubleKey returns one word of a 64-bit key. Rows are sorted by the low words first, then by the high words.
	doubleKey = ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc.double_key", Args: []ir.ArgInfo{{Name: "x"}},
		Attrs: []ir.AttrInfo{{Name: "high", Kind: ir.AttrBool, Default: false},
			{Name: "descending", Kind: ir.AttrBool, Default: false}},
		Infer: inferKey,
		Doc: "Returns the low or the high word of a double's 64-bit sort key. -0 and 0 have the same key. NaN is " +
			"last.",
		Body: `uvec2 bits = unpackDouble2x32(x);
uint magnitude = bits.y & 0x7fffffffu;
bool positive = bits.y == magnitude || (magnitude | bits.x) == 0u;
uint key = high ? (positive ? magnitude | 0x80000000u : ~bits.y) : (positive ? bits.x : ~bits.x);
if (magnitude > 0x7ff00000u || magnitude == 0x7ff00000u && bits.x != 0u) key = 0xffffffffu;
return descending ? ~key : key;`,
		Float: func(x []float64, a ir.Attrs) float64 {
			key := math.Float64bits(x[0])
			switch {
			case x[0] != x[0]:
				key = math.MaxUint64
			case x[0] == 0:
				key = 1 << 63
			case x[0] > 0:
				key |= 1 << 63
			default:
				key = ^key
			}
			return float64(half(key, a))
		},
	})
	radixCount = ir.MustRegisterCustom(ir.CustomOp{
		Name:  "vkc.radix_count",
		Doc:   "How many keys of each chunk of a row have each digit.",
		Args:  []ir.ArgInfo{{Name: "keys"}},
		Attrs: append(slices.Clip(radixAttrs), ir.AttrInfo{Name: "chunks", Kind: ir.AttrInt, Doc: "how many the longest row has"}),
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			s, chunks := c.Shape(0), int64(c.Attrs.Int("chunks"))
			if c.DType(0) != ir.U32 || len(s) != 2 || s[1].Max() > chunks*radixChunk {
				return nil, errors.New("keys are u32 in rows of at most that many chunks")
			}
			return []ir.Type{{DType: ir.U32, Shape: ir.Shape{s[0], ir.D(radixDigits), {Add: chunks}}}}, nil
		},
		Kernel: &ir.CustomKernel{
			Outputs: []string{"counts"}, Workgroup: [3]int{radixLanes}, Grid: radixGrid("counts"),
			Shared: "shared uint bins[256];", SharedBytes: 4 * radixDigits,
			Body: kernelSource("radix_count"),
		},
		Reference: reference(countDigits),
	})
	radixMoves = map[radixMove]ir.Op{}
)

var radixAttrs = []ir.AttrInfo{{Name: "shift", Kind: ir.AttrInt, Doc: "where the digit's bits begin"}}

// radixMove is a variant of the kernel that moves elements: for the first or the last digit of a sort, or both. For the
// first digit the elements' indices are still their positions, so the kernel does not read them. For the last digit it
// does not move keys, unless the caller needs them.
type radixMove struct{ first, last bool }

func init() {
	for _, m := range []radixMove{{}, {first: true}, {last: true}, {true, true}} {
		radixMoves[m] = ir.MustRegisterCustom(m.op())
	}
}

// radixGrid returns a grid with a workgroup per row and chunk: axes 0 and 2 of the named tensor.
func radixGrid(of string) [3][]ir.GridRule {
	return [3][]ir.GridRule{{{Of: of, Axis: 0, Tile: 1}}, {{Of: of, Axis: 2, Tile: 1}}}
}

// half returns the word of a 64-bit key that attribute high asks for, with all bits inverted for a descending order.
func half(key uint64, a ir.Attrs) uint32 {
	if a.Bool("descending") {
		key = ^key
	}
	if a.Bool("high") {
		key >>= 32
	}
	return uint32(key)
}

// inferKey returns the result type of ops that map each element to a u32.
func inferKey(c *ir.Call) ([]ir.Type, error) {
	return []ir.Type{{DType: ir.U32, Shape: c.Shape(0)}}, nil
}

// op returns the custom op that moves keys and their indices to their sorted positions. Argument starts has the first
// position for each digit and chunk.
func (m radixMove) op() ir.CustomOp {
	name, body := "vkc.radix_move", kernelSource("radix_move")
	args := []ir.ArgInfo{{Name: "keys"}, {Name: "starts"}}
	outputs := []string{"places"}
	// The first pass has no indices to move, and nothing reads the keys after the last pass.
	old, sorted := "from[first + j]", "sorted[to] = key;"
	if m.first {
		name, old = name+"_first", "int(begin + j)"
	} else {
		args = append(args, ir.ArgInfo{Name: "from"})
	}
	if m.last {
		name, sorted = name+"_last", ""
	} else {
		outputs = append(outputs, "sorted")
	}
	body = strings.ReplaceAll(strings.ReplaceAll(body, "OLD", old), "SORTED", sorted)
	return ir.CustomOp{
		Name: name, Args: args, Attrs: radixAttrs,
		Doc: "Sorts the keys of each row by one digit, stably. The results are the source index and the key of each " +
			"output position.",
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			s := c.Shape(0)
			if c.DType(0) != ir.U32 || c.DType(1) != ir.U32 || len(s) != 2 || len(c.Shape(1)) != 3 {
				return nil, errors.New("keys are u32 in rows, and starts by row, digit and chunk")
			}
			types := []ir.Type{{DType: ir.I32, Shape: s}, {DType: ir.U32, Shape: s}}
			return types[:len(outputs)], nil
		},
		Kernel: &ir.CustomKernel{
			Outputs: outputs, Workgroup: [3]int{radixLanes}, Grid: radixGrid("starts"),
			Shared: `shared uint next[1024]; // by group of 32 invocations and digit: the place of the next element
shared uint alike[1024]; // by group and digit: which invocations have it
shared uint order[2048]; // by place in the chunk's order: two coordinates in the chunk`,
			SharedBytes: 4 * (1024 + 1024 + 2048), Body: body,
		},
		Reference: reference(m.reference),
	}
}

// countDigits is the Go reference of radixCount.
func countDigits(args []*ir.Data, a ir.Attrs) []*ir.Data {
	keys := ints(args[0])
	rows, n := args[0].Dims[0], args[0].Dims[1]
	chunks := a.Int("chunks")
	counts := make([]int64, rows*radixDigits*chunks)
	for i, key := range keys {
		counts[startOf(i, n, chunks, key, a)]++
	}
	return []*ir.Data{ofInts(ir.U32, counts, rows, radixDigits, chunks)}
}

// startOf returns the index in tensors counts and starts, both [rows, digits, chunks], for element i with the given
// key. Its row is i/n, for rows of n elements. Attribute shift is the first bit of the digit in the key.
func startOf(i, n, chunks int, key int64, a ir.Attrs) int {
	digit := int(key>>a.Int("shift")) % radixDigits
	return (i/n*radixDigits+digit)*chunks + i%n/radixChunk
}

// reference is the Go reference of the kernel. It moves the elements one after the other. next begins as argument
// starts: it has the position of the next element for each row, digit and chunk.
func (m radixMove) reference(args []*ir.Data, a ir.Attrs) []*ir.Data {
	keys, next := ints(args[0]), ints(args[1])
	n, chunks := args[0].Dims[1], args[1].Dims[2]
	from := m.indices(args)
	places, sorted := make([]int64, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		counter := &next[startOf(i, n, chunks, key, a)]
		inRow := min(max(*counter, 0), int64(n-1)) // starts may have any values
		*counter++
		at := i/n*n + int(inRow)
		places[at], sorted[at] = from[i], key
	}
	out := []*ir.Data{ofInts(ir.I32, places, args[0].Dims...)}
	if !m.last {
		out = append(out, ofInts(ir.U32, sorted, args[0].Dims...))
	}
	return out
}

// indices returns the index that each key had in its row before the first digit was sorted.
func (m radixMove) indices(args []*ir.Data) []int64 {
	if !m.first {
		return ints(args[2])
	}
	list := make([]int64, args[0].Elems())
	for i := range list {
		list[i] = int64(i % args[0].Dims[1])
	}
	return list
}

// longOrder returns the sorted order of rows that are too long for one workgroup, by a radix sort.
// It returns nil for shorter rows, and if no ir.Dim can express the number of rows.
func (r *rewriter) longOrder(n, x *ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	length := x.Shape()[axis]
	if length.Max() <= maxSort {
		return nil
	}
	last := x.Rank() - 1
	x = r.swapAxes(x, axis, last)
	rows, err := x.Shape()[:last].Numel()
	if err != nil {
		return nil
	}
	shape := ir.Shape{rows, length}
	s := radixSort{rewriter: r, keys: r.reshape(r.keysOf(x, analysis.Descending(n), lowWord), shape)}
	s.sortBy(digitsOf(x.DType()))
	if isWide(x.DType()) { // first by the low half of each key, then by the high half
		s.keys = r.onAxis(ir.OpGather, 1, r.reshape(r.keysOf(x, analysis.Descending(n), highWord), shape), s.places)
		s.sortBy(digitsOf(x.DType()))
	}
	out := r.swapAxes(r.reshape(s.places, x.Shape()), axis, last)
	if n.Op() != ir.OpTopKIndices {
		return out
	}
	return r.slice(out, make([]int64, n.Rank()), n.Shape())
}

// radixSort adds the nodes of a radix sort of rows. keys are the rows' keys, sorted by the digits so far. places are
// the positions that these keys had in the original rows; nil before the first digit.
type radixSort struct {
	*rewriter
	keys, places *ir.Node
	keep         bool // whether the caller also needs the sorted keys
}

// isWide reports whether keys of a dtype have 64 bits.
func isWide(t ir.DType) bool { return t == ir.I64 || t == ir.F64 }

// sortBy sorts by several digits of the keys, one after the other. A digit is given by the bit offset of its 8 bits.
func (s *radixSort) sortBy(digits []int) {
	for i, shift := range digits {
		s.sortByDigit(shift, radixMove{first: s.places == nil, last: !s.keep && i == len(digits)-1})
	}
}

// digitsOf lists the bit offsets of the digits that can differ between keys of a dtype. Keys of floats are made of f32
// values, so that narrower floats have low bits of 0.
func digitsOf(t ir.DType) []int {
	all := []int{0, 8, 16, 24}
	switch t {
	case ir.F16:
		return all[1:]
	case ir.BF16, ir.F8E4M3, ir.F8E5M2:
		return all[2:]
	case ir.I16, ir.U16:
		return all[:2]
	case ir.I8, ir.U8:
		return all[:1]
	}
	return all
}

// The words of a 64-bit key, for keysOf.
const (
	lowWord  = false
	highWord = true
)

// keysOf maps elements to u32 keys. Ascending keys sort the elements in ascending order, or in descending order if
// descending is set. Keys of 64-bit elements have two words: high chooses which one it returns.
func (r *rewriter) keysOf(x *ir.Node, descending, high bool) *ir.Node {
	down := attr("descending", descending)
	least, _ := ir.IntRange(x.DType())
	switch {
	case x.DType() == ir.F64:
		return r.unary(doubleKey, x, attr("high", high), down)
	case x.DType().IsFloat():
		return r.unary(floatKey, x, down)
	case x.DType() == ir.I64 && high: // i64 has no shifts, and divisions truncate
		low := r.binary(ir.OpAnd, x, r.scalar(ir.I64, math.MaxUint32))
		x = r.binary(ir.OpDiv, r.binary(ir.OpSub, x, low), r.scalar(ir.I64, 1<<32))
		x, least = r.castTo(x, ir.I32), math.MinInt32
	case x.DType() == ir.I64:
		x, least = r.castTo(x, ir.U32), 0
	}
	return r.unary(integerKey, x, attr("least", least), down)
}

// sortByDigit sorts by the 8 bits of the keys from bit shift on: it counts the digits of each chunk, computes the
// position where each chunk's elements with a digit begin, and moves the elements.
func (s *radixSort) sortByDigit(shift int, m radixMove) {
	at := attr("shift", int64(shift))
	chunks := ceil.Div(s.keys.Shape()[1].Max(), radixChunk)
	counts := s.unary(radixCount, s.keys, at, attr("chunks", chunks))
	starts := s.starts(counts)
	args := []*ir.Node{s.keys, starts}
	if !m.first {
		args = append(args, s.places)
	}
	s.places = s.add(radixMoves[m], args, at)
	if !m.last {
		s.keys = s.add(radixMoves[m], args, at, attr("output", int64(1)))
	}
}

// starts returns, for each digit and chunk of a row, the position in the sorted row of the first element with this
// digit in this chunk: the number of elements with smaller digits, plus the number with the same digit in earlier
// chunks.
func (s *radixSort) starts(counts *ir.Node) *ir.Node {
	shape := counts.Shape()
	flat := s.reshape(counts, ir.Shape{shape[0], shape[2].Times(radixDigits)})
	sum := s.unary(ir.OpCumSum, flat, attr("axis", 1), attr("exclusive", true))
	// Splitting the scan costs one kernel more, which is less than long rows take in one workgroup each.
	if flat.Shape()[1].Max() > 8*minLongSum {
		if long := s.longScan(sum, flat); long != nil {
			sum = long
		}
	}
	return s.reshape(sum, shape)
}
