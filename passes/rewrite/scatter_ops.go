package rewrite

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// The kernels of scatters that accumulate: each update changes its destination by atomics. The result must not depend
// on the order of updates, so the atomics only add or compare 32-bit integers. These are exact, give the same bits in
// every run, and exist on every device. Only scatters with attribute unordered use atomics on floats.
//
// Other scatters add floats as integers. One kernel finds the largest exponent of each destination's updates. Another
// adds each update as a 64-bit fixed-point number relative to that exponent. This rounds away low bits of small
// updates, but only bits that an f32 sum would not keep either.
//
// A workgroup can also accumulate in shared memory. It then holds a window, a range of destinations, in several copies
// if they fit. At its end it adds each destination of its window to memory once. If there are several windows, a
// workgroup of each reads the same updates and ignores the updates outside of its window.

// accumulation is a way to accumulate updates, such as adding 32-bit integers. There is a kernel of it for each
// accumulationKind.
type accumulation struct {
	name, doc string
	args      []ir.ArgInfo
	attrs     []ir.AttrInfo
	words     int      // number of 32-bit words per destination
	float     bool     // whether the words are floats
	adds      bool     // whether a change is an atomic addition without use of the previous value
	waits     float64  // cost of each other update in flight to the same destination; 1 is the cost of a change
	needs     []string // device features
	load      string   // GLSL that reads element e of the updates to element i of an array
	change    string   // GLSL that accumulates element i into BINS[at]; slot is the element of the result
	flush     string   // GLSL that accumulates BINS[at], in shared memory, into element slot of the result
	// one is the Go reference: it returns a function that accumulates an element of the updates into the words of its
	// destination. These are the words of element slot of the result.
	one func(args []*ir.Data, a ir.Attrs) func(words []int64, element, slot int)
}

// accumulationKind describes one size of the scatter kernels. A kernel with shared memory keeps several copies of a
// range of destinations there (the window), to reduce contention. Each copy is padded by one word, so that the copies
// start at different banks.
type accumulationKind struct {
	suffix string // of the kernel's name
	words  int    // words of shared memory; 0 if it accumulates in memory only
	lanes  int    // invocations per workgroup
	tile   int    // elements per workgroup
	least  int    // smallest number of elements of a scatter that it is for
}

// accumulationKinds are the sizes of kernels. Two use no shared memory: some devices allow only 65,535 workgroups, so
// many elements need larger tiles. The other two need an amount of shared memory that every device has, and one that
// most devices have. With more shared memory a workgroup writes more destinations at its end, so its tile is larger.
var accumulationKinds = []accumulationKind{
	accumulateFew:    {lanes: 128, tile: 1024},
	accumulateMany:   {suffix: "_many", lanes: 128, tile: 8192, least: 1024*math.MaxUint16 + 1},
	sharedEverywhere: {suffix: "_near", words: 4096, lanes: 128, tile: 16384, least: inFlight},
	sharedMostly:     {suffix: "_near_48k", words: 12288, lanes: 512, tile: 65536, least: 64 * 65536},
}

const (
	accumulateFew = iota
	accumulateMany
	sharedEverywhere
	sharedMostly
)

// most returns the largest number of elements of a scatter, which a grid of 65,535 workgroups covers.
func (k accumulationKind) most() float64 { return float64(k.tile) * math.MaxUint16 }

// window returns the number of destinations that fit in shared memory, if each has the given number of words.
func (k accumulationKind) window(words int) int { return (k.words - 1) / words }

// fractionDoc documents attribute lowest.
const fractionDoc = "number of bits kept below the least significant bit of the largest float"

var (
	u32Values = ir.ArgInfo{Name: "values"}
	// scatterMost finds the largest update of each destination.
	scatterMost = accumulation{
		name: "most", doc: "The largest update of each destination, or 0.", args: []ir.ArgInfo{u32Values},
		words: 1, load: "value[i] = values[e];", change: maximum,
		flush: "if (BINS[at] > 0u) atomicMax(sums[slot], BINS[at]);",
		one: func(args []*ir.Data, _ ir.Attrs) func([]int64, int, int) {
			values := ints(args[1])
			return func(place []int64, e, _ int) { place[0] = max(place[0], values[e]) }
		},
	}.register()
	// scatterExponents finds the largest exponent of each destination's updates.
	scatterExponents = accumulation{
		name: "exponents", doc: "The largest biased exponent among the updates of each destination. Zeros and " +
			"subnormals count as 1. The result is 0 for a destination without updates.",
		args: []ir.ArgInfo{u32Values}, words: 1,
		load:   "value[i] = max(floatBitsToUint(values[e]) >> 23u & 255u, 1u);",
		change: maximum,
		flush:  "if (BINS[at] > 0u) atomicMax(sums[slot], BINS[at]);",
		one: func(args []*ir.Data, _ ir.Attrs) func([]int64, int, int) {
			values := floats(args[1])
			return func(place []int64, e, _ int) { place[0] = max(place[0], exponentOf(values[e])) }
		},
	}.register()
	// scatterSum adds 32-bit integers.
	scatterSum = accumulation{
		name: "sum", doc: "The sum of the updates of each destination, which wraps.", args: []ir.ArgInfo{u32Values},
		words: 1, adds: true, waits: 1. / 8, load: "value[i] = values[e];", change: "atomicAdd(BINS[at], value[i]);",
		flush: "if (BINS[at] != 0u) atomicAdd(sums[slot], BINS[at]);",
		one: func(args []*ir.Data, _ ir.Attrs) func([]int64, int, int) {
			values := ints(args[1])
			return func(place []int64, e, _ int) { place[0] = int64(uint32(place[0] + values[e])) }
		},
	}.register()
	// scatterWide adds 64-bit integers, given as two words.
	scatterWide = accumulation{
		name: "wide", doc: "The 64-bit sum of the updates of each destination, as two words. It wraps.",
		args:  []ir.ArgInfo{u32Values, {Name: "high"}},
		words: 2, waits: 1. / 8, load: "value[i] = uvec2(values[e], high[e]);", change: addPair, flush: flushPair,
		one: func(args []*ir.Data, _ ir.Attrs) func([]int64, int, int) {
			low, high := ints(args[1]), ints(args[2])
			return func(place []int64, e, _ int) { addWide(place, uint64(low[e])|uint64(high[e])<<32) }
		},
	}.register()
	// scatterFloat adds floats by float atomics, in any order.
	scatterFloat = accumulation{
		name: "float", doc: "The sum of the floats of each destination, added in any order.",
		args: []ir.ArgInfo{u32Values}, words: 1, float: true, needs: []string{"atomicFloat32Add"},
		adds: true, waits: 1. / 8, load: "value[i] = values[e];", change: "atomicAdd(BINS[at], value[i]);",
		flush: "if (BINS[at] != 0.0) atomicAdd(sums[slot], BINS[at]);", one: addFloat,
	}.register()
	// scatterSwap adds floats by compare-and-swap, in any order.
	scatterSwap = accumulation{
		name: "swap", doc: "The bits of the sum of the floats of each destination, added in any order.",
		args: []ir.ArgInfo{u32Values}, words: 1, waits: 1, load: "value[i] = floatBitsToUint(values[e]);",
		change: strings.ReplaceAll(swapFloat, "VALUE", "value[i]"),
		flush: "if (BINS[at] != 0u) {\n    " + strings.NewReplacer("BINS[at]", "sums[slot]", "VALUE", "BINS[at]",
			"\n", "\n    ").Replace(swapFloat) + "\n}",
		one: addFloat,
	}.register()
	// scatterFixed adds floats as fixed-point numbers relative to the largest exponent of each destination.
	scatterFixed = accumulation{
		name: "fixed", doc: "The fixed-point sum of the floats of each destination, as two words. Its unit depends on the " +
			"destination's largest exponent. If that is the exponent of inf and NaN, the result has flags " +
			"instead: 1 for +inf, 2 for -inf, 4 for NaN.",
		args:  []ir.ArgInfo{u32Values, {Name: "most"}},
		attrs: []ir.AttrInfo{{Name: "lowest", Kind: ir.AttrInt, Doc: fractionDoc}},
		words: 2, waits: 1. / 8, load: "bits[i] = floatBitsToUint(values[e]);",
		change: strings.ReplaceAll(kernelSource("scatter_fixed"), "ADD",
			strings.ReplaceAll(strings.ReplaceAll(addPair, "value[i]", "value[0]"), "\n", "\n    ")),
		flush: `if (most[slot] == 255u) {
    if (BINS[at] != 0u) atomicOr(sums[slot * 2u], BINS[at]);
} else {
    ` + strings.ReplaceAll(flushPair, "\n", "\n    ") + `
}`,
		one: func(args []*ir.Data, a ir.Attrs) func([]int64, int, int) {
			values, most, lowest := floats(args[1]), ints(args[2]), a.Int("lowest")
			return func(place []int64, e, slot int) {
				if most[slot] == 255 {
					place[0] |= flagOf(values[e])
					return
				}
				addWide(place, fixedOf(values[e], int(most[slot]), lowest))
			}
		},
	}.register()
)

// swapFloat adds a float to a float in memory by compare-and-swap. It tries again if another invocation has changed
// that meanwhile.
const swapFloat = `for (uint old = BINS[at], seen; ; old = seen) {
    seen = atomicCompSwap(BINS[at], old, floatBitsToUint(uintBitsToFloat(old) + uintBitsToFloat(VALUE)));
    if (seen == old) break;
}`

// addFloat is the Go reference of the accumulations of floats.
func addFloat(args []*ir.Data, _ ir.Attrs) func([]int64, int, int) {
	values := floats(args[1])
	return func(place []int64, e, _ int) {
		sum := math.Float32frombits(uint32(place[0])) + float32(values[e])
		place[0] = int64(math.Float32bits(sum))
	}
}

// maximum keeps the largest value. If destinations have several updates each, it reads the previous value first, which
// saves most of the atomics.
const maximum = "if (values_size <= uint(slots) || BINS[at] < value[i]) atomicMax(BINS[at], value[i]);"

// addPair adds a 64-bit integer, given as two words, with carry. The sum does not depend on the order of additions.
const addPair = `uint low = atomicAdd(BINS[at], value[i].x);
uint more = value[i].y + uint(low + value[i].x < low);
if (more != 0u) atomicAdd(BINS[at + 1u], more);`

// flushPair is accumulation.flush for pairs of words.
const flushPair = `uint low = BINS[at], high = BINS[at + 1u];
if (low != 0u) high += uint(atomicAdd(sums[slot * 2u], low) + low < low);
if (high != 0u) atomicAdd(sums[slot * 2u + 1u], high);`

// addWide adds v to a 64-bit integer given as two words.
func addWide(place []int64, v uint64) {
	sum := uint64(place[0]) | uint64(place[1])<<32
	sum += v
	place[0], place[1] = int64(uint32(sum)), int64(sum>>32)
}

// exponentOf returns the stored exponent of x as an f32, but at least 1.
func exponentOf(x float64) int64 { return max(int64(math.Float32bits(float32(x))>>23&255), 1) }

// flagOf returns the flag for a float that is infinite or NaN: 1 for +inf, 2 for -inf, 4 for NaN. scatterFixed collects
// the flags of the updates.
func flagOf(x float64) int64 {
	switch {
	case x != x:
		return 4
	case math.IsInf(x, 1):
		return 1
	case math.IsInf(x, -1):
		return 2
	}
	return 0
}

// fixedOf converts x, as an f32, to a two's complement fixed-point number. Its unit is the last bit of a float with the
// biased exponent most, divided by 2^lowest. It rounds x to this unit.
func fixedOf(x float64, most, lowest int) uint64 {
	const fractionBits = 23 // of an f32
	bits := math.Float32bits(float32(x))
	number, exponent := uint64(bits&(1<<fractionBits-1)), int(bits>>fractionBits&255)
	if exponent > 0 {
		number |= 1 << fractionBits // the leading bit of a number that is not subnormal is not stored
	}
	// up is the distance from x's last bit to the unit.
	switch up := max(exponent, 1) - most + lowest; {
	case up >= 0:
		number <<= up
	case up >= -fractionBits-1: // half of the unit is added before the shift
		number = (number + 1<<(-up-1)) >> -up
	default: // x is less than half of the unit
		number = 0
	}
	if bits>>31 > 0 {
		number = -number
	}
	return number
}

// accumulationOps is an accumulation together with the custom ops that are its kernels.
type accumulationOps struct {
	accumulation
	ops []ir.Op // by accumulationKinds
}

// register registers a custom op for each kind of kernel.
func (a accumulation) register() accumulationOps {
	ops := accumulationOps{accumulation: a}
	for _, kind := range accumulationKinds {
		ops.ops = append(ops.ops, ir.MustRegisterCustom(a.op(kind)))
	}
	return ops
}

// op returns the custom op that accumulates updates with one kind of kernel. Its first argument, indices, has the
// destination of each update. The others are the accumulation's own. Its result has a.words words for each of the given
// number of slots, the elements of all destinations.
func (a accumulation) op(kind accumulationKind) ir.CustomOp {
	kernel := &ir.CustomKernel{Outputs: []string{"sums"}, Zeroed: []string{"sums"}, Workgroup: [3]int{kind.lanes},
		Needs: a.needs, Body: a.source(kind)}
	kernel.Grid[0] = []ir.GridRule{{Of: "values", Axis: ir.AllAxes, Tile: kind.tile}}
	// This kind first accumulates in shared memory, a window of the slots at a time.
	if kind.words > 0 {
		word, _ := a.wordGLSL()
		// The second axis of the grid counts the windows: each needs a workgroup that reads the same updates.
		kernel.Shared, kernel.SharedBytes = fmt.Sprintf("shared %s bins[%d];", word, kind.words), 4*kind.words
		kernel.Grid[1] = []ir.GridRule{{Of: "sums", Axis: 0, Tile: kind.window(a.words)}}
		if a.float {
			kernel.Needs = append(slices.Clone(a.needs), "sharedAtomicFloat32Add")
		}
	}
	result := ir.U32
	if a.float {
		result = ir.F32
	}
	return ir.CustomOp{
		Name: "vkc.scatter_" + a.name + kind.suffix, Doc: a.doc, Kernel: kernel,
		Args:  append([]ir.ArgInfo{{Name: "indices"}}, a.args...),
		Attrs: append([]ir.AttrInfo{{Name: "slots", Kind: ir.AttrInt, Doc: "columns of all places"}}, a.attrs...),
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			if c.DType(0) != ir.I32 {
				return nil, errors.New("indices are i32")
			}
			shape := ir.Shape{ir.D(c.Attrs.Int("slots"))}
			if a.words > 1 {
				shape = append(shape, ir.D(a.words))
			}
			return []ir.Type{{DType: result, Shape: shape}}, nil
		},
		Reference: reference(a.reference),
	}
}

// wordGLSL returns the GLSL type of a word, and the literal 0 of that type.
func (a accumulation) wordGLSL() (name, zero string) {
	if a.float {
		return "float", "0.0"
	}
	return "uint", "0u"
}

// source returns the GLSL of a kind of kernel. It fills in the words in capital letters of the files in kernels/:
//
//   - LOOP is the file scatter_loop, with SCOPE, the condition for an update, and AT, the position of its destination.
//   - LOAD, CHANGE and FLUSH are the accumulation's statements. BINS in them is the array of sums.
//   - WORDS is the number of words per destination. The others are numbers, too.
func (a accumulation) source(kind accumulationKind) string {
	number := func(n int) string { return fmt.Sprintf("%du", n) }
	indent := func(text, by string) string { return strings.ReplaceAll(text, "\n", "\n"+by) }
	word, zero := a.wordGLSL()
	file, bins, scope, at := "scatter", "sums", "", "slot * WORDS"
	if kind.words > 0 {
		file, bins = "scatter_near", "bins"
		// Only updates of the window, unless one window has all slots.
		scope, at = "if (uint(slots) <= WINDOW || slot - begin < count) ", "mine + (slot - begin) * WORDS"
	}
	loop := strings.NewReplacer("SCOPE ", scope, "AT", at).Replace(kernelSource("scatter_loop"))
	body := strings.ReplaceAll(kernelSource(file), "LOOP", loop)
	// LOAD assigns either the bits of floats or the values.
	declare := word + " value[8];"
	switch {
	case strings.HasPrefix(a.load, "bits"):
		declare = "uint bits[8];"
	case a.words > 1:
		declare = "uvec2 value[8];"
	}
	body = strings.NewReplacer("ROOM", number(kind.words), "WINDOW", number(kind.window(a.words)), "NOTHING", zero,
		"TILE", number(kind.tile), "ROUND", number(8*kind.lanes), "LANES", number(kind.lanes),
		"DECLARE", declare, "LOAD", a.load, "CHANGE", indent(a.change, "                "),
		"FLUSH", indent(strings.ReplaceAll(a.flush, "BINS", "bins"), "        ")).Replace(body)
	words := ""
	if a.words > 1 {
		words = " * " + number(a.words)
	}
	return strings.NewReplacer("BINS", bins, " * WORDS", words).Replace(body)
}

// reference is the Go reference: it accumulates the updates one after the other.
func (a accumulation) reference(args []*ir.Data, attrs ir.Attrs) []*ir.Data {
	indices, one := ints(args[0]), a.one(args, attrs)
	columns, slots := args[1].Elems()/max(len(indices), 1), attrs.Int("slots")
	sums := make([]int64, slots*a.words)
	for row, place := range indices {
		bailout.Unless(place < 0 || int(place+1)*columns <= slots, "index %d of %d columns in %d slots", place, columns,
			slots)
		for j := 0; place >= 0 && j < columns; j++ {
			slot := int(place)*columns + j
			one(sums[slot*a.words:][:a.words], row*columns+j, slot)
		}
	}
	dims := []int{slots}
	if a.words > 1 {
		dims = append(dims, a.words)
	}
	out := ofInts(ir.U32, sums, dims...)
	if a.float { // the words are the floats' bits
		out.DType = ir.F32
	}
	return []*ir.Data{out}
}

// Special numbers as the bits of an f32.
const (
	infinityBits      = 0x7f800000
	minusInfinityBits = 0xff800000
	nanBits           = 0x7fc00000
)

// These ops convert the results of accumulations back to numbers.
var (
	fixedFloat = ir.MustRegisterCustom(ir.CustomOp{
		Name:  "vkc.fixed_float",
		Doc:   "Converts a fixed-point sum to the bits of a float.",
		Args:  []ir.ArgInfo{{Name: "low"}, {Name: "high"}, {Name: "most"}},
		Attrs: []ir.AttrInfo{{Name: "lowest", Kind: ir.AttrInt, Doc: fractionDoc}},
		Infer: inferKey,
		Body: `if (most == 255u) return low == 1u ? 0x7f800000u : low == 2u ? 0xff800000u : 0x7fc00000u;
if ((low | high) == 0u) return 0u;
uint sign = high & 0x80000000u, l = low, h = high;
if (sign != 0u) {
    l = ~low + 1u;
    h = ~high + uint(low == 0u);
}
uint bits = floatBitsToUint(float(h) * 4294967296.0 + float(l));
int exponent = int(bits >> 23u) + int(most) - 150 - lowest;
uint number = bits & 0x7fffffu | 0x800000u;
if (exponent >= 255) return sign | 0x7f800000u;
if (exponent > 0) return sign | uint(exponent) << 23u | number & 0x7fffffu;
return sign | (exponent < -23 ? 0u : number + (1u << uint(-exponent)) >> uint(1 - exponent));`,
		Int: func(x []int64, a ir.Attrs) int64 {
			sum, most := uint64(x[0])|uint64(x[1])<<32, int(x[2])
			if most == 255 { // an update is infinite or NaN: x[0] has the flags of flagOf
				switch x[0] {
				case 1:
					return infinityBits
				case 2:
					return minusInfinityBits
				}
				return nanBits
			}
			// An f32 has 23 fraction bits, and its stored exponent is 127 too large.
			return int64(math.Float32bits(float32(math.Ldexp(float64(int64(sum)), most-127-23-a.Int("lowest")))))
		},
	})
	keyFloat = ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc.key_float", Args: []ir.ArgInfo{{Name: "key"}}, Infer: inferKey,
		Doc: "Converts a sort key back to the bits of a float. See vkc.float_key.",
		Body: `if (key == 0xffffffffu) return 0x7fc00000u;
return key < 0x7fffffu ? 0xff800000u : key < 0x80000000u ? ~key : key & 0x7fffffffu;`,
		Int: func(x []int64, _ ir.Attrs) int64 {
			switch key := x[0]; {
			case key == math.MaxUint32:
				return nanBits
			case key < ^minusInfinityBits&math.MaxUint32: // no float has such a key: there is no update
				return minusInfinityBits
			case key <= math.MaxInt32:
				return math.MaxUint32 - key
			default:
				return key & math.MaxInt32
			}
		},
	})
	keyInteger = ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc.key_integer",
		Doc:  "Converts a sort key back to an integer. See vkc.integer_key. least is the dtype's smallest value.",
		Args: []ir.ArgInfo{{Name: "key"}},
		Attrs: []ir.AttrInfo{{Name: "least", Kind: ir.AttrInt, Default: int64(0)},
			{Name: "descending", Kind: ir.AttrBool, Default: false}},
		Infer: inferKey,
		Body:  "return (descending ? ~key : key) + uint(least);",
		Int: func(x []int64, a ir.Attrs) int64 {
			key := uint32(x[0])
			if a.Bool("descending") {
				key = ^key
			}
			return int64(key + uint32(a.Int("least")))
		},
	})
)
