package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// finding is a place in a page that breaks a rule.
type finding struct {
	line int
	text string
}

var code = regexp.MustCompile("`[^`]*`")

// check returns the places where a page breaks the rules: private words in its prose, and cells of tables with too many
// words. Code is not prose.
func check(page string) (list []finding) {
	fenced := false
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced || strings.HasPrefix(line, "    ") {
			continue
		}
		prose := code.ReplaceAllString(line, "x")
		for _, word := range inPages.FindAllString(prose, -1) {
			list = append(list, finding{i + 1, "says " + word + ": write plain English (" + instead(word) + ")"})
		}
		if !strings.HasPrefix(strings.TrimSpace(line), "|") {
			continue
		}
		for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, ""), "|") {
			if len(strings.Fields(cell)) > CellWords {
				list = append(list, finding{i + 1, "has a long cell: move its text below the table:" + cell})
			}
		}
	}
	return list
}

// TestPages: pages use the field's words, and cells of tables are short.
func TestPages(t *testing.T) {
	const root = "../.."
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && path != root && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case filepath.Ext(name) != ".md" || name == "CHANGELOG.md":
			return nil
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		for _, f := range check(string(page)) {
			t.Errorf("%s:%d %s", filepath.ToSlash(path[len(root)+1:]), f.line, f.text)
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Fatalf("%d pages were read: %v", seen, err)
	}
}

// TestCheck: the rules for pages report exactly the expected findings.
func TestCheck(t *testing.T) {
	long := strings.Repeat("word ", CellWords+1)
	page := "It stands beside that.\n`beside` is code.\n```\nbeside\n```\nbesides\n    beside\n" +
		"| a | " + long + "|\n| " + long[5:] + "|\n"
	found := check(page)
	if len(found) != 2 || found[0].line != 1 || !strings.Contains(found[0].text, "next to") ||
		found[1].line != 8 || !strings.Contains(found[1].text, "long cell") {
		t.Errorf("found %v", found)
	}
}

// TestBanned: the table of words is sorted, and each has a replacement.
func TestBanned(t *testing.T) {
	if !slices.IsSortedFunc(Banned, func(a, b Word) int { return strings.Compare(a.Pattern, b.Pattern) }) {
		t.Error("the words are not sorted by their patterns")
	}
	for _, w := range Banned {
		if w.Instead == "" {
			t.Errorf("%s has no words to write instead", w.Pattern)
		}
		for p := range strings.SplitSeq(w.Pattern, "|") {
			if instead(strings.ReplaceAll(p, "?", "")) != w.Instead {
				t.Errorf("%s is found by another row", p)
			}
		}
	}
}
