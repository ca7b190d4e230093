package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/devtest"
)

// TestMessages: an error begins with "vkc: " and what the user named: a file, a flag, an argument. It names no package,
// and no graph that the user did not name.
func TestMessages(t *testing.T) {
	devtest.EmptyCache(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"README.md": "# vkc", "gguf": "# vkc", "x.gguf": "GGUF",
		"huge.txt": `graph "inner" {
			%x = input {name="x", dtype=f32, shape=[1]}
			%b = broadcast %x {shape=[100000,1000000]}
			%s = sort %b {axis=1}
			output "o" %s
		}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"run":                                "GRAPH or BUNDLE.vkb is missing; ",
		"run huge.txt b":                     `unexpected argument "b"; `,
		"run none.json":                      "open none.json: ",
		"run README.md":                      "README.md:1:1: ",
		"dump README.md":                     "README.md:1:1: ",
		"run huge.txt -i x=[1] --device cpu": "run huge.txt: ",
		"run huge.txt -i x=[1] --device reference": "run huge.txt: ",
		"run huge.txt -i x=[1] --device nope":      `device "nope": `,
		"compile huge.txt":                         "-o OUT.vkb is missing; ",
		"compile huge.txt -o none/x.vkb":           "--output none/x.vkb: ",
		"verify none":                              "open none: ",
		"inspect x.gguf":                           "x.gguf: ",
		"inspect none":                             "stat none: ",
		"generate -p x":                            "-m MODEL.gguf is missing; ",
		"generate -m README.md -p x":               "README.md: ",
		"generate -m gguf -p x":                    "gguf: at byte ",
		"generate -m x.gguf -p x":                  "x.gguf: ",
		"chat -m README.md":                        "README.md: ",
		"serve -m README.md --without-key":         "README.md: ",
		"embed -m README.md x":                     "README.md: ",
		"embed -m README.md":                       "TEXT is missing; ",
		"tokenize -m README.md x":                  "README.md: ",
		"perplexity -m README.md README.md":        "README.md: ",
		"imatrix -m README.md README.md":           "-o OUT.gguf is missing; ",
		"run gguf":                                 "",
		"quantize README.md":                       "-o OUT.gguf is missing; ",
		"quantize README.md -o x --type q8_0":      "README.md ",
		"quantize README.md -o x":                  "--type is missing: ",
		"sign x.vkb":                               "--key KEY.pem is missing; ",
		"keygen none/x":                            "open none/x: ",
		"tokenize -m a b c":                        `unexpected argument "c": `,
		"nothing":                                  `unknown command "nothing" for vkc: `,
		"--nothing":                                "unknown flag: --nothing; ",
	} {
		r := run(t, strings.Fields(line)...)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		last := lines[len(lines)-1] // after notes, such as the choice of a device
		if r.code == exitOK || !strings.HasPrefix(last, "vkc: "+want) {
			t.Errorf("vkc %s: exit code %d, want an error that begins with %q\n%s", line, r.code, want, r.stderr)
		}
		if rest := strings.TrimPrefix(last, "vkc: "+want); origin.MatchString(rest) || strings.Contains(rest, "inner") {
			t.Errorf("vkc %s: a name that the user did not give: %s", line, last)
		}
	}
}

// TestOrigins: origins has the names of all packages that name themselves in errors.
func TestOrigins(t *testing.T) {
	names := regexp.MustCompile(`(?:Errorf|errors\.New)\("([a-z0-9]+): `)
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch base := filepath.Base(filepath.Dir(path)); {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && slices.Contains([]string{".", "_"}, d.Name()[:1]),
			d.IsDir() && slices.Contains([]string{"internal", "cmd", "bench", "release", "site", "bin"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range names.FindAllSubmatch(text, -1) {
				if found++; string(m[1]) == base && !slices.Contains(origins, base) {
					t.Errorf("%s: an error begins with %q, which origins lacks", path, base)
				}
			}
			return nil
		}
	})
	if err != nil || found < 100 {
		t.Errorf("%d errors with names: %v", found, err)
	}
}
