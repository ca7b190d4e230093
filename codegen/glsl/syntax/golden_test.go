package syntax

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// definitions cuts a shader into its functions, macros and constants, main included.
func definitions(source string) (list []string) {
	note, body := "", ""
	for line := range strings.Lines(source) {
		switch {
		case body != "":
			if body += line; line == "}\n" {
				list, note, body = append(list, note+body), "", ""
			}
		case strings.HasPrefix(line, "//"):
			note += line
		case strings.HasPrefix(line, "layout"), strings.HasPrefix(line, "spirv"):
			note = ""
		case strings.HasPrefix(line, "#define "), strings.HasPrefix(line, "const "), strings.HasSuffix(line, " }\n"):
			list, note = append(list, note+line), ""
		case strings.HasSuffix(line, "{\n"):
			body = line
		default:
			note = ""
		}
	}
	return list
}

// TestGoldenRoundTrip: the printer reproduces the definitions of the golden shaders that the parser reads.
func TestGoldenRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../../../golden/*/*.comp")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../../golden/profiles/*.glsl")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range definitions(string(text)) {
			count++
			if strings.Contains(source, "// >>>") {
				continue // GLSL of a user
			}
			d, err := ParseDefinition(source)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if got := d.String(); got != source {
				have, want := strings.Split(got, "\n"), strings.Split(source, "\n")
				for i := range min(len(have), len(want)) {
					if have[i] != want[i] {
						t.Errorf("%s: %q is printed as %q", file, want[i], have[i])
						break
					}
				}
			}
		}
	}
	if count < 500 {
		t.Errorf("only %d definitions", count)
	}
}
