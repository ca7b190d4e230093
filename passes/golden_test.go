package passes_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/golden"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite the golden files from the present results")

var _ = passtest.Pair() // which cases of complete_results call

// TestGolden runs the cases of testdata/passes: each file has the name of a
// pass and holds graphs with the state after that pass.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, p := range passes.Passes() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			goldenFile(t, p.Name)
		})
	}
}

// A case begins with a line "=== NAME". The line "---" separates the graph from the expected one, or UNCHANGED if the
// pass must not change the graph.
func goldenFile(t *testing.T, pass string) {
	file := filepath.Join("testdata", "passes", pass+".txt")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(string(data), "=== ")[1:]
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	for i, c := range cases {
		name, rest, _ := strings.Cut(c, "\n")
		text, want, ok := strings.Cut(rest, "---\n")
		if !ok && !*updateGolden {
			t.Fatalf("%s: no line ---", name)
		}
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := passtest.Check(g, 1, 4); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		have := after(t, g, pass)
		if *updateGolden {
			cases[i] = name + "\n" + text + "---\n" + have
		} else if want != have {
			t.Errorf("%s: case %s differs:\n%sIf the change is meant: go test ./passes -run Golden/%s -update-golden",
				file, name, golden.Diff(want, have), pass)
		}
	}
	if *updateGolden {
		text := "=== " + strings.Join(cases, "=== ")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func after(t *testing.T, g *ir.Graph, pass string) string {
	t.Helper()
	s, err := passes.Run(g, passes.Options{Until: pass, Pricer: choicesOf(pass)})
	if err != nil {
		t.Fatal(err)
	}
	if s.Text() == g.String() {
		return "UNCHANGED\n\n"
	}
	return s.Text() + "\n"
}

// choicesOf proposes and takes what the cases of a pass show.
func choicesOf(pass string) passtest.Choices {
	choices := passtest.Choices{Take: passtest.Rules(pass)}
	switch pass {
	case "decompose":
		choices.Form = kernel.FormChunks
	case "pack_operands":
		choices.Operands = func(k *kernel.Kernel) []kernel.StoredOperand {
			return append(passtest.StoreAll(k), Decompose(false, true)(k)...)
		}
	case "fuse_copies":
		choices.Operands = passtest.StorePlain
	case "chain_convs":
		choices.Take = passtest.ImplicitGEMMs
	case "split_k":
		choices.Parts = passtest.SplitAny
	case "peel_tails":
		choices.Tails = passtest.HalfTail
	case "prescale_rows":
		choices.Take = passtest.Rules("fuse_norms", "prescale_rows")
	case "round_rows":
		choices.Bytes, choices.Halves = passtest.AllBytes, 32
	}
	return choices
}
