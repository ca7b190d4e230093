package doctest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEnvironment: docs/ENVIRONMENT.md has a row for every variable of vkc's own
// that its code, its tests or its scripts read, and for none that they do not.
func TestEnvironment(t *testing.T) {
	inGo := regexp.MustCompile(`"(VKC_[A-Z0-9_]+)"`)
	inShell := regexp.MustCompile(`(?:\$\{?|\bexport |^|[ \t])(VKC_[A-Z0-9_]+)(?:\b)`)
	var used []string
	for _, f := range files(t) {
		var use *regexp.Regexp
		switch {
		case filepath.Ext(f) == ".go" && !strings.HasPrefix(f, "internal/doctest/"):
			use = inGo
		case strings.HasPrefix(f, "scripts/"), strings.HasPrefix(f, ".ci/"), f == "Makefile":
			use = inShell
		default:
			continue
		}
		for line := range strings.Lines(read(t, f)) {
			if use == inShell && strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for _, m := range use.FindAllStringSubmatch(line, -1) {
				used = append(used, m[1])
			}
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)
	var told []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(VKC_[A-Z0-9_]+)` \\|").
		FindAllStringSubmatch(read(t, "docs/ENVIRONMENT.md"), -1) {
		told = append(told, m[1])
	}
	slices.Sort(told)
	if len(used) < 5 {
		t.Fatalf("only %v are read: the test would prove nothing", used)
	}
	for _, name := range used {
		if !slices.Contains(told, name) {
			t.Errorf("%s is read, and docs/ENVIRONMENT.md has no row for it", name)
		}
	}
	for _, name := range told {
		if !slices.Contains(used, name) {
			t.Errorf("docs/ENVIRONMENT.md has a row for %s, which nothing reads", name)
		}
	}
}
