package graphgen

import (
	"math"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

const graphs = 3000

func generate(t *testing.T, seed uint64, opt Options) *ir.Graph {
	t.Helper()
	g, err := New(seed, opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestCoverage counts the contents of random graphs. If the generator stopped making an op, a symbol or an update, all
// tests that rely on it would still pass.
func TestCoverage(t *testing.T) {
	ops := map[ir.Op]int{}
	dtypes := map[ir.DType]int{}
	precisions := map[string]int{} // of matmuls that are outputs or their operands
	var symbolic, updates, inPlace, empty, outputs int
	loops := map[string]int{}
	for seed := range uint64(graphs) {
		g := generate(t, seed, Options{})
		live := g.Live()
		for i, n := range g.Nodes() {
			if live[i] {
				ops[n.Op()]++
				dtypes[n.DType()]++
				precisions[n.Attrs().String_("precision")]++
			}
			if n.Shape().MaxElems() == 0 {
				empty++
			}
			if n.Op() == ir.OpLoop && live[i] {
				countLoop(loops, g, n)
			}
		}
		symbolic += min(1, len(g.Symbols()))
		outputs += len(g.Outputs())
		for _, u := range g.Updates() {
			updates++
			if u.Value.Op() == ir.OpDynamicUpdateSlice && u.Value.Arg(0) == u.State {
				inPlace++
			}
		}
	}
	for _, op := range ir.Ops() {
		if ops[op] == 0 {
			t.Errorf("no graph of %d uses %s: add it to the generators of internal/graphgen", graphs, op)
		}
	}
	for _, dt := range append(ir.BlockFormats(), ir.F32, ir.F16, ir.BF16, ir.I64, ir.I32, ir.U32, ir.I8, ir.U8,
		ir.Bool) {
		if dtypes[dt] == 0 {
			t.Errorf("no graph of %d uses %s", graphs, dt)
		}
	}
	for _, p := range []string{ir.PrecisionBF16x3, ir.PrecisionHalf, ir.PrecisionHalfSums, ir.PrecisionBytes} {
		if precisions[p] < 10 {
			t.Errorf("%d products of %d graphs have precision %s", precisions[p], graphs, p)
		}
	}
	for _, what := range []string{"no trips", "symbolic trips", "a condition", "a condition that is false at first",
		"a value left alone", "a later result left alone", "a value that becomes another", "a loop within",
		"a value from outside", "a result after others"} {
		if loops[what] < 10 {
			t.Errorf("%d loops of %d graphs have %s", loops[what], graphs, what)
		}
	}
	for what, n := range map[string]int{"graphs with symbols": symbolic - graphs/4, "updates": updates - 50,
		"updates in place":        inPlace - 5,
		"values without elements": empty - 50, "outputs": outputs - graphs - graphs/2} {
		if n <= 0 {
			t.Errorf("too few %s, by %d", what, -n)
		}
	}
}

// countLoop counts the difficult properties of a loop: aliased values, or no trips.
func countLoop(count map[string]int, g *ir.Graph, n *ir.Node) {
	body, trips := n.Attrs().Graph("body"), n.Attrs().Shape("trips")[0]
	states, updates := body.Leaves(ir.OpState), body.Updates()
	updated := func(s *ir.Node) bool {
		return slices.ContainsFunc(updates, func(u ir.Update) bool { return u.State == s })
	}
	taken := slices.ContainsFunc(g.Nodes(), func(r *ir.Node) bool {
		return r.Op() == ir.OpResult && r.Arg(0) == n && !updated(states[r.Attrs().Int("index")])
	})
	constant := false
	if n.Attrs().Bool("while") && n.Arg(0).Op() == ir.OpConst {
		v, err := n.Arg(0).Attrs().Data("data").Ints()
		constant = err == nil && v[0] == 0
	}
	for what, is := range map[string]bool{"no trips": trips.Is(0), "symbolic trips": !trips.IsStatic(),
		"a condition":                        n.Attrs().Bool("while"),
		"a condition that is false at first": constant,
		"a value left alone":                 !updated(states[0]),
		"a later result left alone":          taken,
		"a value that becomes another": slices.ContainsFunc(updates, func(u ir.Update) bool {
			return u.Value.Op() == ir.OpState && u.Value != u.State
		}),
		"a loop within": slices.ContainsFunc(body.Nodes(), func(n *ir.Node) bool { return n.Op() == ir.OpLoop }),
		"a value from outside": slices.ContainsFunc(body.Leaves(ir.OpInput), func(in *ir.Node) bool {
			return len(body.Users()[in.ID()]) > 0
		}),
		"a result after others": slices.ContainsFunc(g.Nodes(), func(r *ir.Node) bool {
			return r.Op() == ir.OpResult && r.Arg(0) == n && r.ID() > n.ID()+len(states)
		}),
	} {
		if is {
			count[what]++
		}
	}
}

// TestLongSums counts products in large graphs whose sums have many terms.
func TestLongSums(t *testing.T) {
	long, blocks := map[string]int{}, 0
	for seed := range uint64(800) {
		g := generate(t, seed, Options{Large: true})
		for i, live := range g.Live() {
			n := g.Nodes()[i]
			if !live || n.Op() != ir.OpMatMul {
				continue
			}
			s := n.Arg(0).Shape()
			k := s[len(s)-1]
			if n.Attrs().Bool("transpose_a") {
				k = s[len(s)-2]
			}
			if k.Max() < 600 {
				continue
			}
			long[n.Attrs().String_("precision")]++
			if n.Arg(1).DType().IsBlock() {
				blocks++
			}
		}
	}
	// The results of long sums in f16 are not comparable.
	for _, p := range []string{ir.PrecisionFull, ir.PrecisionBF16x3, ir.PrecisionHalf, ir.PrecisionBytes} {
		if long[p] < 2 {
			t.Errorf("%d products with long sums have precision %s", long[p], p)
		}
	}
	if blocks == 0 {
		t.Errorf("no product with long sums has blocks")
	}
}

func TestDeterministic(t *testing.T) {
	for seed := range uint64(50) {
		a, b := generate(t, seed, Options{}), generate(t, seed, Options{})
		if a.String() != b.String() {
			t.Fatalf("seed %d makes two graphs", seed)
		}
		x, errX := (Values{Seed: seed, Graph: a}).Inputs(Values{Seed: seed, Graph: a}.Symbols(1)[0], 0)
		y, errY := (Values{Seed: seed, Graph: b}).Inputs(Values{Seed: seed, Graph: b}.Symbols(1)[0], 0)
		if errX != nil || errY != nil {
			t.Fatal(errX, errY)
		}
		for name := range x {
			if !slices.Equal(x[name].Bytes, y[name].Bytes) {
				t.Errorf("seed %d: two values for input %s", seed, name)
			}
		}
	}
	if generate(t, 1, Options{}).String() == generate(t, 2, Options{}).String() {
		t.Error("two seeds make one graph")
	}
}

func TestOptions(t *testing.T) {
	for seed := range uint64(100) {
		g := generate(t, seed, Options{Static: true})
		if len(g.Symbols()) > 0 {
			t.Errorf("seed %d: a static graph has symbols %v", seed, g.Symbols())
		}
		g = generate(t, seed, Options{Straight: true})
		if slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return n.Op().Class() == ir.ClassControl }) {
			t.Errorf("seed %d: a straight graph has a loop or a branch", seed)
		}
	}
}

// TestValuesAreInTheirBounds checks inputs and weights against the bounds that Bounds assumes.
func TestValuesAreInTheirBounds(t *testing.T) {
	for seed := range uint64(100) {
		g := generate(t, seed, Options{})
		v := Values{Seed: seed, Graph: g}
		bounds := Bounds(g)
		in, err := v.Inputs(v.Symbols(1)[0], 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range slices.Concat(g.Leaves(ir.OpInput), g.Leaves(ir.OpWeight)) {
			d := in[n.Name()]
			if n.Op() == ir.OpWeight {
				if d, err = v.Weight(n.Name()); err != nil {
					t.Fatal(err)
				}
			}
			values, err := decoded(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range values {
				if b := bounds[n.ID()]; x < b.Lo || x > b.Hi {
					t.Errorf("seed %d: %s has %v, outside of %v to %v", seed, n.Name(), x, b.Lo, b.Hi)
				}
			}
		}
	}
}

// decoded returns the elements of a tensor, which may have blocks.
func decoded(d *ir.Data) ([]float64, error) {
	if !d.DType.IsBlock() {
		return d.Floats()
	}
	list := make([]float32, d.Elems())
	err := quant.Dequantize(list, d.DType, d.Bytes)
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = float64(x)
	}
	return values, err
}

func TestSymbols(t *testing.T) {
	g := ir.NewGraph("t")
	if err := g.DeclareSymbol("T", 7); err != nil {
		t.Fatal(err)
	}
	list := Values{Graph: g}.Symbols(20)
	if len(list) != 20 || list[0]["T"] != 7 || list[1]["T"] != 0 || list[2]["T"] != 1 {
		t.Errorf("symbol values begin %v", list[:3])
	}
	for _, s := range list {
		if s["T"] < 0 || s["T"] > 7 {
			t.Errorf("T = %d is out of range", s["T"])
		}
	}
	if n := len(Values{Graph: ir.NewGraph("none")}.Symbols(20)); n != 1 {
		t.Errorf("%d choices for no symbols", n)
	}
}

func TestSpecialValues(t *testing.T) {
	g, err := ir.Parse(`graph "t" { %0 = input {name="x", dtype=f32, shape=[500]} output "o" %0 }`)
	if err != nil {
		t.Fatal(err)
	}
	for _, special := range []bool{false, true} {
		in, err := (Values{Seed: 1, Graph: g, Special: special}).Inputs(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		values, err := in["x"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		if odd := slices.ContainsFunc(values, math.IsNaN) &&
			slices.ContainsFunc(values, func(x float64) bool { return math.IsInf(x, 0) }); odd != special {
			t.Errorf("special is %v, NaN and infinity among the values is %v", special, odd)
		}
	}
}

func TestBounds(t *testing.T) {
	g, err := ir.Parse(`graph "t" {
		%x = input {name="x", dtype=f32, shape=[4]}
		%i = input {name="i", dtype=i32, shape=[4]}
		%1 = exp %x
		%2 = log %x
		%3 = floor %1
		%4 = floor %x
		%5 = recip %1
		%6 = add %i, %i
		%7 = softmax %1
		%8 = max %x, %x
		%9 = atan2 %x, %8
		%10 = iota {axis=0, dtype=f32, shape=[4]}
		%11 = atan2 %x, %10
		output "1" %1 output "2" %2 output "3" %3 output "4" %4 output "5" %5 output "6" %6 output "7" %7
		output "9" %9 output "11" %11 }`)
	if err != nil {
		t.Fatal(err)
	}
	b := Bounds(g)
	tests := []struct {
		node       int
		exact, bad bool
		lo, hi     float64
	}{
		{0, true, false, -1.5, 1.5},
		{2, false, false, math.Exp(-1.5), math.Exp(1.5)},
		{3, false, true, 0, 0}, // of negative numbers
		{4, false, true, 0, 0}, // jumps where two implementations differ
		{5, true, false, -2, 1},
		{6, false, false, math.Exp(-1.5), math.Exp(1.5)},
		{7, true, false, math.MinInt32, math.MaxInt32},
		{8, false, false, 0, 1},
		{10, false, true, 0, 0}, // zeros of either sign
		{12, false, false, -math.Pi / 2, math.Pi / 2},
	}
	for _, tt := range tests {
		have := b[tt.node]
		if have.Bad != tt.bad || !tt.bad && (have.Exact != tt.exact || math.Abs(have.Lo-tt.lo) > 1e-9 ||
			math.Abs(have.Hi-tt.hi) > 1e-9) {
			t.Errorf("%s: %+v, want %+v", ir.FormatNode(g.Nodes()[tt.node]), have, tt)
		}
	}
}

// TestShrink makes graphs smaller while they hold a softmax, and must end with
// little else.
func TestShrink(t *testing.T) {
	has := func(g *ir.Graph) bool {
		live := g.Live()
		return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return n.Op() == ir.OpSoftmax && live[n.ID()] })
	}
	shrunk := 0
	for seed := uint64(0); shrunk < 10; seed++ {
		g := generate(t, seed, Options{})
		if !has(g) {
			continue
		}
		shrunk++
		small := Shrink(g, has)
		if err := small.Verify(); err != nil || !has(small) {
			t.Fatalf("seed %d: %v\n%s", seed, err, small)
		}
		if n := len(small.Nodes()); n > 3 {
			t.Errorf("seed %d: %d nodes are left\n%s", seed, n, small)
		}
	}
}
