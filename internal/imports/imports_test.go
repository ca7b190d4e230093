package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/vkc-go/vkc"

var checker = Checker{Module: module, Rules: Rules, Closures: Closures}

// TestModule is what this package is for.
func TestModule(t *testing.T) {
	for _, cgo := range []bool{true, false} {
		pkgs, err := List(filepath.Join("..", ".."), cgo)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(pkgs, func(p Package) bool { return p.ImportPath == module+"/ir" }) {
			t.Fatalf("go list (cgo %v) found no package ir: the check would prove nothing", cgo)
		}
		for _, problem := range checker.Check(pkgs) {
			t.Errorf("cgo %v: %s", cgo, problem)
		}
	}
}

// pkg makes a package of the module from short paths; imports with a leading + are in the module.
func pkg(path string, imports ...string) Package {
	p := Package{ImportPath: ours(path)}
	for _, imp := range imports {
		if short, ok := strings.CutPrefix(imp, "+"); ok {
			imp = ours(short)
		}
		p.Imports = append(p.Imports, imp)
	}
	p.Deps = p.Imports
	return p
}

func ours(path string) string {
	if path == "." {
		return module
	}
	return module + "/" + path
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		pkgs []Package
		want []string // a substring of each problem, in order
	}{
		{"standard library and cgo", []Package{pkg("runtime/vk", "C", "fmt", "encoding/json", "unsafe")}, nil},
		{"a listed part", []Package{pkg("passes", "+ir", "+quant", "+codegen/kernel")}, nil},
		{"a listed module's package", []Package{pkg("codegen/spirv", "golang.org/x/sync/errgroup")}, nil},
		{"folders of one part", []Package{pkg("frontend/llm", "+frontend", "+frontend/gguf")}, nil},
		{"everything from the root and the command", []Package{
			pkg(".", "+passes", "+runtime/vk"),
			pkg("cmd/vkc", "+.", "+codegen/glsl", "github.com/spf13/cobra"),
		}, nil},
		{"a harmless helper", []Package{pkg("internal/mmap", "golang.org/x/sys/unix"), pkg("codegen/bundle", "+internal/mmap")}, nil},

		{"upwards", []Package{pkg("ir", "+passes")},
			[]string{`vkc/ir: imports github.com/vkc-go/vkc/passes; the rule for "ir" allows github.com/x448/float16`}},
		{"a part is not its subpart", []Package{pkg("ir", "+ir/interp")}, []string{"imports github.com/vkc-go/vkc/ir/interp"}},
		{"a subpart of a forbidden part", []Package{pkg("passes", "+runtime/vk/internal/x")}, []string{"runtime/vk/internal/x"}},
		{"the longer rule holds", []Package{pkg("runtime/cpu", "+codegen/bundle")}, []string{`the rule for "runtime/cpu"`}},
		{"a name that only begins alike", []Package{pkg("quant", "+irregular"), pkg("irregular")},
			[]string{"no rule covers this package", "imports github.com/vkc-go/vkc/irregular"}},
		{"the root is nobody's", []Package{pkg("passes", "+.")}, []string{`imports github.com/vkc-go/vkc;`}},
		{"an unlisted module", []Package{pkg("quant", "example.com/blas")}, []string{"example.com/blas"}},
		{"a module for another part", []Package{pkg("frontend", "github.com/goki/vulkan")}, []string{"goki/vulkan"}},
		{"a module that only begins alike", []Package{pkg("codegen/spirv", "golang.org/x/synctest")}, []string{"golang.org/x/synctest"}},
		{"no helpers for ir", []Package{pkg("ir", "+internal/mmap"), pkg("internal/mmap")}, []string{"internal/mmap"}},
		{"through a helper", []Package{
			pkg("quant", "+internal/a"), pkg("internal/a", "+internal/b"), pkg("internal/b", "+passes"),
		}, []string{"imports github.com/vkc-go/vkc/internal/a (reaching github.com/vkc-go/vkc/passes)"}},
		{"helpers in a ring", []Package{pkg("quant", "+internal/a"), pkg("internal/a", "+internal/b"), pkg("internal/b", "+internal/a")}, nil},
		{"a new folder", []Package{pkg("telemetry")}, []string{"telemetry: no rule covers this package"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := checker.Check(tt.pkgs)
			if len(got) != len(tt.want) {
				t.Fatalf("%d problems, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %d is\n%s\nwant it to say\n%s", i, got[i], want)
				}
			}
		})
	}
}

func TestCheckClosures(t *testing.T) {
	tests := []struct {
		path string
		deps []string
		want string
	}{
		{"runtime/vk", []string{"fmt", ours("ir"), ours("codegen/bundle")}, ""},
		{"runtime/vk", []string{ours("codegen/glsl")}, "depends on github.com/vkc-go/vkc/codegen/glsl"},
		{"runtime/vk", []string{ours("passes/fusion")}, "depends on github.com/vkc-go/vkc/passes/fusion"},
		{"runtime/vk/probe", []string{ours("passes")}, "vkc/runtime/vk/probe: depends on"},
		{"ir/interp", []string{ours("codegen/kernel")}, "must not rest on what it checks"},
		{"cmd/vkc", []string{ours("passes"), ours("codegen/glsl")}, ""},
	}
	for _, tt := range tests {
		got := checker.Check([]Package{{ImportPath: ours(tt.path), Deps: tt.deps}})
		if tt.want == "" && len(got) != 0 {
			t.Errorf("%s with %v: %v, want no problem", tt.path, tt.deps, got)
		}
		if tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s with %v: %v, want one problem saying %q", tt.path, tt.deps, got, tt.want)
		}
	}
}

// TestCheckNamesTheFile checks that a problem points at the line of the import.
func TestCheckNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	source := "package ir\n\nimport (\n\t\"fmt\"\n\n\tp \"" + module + "/passes\"\n)\n"
	if err := os.WriteFile(filepath.Join(dir, "graph.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pkg("ir", "+passes")
	p.Dir, p.GoFiles = dir, []string{"graph.go"}
	got := checker.Check([]Package{p})
	if want := module + "/ir/graph.go:6: imports"; len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q, want one problem that begins %q", got, want)
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

func TestListFailure(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if pkgs, err := List(dir, false); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("List(%s), no module: %v, %v, want an error that names the folder", dir, pkgs, err)
		}
	}
}
