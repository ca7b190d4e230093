package ir

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite the golden files from the present results")

const goldenDir = "../golden/graphs"

// checkGolden compares got with a golden file, or writes it.
func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if line, g, w := firstDiff(got, string(want)); line > 0 {
		t.Errorf("%s:%d differs\n have %s\n want %s", path, line, g, w)
	}
}

// firstDiff returns the number, from 1, and text of the first lines that
// differ, or 0.
func firstDiff(a, b string) (line int, inA, inB string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		var x, y string
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		if x != y || i >= len(as) || i >= len(bs) {
			return i + 1, x, y
		}
	}
	return 0, "", ""
}

// goldenGraphs returns the text IR files of the golden graphs.
func goldenGraphs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(goldenDir + "/*.ir")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden graphs in %s: %v", goldenDir, err)
	}
	return files
}

// TestGoldenGraphs reads each golden graph as text, which must print the same
// again, and compares its graph.json and hash. A changed hash makes every
// cached program of users a miss: change it on purpose only.
func TestGoldenGraphs(t *testing.T) {
	hashes := ""
	for _, file := range goldenGraphs(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Parse(string(text))
		if err != nil {
			t.Fatalf("%s:%v", file, err)
		}
		if line, have, want := firstDiff(g.String(), string(text)); line > 0 {
			t.Errorf("%s:%d is not as printed\n have %s\n want %s", file, line, want, have)
		}
		json, err := g.MarshalJSONText()
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, strings.TrimSuffix(file, ".ir")+".json", string(json))
		again, err := ReadJSON("golden", json)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if line, have, want := firstDiff(again.String(), string(text)); line > 0 {
			t.Errorf("%s:%d: through JSON\n have %s\n want %s", file, line, have, want)
		}
		hashes += g.HashString() + "  " + filepath.Base(file) + "\n"
	}
	checkGolden(t, goldenDir+"/hashes.txt", hashes)
}
