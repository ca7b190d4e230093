package ir

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

const rulesFile = "testdata/rules.txt"

// rulesPrelude returns the nodes that the cases of rules.txt use, as the
// beginning of a graph in text IR.
func rulesPrelude(lines []string) string {
	var b strings.Builder
	b.WriteString("graph \"rules\" {\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "%") || strings.HasPrefix(l, "symbol ") {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

// ruleResult parses the prelude with one more node and returns its type or
// error.
func ruleResult(prelude, line string) (op Op, result string) {
	name, _, _ := strings.Cut(line, " ")
	op, err := ParseOp(name)
	if err != nil {
		return 0, err.Error()
	}
	g, err := Parse(prelude + "%case = " + line + "\n}")
	if err != nil {
		var re *ReadError
		if errors.As(err, &re) {
			err = re.Err
		}
		return op, "error: " + err.Error()
	}
	return op, g.nodes[len(g.nodes)-1].Type().String()
}

// rulesGraph returns one graph, as text IR, of all cases of rules.txt that are
// right and take arguments: every op with all sorts of attributes.
func rulesGraph(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	b := strings.Builder{}
	b.WriteString(rulesPrelude(lines))
	for i, l := range lines {
		if line, want, ok := strings.Cut(l, " => "); ok && strings.Contains(line, "%") &&
			!strings.HasPrefix(want, "error: ") {
			fmt.Fprintf(&b, "%%case%d = %s\n", i, line)
		}
	}
	return b.String() + "output \"y\" %x\n}\n"
}

// TestRulesThroughFiles: nodes of every op print and read back, as text and as
// graph.json.
func TestRulesThroughFiles(t *testing.T) {
	g, err := Parse(rulesGraph(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(g.String())
	if err != nil {
		t.Fatal(err)
	}
	sameGraph(t, g, again)
	throughJSON(t, g)
	seen := map[Op]bool{}
	for _, n := range g.nodes {
		seen[n.op] = true
	}
	for _, op := range Ops() {
		if !seen[op] && op.Class() != ClassLeaf {
			t.Errorf("no case of %s went through", op)
		}
	}
}

// TestRules runs the cases of rules.txt.
func TestRules(t *testing.T) {
	raw, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	prelude := rulesPrelude(lines)
	good, bad := map[Op]bool{}, map[Op]bool{}
	for i, l := range lines {
		if l == "" || strings.IndexByte("#%", l[0]) >= 0 || strings.HasPrefix(l, "symbol ") {
			continue
		}
		line, want, _ := strings.Cut(l, " => ")
		op, have := ruleResult(prelude, line)
		if strings.HasPrefix(have, "error: ") {
			bad[op] = true
		} else {
			good[op] = true
		}
		lines[i] = line + " => " + have
		if have != want && !*updateGolden {
			t.Errorf("%s:%d: %s\n have %s\n want %s", rulesFile, i+1, line, have, want)
		}
	}
	for _, op := range Ops() {
		if !good[op] || !bad[op] {
			t.Errorf("%s: testdata/rules.txt has a positive case: %v, a negative one: %v; want both", op,
				good[op], bad[op])
		}
	}
	if *updateGolden {
		checkGolden(t, rulesFile, strings.Join(lines, "\n")+"\n")
	}
}
