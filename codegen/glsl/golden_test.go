package glsl_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update-golden", false, "write golden files anew from what the code does now")

// goldenDir holds generated texts, one file each, named for what they show.
const goldenDir = "../../golden/glsl"

// checkGolden compares a generated text with a golden file, or writes it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(goldenDir, name+".comp")
	if *updateGolden {
		check(t, os.MkdirAll(goldenDir, 0o755))
		check(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if got == string(want) {
		return
	}
	have, wanted := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(have), len(wanted)) {
		if i >= len(have) || i >= len(wanted) || have[i] != wanted[i] {
			t.Errorf("%s:%d differs (go test -update-golden writes it anew)\n have %q\n want %q", path, i+1,
				lineAt(have, i), lineAt(wanted, i))
			return
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
