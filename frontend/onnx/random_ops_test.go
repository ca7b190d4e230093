package onnx_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// array is a tensor of numbers, for definitions of ops by plain loops.
type array struct {
	dims []int
	v    []float64
}

func newArray(dims ...int) array { return array{dims, make([]float64, size(dims))} }

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// place returns the place of an element in a.v.
func (a array) place(at ...int) int {
	n := 0
	for i, d := range a.dims {
		n = n*d + at[i]
	}
	return n
}

func (a array) at(at ...int) float64         { return a.v[a.place(at...)] }
func (a array) set(value float64, at ...int) { a.v[a.place(at...)] = value }

// has reports whether a has an element at these coordinates.
func (a array) has(at ...int) bool {
	for i, d := range a.dims {
		if at[i] < 0 || at[i] >= d {
			return false
		}
	}
	return true
}

// each calls visit for all coordinates of a tensor, in order.
func each(dims []int, visit func(at []int)) {
	at := make([]int, len(dims))
	for range size(dims) {
		visit(slices.Clone(at))
		for a := len(dims) - 1; a >= 0; a-- {
			if at[a]++; at[a] < dims[a] {
				break
			}
			at[a] = 0
		}
	}
}

// filled returns the array whose elements are f of their coordinates.
func filled(dims []int, f func(at []int) float64) array {
	a := newArray(dims...)
	i := 0
	each(dims, func(at []int) {
		a.v[i] = f(at)
		i++
	})
	return a
}

// with returns coordinates with another value on an axis.
func with(at []int, axis, value int) []int {
	at = slices.Clone(at)
	at[axis] = value
	return at
}

// kind is a type of a tensor.
type kind struct {
	number    int64
	dtype     ir.DType
	low, high int // of random values
}

var kinds = map[string]kind{"f32": {1, ir.F32, 0, 0}, "f16": {10, ir.F16, 0, 0},
	"i32": {6, ir.I32, -20, 20}, "i64": {7, ir.I64, -20, 20}, "u8": {2, ir.U8, 0, 30}, "i8": {3, ir.I8, -20, 20},
	"bool": {9, ir.Bool, 0, 1}}

// How the extents of a model's inputs are known.
const (
	fixed    = iota
	symbolic // some extents are symbols
	found    // an extent of an input is the number of elements that Compress finds
	constant // all inputs are constants, so the importer computes the results
	extentForms
)

// opCase is a random node with its inputs, and the results that the specification defines.
type opCase struct {
	*rand.Rand
	forms            *rand.Rand // decides what does not change the results
	extents          int
	symbols          map[int]bool // whether an extent is a symbol
	t                *testing.T
	op, domain, what string
	opset            int64
	attributes       []msg
	ports, constants []msg
	before           []msg // nodes
	ins              []string
	in               map[string]*ir.Data
	want             []array
	slack            []float64 // by result, relative to the largest element
}

// int adds an attribute.
func (c *opCase) int(name string, v int) {
	c.attributes = append(c.attributes, intAttr(name, int64(v)))
	c.what += fmt.Sprintf(" %s=%d", name, v)
}

func (c *opCase) ints(name string, list []int) {
	var wide []int64
	for _, v := range list {
		wide = append(wide, int64(v))
	}
	c.attributes = append(c.attributes, intsAttr(name, wide...))
	c.what += fmt.Sprintf(" %s=%v", name, list)
}

func (c *opCase) float(name string, v float64) {
	c.attributes = append(c.attributes, floatAttr(name, float32(v)))
	c.what += fmt.Sprintf(" %s=%v", name, v)
}

func (c *opCase) text(name, v string) {
	c.attributes = append(c.attributes, textAttr(name, v))
	c.what += fmt.Sprintf(" %s=%s", name, v)
}

// flag adds a random attribute of 0 or 1, or leaves it out if it has the default.
func (c *opCase) flag(name string, otherwise bool) bool {
	v := c.chance(2)
	if v == otherwise && c.chance(2) {
		return v
	}
	c.int(name, map[bool]int{true: 1}[v])
	return v
}

// choice adds a random attribute of a list. The first is the default, which may be left out.
func (c *opCase) choice(name string, list ...string) string {
	v := pick(c.Rand, list...)
	if v != list[0] || c.chance(2) {
		c.text(name, v)
	}
	return v
}

// axis adds attribute axis for an axis, counted from the front or the end.
func (c *opCase) axis(axis, rank int) {
	c.int("axis", c.either(axis, rank))
}

// either counts an axis from the front or the end.
func (c *opCase) either(axis, rank int) int {
	if c.chance(2) {
		return axis - rank
	}
	return axis
}

func (c *opCase) chance(n int) bool { return c.IntN(n) == 0 }

func (c *opCase) between(low, high int) int { return low + c.IntN(high-low+1) }

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// shape returns random extents.
func (c *opCase) shape(lowRank, highRank, limit int) (dims []int) {
	for range c.between(lowRank, highRank) {
		dims = append(dims, c.between(1, limit))
	}
	return dims
}

// random returns a tensor of multiples of 1/8, or of integers of a kind.
func (c *opCase) random(k string, dims ...int) array {
	return filled(dims, func([]int) float64 {
		if low, high := kinds[k].low, kinds[k].high; high > 0 {
			return float64(c.between(low, high))
		}
		return float64(c.between(-24, 24)) / 8
	})
}

// distinct returns a tensor without equal elements.
func (c *opCase) distinct(dims ...int) array {
	a := newArray(dims...)
	for i, v := range c.Perm(len(a.v)) {
		a.v[i] = float64(v)/4 - 3
	}
	return a
}

func (c *opCase) data(k string, a array) *ir.Data {
	var d *ir.Data
	var err error
	if kind := kinds[k]; kind.dtype.IsFloat() {
		d, err = ir.FromFloats(kind.dtype, a.v, a.dims...)
	} else {
		list := make([]int64, len(a.v))
		for i, v := range a.v {
			list[i] = int64(v)
		}
		d, err = ir.FromInts(kind.dtype, list, a.dims...)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// skip leaves an optional input of the node out.
func (c *opCase) skip() { c.ins = append(c.ins, "") }

// constant adds an input of the node that the model contains.
func (c *opCase) constant(k string, a array) {
	name := fmt.Sprint("in", len(c.ins))
	c.ins = append(c.ins, name)
	c.constants = append(c.constants, c.initializer(name, k, a))
	c.what += fmt.Sprintf(", %s%v", k, a.dims)
	if len(a.v) < 9 {
		c.what += fmt.Sprintf("=%v", a.v)
	}
}

func (c *opCase) initializer(name, k string, a array) msg {
	var dims []int64
	for _, d := range a.dims {
		dims = append(dims, int64(d))
	}
	return tensorOf(name, kinds[k].number, dims).bytes(9, c.data(k, a).Bytes)
}

// integers adds a vector of integers that the model contains.
func (c *opCase) integers(list ...int) {
	a := newArray(len(list))
	for i, v := range list {
		a.v[i] = float64(v)
	}
	c.constant("i64", a)
}

// scalar adds a number that the model contains.
func (c *opCase) scalar(k string, v float64) { c.constant(k, array{nil, []float64{v}}) }

// maybe adds an input that is given in a run, or sometimes contained in the model.
func (c *opCase) maybe(k string, a array) {
	if c.extents == constant || c.forms.IntN(3) == 0 {
		c.constant(k, a)
		return
	}
	c.give(k, a)
}

// give adds an input of the node that is given in a run.
func (c *opCase) give(k string, a array) {
	if c.extents == constant {
		c.constant(k, a)
		return
	}
	name := fmt.Sprint("in", len(c.ins))
	c.ins = append(c.ins, name)
	c.what += fmt.Sprintf(", %s%v", k, a.dims)
	dims := make([]any, len(a.dims))
	for i, d := range a.dims {
		dims[i] = d
		if c.extents == symbolic && d > 1 && c.isSymbol(d) {
			dims[i] = fmt.Sprint("N", d)
		}
	}
	if c.extents == found && len(c.before) == 0 && len(a.dims) > 0 && c.forms.IntN(2) == 0 {
		c.find(name, k, a)
		return
	}
	c.ports = append(c.ports, port(name, kinds[k].number, dims...))
	c.in[name] = c.data(k, a)
}

// isSymbol reports whether the inputs of the node have a symbol for an extent. So equal extents have the same form.
func (c *opCase) isSymbol(extent int) bool {
	is, ok := c.symbols[extent]
	if !ok {
		is = c.forms.IntN(2) == 0
		c.symbols[extent] = is
	}
	return is
}

// notFound lets no input be found in a run.
func (c *opCase) notFound() {
	if c.extents == found {
		c.extents = fixed
	}
}

// find adds an input that a run finds: among further elements along an axis.
func (c *opCase) find(name, k string, a array) {
	axis := c.forms.IntN(len(a.dims))
	var chosen []float64
	for range a.dims[axis] {
		for c.forms.IntN(3) == 0 {
			chosen = append(chosen, 0)
		}
		chosen = append(chosen, 1)
	}
	for c.forms.IntN(2) == 0 {
		chosen = append(chosen, 0)
	}
	junk := map[bool]float64{true: math.NaN(), false: 1}[kinds[k].dtype.IsFloat()]
	wide := filled(with(a.dims, axis, len(chosen)), func(at []int) float64 {
		if chosen[at[axis]] == 0 {
			return junk
		}
		n := 0
		for _, v := range chosen[:at[axis]] {
			n += int(v)
		}
		return a.at(with(at, axis, n)...)
	})
	source, which := name+" among others", name+" chosen"
	for _, p := range []struct {
		name, kind string
		array
	}{{source, k, wide}, {which, "bool", array{[]int{len(chosen)}, chosen}}} {
		if p.name == which && c.forms.IntN(3) == 0 {
			c.constants = append(c.constants, c.initializer(p.name, p.kind, p.array))
			continue
		}
		c.ports = append(c.ports, port(p.name, kinds[p.kind].number, anyInts(p.dims)...))
		c.in[p.name] = c.data(p.kind, p.array)
	}
	c.before = append(c.before, node("Compress", names(source, which), names(name), intAttr("axis", int64(axis))))
	c.what += fmt.Sprintf(" found along %d", axis)
}

func anyInts(dims []int) (list []any) {
	for _, d := range dims {
		list = append(list, d)
	}
	return list
}

// expect adds a result. An element NaN stands for any value.
func (c *opCase) expect(a array, slack float64) {
	c.want, c.slack = append(c.want, a), append(c.slack, slack)
}

// isAssumption matches errors of runs for which an assumption of the importer is wrong: that an axis of symbolic extent
// is long enough, or that an extent that a run finds does not broadcast.
var isAssumption = regexp.MustCompile(`no N\S+ makes|under these symbol values|computed another number of elements`)

// errRefused says that the model could not be imported.
var errRefused = errors.New("refused")

// check imports the model, runs it on the reference and on the CPU fast path, and compares its results.
func (c *opCase) check() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if len(c.want) == 0 {
		return nil
	}
	var results []string
	for i := range c.want {
		results = append(results, fmt.Sprint("y", i))
	}
	n := node(c.op, c.ins, results, c.attributes...)
	if c.domain != "" {
		n = of(c.domain, n)
	}
	content := model(c.opset, graph(inputs(c.ports...), weights(c.constants...), nodes(append(c.before, n)...),
		outputs(results...)))
	f, err := onnx.NewReader(content, onnx.Options{})
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	for _, reference := range []bool{true, false} {
		exe, err := cpu.Load(f.Graph, f, cpu.Options{Reference: reference, Workers: 1})
		if err != nil {
			return err
		}
		r, err := exe.Run(context.Background(), c.in, runtime.RunOptions{})
		if err != nil && isAssumption.MatchString(err.Error()) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		if err != nil {
			return err
		}
		if err := f.Graph.OutputInfo().Trim(r.Outputs); err != nil {
			if isAssumption.MatchString(err.Error()) {
				return fmt.Errorf("%w: %w", errRefused, err)
			}
			return err
		}
		for i, name := range results {
			if err := c.want[i].compare(r.Outputs[name], c.slack[i]); err != nil {
				return fmt.Errorf("result %d (reference: %t): %w", i, reference, err)
			}
		}
		if err := exe.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (a array) compare(got *ir.Data, slack float64) error {
	if !slices.Equal(got.Dims, a.dims) {
		return fmt.Errorf("the shape is %v, want %v", got.Dims, a.dims)
	}
	list, err := got.Floats()
	if err != nil {
		ints, err := got.Ints()
		if err != nil {
			return err
		}
		list = nil
		for _, v := range ints {
			list = append(list, float64(v))
		}
	}
	most := 0.0
	for _, v := range a.v {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			most = max(most, math.Abs(v))
		}
	}
	for i, v := range list {
		if w := a.v[i]; !math.IsNaN(w) && v != w && !(math.Abs(v-w) <= slack*max(most, 1)) {
			return fmt.Errorf("element %d of %v is %v, want %v\ngot  %v\nwant %v", i, a.dims, v, w, list, a.v)
		}
	}
	return nil
}

// TestRandomOps imports random nodes with many attributes, and compares their results with definitions of the ops that
// are written from the specification. Extents are fixed, symbols, or found in a run.
//
//	go test ./frontend/onnx -run TestRandomOps -graphs 100000 -timeout 0
func TestRandomOps(t *testing.T) {
	rows := randomOps()
	refused := map[string]int{}
	done := 0
	for i := range uint64(*randomGraphs) {
		seed := *firstSeed + i
		row := rows[seed%uint64(len(rows))]
		if *onlyOp != "" && row.op != *onlyOp {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 0x6f70))
		c := &opCase{Rand: r, forms: rand.New(rand.NewPCG(seed, 0x666f)), t: t, op: row.op, in: map[string]*ir.Data{},
			symbols: map[int]bool{},
			opset:   23}
		c.extents = c.forms.IntN(extentForms)
		row.make(c)
		done++
		switch err := c.check(); {
		case errors.Is(err, errRefused) && (c.extents == symbolic || c.extents == found):
			refused[fmt.Sprint([]string{"fixed", "symbolic", "found", "constant"}[c.extents], " ", row.op)]++
			if testing.Verbose() {
				t.Logf("seed %d, refused: %s%s: %v", seed, row.op, c.what, err)
			}
		case err != nil:
			t.Errorf("seed %d, %s%s: %v", seed, row.op, c.what, err)
		}
	}
	total := 0
	for _, what := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("%s: %d refused", what, refused[what])
		total += refused[what]
	}
	t.Logf("%d nodes", done)
	if total > done/3 {
		t.Errorf("%d of %d nodes were refused: too few are left to mean anything", total, done)
	}
}

// opRow says how to make random nodes of an op.
type opRow struct {
	op   string
	make func(c *opCase)
}

func randomOps() []opRow {
	return []opRow{{"MaxPool", maxPoolCase}, {"AveragePool", averagePoolCase}, {"LpPool", lpPoolCase},
		{"Conv", convCase}, {"ConvTranspose", convTransposeCase}, {"Col2Im", col2ImCase}, {"Slice", sliceCase},
		{"Pad", padCase}, {"Gather", gatherCase}, {"GatherElements", gatherElementsCase}, {"GatherND", gatherNDCase},
		{"ScatterElements", scatterElementsCase}, {"ScatterND", scatterNDCase}, {"DepthToSpace", depthToSpaceCase},
		{"Trilu", triluCase}, {"OneHot", oneHotCase}, {"Compress", compressCase}, {"Split", splitCase},
		{"ReduceSum", reduceCase(fold(0, func(a, b float64) float64 { return a + b }), 0)},
		{"ReduceMax", reduceCase(fold(math.Inf(-1), math.Max), 0)},
		{"ReduceMin", reduceCase(fold(math.Inf(1), math.Min), 0)},
		{"ReduceMean", reduceCase(func(list []float64) float64 {
			return fold(0, func(a, b float64) float64 { return a + b })(list) / float64(len(list))
		}, 1e-6)},
		{"ReduceSumSquare", reduceCase(fold(0, func(a, b float64) float64 { return a + b*b }), 0)},
		{"ReduceL1", reduceCase(fold(0, func(a, b float64) float64 { return a + math.Abs(b) }), 0)},
		{"ReduceL2", reduceCase(func(list []float64) float64 {
			return math.Sqrt(fold(0, func(a, b float64) float64 { return a + b*b })(list))
		}, 1e-5)},
		{"ReduceLogSumExp", reduceCase(func(list []float64) float64 {
			return math.Log(fold(0, func(a, b float64) float64 { return a + math.Exp(b) })(list))
		}, 1e-5)},
		{"ArgMax", argCase(true)}, {"ArgMin", argCase(false)}, {"TopK", topKCase},
		{"CumSum", cumCase(0, func(a, b float64) float64 { return a + b })}, {"Mod", modCase},
		{"LayerNormalization", layerNormCase(true)}, {"RMSNormalization", layerNormCase(false)},
		{"GroupNormalization", groupNormCase}, {"LSTM", recurrentCase("LSTM")}, {"GRU", recurrentCase("GRU")},
		{"RNN", recurrentCase("RNN")}, {"Resize", resizeCase}, {"GridSample", gridSampleCase},
		{"RoiAlign", roiAlignCase}, {"Einsum", einsumCase}, {"Attention", attendCase},
		{"RotaryEmbedding", rotaryCase}, {"NegativeLogLikelihoodLoss", lossCase(false)},
		{"SoftmaxCrossEntropyLoss", lossCase(true)}, {"ReverseSequence", reverseSequenceCase},
		{"Unique", uniqueCase}, {"NonMaxSuppression", suppressionCase}, {"Range", rangeCase},
		{"BitShift", bitShiftCase}, {"CenterCropPad", centerCropPadCase}, {"LRN", lrnCase},
		{"Softmax", softmaxCase("Softmax")}, {"LogSoftmax", softmaxCase("LogSoftmax")},
		{"Hardmax", softmaxCase("Hardmax")}, {"TensorScatter", tensorScatterCase}, {"MaxUnpool", maxUnpoolCase},
		{"Scan", scanCase}, {"Tile", tileCase}, {"Expand", expandCase}, {"Concat", concatCase},
		{"Reshape", reshapeCase}, {"Flatten", flattenCase}, {"SpaceToDepth", spaceToDepthCase},
		{"MatMul", matMulCase}, {"Gemm", gemmCase}, {"InstanceNormalization", statisticsCase(true)},
		{"MeanVarianceNormalization", statisticsCase(false)}, {"LpNormalization", lpNormalizationCase},
		{"NonZero", nonZeroCase}, {"GlobalAveragePool", globalPoolCase("GlobalAveragePool")},
		{"GlobalMaxPool", globalPoolCase("GlobalMaxPool")}, {"GlobalLpPool", globalPoolCase("GlobalLpPool")},
		{"CumProd", cumCase(1, func(a, b float64) float64 { return a * b })},
		{"ReduceProd", reduceCase(fold(1, func(a, b float64) float64 { return a * b }), 1e-5)},
	}
}

var onlyOp = flag.String("op", "", "TestRandomOps: run only the nodes of this op")
