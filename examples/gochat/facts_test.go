package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// several packages have these names; the facts are of these.
var chosen = map[string]string{"rand": "math/rand/v2", "template": "text/template", "pprof": "runtime/pprof",
	"trace": "runtime/trace", "scanner": "text/scanner", "debug": "runtime/debug"}

// TestFacts: the installed Go has the names of facts.txt, as what they are called there, and with the same types.
func TestFacts(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src")
	folders := map[string]string{}
	err = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch name := d.Name(); name {
		case "testdata", "internal", "vendor", "cmd":
			return fs.SkipDir
		default:
			folders[name] = path
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]map[string]string{}
	for _, f := range facts {
		pkg, name, _ := strings.Cut(f.name, ".")
		if declared[pkg] == nil {
			folder := folders[pkg]
			if chosen[pkg] != "" {
				folder = filepath.Join(source, chosen[pkg])
			}
			declared[pkg] = declarations(t, folder)
		}
		want := f.signature
		if strings.HasPrefix(want, "func") {
			list := declarationsIn(t, "package p\nfunc F"+strings.TrimPrefix(want, "func"))
			want = list["F"]
		}
		if got := declared[pkg][name]; got != want {
			t.Errorf("%s is %q: facts.txt has %q", f.name, got, want)
		}
	}
}

// declarations returns the names that a folder's files declare, each with its kind or its type.
func declarations(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, kind := range declarationsIn(t, string(text)) {
			all[name] = kind
		}
	}
	return all
}

func declarationsIn(t *testing.T, text string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				receiver := types.ExprString(d.Recv.List[0].Type)
				name = strings.TrimPrefix(receiver, "*") + "." + name
			}
			all[name] = unnamed(d.Type)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					all[spec.Name.Name] = "type"
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						all[name.Name] = map[token.Token]string{token.CONST: "constant", token.VAR: "variable"}[d.Tok]
					}
				}
			}
		}
	}
	return all
}

// unnamed is the type of a function without the names of parameters, which may change from one Go to the next.
func unnamed(f *ast.FuncType) string {
	list := func(fields *ast.FieldList) string {
		var all []string
		for i := 0; fields != nil && i < len(fields.List); i++ {
			for range max(1, len(fields.List[i].Names)) {
				all = append(all, types.ExprString(fields.List[i].Type))
			}
		}
		return strings.Join(all, ", ")
	}
	return "func(" + list(f.Params) + ") (" + list(f.Results) + ")"
}
