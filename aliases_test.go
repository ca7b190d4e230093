package vkc_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/golden"
)

// aliases are the names of package vkc for types of package runtime that users read, and what each is.
var aliases = [][2]string{
	{"RunOptions", "RunOptions adjust a run."},
	{"Result", "Result is the result of a run."},
	{"DeviceTensor", "DeviceTensor is a tensor in device memory."},
	{"Traffic", "Traffic counts the bytes copied between the caller's memory and a device."},
	{"States", "States are values for all states of a program, which can be passed to runs; see [Executable.NewStates]."},
	{"Progress", "Progress is the progress of compiling and loading."},
}

// TestGoldenAliases: `go doc` of an alias shows its comment alone, so the comment has the type's fields and methods.
func TestGoldenAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("package vkc\n\nimport \"github.com/vkc-go/vkc/runtime\"\n\n" +
		"// The comments below repeat the types of package runtime:\n" +
		"// go test . -run GoldenAliases -update-golden writes them.\n")
	members := runtimeMembers(t)
	for _, a := range aliases {
		name, about := a[0], a[1]
		if len(members[name]) == 0 {
			t.Errorf("package runtime has no %s with anything to show", name)
		}
		fmt.Fprintf(&b, "\n// %s\n//\n", about)
		for _, line := range strings.Split(strings.Join(members[name], "\n"), "\n") {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "//")
			b.WriteString(strings.TrimRight("//\t"+strings.TrimPrefix(line, " "), "\t") + "\n")
		}
		fmt.Fprintf(&b, "type %s = runtime.%s\n", name, name)
	}
	golden.Check(t, "aliases.go", b.String(), *updateGolden, "go test . -run GoldenAliases -update-golden")
}

// runtimeMembers returns the source of the exported fields and methods of each type of package runtime.
func runtimeMembers(t *testing.T) map[string][]string {
	t.Helper()
	members := map[string][]string{}
	paths, err := filepath.Glob("runtime/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		text := func(from, to token.Pos) string {
			return string(src[files.Position(from).Offset:files.Position(to).Offset])
		}
		fields := func(owner string, list *ast.FieldList) {
			for _, f := range list.List {
				if len(f.Names) > 0 && !f.Names[0].IsExported() {
					continue
				}
				from, to := f.Pos(), f.End()
				if f.Doc != nil {
					from = f.Doc.Pos()
				}
				if f.Comment != nil {
					to = f.Comment.End()
				}
				members[owner] = append(members[owner], strings.ReplaceAll(text(from, to), "\n\t", "\n"))
			}
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					switch x := s.Type.(type) {
					case *ast.StructType:
						fields(s.Name.Name, x.Fields)
					case *ast.InterfaceType:
						fields(s.Name.Name, x.Methods)
					}
				}
			case *ast.FuncDecl:
				if d.Recv != nil && d.Name.IsExported() {
					owner := strings.TrimPrefix(text(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()), "*")
					members[owner] = append(members[owner], text(d.Pos(), d.Type.End()))
				}
			}
		}
	}
	return members
}
