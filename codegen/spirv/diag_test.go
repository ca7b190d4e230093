package spirv

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseDiagnostics(t *testing.T) {
	tests := []struct {
		name, text string
		want       []diagnostic
	}{
		{"silence", "", nil},
		{"glslc", "0007.comp:51: error: 'f' : no matching overloaded function found\n" +
			"0009.comp:9: error: '' :  syntax error, unexpected IDENTIFIER\n2 errors generated.\n",
			[]diagnostic{
				{"0007.comp", 51, "'f' : no matching overloaded function found"},
				{"0009.comp", 9, "syntax error, unexpected IDENTIFIER"},
			}},
		{"glslc without line", "0001.comp: error: Linking compute stage: Missing entry point\n",
			[]diagnostic{{"0001.comp", 0, "Linking compute stage: Missing entry point"}}},
		{"glslc of itself", "glslc: error: invalid value 'x'\n",
			[]diagnostic{{"glslc", 0, "invalid value 'x'"}}},
		{"glslang", "0009.comp\nERROR: 0009.comp:9: 'flooat' : undeclared identifier \n" +
			"ERROR: 2 compilation errors.  No code generated.\n\n\nSPIR-V is not generated for failed compile or " +
			"link\n",
			[]diagnostic{{"0009.comp", 9, "'flooat' : undeclared identifier"}}},
		{"glslang without file", "ERROR: Linking compute stage: Missing entry point\n",
			[]diagnostic{{"", 0, "Linking compute stage: Missing entry point"}}},
		{"path and CR", "/tmp/x/0001.comp:2: error: bad\r\n", []diagnostic{{"0001.comp", 2, "bad"}}},
		{"warning", "0001.comp:2: warning: fine\nWARNING: 0001.comp:2: fine\n", nil},
		{"line beyond int", "a:99999999999999999999: error: m\n", []diagnostic{{"a", 0, "m"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseDiagnostics(tt.text); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func FuzzParseDiagnostics(f *testing.F) {
	f.Add("0000.comp:2: error: 'x' : undeclared\nERROR: 0000.comp:7: y")
	f.Add(": error: ")
	f.Fuzz(func(t *testing.T, text string) {
		u := &unit{shader: Shader{Name: "s", Source: "a\nb"}}
		for _, d := range parseDiagnostics(text) {
			if d.line < 0 || strings.ContainsAny(d.message, "\n\r") {
				t.Errorf("diagnostic %+v", d)
			}
			if newCompileError(u, "glslc", []diagnostic{d}).Error() == "" {
				t.Error("empty error")
			}
		}
	})
}

// compileErrors unpacks the errors joined by Compile, and fails on any other error.
func compileErrors(t *testing.T, err error) []*CompileError {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T, want joined CompileErrors: %v", err, err)
	}
	var found []*CompileError
	for _, e := range joined.Unwrap() {
		ce := (*CompileError)(nil)
		if !errors.As(e, &ce) {
			t.Fatalf("%T, want only CompileErrors: %v", err, err)
		}
		found = append(found, ce)
	}
	return found
}

// badShaders pairs invalid sources with the expected errors.
var badShaders = []struct {
	name, source string
	line         int
	message      string // contained
	sourceLine   string
}{
	{"undeclared", "#version 430\nvoid main() {\n\tint x = 1;\n\tx = missing + 1;\n}\n",
		4, "'missing' : undeclared identifier", "\tx = missing + 1;"},
	{"syntax", "#version 430\nvoid main() {\n\tint = 3;\n}\n", 3, "syntax error", "\tint = 3;"},
	{"CRLF", "#version 430\r\nvoid main() {\r\n\tx = 1;\r\n}\r\n", 3, "'x' : undeclared identifier", "\tx = 1;"},
	{"unknown extension", "#version 430\n#extension GL_NO_such : require\nvoid main() {}\n",
		2, "extension not supported", "#extension GL_NO_such : require"},
	{"no main", "#version 430\nlayout(local_size_x = 1) in;\n", 0, "Missing entry point", ""},
	{"empty", "", 0, "", ""},
	{"other file name", "#version 430\n#extension GL_GOOGLE_cpp_style_line_directive : enable\n" +
		"#line 70 \"else.where\"\nvoid main() { x = 1; }\n", 0, "'x' : undeclared identifier", ""},
}

func TestCompileErrors(t *testing.T) {
	eachToolchain(t, func(t *testing.T, tc *Toolchain) {
		good := shaders(3)
		mixed := []Shader{good[0]}
		for _, bad := range badShaders {
			mixed = append(mixed, Shader{Name: bad.name, Source: bad.source})
		}
		mixed = append(mixed, good[1:]...)
		opt := Options{Optimize: true, CacheDir: t.TempDir()}
		results, stats, err := tc.Compile(t.Context(), mixed, opt)
		found := compileErrors(t, err)
		if len(found) != len(badShaders) || stats.Failed != len(badShaders) {
			t.Fatalf("%d errors, Failed %d, want %d:\n%v", len(found), stats.Failed, len(badShaders), err)
		}
		for i, bad := range badShaders {
			e := found[i]
			if e.Shader != bad.name || e.Line != bad.line || e.Source != bad.sourceLine ||
				!strings.Contains(e.Message, bad.message) || e.Message == "" || e.Tool != tc.compiler().Name {
				t.Errorf("%s: got %+v", bad.name, e)
			}
			if bad.line > 0 && !strings.Contains(e.Error(), strings.TrimSpace(bad.sourceLine)) {
				t.Errorf("%s: the source line is not in %q", bad.name, e)
			}
			if results[i+1].SPIRV != nil {
				t.Errorf("%s: a module beside the error", bad.name)
			}
		}
		for _, i := range []int{0, len(mixed) - 2, len(mixed) - 1} {
			if err := CheckModule(results[i].SPIRV); err != nil {
				t.Errorf("good shader %s was lost: %v", mixed[i].Name, err)
			}
		}
		if _, stats := compile(t, tc, good, opt); stats.CacheHits != len(good) {
			t.Errorf("%d of %d good shaders in the cache", stats.CacheHits, len(good))
		}
	})
}

func TestCompileErrorUnderEachName(t *testing.T) {
	bad := badShaders[0].source
	_, stats, err := realTools(t).Compile(t.Context(),
		[]Shader{{Name: "one", Source: bad}, {Name: "two", Source: bad}}, Options{})
	found := compileErrors(t, err)
	if len(found) != 2 || found[0].Shader != "one" || found[1].Shader != "two" || stats.Distinct != 1 {
		t.Errorf("got %v, %+v", err, stats)
	}
}

func TestCompileErrorText(t *testing.T) {
	u := &unit{shader: Shader{Name: "mm", Source: "a\n\tb = c;\n"}}
	got := newCompileError(u, "glslc", []diagnostic{{"0.comp", 2, "'c' : undeclared"}, {"0.comp", 3, "x"}}).Error()
	want := "shader \"mm\": line 2: 'c' : undeclared (glslc)\n\t2 | b = c;\n\tand 1 more"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
