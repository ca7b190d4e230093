package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestFaults: each fault in the list can be applied: its file contains the text once, and is valid Go with and without
// the fault. The packages that should detect it exist.
func TestFaults(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, listFile))
	if err != nil {
		t.Fatal(err)
	}
	list, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 60 {
		t.Errorf("only %d faults: the list is to have 60", len(list))
	}
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(root, f.file))
		if err != nil {
			t.Errorf("fault %q: %v", f.name, err)
			continue
		}
		planted, err := f.plant(string(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if filepath.Ext(f.file) == ".go" {
			_, err := parser.ParseFile(token.NewFileSet(), f.file, planted, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("fault %q: %v", f.name, err)
			}
		}
		for _, p := range f.packages {
			if tests, err := filepath.Glob(filepath.Join(root, p, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("fault %q: package %s has no tests", f.name, p)
			}
		}
	}
}

// TestParse: an invalid list is an error with a position.
func TestParse(t *testing.T) {
	const good = "# a comment\n=== a\nfile: f.go\nold: x < y\nnew: x <= y\nsee: ./p ./q\nrun: TestX\n"
	list, err := parse(good)
	if err != nil || len(list) != 1 || list[0].new != "x <= y" || len(list[0].packages) != 2 || list[0].run != "TestX" {
		t.Errorf("%+v, %v", list, err)
	}
	for text, want := range map[string]string{
		"file: f.go\n":                      "line 1: ",
		good + good:                         `line 9: there are two faults "a"`,
		good + "old: z\n":                   `line 8: fault "a" has two lines "old"`,
		good + "odl: z\n":                   `line 8: "odl" is none of`,
		strings.Replace(good, "<=", "<", 1): `fault "a" needs`,
		strings.Replace(good, "see: ./p ./q", "", 1): `fault "a" needs`,
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestPlant: a fault is planted where its text is, and nowhere if that is in several places or in none.
func TestPlant(t *testing.T) {
	f := fault{name: "a", file: "f.go", old: "x < y", new: "x <= y"}
	if text, err := f.plant("if x < y {"); err != nil || text != "if x <= y {" {
		t.Errorf("%q, %v", text, err)
	}
	for _, text := range []string{"", "if x<y {", "x < y && x < y"} {
		if _, err := f.plant(text); err == nil || !strings.Contains(err.Error(), "write the fault again") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFirstFailure finds the failed test in the output of go test.
func TestFirstFailure(t *testing.T) {
	for out, want := range map[string]string{
		"ok\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n": "TestA",
		"panic: runtime error\n\ngoroutine 1":                          "panic: runtime error",
		"exit status 2\n":                                              "(no test is named)",
	} {
		if got := firstFailure(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}
