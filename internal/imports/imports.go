// Package imports checks which package of this module imports which, against a table of rules.
// The check itself is the package's test.
package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Package is what `go list -json` tells of a package, as far as the check needs it.
type Package struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
}

// List returns the module's packages as `go list` sees them with cgo on or off, in dir. Packages
// that do not compile are listed all the same: what they import can be told from the source.
func List(dir string, cgo bool) ([]Package, error) {
	enabled := "0"
	if cgo {
		enabled = "1"
	}
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,Deps", "./...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED="+enabled)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("imports: go list in %s: %w\n%s", dir, err, stderr.Bytes())
	}
	pkgs, err := decode(out)
	if err != nil {
		return nil, fmt.Errorf("imports: output of go list in %s: %w", dir, err)
	}
	// With -e a missing module is a warning and a package that stands nowhere.
	pkgs = slices.DeleteFunc(pkgs, func(p Package) bool { return p.Dir == "" })
	if len(pkgs) == 0 {
		return nil, fmt.Errorf("imports: go list found no package in %s\n%s", dir, stderr.Bytes())
	}
	return pkgs, nil
}

// decode reads the objects that go list wrote one after the other.
func decode(out []byte) (pkgs []Package, err error) {
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

// A Checker holds packages of one module against a table of rules.
type Checker struct {
	Module   string // the module's path
	Rules    []Rule
	Closures []Closure
}

// Check returns one line for each import that no rule allows and each broken promise about a
// dependency tree, sorted; nil if there is none. Test files are free to import what they like.
func (c Checker) Check(pkgs []Package) []string {
	byPath := make(map[string]Package, len(pkgs))
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	problems := map[string]bool{} // a set: two ways to one helper are one problem
	for _, p := range pkgs {
		rule, ok := c.ruleFor(p.ImportPath)
		if !ok {
			problems[fmt.Sprintf("%s: no rule covers this package; add a row for it to internal/imports/rules.go", p.ImportPath)] = true
			continue
		}
		for _, imp := range p.Imports {
			for _, reached := range c.through(imp, byPath) {
				if !c.allows(rule, reached) {
					problems[violation(p, imp, reached, rule)] = true
				}
			}
		}
		for _, problem := range c.checkClosures(p) {
			problems[problem] = true
		}
	}
	return slices.Sorted(maps.Keys(problems))
}

// through returns imp and, if it is an internal helper, all of this module that helpers lead to from
// there. The outside modules a helper uses are the helper's own affair.
func (c Checker) through(imp string, byPath map[string]Package) []string {
	reached := []string{imp}
	for i := 0; i < len(reached); i++ {
		rel, ours := c.relative(reached[i])
		if !ours || !within(rel, "internal") {
			continue
		}
		for _, next := range byPath[reached[i]].Imports {
			if _, ours := c.relative(next); ours && !slices.Contains(reached, next) {
				reached = append(reached, next)
			}
		}
	}
	return reached
}

// allows reports whether rule lets its packages import the given path.
func (c Checker) allows(rule Rule, path string) bool {
	rel, ours := c.relative(path)
	if !ours {
		return isStandard(path) || slices.ContainsFunc(rule.Modules, func(m string) bool { return within(path, m) })
	}
	target, ok := c.ruleFor(path)
	switch {
	case !ok:
		return false // told of where that package itself is checked
	case target.Path == rule.Path, slices.Equal(rule.Packages, []string{all}):
		return true
	case within(rel, "internal"):
		return rule.Path != "ir"
	}
	return slices.Contains(rule.Packages, target.Path)
}

// checkClosures returns a line for each promise that p's dependency tree breaks.
func (c Checker) checkClosures(p Package) []string {
	rel, _ := c.relative(p.ImportPath)
	var problems []string
	for _, closure := range c.Closures {
		if !within(rel, closure.Path) {
			continue
		}
		for _, dep := range p.Deps {
			depRel, ours := c.relative(dep)
			if ours && slices.ContainsFunc(closure.Forbidden, func(f string) bool { return within(depRel, f) }) {
				problems = append(problems, fmt.Sprintf("%s: depends on %s, directly or not: %s", p.ImportPath, dep, closure.Why))
			}
		}
	}
	return problems
}

// ruleFor returns the rule whose path is the longest that holds the package.
func (c Checker) ruleFor(path string) (Rule, bool) {
	rel, ours := c.relative(path)
	if !ours {
		return Rule{}, false
	}
	best, found := Rule{}, false
	for _, r := range c.Rules {
		if rel == r.Path || r.Path != "." && within(rel, r.Path) && (!found || len(r.Path) > len(best.Path)) {
			best, found = r, true
		}
	}
	return best, found
}

// relative returns the path below the module's own, "." for the module itself.
func (c Checker) relative(path string) (rel string, ours bool) {
	if path == c.Module {
		return ".", true
	}
	return strings.CutPrefix(path, c.Module+"/")
}

// within reports whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// isStandard tells the standard library (and cgo's "C") by the rule go itself keeps: only module
// paths have a dot in their first element.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// violation words one finding: where the import stands, what it is, and what is allowed there.
func violation(p Package, imp, reached string, rule Rule) string {
	via := ""
	if reached != imp {
		via = fmt.Sprintf(" (reaching %s)", reached)
	}
	return fmt.Sprintf("%s: imports %s%s; the rule for %q allows %s: %s",
		position(p, imp), imp, via, rule.Path, allowed(rule), rule.Why)
}

func allowed(rule Rule) string {
	list := slices.Concat(rule.Packages, rule.Modules)
	if len(list) == 0 {
		return "only the standard library"
	}
	return strings.Join(list, ", ")
}

// position returns file:line of the import in p's sources, or p's path where they cannot be read.
func position(p Package, imp string) string {
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
		if err != nil {
			continue
		}
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == imp {
				return fmt.Sprintf("%s/%s:%d", p.ImportPath, name, fset.Position(spec.Pos()).Line)
			}
		}
	}
	return p.ImportPath
}
