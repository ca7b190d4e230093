package passtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/quant"
)

// Checker runs a graph in several ways, such as by its compiled kernels, and compares the results of each way with the
// reference on the original graph.
type Checker struct {
	g      *ir.Graph
	values graphgen.Values
	Bounds []graphgen.Bound
	want   *interp.Program
	ways   []way
	added  []string // kernels of the ways, as text
	Ran    int      // number of runs that the reference accepted
}

// way is one way to run the graph: a name and a function for each run.
type way struct {
	name  string
	run   func(in map[string]*ir.Data, symbols map[string]int64) (map[string]*ir.Data, error)
	state func(name string) (*ir.Data, error)
}

// NewChecker returns a checker of a graph, with inputs and weights from a seed.
func NewChecker(g *ir.Graph, seed uint64) (*Checker, error) {
	c := &Checker{g: g, values: graphgen.Values{Seed: seed, Graph: g}, Bounds: graphgen.Bounds(g)}
	var err error
	c.want, err = interp.New(g, interp.Options{Weights: c.values, Workers: 1})
	return c, err
}

// Quantize quantizes floats to a block format without an importance matrix.
func Quantize(dst []byte, t ir.DType, src []float32) error { return quant.Quantize(dst, t, src, nil) }

// addReference adds a way: the reference on another graph, which must give the same results.
func (c *Checker) addReference(name string, g *ir.Graph) error {
	p, err := interp.New(g, interp.Options{Weights: c.values, Workers: 1})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	run := func(in map[string]*ir.Data, symbols map[string]int64) (map[string]*ir.Data, error) {
		return p.Run(context.Background(), in, symbols)
	}
	c.ways = append(c.ways, way{name, run, p.State})
	return nil
}

// AddKernels adds a way: the kernels of a program, run on the host. They run in the program's order, or, if order is
// not nil, in a random order that the barriers allow. AddKernels ignores kernels that it has already added with such an
// order.
func (c *Checker) AddKernels(name string, s *passes.State, order *rand.Rand) error {
	// text identifies the kernels and the kind of order.
	text := fmt.Sprintln(order != nil)
	for _, k := range s.Kernels {
		text += fmt.Sprintln(k, k.Bindings)
	}
	if slices.Contains(c.added, text) {
		return nil
	}
	c.added = append(c.added, text)
	m, err := keval.New(s.Program, s.Kernels,
		keval.Options{Weights: c.values, Decode: quant.Dequantize, Encode: Quantize, Order: order})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.ways = append(c.ways, way{name, m.Run, m.State})
	return nil
}

// Compare runs the graph in each way that was added, and compares outputs and states with the reference. It makes a run
// for each of up to `runs` choices of symbol values, and at least three if the graph has states, which advance from run
// to run.
func (c *Checker) Compare(runs int) error {
	symbols := c.values.Symbols(runs)
	// At least three runs, so that a state has more than one update.
	if len(c.g.Updates()) > 0 && len(symbols) < 3 {
		symbols = slices.Repeat(symbols, 3)
	}
	for i, values := range symbols {
		in, err := c.values.Inputs(values, i)
		if err != nil {
			return err
		}
		want, err := c.want.Run(context.Background(), in, values)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		c.Ran++
		for _, w := range c.ways {
			if err := c.compareRun(w, in, values, want); err != nil {
				return fmt.Errorf("%s, run %d with %v: %w", w.name, i, values, err)
			}
		}
	}
	return nil
}

// compareRun makes a run in one way and compares its outputs with want.
func (c *Checker) compareRun(w way, in map[string]*ir.Data, symbols map[string]int64, want map[string]*ir.Data) error {
	// Run may change the map.
	have, err := w.run(in, maps.Clone(symbols))
	if err != nil {
		return err
	}
	for _, o := range c.g.Outputs() {
		tol := c.Bounds[o.Node.ID()].Tolerance(o.Node)
		if err := interp.Compare(have[o.Name], want[o.Name], tol).Err(); err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
	}
	for _, s := range c.g.Leaves(ir.OpState) {
		have, err := w.state(s.Name())
		if err != nil {
			return err
		}
		want, err := c.want.State(s.Name())
		if err != nil {
			return err
		}
		if err := interp.Compare(have, want, c.Bounds[s.ID()].Tolerance(s)).Err(); err != nil {
			return fmt.Errorf("state %q: %w", s.Name(), err)
		}
	}
	return nil
}

// Check runs the passes on a graph and compares several computations with the reference on the graph:
//
//   - the reference on the graph after each pass that changed it
//   - the kernels
//   - the kernels in another order
//   - the kernels of the same graph with its nodes in another order
//   - the kernels with other fusion choices
//
// It returns the state of the passes.
func Check(g *ir.Graph, seed uint64, runs int) (*passes.State, *Checker, error) {
	return check(g, seed, runs, 1)
}

// CheckRandom does the same as Check for one of many random graphs, but takes only half of the other fusion choices.
// The next seed takes the other half. VKC_TEST_CASES=all takes all.
func CheckRandom(g *ir.Graph, seed uint64, runs int) (*passes.State, *Checker, error) {
	if os.Getenv(pairs.Env) == "all" {
		return check(g, seed, runs, 1)
	}
	return check(g, seed, runs, 2)
}

// check takes every n-th of the other fusion choices. The seed says which one is the first.
func check(g *ir.Graph, seed uint64, runs, n int) (_ *passes.State, _ *Checker, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	c, err := NewChecker(g, seed)
	if err != nil {
		return nil, nil, err
	}
	observe := func(e passes.Event) error {
		// Some passes change only the kernels.
		if e.State.Graph == e.Before || !e.Changed {
			return nil
		}
		return c.addReference("after "+e.Pass, e.State.Graph)
	}
	s, err := c.addCompiled("kernels", g, passes.Options{Observe: observe}, nil)
	if err != nil {
		return nil, nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	if err := c.AddKernels("kernels in random order", s, rng); err != nil {
		return nil, nil, err
	}
	shuffled, err := shuffle(g, rng)
	if err != nil {
		return nil, nil, err
	}
	if shuffled.Hash() != g.Hash() {
		return nil, nil, fmt.Errorf("the hash depends on the order of nodes")
	}
	if _, err := c.addCompiled("kernels of nodes in another order", shuffled, passes.Options{}, nil); err != nil {
		return nil, nil, err
	}
	if err := c.addChoices(g, rng, int(seed%uint64(n)), n); err != nil {
		return nil, nil, err
	}
	return s, c, c.Compare(runs)
}

// addCompiled runs the passes on a graph and adds the kernels that they make, in order as for [Checker.AddKernels].
func (c *Checker) addCompiled(name string, g *ir.Graph, o passes.Options, order *rand.Rand) (*passes.State, error) {
	s, err := passes.Run(g, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, c.AddKernels(name, s, order)
}

// addChoices adds the kernels that the passes make of g under other choices than the default, in random orders. It
// takes every n-th of the choices, from the given one on, and small kernels.
func (c *Checker) addChoices(g *ir.Graph, rng *rand.Rand, first, n int) error {
	for i, v := range []struct {
		name    string
		choices Choices
	}{
		{"stored operands", Choices{Operands: StoreAll}},
		{"stored left operands", Choices{Operands: storeSide(0)}},
		{"stored right operands", Choices{Operands: storeSide(1)}},
		{"operands and scores stored as they are", Choices{Operands: StorePlain, Parts: SplitAny, Scores: true}},
		{"stored windows, and scatters that accumulate", Choices{Take: ImplicitGEMMs, Form: "accumulate"}},
		{"split sums", Choices{Parts: SplitAny, Form: "any order"}},
		{"cut tails, and scatters that sort", Choices{Tails: anyTail(rng), Parts: SplitAny, Form: "sort"}},
		{"rows of bytes and of attention in f16", Choices{Bytes: AllBytes, Take: Rules("half_attention")}},
		{"fused norms and slices", Choices{Take: FuseAll}},
		{"merged elementwise kernels", Choices{Take: Rules("merge_maps")}},
	} {
		if i%n != first {
			continue
		}
		if _, err := c.addCompiled("kernels of "+v.name, g, passes.Options{Pricer: v.choices}, rng); err != nil {
			return err
		}
	}
	small, err := c.addCompiled("small kernels", g, passes.Options{
		Limits: lower.Limits{Bindings: narrowBindings, Size: 200},
		Pricer: Choices{Parts: SplitAny, Take: FuseAll},
	}, rng)
	if err != nil {
		return err
	}
	for _, k := range small.Kernels {
		if n := len(k.Bindings); n > narrowBindings && k.Custom == nil {
			return fmt.Errorf("small kernels: %s binds %d buffers, more than %d", k.Name, n, narrowBindings)
		}
	}
	return nil
}

// narrowBindings is a small limit of buffers per kernel: enough for the op with the most arguments, with symbol values
// and codebooks.
const narrowBindings = 9

// FuseAll accepts every proposal of the rules that fuse norms, slices, copies and elementwise kernels with others.
var FuseAll = Rules("fuse_norms", "fuse_slices", "prescale_rows", "fuse_copies", "merge_maps")

// StoreAll proposes to store all operands of matmuls that cooperative matrices can use. It pads extents that are known
// at compile time, by a few elements, so that tests cover padding.
func StoreAll(k *kernel.Kernel) []kernel.StoredOperand {
	var list []kernel.StoredOperand
	seen := map[*kernel.Expr]bool{}
	for _, p := range k.MatMuls {
		for i, v := range []*kernel.Expr{p.A, p.B} {
			if p.Operands != ir.F16 && p.Operands != ir.BF16 && p.Sums() != ir.I32 || seen[v] {
				continue
			}
			seen[v] = true
			s := kernel.StoredOperand{Operand: v}
			if d := k.Parallel[len(k.Parallel)-2+i]; d.IsStatic() && d.Add > 0 {
				// Any few elements will do.
				s.Rows = int(d.Add + 3)
			}
			if k.Fold.IsStatic() && k.Fold.Add > 0 {
				s.Depth = int(k.Fold.Add + 5)
			}
			list = append(list, s)
		}
	}
	return list
}

// StorePlain proposes to store the same operands as StoreAll, but without padding.
func StorePlain(k *kernel.Kernel) []kernel.StoredOperand {
	list := StoreAll(k)
	for i := range list {
		list[i].Rows, list[i].Depth = 0, 0
	}
	return list
}

// storeSide returns a function that proposes those operands of StoreAll that are on one side of the matmuls: 0 for A, 1
// for B. It does not pad the contraction axis, because the operands of the other side are not padded there.
func storeSide(side int) func(k *kernel.Kernel) []kernel.StoredOperand {
	return func(k *kernel.Kernel) []kernel.StoredOperand {
		var list []kernel.StoredOperand
		for _, o := range StoreAll(k) {
			ofSide := func(p kernel.MatMul) bool { return []*kernel.Expr{p.A, p.B}[side] == o.Operand }
			if slices.ContainsFunc(k.MatMuls, ofSide) {
				list = append(list, kernel.StoredOperand{Operand: o.Operand, Rows: o.Rows})
			}
		}
		return list
	}
}

// AllBytes accepts every proposal to quantize rows to int8.
func AllBytes(ir.DType, ir.Dim, ir.Dim) bool { return true }

// SplitAny splits the contraction of every matmul that allows it.
func SplitAny(k *kernel.Kernel) int {
	// The most parts, up to 4, that divide the contraction axis.
	for parts := int64(4); parts > 1 && k.Family == kernel.FamilyMatMul; parts-- {
		if _, ok := k.Fold.Quo(parts); ok && k.Fold.Max() > 0 {
			return int(parts)
		}
	}
	return 1
}

// anyTail cuts every matmul at random positions, along one axis or two.
func anyTail(rng *rand.Rand) func(k *kernel.Kernel) []kernel.Tail {
	return func(k *kernel.Kernel) (list []kernel.Tail) {
		var axes []int
		for i, d := range k.Parallel {
			if d.IsStatic() && d.Add > 1 {
				axes = append(axes, i)
			}
		}
		for range min(len(axes), 2) {
			axis := axes[rng.IntN(len(axes))]
			list = append(list,
				kernel.Tail{Axis: axis, From: 1 + rng.Int64N(k.Parallel[axis].Add-1), Swap: rng.IntN(2) == 0})
		}
		return list
	}
}

// shuffle puts the nodes of a graph in a random order that keeps arguments before users. Inputs and states keep their
// own order, which is part of the interface.
func shuffle(g *ir.Graph, rng *rand.Rand) (*ir.Graph, error) {
	waits := make([]int, len(g.Nodes()))       // by id: how many nodes must come before
	then := make([][]*ir.Node, len(g.Nodes())) // by id: the nodes that must come after
	before := func(a, b *ir.Node) {
		then[a.ID()] = append(then[a.ID()], b)
		waits[b.ID()]++
	}
	for _, op := range []ir.Op{ir.OpInput, ir.OpState} {
		// Each input or state, after the first, must come after the one before it.
		for i, n := range g.Leaves(op)[min(1, len(g.Leaves(op))):] {
			before(g.Leaves(op)[i], n)
		}
	}
	var ready, order []*ir.Node
	for _, n := range g.Nodes() {
		for _, a := range n.Args() {
			before(a, n)
		}
		if waits[n.ID()] == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		i := rng.IntN(len(ready))
		n := ready[i]
		ready = slices.Delete(ready, i, i+1)
		order = append(order, n)
		for _, u := range then[n.ID()] {
			waits[u.ID()]--
			if waits[u.ID()] == 0 {
				ready = append(ready, u)
			}
		}
	}
	return ir.Reorder(g, order)
}

// Parse returns the graph of a text, which may omit the braces around it.
func Parse(t testing.TB, text string) *ir.Graph {
	t.Helper()
	if !strings.HasPrefix(strings.TrimSpace(text), "graph") {
		text = "graph \"test\" {\n" + text + "\n}"
	}
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return g
}

// Families lists the families of the kernels of a state, in order.
func Families(s *passes.State) string {
	var list []string
	for _, k := range s.Kernels {
		list = append(list, string(k.Family))
	}
	return strings.Join(list, " ")
}

// Few returns how many of n random graphs to run: under -short, a quarter.
func Few(n int) int {
	if testing.Short() {
		return (n + 3) / 4
	}
	return n
}

// RunKernels runs the kernels of a state on the host.
func RunKernels(t *testing.T, s *passes.State, weights ir.WeightSource, in map[string]*ir.Data,
	symbols map[string]int64) map[string]*ir.Data {
	t.Helper()
	m, err := keval.New(s.Program, s.Kernels,
		keval.Options{Weights: weights, Decode: quant.Dequantize, Encode: Quantize})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Text())
	}
	out, err := m.Run(in, symbols)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Text())
	}
	return out
}

// RunReference runs a graph by the reference.
func RunReference(t *testing.T, g *ir.Graph, weights ir.WeightSource, in map[string]*ir.Data,
	symbols map[string]int64) map[string]*ir.Data {
	t.Helper()
	ref, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	out, err := ref.Run(context.Background(), in, symbols)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Compare runs the kernels of a lowered graph under several symbol values, and compares the outputs with the reference
// on the graph itself.
func Compare(t *testing.T, g *ir.Graph, s *passes.State, seed uint64) {
	t.Helper()
	values := graphgen.Values{Seed: seed, Graph: g}
	want, err := interp.New(g, interp.Options{Weights: values, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	have, err := keval.New(s.Program, s.Kernels, keval.Options{Weights: values, Decode: quant.Dequantize,
		Encode: Quantize})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i, symbols := range values.Symbols(4) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := want.Run(context.Background(), in, symbols)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		ran++
		got, err := have.Run(in, symbols)
		if err != nil {
			t.Fatalf("with %v: %v", symbols, err)
		}
		for _, o := range g.Outputs() {
			if err := interp.Compare(got[o.Name], ref[o.Name], interp.ToleranceOf(g, o.Node)).Err(); err != nil {
				t.Fatalf("with %v: %v", symbols, err)
			}
		}
	}
	if ran == 0 {
		t.Fatal("the reference could do no run")
	}
}

// OneOp returns the graph of one op on inputs of types such as "f32[N,3] i32[4]". %0 is the first input in the op's
// text.
func OneOp(t *testing.T, inputs, op string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(oneOpText(inputs, op))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// oneOpText returns the text of OneOp's graph.
func oneOpText(inputs, op string) string {
	text := "graph \"op\" {\n"
	for _, sym := range []string{"N", "T"} {
		if strings.Contains(inputs, sym) {
			text += fmt.Sprintf("  symbol %s <= 6\n", sym)
		}
	}
	for i, typ := range strings.Fields(inputs) {
		dtype, shape, _ := strings.Cut(typ, "[")
		text += fmt.Sprintf("  %%%d = input {name=\"x%d\", dtype=%s, shape=[%s}\n", i, i, dtype, shape)
	}
	return text + "  %y = " + op + "\n  output \"y\" %y\n}\n"
}

// ImplicitGEMMs accepts every proposal to store the operands of a convolution.
var ImplicitGEMMs = Rules("implicit_gemm")

// RunAndCompare takes a graph through the passes and compares its kernels with the reference, within the tolerances of
// the graph.
func RunAndCompare(t *testing.T, g *ir.Graph, opt passes.Options) *passes.State {
	t.Helper()
	s, err := passes.Run(g, opt)
	if err != nil {
		t.Fatal(err)
	}
	Compare(t, g, s, 3)
	return s
}

// HalfTail is the last half of the outermost axis, of an even length.
func HalfTail(k *kernel.Kernel) []kernel.Tail {
	if !k.Parallel[0].IsStatic() || k.Parallel[0].Add%2 != 0 {
		return nil
	}
	return []kernel.Tail{{From: k.Parallel[0].Add / 2}}
}

// WithoutUnused drops the inputs and states that a graph does not use.
func WithoutUnused(t *testing.T, g *ir.Graph) *ir.Graph {
	t.Helper()
	live := g.Live()
	h := ir.NewGraph(g.Name)
	made := make([]*ir.Node, len(g.Nodes()))
	for i, n := range g.Nodes() {
		if !live[i] {
			continue
		}
		args := make([]*ir.Node, len(n.Args()))
		for j, a := range n.Args() {
			args[j] = made[a.ID()]
		}
		var err error
		if made[i], err = h.Add(n.Op(), args, n.Attrs(), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range g.Updates() {
		if err := h.Update(made[u.State.ID()], made[u.Value.ID()]); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range g.Outputs() {
		if err := h.Output(o.Name, made[o.Node.ID()]); err != nil {
			t.Fatal(err)
		}
	}
	return h
}
