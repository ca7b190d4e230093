// Api writes the API pages of the site, a page for each public package:
//
//	go run ./api FOLDER
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module     = "github.com/vkc-go/vkc"
	repository = "https://github.com/vkc-go/vkc/blob/main/"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "want the folder to write to")
		os.Exit(2)
	}
	if err := write("..", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// page is a package and its page.
type page struct {
	dir  string // of the package in the repository
	name string // of the page, without .md
	doc  *doc.Package
	fset *token.FileSet
	ids  map[string]bool // of declarations: Name, or Type.Name for methods
}

// path is the import path.
func (p *page) path() string { return strings.TrimSuffix(module+"/"+p.dir, "/.") }

// write writes the pages of all public packages below root.
func write(root, out string) error {
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(filepath.Join(out, "api"), 0o755)); err != nil {
		return err
	}
	pages := map[string]*page{} // by import path
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		dir, _ := filepath.Rel(root, path)
		if dir != "." && (strings.HasPrefix(d.Name(), ".") || isPrivate(d.Name())) || isModule(path) && dir != "." {
			return fs.SkipDir
		}
		p, err := read(path, filepath.ToSlash(dir))
		if p != nil {
			pages[p.path()] = p
		}
		return err
	})
	if err != nil {
		return err
	}
	var list []*page
	for _, p := range pages {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *page) int { return cmp.Compare(a.dir, b.dir) })
	index := "---\ntitle: API\nlayout: page\n---\n\n| package | |\n|---|---|\n"
	for _, p := range list {
		index += fmt.Sprintf("| [%s](api/%s.md) | %s |\n", p.path(), p.name, p.doc.Synopsis(p.doc.Doc))
		if err := os.WriteFile(filepath.Join(out, "api", p.name+".md"), p.text(pages), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "packages.md"), []byte(index), 0o644)
}

// isPrivate reports whether a folder has no public packages.
func isPrivate(name string) bool {
	return slices.Contains([]string{"internal", "testdata", "cmd", "examples", "bench", "golden", "docs", "bin",
		"deploy", "scripts", "js"}, name)
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// read reads the package of a folder. It returns nil if there is none that programs can import.
func read(path, dir string) (*page, error) {
	b, err := build.Default.ImportDir(path, 0)
	if none := (*build.NoGoError)(nil); errors.As(err, &none) || err == nil && b.Name == "main" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &page{dir: dir, name: strings.ReplaceAll(dir, "/", "-"), fset: token.NewFileSet(), ids: map[string]bool{}}
	if dir == "." {
		p.name = "vkc"
	}
	var files []*ast.File
	for _, name := range slices.Concat(b.GoFiles, b.CgoFiles, b.TestGoFiles, b.XTestGoFiles) {
		f, err := parser.ParseFile(p.fset, filepath.Join(path, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if p.doc, err = doc.NewFromFiles(p.fset, files, p.path()); err != nil {
		return nil, err
	}
	for _, t := range p.doc.Types {
		p.ids[t.Name] = true
		for _, m := range t.Methods {
			p.ids[t.Name+"."+m.Name] = true
		}
		for _, f := range t.Funcs {
			p.ids[f.Name] = true
		}
	}
	for _, f := range p.doc.Funcs {
		p.ids[f.Name] = true
	}
	return p, nil
}

// text is a page in Markdown.
func (p *page) text(all map[string]*page) []byte {
	w := writer{page: p, printer: p.doc.Printer()}
	w.printer.HeadingLevel = 3
	w.printer.DocLinkURL = func(l *comment.DocLink) string { return p.link(all, l) }
	fmt.Fprintf(&w, "---\ntitle: package %s\nlayout: page\napi: true\n---\n\n```go\nimport %q\n```\n\n", p.doc.Name,
		p.path())
	w.comment(p.doc.Doc)
	w.examples(p.doc.Examples)
	w.values(p.doc.Consts)
	w.values(p.doc.Vars)
	w.functions(p.doc.Funcs)
	for _, t := range p.doc.Types {
		t.Decl.Doc = nil
		w.declaration("type", t.Name, t.Name, t.Decl, t.Doc, t.Examples)
		w.values(t.Consts)
		w.values(t.Vars)
		w.functions(t.Funcs)
		w.functions(t.Methods)
	}
	return w.Bytes()
}

// writer writes a page in Markdown.
type writer struct {
	bytes.Buffer
	page    *page
	printer *comment.Printer
}

// comment writes the text of a doc comment.
func (w *writer) comment(text string) {
	w.Write(w.printer.Markdown(w.page.doc.Parser().Parse(text)))
	w.WriteByte('\n')
}

// code writes a syntax node as Go code.
func (w *writer) code(node any) {
	w.WriteString("```go\n")
	if err := format.Node(w, w.page.fset, node); err != nil {
		fmt.Fprintf(w, "// %v", err)
	}
	w.WriteString("\n```\n\n")
}

// examples writes examples that the reader can unfold, with their outputs.
func (w *writer) examples(list []*doc.Example) {
	for _, e := range list {
		fmt.Fprintf(w, "<details><summary>Example%s</summary>\n\n", strings.TrimSuffix(" "+e.Suffix, " "))
		w.code(e.Code)
		if e.Output != "" {
			fmt.Fprintf(w, "Output:\n\n```text\n%s```\n\n", e.Output)
		}
		w.WriteString("</details>\n\n")
	}
}

// declaration writes a type or function under a heading with an id, with its doc comment and examples.
func (w *writer) declaration(kind, name, id string, decl ast.Decl, text string, list []*doc.Example) {
	fmt.Fprintf(w, "### %s %s {#%s}\n\n", kind, name, id)
	w.code(decl)
	w.comment(text)
	w.examples(list)
}

// functions writes functions or methods.
func (w *writer) functions(list []*doc.Func) {
	for _, f := range list {
		f.Decl.Doc = nil // declaration writes it as text
		id, name := f.Name, f.Name
		if f.Recv != "" {
			id, name = base(f.Recv)+"."+f.Name, "("+f.Recv+") "+f.Name
		}
		w.declaration("func", name, id, f.Decl, f.Doc, f.Examples)
	}
}

// values writes groups of constants or variables.
func (w *writer) values(list []*doc.Value) {
	for _, v := range list {
		v.Decl.Doc = nil
		w.code(v.Decl)
		w.comment(v.Doc)
	}
}

// base is the name of a receiver's type.
func base(receiver string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(receiver, "*"), "[")
	return name
}

// link returns the target of a link in a comment, such as [Name]: a declaration of a page, a folder of the repository,
// or a page of Go's own documentation.
func (p *page) link(all map[string]*page, l *comment.DocLink) string {
	id := strings.TrimPrefix(l.Recv+"."+l.Name, ".")
	to, target := p, ""
	if l.ImportPath != "" && l.ImportPath != p.path() {
		dir, ours := strings.CutPrefix(l.ImportPath+"/", module+"/")
		to = all[l.ImportPath]
		switch {
		case to == nil && ours:
			return repository + strings.TrimSuffix(dir, "/")
		case to == nil:
			return l.DefaultURL("https://pkg.go.dev")
		}
		target = to.name + ".md"
	}
	if to.ids[id] {
		target += "#" + id
	}
	return target
}
