package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// TestAnalyzers runs each analyzer over examples of code to report and code to accept.
func TestAnalyzers(t *testing.T) {
	tests := []struct {
		analyzer *analysis.Analyzer
		packages []string
	}{
		{Imports, []string{
			module + "/ir", module + "/quant", module + "/irregular", module + "/runtime/vk", module + "/cmd/vkc",
		}},
		{Caught, []string{module + "/caught"}},
		{Exhaustive, []string{"exhaustive"}},
		{Clock, []string{"clock"}},
		{Columns, []string{"columns"}},
		{Documented, []string{"documented"}},
		{Rebuilt, []string{"rebuilt", module + "/codegen/kernel"}},
		{Rounds, []string{module + "/ir/interp", module + "/bench", "rounds"}},
		{Unused, []string{"unused"}},
		{Words, []string{"words"}},
	}
	for _, tt := range tests {
		t.Run(tt.analyzer.Name, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), tt.analyzer, tt.packages...)
		})
	}
	if len(tests) != len(Analyzers) {
		t.Errorf("%d of %d analyzers are tested", len(tests), len(Analyzers))
	}
}

// TestForUnit: of a package that is only imported, the analyzers that export facts run, also those that others require.
func TestForUnit(t *testing.T) {
	base := &analysis.Analyzer{Name: "base", FactTypes: []analysis.Fact{nil}}
	reads := &analysis.Analyzer{Name: "reads", Requires: []*analysis.Analyzer{base}}
	both := &analysis.Analyzer{Name: "both", Requires: []*analysis.Analyzer{base}, FactTypes: []analysis.Fact{nil}}
	list := []*analysis.Analyzer{reads, Words, both}
	for _, tt := range []struct {
		unit string
		want []*analysis.Analyzer
	}{
		{`{"VetxOnly": true}`, []*analysis.Analyzer{base, both}},
		{`{"VetxOnly": false}`, list},
		{`no JSON`, list},
	} {
		file := filepath.Join(t.TempDir(), "unit.cfg")
		if err := os.WriteFile(file, []byte(tt.unit), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := ForUnit(file, list); !slices.Equal(got, tt.want) {
			t.Errorf("unit %s has %v, want %v", tt.unit, got, tt.want)
		}
	}
	if got := ForUnit("-flags", list); !slices.Equal(got, list) {
		t.Errorf("no unit has %v, want %v", got, list)
	}
}

// errors collects the reports of an analyzer's test.
type errors []string

func (e *errors) Errorf(format string, args ...any) { *e = append(*e, fmt.Sprintf(format, args...)) }

// TestLeftOut checks that the rules also apply to a file excluded by build constraints. The "want" comments in such a
// file are not read.
func TestLeftOut(t *testing.T) {
	var found errors
	analysistest.Run(&found, analysistest.TestData(), Imports, module+"/npy")
	want := `npy/elsewhere.go:5:8: unexpected diagnostic: github.com/vkc-go/vkc/passes is not for packages of "npy"`
	if len(found) != 1 || !strings.Contains(found[0], want) {
		t.Errorf("found %q, want one that says %q", found, want)
	}
}

// TestRules checks the table itself: each row has a reason, and names only rows there are.
func TestRules(t *testing.T) {
	paths := map[string]bool{all: true}
	for _, r := range Rules {
		if paths[r.Path] {
			t.Errorf("two rules for %q", r.Path)
		}
		paths[r.Path] = true
	}
	for _, r := range Rules {
		if r.Why == "" {
			t.Errorf("the rule for %q has no reason", r.Path)
		}
		for _, p := range r.Packages {
			if !paths[p] {
				t.Errorf("the rule for %q allows %q, which has no rule", r.Path, p)
			}
		}
	}
	for _, c := range Closures {
		if !paths[c.Path] || c.Why == "" || len(c.Forbidden) == 0 {
			t.Errorf("the promise about %q names no rule, no reason or nothing forbidden", c.Path)
		}
	}
}

// TestLayers: no rule allows an import of a higher layer, and one that allows everything refuses it.
func TestLayers(t *testing.T) {
	parts := map[string]bool{}
	for _, r := range Rules {
		parts[r.Path] = true
		for _, p := range r.Packages {
			if isAbove(p, r.Path) {
				t.Errorf("the rule of %q allows %q, which is of a higher layer", r.Path, p)
			}
		}
	}
	for _, layer := range Layers {
		for _, part := range layer {
			if !parts[part] {
				t.Errorf("%q is in a layer and has no rule", part)
			}
		}
	}
	for importer, above := range map[string]string{".": "generate", "generate": "serve", "train": "cmd/vkc"} {
		rule, _ := ruleFor(strings.TrimSuffix(module+"/"+importer, "/."))
		if rule.Path != importer || rule.allows(module+"/"+above) {
			t.Errorf("%q, by rule %q, may import %q of a higher layer", importer, rule.Path, above)
		}
	}
}
