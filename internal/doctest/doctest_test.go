package doctest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/lint"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/passes"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

const root = "../.."

// pages are the pages with tested blocks.
var pages = []string{"README.md", "docs/FEATURES.md", "docs/GUIDE.md"}

// block is a code block of a page.
type block struct{ page, lang, text string }

// blocks returns the code blocks of a language.
func blocks(t *testing.T, lang string) (list []block) {
	t.Helper()
	fence := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	for _, page := range pages {
		for _, m := range fence.FindAllStringSubmatch(read(t, page), -1) {
			if m[1] == lang {
				list = append(list, block{page, lang, m[2]})
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("no block of %s in %v: the test would prove nothing", lang, pages)
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files lists the files of the module, without installed or built ones.
func files(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains([]string{".git", ".tools", "bin"}, rel):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Type().IsRegular() && !slices.Contains([]string{".vkb", ".test", ".prof"}, filepath.Ext(rel)):
			list = append(list, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// checkout copies the module as a clean clone has it.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files(t) {
		to := filepath.Join(dir, f)
		content, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCommandLines runs every sh block of the pages, in order, in a clean checkout with $GOBIN on the PATH. It skips
// commands that need the network or installation rights. For make it checks that the target exists; TestPublished
// covers the installation of a published version.
func TestCommandLines(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc and runs all the command lines of the pages")
	}
	tools, err := spirv.Find(t.Context(), spirv.FindOptions{})
	if err == nil {
		err = tools.Ready()
	}
	if err == nil {
		var dev *vkc.Device
		if dev, err = vkc.OpenDevice("vulkan"); err == nil {
			dev.Close()
		}
	}
	if err != nil && vktest.Required() {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	dir, bin := checkout(t), t.TempDir()
	path := bin + string(filepath.ListSeparator) + os.Getenv("PATH")
	// A program that runs others with this Vulkan; see CONTRIBUTING.md.
	if through := os.Getenv("VKC_EXEC"); through != "" {
		wrapped := t.TempDir()
		if err := os.WriteFile(filepath.Join(wrapped, "vkc"),
			[]byte("#!/bin/sh\nexec '"+through+"' '"+bin+"/vkc' \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		path = wrapped + string(filepath.ListSeparator) + path
	}
	// No command depends on an empty cache, so the shaders of other tests are in it.
	cache := t.TempDir()
	if err := vktest.Share(cache, vktest.Shaders, vktest.Tools); err != nil {
		t.Fatal(err)
	}
	// With the flags of make test, packages that it compiled are not compiled again.
	env := append(os.Environ(), "VKC_CACHE_DIR="+cache, "GOBIN="+bin, "PATH="+path,
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath")
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append(
			[]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x", "-c", "core.compression=0"},
			args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	git("init", "-q")
	git("add", "--all", "--force")
	git("commit", "-q", "-m", "x")
	targets := read(t, "Makefile")
	for _, b := range blocks(t, "sh") {
		var script strings.Builder
		// A command that fails ends the script before the line that kills its server. The server must end, too: Run
		// waits for all who hold the script's output.
		script.WriteString("started=; trap 'for p in $started; do kill $p 2>&- || :; done' EXIT\n")
		for line := range strings.Lines(b.text) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), "#")
			command = strings.TrimSpace(command)
			if target, ok := strings.CutPrefix(command, "make "); ok {
				if !strings.Contains(targets, "\n"+strings.Fields(target)[0]+":") {
					t.Errorf("%s: %q: the Makefile has no such target", b.page, command)
				}
				continue
			}
			if slices.ContainsFunc([]string{"git clone ", "cd vkc", "go install github.com/", "go get github.com/"},
				func(s string) bool { return strings.HasPrefix(command, s) }) {
				continue
			}
			script.WriteString(line)
			if strings.HasSuffix(command, "&") {
				script.WriteString("started=\"$started $!\"\n")
			}
		}
		if _, err := exec.LookPath("curl"); err != nil && strings.Contains(b.text, "curl ") && !vktest.Required() {
			t.Logf("%s: left out because there is no curl:\n%s", b.page, b.text)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script.String())
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v:\n%s\n%s", b.page, err, script.String(), out)
		}
	}
	if left := git("status", "--porcelain"); left != "" {
		t.Errorf("the commands leave files that git sees: name them in .gitignore\n%s", left)
	}
}

// TestGoCode: a block of Go stands word for word in a file of examples, or is
// the inside of a function that compiles.
func TestGoCode(t *testing.T) {
	var sources []string
	for _, f := range files(t) {
		if strings.HasPrefix(f, "examples/") && strings.HasSuffix(f, ".go") {
			sources = append(sources, read(t, f))
		}
	}
	imports := map[string]string{
		"context": "context", "ir": "github.com/vkc-go/vkc/ir", "frontend": "github.com/vkc-go/vkc/frontend", "vkc": "github.com/vkc-go/vkc",
	}
	for _, b := range blocks(t, "go") {
		if slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, b.text) }) {
			continue
		}
		if testing.Short() {
			t.Logf("%s: a block was not compiled", b.page)
			continue
		}
		var src strings.Builder
		src.WriteString("package page\n\nimport (\n")
		for name, path := range imports {
			if name == "context" || strings.Contains(b.text, name+".") {
				src.WriteString("\t\"" + path + "\"\n")
			}
		}
		src.WriteString(")\n\nfunc page(ctx context.Context, pixels []uint8) (any, error) {\n" + b.text +
			"return classes, err\n}\n")
		file := filepath.Join(t.TempDir(), "page.go")
		if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "vet", file)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s has Go code that is neither in examples nor compiles: %v\n%s\n%s", b.page, err, out, b.text)
		}
	}
}

// TestFirstScreen: README is read in five minutes. What needs more room has a page in docs.
func TestFirstScreen(t *testing.T) {
	if n := len(strings.Fields(read(t, "README.md"))); n > 900 {
		t.Errorf("README.md has %d words: it may have 900; docs/FEATURES.md has room", n)
	}
}

// TestLinks: links of the project's pages to files and headings in the checkout are valid.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)]*))?\)`)
	code := regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	for _, page := range files(t) {
		if filepath.Ext(page) != ".md" || strings.Contains(page, "testdata/") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			if m[2] == "" || filepath.Ext(to) != ".md" {
				continue
			}
			there := slices.ContainsFunc(heading.FindAllStringSubmatch(read(t, to), -1), func(h []string) bool {
				return anchor(h[1]) == m[2]
			})
			if !there {
				t.Errorf("%s links to %s#%s: it has no such heading", page, to, m[2])
			}
		}
	}
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchor returns a heading's fragment in links.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// TestNamedFiles: source files that pages name are there, by their path or the end of it.
func TestNamedFiles(t *testing.T) {
	all := files(t)
	named := regexp.MustCompile("`([\\w./-]+\\.(?:go|c|h|comp|py))`")
	seen := 0
	for _, page := range all {
		if filepath.Ext(page) != ".md" {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			seen++
			if !slices.ContainsFunc(all, func(f string) bool { return strings.HasSuffix("/"+f, "/"+m[1]) }) {
				t.Errorf("%s names %s, and there is no such file", page, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d files are named: the test would prove nothing", seen)
	}
}

// TestMeasurements: each key such as M-stream-k is a heading in docs/measurements, once, and stands in the contents of
// docs/measurements/README.md. Code and pages name only keys that exist.
func TestMeasurements(t *testing.T) {
	const folder = "docs/measurements/"
	heading := regexp.MustCompile(`(?m)^## (M-[a-z0-9-]+): (.*)$`)
	contents := read(t, folder+"README.md")
	keys := map[string]int{}
	for _, f := range files(t) {
		if !strings.HasPrefix(f, folder) {
			continue
		}
		for _, m := range heading.FindAllStringSubmatch(read(t, f), -1) {
			keys[m[1]]++
			link := strings.TrimPrefix(f, folder) + "#" + anchor(m[1]+": "+m[2])
			line := "- [" + m[1] + "](" + link + "): " + m[2] + "\n"
			if !strings.Contains(contents, line) {
				t.Errorf("%sREADME.md does not list an entry of %s. Add this line under the file's heading:\n%s",
					folder, f, line)
			}
		}
	}
	if len(keys) == 0 {
		t.Fatal(folder + " has no key: the test would prove nothing")
	}
	for key, n := range keys {
		if n > 1 {
			t.Errorf("%s has %d headings with the key %s: give each its own", folder, n, key)
		}
	}
	named := regexp.MustCompile(`\bM-[a-z][a-z0-9-]*[a-z0-9]\b`)
	for _, f := range files(t) {
		if ext := filepath.Ext(f); ext != ".md" && ext != ".go" {
			continue
		}
		for _, key := range named.FindAllString(read(t, f), -1) {
			if keys[key] == 0 {
				t.Errorf("%s names %s: no file of docs/measurements has such a heading", f, key)
			}
		}
	}
}

// TestPackages: docs/ARCHITECTURE.md has a row for each part of the module with its own import rules, and names each
// directory of internal.
func TestPackages(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## Packages\n")
	text, _, _ = strings.Cut(text, "\n## ")
	// These are not parts of the program, and internal/lint is in the second table.
	unlisted := []string{"examples", "golden", "docs", "internal/lint"}
	for _, r := range lint.Rules {
		if row := regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(r.Path) + "/?`.* \\| "); !row.MatchString(text) &&
			!slices.Contains(unlisted, r.Path) {
			t.Errorf("docs/ARCHITECTURE.md has no row for %s", r.Path)
		}
	}
	folders, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && !strings.Contains(text, "`"+f.Name()+"`") {
			t.Errorf("docs/ARCHITECTURE.md does not say what internal/%s is for", f.Name())
		}
	}
}

// TestRoutes: docs/GUIDE.md has a row for each route of vkc serve.
func TestRoutes(t *testing.T) {
	routes := regexp.MustCompile(`\{"(?:GET|POST)", "([^"]+)", `).FindAllStringSubmatch(read(t, "serve/serve.go"), -1)
	if len(routes) < 5 {
		t.Fatalf("serve/serve.go has %d routes: the test would prove nothing", len(routes))
	}
	guide := read(t, "docs/GUIDE.md")
	for _, r := range routes {
		if !regexp.MustCompile("(?m)^\\|[^|]*`" + regexp.QuoteMeta(r[1]) + "`").MatchString(guide) {
			t.Errorf("docs/GUIDE.md has no row for the route %s: add it to the table of paths", r[1])
		}
	}
}

// TestMissing: the tests that scripts/missing runs are there.
func TestMissing(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^(\./\S+) +(\S+) +\S`).FindAllStringSubmatch(read(t, "scripts/missing"), -1)
	if len(rows) < 5 {
		t.Fatalf("scripts/missing has %d rows: the test would prove nothing", len(rows))
	}
	for _, row := range rows {
		sources, err := filepath.Glob(filepath.Join(root, row[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, f := range sources {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		for name := range strings.SplitSeq(row[2], "|") {
			if !strings.Contains(all.String(), "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("scripts/missing names %s, and %s has no such test", name, row[1])
			}
		}
	}
}

// TestPasses: docs/ARCHITECTURE.md has a row for each pass, in execution order.
func TestPasses(t *testing.T) {
	var want, told []string
	for _, p := range passes.Passes() {
		want = append(want, p.Name)
	}
	_, text, _ := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## passes: ")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)`").FindAllStringSubmatch(text, -1) {
		told = append(told, m[1])
	}
	if !slices.Equal(told, want) {
		t.Errorf("docs/ARCHITECTURE.md has the passes\n%v, want\n%v", told, want)
	}
}
