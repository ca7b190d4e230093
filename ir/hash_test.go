package ir

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestHashIgnoresNamesAndOrder rebuilds random graphs under other names in
// other orders.
func TestHashIgnoresNamesAndOrder(t *testing.T) {
	moved := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := randomGraph(t, rng)
		order := randomOrder(g, rng)
		if !slices.IsSorted(order) {
			moved++
		}
		h := copyGraph(t, g, order, nil)
		if g.Hash() != h.Hash() {
			t.Fatalf("seed %d: hashes differ:\n%s%s", seed, g, h)
		}
		checkRebind(t, g, h)
	}
	if moved < 200 {
		t.Errorf("only %d graphs were reordered", moved)
	}
}

// checkRebind checks that interfaces of graphs with one hash match by place.
func checkRebind(t *testing.T, g, h *Graph) {
	t.Helper()
	a, b := g.Interface(), h.Interface()
	nodes := func(what string, a, b []*Node) {
		if len(a) != len(b) {
			t.Fatalf("%d and %d %s", len(a), len(b), what)
		}
		for i := range a {
			if "new "+a[i].Name() != b[i].Name() {
				t.Fatalf("%s %d is %q and %q in\n%s%s", what, i, a[i].Name(), b[i].Name(), g, h)
			}
		}
	}
	nodes("inputs", a.Inputs, b.Inputs)
	nodes("weights", a.Weights, b.Weights)
	nodes("states", a.States, b.States)
	for i := range a.Symbols {
		if "new_"+a.Symbols[i] != b.Symbols[i] {
			t.Fatalf("symbol %d is %q and %q", i, a.Symbols[i], b.Symbols[i])
		}
	}
	for i := range a.Outputs {
		if "new "+a.Outputs[i] != b.Outputs[i] {
			t.Fatalf("output %d is %q and %q", i, a.Outputs[i], b.Outputs[i])
		}
	}
}

// TestHashSeesEveryNode changes each node of random graphs: the hash changes
// if and only if the node is live.
func TestHashSeesEveryNode(t *testing.T) {
	live, dead := 0, 0
	for seed := range uint64(100) {
		g := randomGraph(t, rand.New(rand.NewPCG(seed, 2)))
		identity := make([]int, len(g.nodes))
		for i := range identity {
			identity[i] = i
		}
		for i, isLive := range g.Live() {
			if g.nodes[i].op.Class() == ClassLeaf && g.nodes[i].op != OpConst {
				continue
			}
			h := copyGraph(t, g, identity, func(n *Node, op Op, args []*Node, attrs []Attr) (Op, []*Node, []Attr) {
				if n.id == i {
					return mutate(op, args, attrs)
				}
				return op, args, attrs
			})
			if (h.Hash() != g.Hash()) != isLive {
				t.Fatalf("seed %d: node %d is live: %v, but the hash does not say so:\n%s%s", seed, i, isLive, g, h)
			}
			if isLive {
				live++
			} else {
				dead++
			}
		}
	}
	if live < 100 || dead < 100 {
		t.Errorf("%d live and %d dead nodes were changed: too few to tell", live, dead)
	}
}

// mutate changes the computation of a node: another op, or another value.
func mutate(op Op, args []*Node, attrs []Attr) (Op, []*Node, []Attr) {
	switch {
	case op == OpConst:
		old := attrs[0].Value.(*Data)
		raw := slices.Clone(old.Bytes)
		raw[len(raw)-1] ^= 1
		return op, args, []Attr{{"data", &Data{old.DType, old.Dims, raw}}}
	case op == OpElu:
		return op, args, []Attr{{"alpha", attrs[0].Value.(float64) + 1}}
	case len(args) == 1:
		return OpTanh, args, nil
	}
	return OpMax, args, nil
}

// hashBase is the graph that the cases of TestHashDistinguishes change.
const hashBase = `graph "base" {
  symbol T <= 8
  %x = input {name="x", dtype=f32, shape=[T,4]}
  %y = input {name="y", dtype=f32, shape=[T,4]}
  %w = weight {name="w", dtype=f32, shape=[4,4]}
  %v = weight {name="v", dtype=f32, shape=[4,4]}
  %s = state {name="s", dtype=f32, shape=[4]}
  %r = state {name="r", dtype=f32, shape=[4]}
  %c = const {data=f32[4](0.0, 1.0, 2.0, 3.0)}
  %1 = matmul %x, %w
  %2 = matmul %1, %v
  %3 = sub %2, %y
  %4 = add %3, %c
  %5 = sum %4 {axes=[0]}
  update %s = %5
  output "a" %4
  output "b" %5
}
`

// edit applies replacements. Each must match.
func edit(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("no %q in the graph", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

func hashOf(t *testing.T, text string) string {
	t.Helper()
	g, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return g.HashString()
}

func TestHashDistinguishes(t *testing.T) {
	swapInputs := []string{`%x = input {name="x"`, `%t = input {name="x"`, `%y = input {name="y"`,
		`%x = input {name="y"`, `%t = `, `%y = `}
	seen := map[string]string{hashOf(t, hashBase): "the base"}
	for name, pairs := range map[string][]string{
		"op":                       {"sub %2", "mul %2"},
		"argument order":           {"sub %2, %y", "sub %y, %2"},
		"order of inputs":          swapInputs,
		"one weight used twice":    {"matmul %1, %v", "matmul %1, %w"},
		"one input used for both":  {"sub %2, %y", "sub %2, %x"},
		"unused input":             {"  output \"a\"", "  %z = input {name=\"z\", dtype=f32, shape=[4]}\n  output \"a\""},
		"unused state":             {"  output \"a\"", "  %z = state {name=\"z\", dtype=f32, shape=[4]}\n  output \"a\""},
		"order of outputs":         {"\"a\" %4", "\"a\" %5", "\"b\" %5", "\"b\" %4"},
		"one output less":          {"  output \"b\" %5\n", ""},
		"which state is updated":   {"update %s", "update %r"},
		"no update":                {"  update %s = %5\n", ""},
		"two updates":              {"  update %s = %5\n", "  update %s = %5\n  update %r = %5\n"},
		"value of the update":      {"update %s = %5", "update %s = %r"},
		"bound of the symbol":      {"T <= 8", "T <= 9"},
		"symbol or number":         {"shape=[T,4]", "shape=[8,4]"},
		"another dim of it":        {"shape=[T,4]", "shape=[2*T,4]"},
		"two symbols":              {"symbol T <= 8\n", "symbol T <= 8\n  symbol U <= 8\n", "[T,4]}\n  %y", "[U,4]}\n  %y", "sub %2, %y", "sub %2, %2"},
		"one symbol, same sharing": {"sub %2, %y", "sub %2, %2"},
		"attribute":                {"axes=[0]", "axes=[-2]"},
		"data":                     {"2.0, 3.0", "2.0, 3.5"},
		"sign of zero":             {"f32[4](0.0", "f32[4](-0.0"},
		"dtype":                    {"dtype=f32", "dtype=f16", "data=f32", "data=f16"},
		"extent of weights":        {"shape=[4,4]", "shape=[4,5]", "matmul %1, %v", "matmul %1, %v {transpose_b=true}", "[T,4]", "[T,4]", "%1 = matmul %x, %w", "%0 = matmul %x, %w\n  %1 = slice %0 {starts=[0,0], limits=[T,4]}", "sub %2, %y", "sub %x, %y", "%2 = matmul %1, %v {transpose_b=true}\n", ""},
		"a node computed twice":    {"sub %2, %y", "sub %2b, %y", "  %3", "  %2b = matmul %1, %v\n  %3", "add %3, %c", "add %3, %2"},
		"a node shared":            {"add %3, %c", "add %3, %2"},
	} {
		h := hashOf(t, edit(t, hashBase, pairs...))
		if other, ok := seen[h]; ok {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[h] = name
	}
}

func TestHashSame(t *testing.T) {
	want := hashOf(t, hashBase)
	for name, pairs := range map[string][]string{
		"names":                     {`graph "base"`, `graph "other"`, `name="w"`, `name="x.w"`, `name="s"`, `name="t"`, `output "a"`, `output "z"`, `name="x"`, `name="i"`},
		"weights that swap names":   {`name="w"`, `name="tmp"`, `name="v"`, `name="w"`, `name="tmp"`, `name="v"`},
		"symbol":                    {"T", "Length"},
		"unused symbol":             {"symbol T <= 8", "symbol T <= 8\n symbol U <= 4"},
		"dead node":                 {"  %5 =", "  %dead = exp %4\n  %5 ="},
		"dead weight":               {"  %5 =", "  %dead = weight {name=\"d\", dtype=f32, shape=[]}\n  %5 ="},
		"declaration order":         {"  %c = const {data=f32[4](0.0, 1.0, 2.0, 3.0)}\n", "", "  %4 =", "  %c = const {data=f32[4](0.0, 1.0, 2.0, 3.0)}\n  %4 ="},
		"inputs after states":       {"  %y = input {name=\"y\", dtype=f32, shape=[T,4]}\n", "", "  %c", "  %y = input {name=\"y\", dtype=f32, shape=[T,4]}\n  %c"},
		"default written out":       {"sum %4 {axes=[0]}", "sum %4 {axes=[0], keepdims=false}"},
		"another spelling of a dim": {"[T,4]", "[1*T+0,4]"},
	} {
		if h := hashOf(t, edit(t, hashBase, pairs...)); h != want {
			t.Errorf("%s changes the hash", name)
		}
	}
}

// TestHashDeepGraph: a chain as long as a graph may be does not overflow the
// stack.
func TestHashDeepGraph(t *testing.T) {
	if testing.Short() {
		t.Skip("a million nodes")
	}
	b := &builder{t: t, g: NewGraph("deep")}
	n := b.leaf(OpInput, "x", Shape{})
	for len(b.g.nodes) < MaxNodes {
		n = b.add(OpNeg, []*Node{n})
	}
	if _, err := b.g.Add(OpNeg, []*Node{n}, nil, ""); err == nil {
		t.Error("one more node was accepted")
	}
	if err := b.g.Output("y", n); err != nil {
		t.Fatal(err)
	}
	if b.g.Hash() == ([32]byte{}) {
		t.Error("no hash")
	}
}
