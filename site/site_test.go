// Package site has tests of the site that Hugo makes of docs/.
package site

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links = regexp.MustCompile(`(?:href|src|action)="([^"\s>]+)"`)
	ids   = regexp.MustCompile(`\bid="([^"\s>]+)"`)
)

// repository is where links to files lead that are no pages.
const repository = "https://github.com/vkc-go/vkc/blob/main/"

// TestLinks makes the site, and follows all links of all pages: to pages, to headings, and to files of the repository.
func TestLinks(t *testing.T) {
	out := t.TempDir()
	if text, err := exec.Command("go", "run", "./api", "../bin/api").CombinedOutput(); err != nil {
		t.Fatalf("api: %v\n%s", err, text)
	}
	build := exec.Command("go", "tool", "hugo", "--destination", out, "--noBuildLock", "--cacheDir", t.TempDir())
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("hugo: %v\n%s", err, text)
	}
	pages, anchors := map[string]string{}, map[string]map[string]bool{}
	err := filepath.WalkDir(out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".html") {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(out, file)
		pages[name] = string(text)
		anchors[name] = map[string]bool{"": true}
		for _, m := range ids.FindAllStringSubmatch(string(text), -1) {
			anchors[name][m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string][]string{
		"api/vkc/index.html":  {`id="OpenDevice"`, `id="Device.Compile"`, "Example"},
		"api/ir/index.html":   {`id="Graph"`},
		"packages/index.html": {"frontend/llm"},
		"gallery/index.html":  {"Matmuls", "matmul_f32", "Fuses: cast, add, gelu."},
	} {
		for _, text := range want {
			if !strings.Contains(pages[page], text) {
				t.Errorf("%s has no %s", page, text)
			}
		}
	}
	if len(pages) < 70 {
		t.Fatalf("the site has %d pages", len(pages))
	}
	checked := 0
	for name, text := range pages {
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			href := strings.ReplaceAll(m[1], "&amp;", "&")
			if file, ok := strings.CutPrefix(href, repository); ok {
				file, _, _ = strings.Cut(file, "#")
				if _, err := os.Stat(filepath.Join("..", file)); err != nil {
					t.Errorf("%s: %s is not in the repository", name, file)
				}
				continue
			}
			u, err := url.Parse(href)
			if err != nil || u.Scheme != "" {
				continue
			}
			checked++
			target := path.Join(path.Dir(name), u.Path)
			switch {
			case u.Path == "":
				target = name
			case strings.HasSuffix(u.Path, "/") || u.Path == "." || u.Path == "..":
				target = path.Join(target, "index.html")
			}
			if _, err := os.Stat(filepath.Join(out, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, href)
			} else if strings.HasSuffix(target, ".html") && !anchors[target][u.Fragment] {
				t.Errorf("%s links to %s, and that page has no heading %q", name, href, u.Fragment)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d links were followed", checked)
	}
	var index []struct{ Title, URL, Text string }
	data, err := os.ReadFile(filepath.Join(out, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &index); err != nil || len(index) < 30 {
		t.Fatalf("the index of the search has %d pages: %v", len(index), err)
	}
	for _, p := range index {
		if p.Title == "" || len(p.Text) < 50 {
			t.Errorf("%s: the title is %q, with %d characters of text", p.URL, p.Title, len(p.Text))
		}
	}
}
