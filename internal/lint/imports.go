package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Imports checks the imports of packages against Rules and Closures. Files that build constraints exclude here are
// checked too. Test files may import anything.
var Imports = &analysis.Analyzer{
	Name:      "vkcimports",
	Doc:       "check who imports whom against the table in internal/lint/rules.go",
	Run:       runImports,
	FactTypes: []analysis.Fact{new(dependencies)},
}

// dependencies lists the packages of the module that a package depends on.
type dependencies struct {
	All     []string // all packages it depends on
	Helpers []string // for a helper under internal: the packages that count as imports of its users
}

func (*dependencies) AFact() {}

// String implements analysis.Fact for tests, which compare it.
func (d *dependencies) String() string { return fmt.Sprint(len(d.All), " packages") }

// runImports reports the imports of a package that Rules or Closures forbid. It stores the package's own dependencies
// as a fact. When a package that imports this one is checked, the fact tells which dependencies the import adds.
func runImports(pass *analysis.Pass) (any, error) {
	rel, ours := relative(pass.Pkg.Path())
	files := importingFiles(pass)
	if !ours || len(files) == 0 {
		return nil, nil
	}
	rule, ok := ruleFor(pass.Pkg.Path())
	if !ok {
		pass.Reportf(files[0].Name.Pos(),
			"no rule covers package %s: add a row to internal/lint/rules.go with what it may import, and why", rel)
		return nil, nil
	}
	facts := map[string]*dependencies{}
	for _, imp := range pass.Pkg.Imports() {
		var d dependencies
		if pass.ImportPackageFact(imp, &d) {
			facts[imp.Path()] = &d
		}
	}
	all, helpers := map[string]bool{}, map[string]bool{} // see dependencies
	for _, file := range files {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			withDeps := []string{path}
			counted := []string{path} // an import of a helper counts as importing what the helper imports
			if d := facts[path]; d != nil {
				withDeps = append(withDeps, d.All...)
				counted = append(counted, d.Helpers...)
			}
			checkImport(pass, spec, rule, counted)
			checkClosures(pass, spec, rel, withDeps)
			if _, ours := relative(path); ours {
				add(all, withDeps)
				add(helpers, counted)
			}
		}
	}
	fact := dependencies{All: slices.Sorted(maps.Keys(all))}
	if within(rel, "internal") {
		fact.Helpers = slices.Sorted(maps.Keys(helpers))
	}
	pass.ExportPackageFact(&fact)
	return nil, nil
}

func add(set map[string]bool, paths []string) {
	for _, p := range paths {
		set[p] = true
	}
}

// importingFiles returns the package's files except tests. Of files that build constraints exclude, it parses only the
// imports.
func importingFiles(pass *analysis.Pass) []*ast.File {
	files := slices.Clone(pass.Files)
	for _, name := range pass.IgnoredFiles {
		if filepath.Ext(name) != ".go" {
			continue
		}
		source, err := pass.ReadFile(name)
		if err != nil {
			continue
		}
		file, err := parser.ParseFile(pass.Fset, name, source, parser.ImportsOnly)
		if err == nil && file.Name.Name == pass.Pkg.Name() {
			files = append(files, file)
		}
	}
	return slices.DeleteFunc(files, func(f *ast.File) bool {
		name := fileName(pass, f.Name.Pos())
		generated := !strings.HasSuffix(name, ".go") // the main package of a test
		return generated || strings.HasSuffix(name, "_test.go")
	})
}

// checkImport reports an import if the rule forbids any of the packages that it reaches. reached begins with the
// imported package itself, followed by what it imports through helpers under internal.
func checkImport(pass *analysis.Pass, spec *ast.ImportSpec, rule Rule, reached []string) {
	for _, path := range reached {
		if rule.allows(path) {
			continue
		}
		via := ""
		if path != reached[0] {
			via = ", which helpers under internal lead to,"
		}
		pass.Reportf(spec.Pos(),
			"%s%s is not for packages of %q, which may import %s: %s. Move the code, or mend internal/lint/rules.go",
			path, via, rule.Path, rule.list(), rule.Why)
	}
}

// checkClosures reports forbidden dependencies that an import adds to a package.
func checkClosures(pass *analysis.Pass, spec *ast.ImportSpec, rel string, leads []string) {
	for _, c := range Closures {
		for _, dep := range leads {
			depRel, ours := relative(dep)
			forbidden := slices.ContainsFunc(c.Forbidden, func(f string) bool { return within(depRel, f) })
			if ours && forbidden && within(rel, c.Path) {
				pass.Reportf(spec.Pos(), "%s comes to depend on %s by this import: %s", rel, dep, c.Why)
			}
		}
	}
}

// allows reports whether the rule lets its packages import the path.
func (r Rule) allows(path string) bool {
	rel, ours := relative(path)
	if !ours {
		return isStandard(path) || slices.ContainsFunc(r.Modules, func(m string) bool { return within(path, m) })
	}
	target, ok := ruleFor(path)
	switch {
	case !ok:
		return false // reported when that package is checked
	case isAbove(target.Path, r.Path):
		return false
	case target.Path == r.Path, slices.Equal(r.Packages, []string{all}):
		return true
	case within(rel, "internal"):
		return r.Path != "ir"
	}
	return slices.Contains(r.Packages, target.Path)
}

// isAbove reports whether a part is of a higher layer than another one. Parts outside of [Layers] are above none.
func isAbove(part, other string) bool {
	layer := func(path string) int {
		return slices.IndexFunc(Layers, func(l []string) bool { return slices.Contains(l, path) })
	}
	return layer(other) >= 0 && layer(part) > layer(other)
}

// list names the packages and modules that the rule allows.
func (r Rule) list() string {
	list := slices.Concat(r.Packages, r.Modules)
	if len(list) == 0 {
		return "only the standard library"
	}
	return strings.Join(list, ", ")
}

// ruleFor returns the rule with the longest path that contains the package.
func ruleFor(path string) (rule Rule, ok bool) {
	rel, ours := relative(path)
	best, found := Rule{}, false
	for _, r := range Rules {
		if ours && (rel == r.Path || r.Path != "." && within(rel, r.Path)) && (!found || len(r.Path) > len(best.Path)) {
			best, found = r, true
		}
	}
	return best, found
}

// isStandard identifies the standard library (and cgo's "C") by go's own rule: only module paths have a dot in their
// first element.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
