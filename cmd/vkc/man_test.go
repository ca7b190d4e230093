package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMan: each command has a manual page, with its flags, and no line of help is taken for a request.
func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	ok(t, "man", dir)
	for _, name := range []string{"vkc", "vkc-run", "vkc-view", "vkc-cache-ls"} {
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		has(t, string(page), ".TH "+strings.ToUpper(name), ".SH NAME\n", ".SH SYNOPSIS\n", `\-\-help`)
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, ".") && !regexp.MustCompile(`^\.(TH|SH|nf|fi|BR)\b`).MatchString(line) {
				t.Errorf("%s: %q is taken for a request", name, line)
			}
		}
	}
	if have := manText(".so \\x\n'x -y"); have != "\\&.so \\ex\n\\&'x \\-y" {
		t.Errorf("escaped: %q", have)
	}
}
