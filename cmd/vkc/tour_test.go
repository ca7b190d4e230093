package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/golden"
)

// shown matches a generated block of docs/TOUR.md. Its comment names a vkc command line or a file, and optionally the
// first and the last line to show by their beginnings.
var shown = regexp.MustCompile("(?ms)^<!-- shows: (.*?)(?: \\| from `([^`\n]*)` to `([^`\n]*)`)? " +
	"-->\n```(\\w*)\n(.*?)^```$")

// TestGoldenTour: every block of docs/TOUR.md is the compiler's current output.
func TestGoldenTour(t *testing.T) {
	const page, root = "../../docs/TOUR.md", "../../"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	fresh := shown.ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		m := shown.FindStringSubmatchIndex(block)
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return block[m[2*i]:m[2*i+1]]
		}
		var source string
		if command, isCommand := strings.CutPrefix(part(1), "vkc "); isCommand {
			source = ok(t, strings.Fields(strings.ReplaceAll(command, "examples/", root+"examples/"))...).stdout
		} else {
			file, err := os.ReadFile(root + part(1))
			if err != nil {
				t.Fatal(err)
			}
			source = string(file)
		}
		excerpt, found := linesBetween(source, part(2), part(3))
		if !found {
			t.Errorf("%s: `%s` has no lines from %q to %q: choose others that show the same", page, part(1),
				part(2), part(3))
			return block
		}
		return block[:m[10]] + excerpt + block[m[11]:]
	})
	if blocks < 5 {
		t.Fatalf("%s shows %d blocks: the test would prove little", page, blocks)
	}
	golden.Check(t, page, fresh, *updateGolden && !t.Failed(),
		"go test ./cmd/vkc -run GoldenTour -update-golden (read the page's prose again)")
}

// linesBetween returns the lines from the first that begins with one text to the next that begins with another.
func linesBetween(text, from, to string) (string, bool) {
	var b strings.Builder
	inside := from == ""
	for line := range strings.Lines(text) {
		begins := !inside && strings.HasPrefix(line, from)
		if inside = inside || begins; !inside {
			continue
		}
		b.WriteString(line)
		if to != "" && !begins && strings.HasPrefix(line, to) {
			return b.String(), true
		}
	}
	return b.String(), inside && to == ""
}
