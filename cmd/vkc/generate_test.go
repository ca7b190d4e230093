package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	line := []string{"generate", "-m", gollama, "-p", "func main() {\n", "--device", "cpu", "-n", "3", "--ctx", "32"}
	r := ok(t, append(line, "--stats")...)
	if r.stdout != "\tif err\n" && !strings.HasPrefix(r.stdout, "\t") {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.stderr, "CPU fast path") || !strings.Contains(r.stderr, "6 tokens of the prompt") ||
		!strings.Contains(r.stderr, "; 3 generated") {
		t.Errorf("%+v", r)
	}
	sampled := append(line, "--temp", "1", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01", "--repeat-penalty",
		"1.1", "--seed", "5")
	if first, again := ok(t, sampled...), ok(t, sampled...); first != again {
		t.Errorf("equal seeds gave %q and %q", first.stdout, again.stdout)
	}
	fails(t, exitUsage, []string{"generate", "-p", "x"}, "-m MODEL.gguf is missing")
	fails(t, exitUsage, []string{"generate", "-m", gollama}, "-p PROMPT is missing")
	fails(t, exitUsage, append(line, "--top-p", "2"), "vkc: --top-p is 2: want 0 to 1")
	fails(t, exitUsage, instead(line, "-n", "-5"), "vkc: -n is -5: want at least 0")
	fails(t, exitUsage, append(line, "--kv", "f17"), "--kv", "f17")
	fails(t, exitUsage, instead(line, "--ctx", "5000"), "--ctx: ", "5000 positions: want 1 to 1024")
	r = run(t, instead(line, "--ctx", "5000")...)
	if n := strings.Count(r.stderr, "positions"); n != 1 {
		t.Errorf("it is said %d times: %s", n, r.stderr)
	}
	for _, talk := range [][]string{append(line, "--chat"), {"chat", "-m", gollama}} {
		fails(t, exitFailure, talk, "has no chat template", "vkc generate -m "+gollama+" -p TEXT")
		if r := run(t, talk...); strings.Contains(r.stderr, "loading") {
			t.Errorf("it was loaded: %s", r.stderr)
		}
	}
	fails(t, exitFailure, []string{"generate", "-m", filepath.Join(t.TempDir(), "no.gguf"), "-p", "x"}, "no.gguf")
	dir := t.TempDir()
	files := map[string]string{"g.gbnf": `root ::= "yes" | "no"`, "s.json": `{"enum": [10, 2]}`,
		"bad.json": `{"not": {}}`}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = ok(t, append(line, "--grammar", filepath.Join(dir, "g.gbnf"))...)
	if r.stdout != "yes\n" && r.stdout != "no\n" {
		t.Errorf("%+v", r)
	}
	r = ok(t, append(line, "--json-schema", filepath.Join(dir, "s.json"))...)
	if r.stdout != "10\n" && r.stdout != "2\n" {
		t.Errorf("%+v", r)
	}
	fails(t, exitFailure, append(line, "--grammar", "root ::= x"), "want the name of a file")
	fails(t, exitUsage, append(line, "--grammar", "x", "--json-schema", "y"), "exclude each other")
	bad := append(line, "--json-schema", filepath.Join(dir, "bad.json"))
	fails(t, exitFailure, bad, `bad.json: #: keyword "not"`)
	again := []string{"generate", "-m", gollama, "--device", "cpu", "-n", "8", "--ctx", "64", "-p",
		strings.Repeat("if err != nil {\n\treturn nil, err\n}\n", 3) + "if err"}
	plain := ok(t, again...)
	for _, guess := range [][]string{{"--draft-tokens", "3"}, {"--draft", gollama}} {
		r := ok(t, append(append(again, "--stats"), guess...)...)
		if r.stdout != plain.stdout || !strings.Contains(r.stderr, " guesses right (") ||
			!strings.Contains(r.stderr, " tokens a step") {
			t.Errorf("%v: %+v, want %q", guess, r, plain.stdout)
		}
	}
	fails(t, exitUsage, append(line, "--draft-tokens", "99"), "--draft-tokens: 99 speculated tokens at a time")
}
