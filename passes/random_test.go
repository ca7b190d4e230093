package passes_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

var (
	randomGraphs = flag.Int("graphs", 300, "how many random graphs to compile and run")
	firstSeed    = flag.Uint64("seed", 1, "the seed of the first random graph")
	keep         = flag.String("keep", "", "write the graphs that fail, made smaller, to this folder")
)

// TestRandomGraphs compares random graphs before and after every pass, and
// their kernels, with the reference.
func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	ran, graphs := 0, passtest.Few(*randomGraphs)
	for seed := *firstSeed; seed < *firstSeed+uint64(graphs); seed++ {
		g, err := graphgen.New(seed, graphgen.Options{Derived: seed%4 == 3})
		if err != nil {
			t.Fatal(err)
		}
		s, c, err := passtest.CheckRandom(g, seed, 4)
		if err != nil {
			fail(t, g, seed, err)
			continue
		}
		ran += c.Ran
		if err := minimal(s); err != nil && !controls(g) {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
		}
	}
	if ran < graphs {
		t.Errorf("only %d runs for %d graphs: the reference refused too many", ran, graphs)
	}
}

// controls reports whether a graph has loops or branches. They write all their results, read or not, and their bodies
// run again.
func controls(g *ir.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return len(n.Bodies()) > 0 })
}

// minimal checks that a plan has nothing it could do without: no dead nodes, no
// barrier without a hazard, no temporary that one kernel alone uses.
func minimal(s *passes.State) error {
	for i, live := range s.Graph.Live() {
		n := s.Graph.Nodes()[i]
		if !live && n.Op() != ir.OpInput && n.Op() != ir.OpState && n.Op().Class() != ir.ClassCustom {
			return fmt.Errorf("%s is dead", ir.FormatNode(n))
		}
	}
	p := *s.Program
	for i, st := range s.Program.Steps {
		if !st.Barrier {
			continue
		}
		p.Steps = slices.Clone(s.Program.Steps)
		p.Steps[i].Barrier = false
		if keval.CheckHazards(&p, s.Kernels) == nil {
			return fmt.Errorf("nothing needs the barrier before step %d\n%s", i, s.Text())
		}
	}
	// Values that may have no reader: a kernel waits for them, or they are results of a custom op, which writes all.
	unread := map[string]bool{}
	for _, n := range s.Graph.Nodes() {
		if n.Op().Class() == ir.ClassCustom {
			unread[fmt.Sprintf("%s %s", n, n.Op())] = true
		}
	}
	for _, k := range s.Plan.Kernels() {
		for _, id := range k.After {
			if n := s.Plan.Value(id).Node; n != nil {
				unread[fmt.Sprintf("%s %s", n, n.Op())] = true
			}
		}
	}
	for i, b := range p.Buffers {
		read, written := 0, 0
		for _, st := range p.Steps {
			for _, bind := range st.Binds {
				if bind.Buffer == i && bind.Read {
					read++
				}
				if bind.Buffer == i && bind.Write && !bind.Read { // who reads it, too, goes on from what was written
					written++
				}
			}
		}
		if b.Kind == kernel.BufTemp && (read == 0 && !unread[b.Name] || written != 1) {
			return fmt.Errorf("temporary %q is written %d times and read %d times\n%s", b.Name, written, read, s.Text())
		}
	}
	return nil
}

// fail reports a graph made as small as the failure allows.
func fail(t *testing.T, g *ir.Graph, seed uint64, err error) {
	t.Helper()
	small := graphgen.Shrink(g, func(g *ir.Graph) bool {
		_, _, again := passtest.Check(g, seed, 4)
		return again != nil && kindOf(again) == kindOf(err)
	})
	_, _, err = passtest.Check(small, seed, 4)
	t.Errorf("seed %d: %v\n%s", seed, err, small)
	if *keep != "" {
		name := filepath.Join(*keep, fmt.Sprintf("fuzz-%d.txt", seed))
		if err := os.WriteFile(name, []byte(small.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// kindOf keeps shrinking from wandering to another failure.
func kindOf(err error) string {
	s := err.Error()
	if strings.HasPrefix(s, "pass ") || strings.HasPrefix(s, "after ") {
		return strings.SplitN(s, ":", 2)[0]
	}
	return strings.SplitN(s, ",", 2)[0]
}

func FuzzPasses(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g, err := graphgen.New(seed, graphgen.Options{Derived: seed%4 == 3})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := passtest.Check(g, seed, 4); err != nil {
			fail(t, g, seed, err)
		}
	})
}

// TestFound runs the graphs that once failed, each made small.
func TestFound(t *testing.T) {
	files, err := filepath.Glob("testdata/fuzz-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g, err := ir.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(3) {
				if _, c, err := passtest.Check(g, seed, 6); err != nil || c.Ran == 0 {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}
