package spirv

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// tinyModule is the least that CheckModule takes: a header, OpEntryPoint and
// OpFunctionEnd. id tells modules apart.
func tinyModule(id uint32) []byte {
	var b []byte
	for _, w := range []uint32{
		0x07230203, 0x00010500, 0, id + 1, 0,
		5<<16 | 15, 5, id, 0x6e69616d, 0, // GLCompute "main"
		1<<16 | 56,
	} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// source is a small shader; sources of different n are different.
func source(n int) string {
	return fmt.Sprintf(`#version 430
layout(local_size_x = 64) in;
layout(binding = 0) buffer B { float x[]; };
void main() {
	uint i = gl_GlobalInvocationID.x;
	x[i] = x[i] * 2.0 + %d.0;
}
`, n)
}

func shaders(n int) []Shader {
	var s []Shader
	for i := range n {
		s = append(s, Shader{Name: fmt.Sprint("shader", i), Source: source(i)})
	}
	return s
}

// sample reads a shader from testdata, with #defines replaced.
func sample(t testing.TB, name string, defines map[string]int) Shader {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".comp"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for macro, value := range defines {
		_, rest, found := strings.Cut(text, "#define "+macro+" ")
		if !found {
			t.Fatalf("%s has no #define %s", name, macro)
		}
		old, _, _ := strings.Cut(rest, "\n")
		text = strings.Replace(text, "#define "+macro+" "+old, fmt.Sprintf("#define %s %d", macro, value), 1)
	}
	return Shader{Name: fmt.Sprint(name, defines), Source: text}
}

// program is a set of shaders such as one model has, those first that take
// spirv-opt the longest.
func program(t testing.TB) []Shader {
	s := []Shader{
		sample(t, "matmul", map[string]int{"TM": 8, "TN": 4}),
		sample(t, "matmul", map[string]int{"TM": 4, "TN": 4}),
		sample(t, "matmul", map[string]int{"TM": 2, "TN": 4}),
	}
	for i := range 3 {
		s = append(s, sample(t, "softmax", map[string]int{"N": 256 << (2 * i)}))
	}
	for i := range 3 {
		s = append(s, sample(t, "elementwise", map[string]int{"ROW": 64 << (2 * i)}))
	}
	return s
}

func find(t testing.TB, opt FindOptions) *Toolchain {
	t.Helper()
	tc, err := Find(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return tc
}

// realDirs returns the directories on this machine that hold a whole set of
// tools: the project's own newer set, and the system's.
func realDirs(t testing.TB) []string {
	t.Helper()
	var dirs []string
	project, err := filepath.Abs(filepath.Join("..", "..", ".tools", "glsl", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if findSet(inDir(project)).complete() {
		dirs = append(dirs, project)
	}
	// The project's tools may be on $PATH too: count them once and continue.
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if findSet(inDir(dir)).complete() && !slices.ContainsFunc(dirs, func(have string) bool {
			return sameDir(have, dir)
		}) {
			dirs = append(dirs, dir)
			break
		}
	}
	if dirs == nil {
		t.Skip("no GLSL tools on this machine: run scripts/setup")
	}
	return dirs
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// eachToolchain runs a test with every real set of tools, with and without glslc.
func eachToolchain(t *testing.T, test func(*testing.T, *Toolchain)) {
	for _, dir := range realDirs(t) {
		tc := find(t, FindOptions{SearchDirs: []string{dir}})
		t.Run(tc.GLSLC.nameAndVersion(), func(t *testing.T) { test(t, tc) })
		if !tc.Glslang.Found() {
			continue
		}
		bin := t.TempDir()
		for _, tool := range []Tool{tc.Glslang, tc.Opt, tc.Val, tc.Dis} {
			if tool.Found() {
				script(t, bin, tool.Name, `exec "`+tool.Path+`" "$@"`)
			}
		}
		noGLSLC := find(t, FindOptions{SearchDirs: []string{bin}})
		t.Run(noGLSLC.Glslang.nameAndVersion(), func(t *testing.T) { test(t, noGLSLC) })
	}
}

// realTools returns the preferred real set.
func realTools(t testing.TB) *Toolchain {
	return find(t, FindOptions{SearchDirs: realDirs(t)})
}

// script writes an executable shell script, a stand-in for a tool.
func script(t testing.TB, dir, name, body string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("stand-ins for the tools are shell scripts")
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// fakes is a directory of stand-in tools that work: every shader compiles to
// tinyModule(1), spirv-opt copies its input, and each call adds a line to a log.
type fakes struct{ dir, log, module string }

func newFakes(t testing.TB) fakes {
	t.Helper()
	dir := t.TempDir()
	f := fakes{dir: dir, log: filepath.Join(dir, "log"), module: filepath.Join(dir, "module.spv")}
	if err := os.WriteFile(f.module, tinyModule(1), 0o600); err != nil {
		t.Fatal(err)
	}
	f.set(t, "glslc", `for f; do case $f in *.comp) cp "`+f.module+`" "$f.spv";; esac; done`)
	f.set(t, "spirv-opt", "cat")
	f.set(t, "spirv-val", "cat >/dev/null")
	return f
}

// set replaces a stand-in. The body sees the arguments; --version is served
// before it.
func (f fakes) set(t testing.TB, name, body string) {
	t.Helper()
	script(t, f.dir, name, `echo `+name+` "$1" >>"`+f.log+`"
if [ "$1" = --version ]; then echo fake 1.0; exit; fi
`+body)
}

func (f fakes) find(t testing.TB, cacheDir string) *Toolchain {
	return find(t, FindOptions{CacheDir: cacheDir, SearchDirs: []string{f.dir}})
}

// calls returns the lines of the log, and empties it.
func (f fakes) calls(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile(f.log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	os.Remove(f.log)
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

// compile calls Compile and fails the test on an error.
func compile(t testing.TB, tc *Toolchain, s []Shader, opt Options) ([]Result, Stats) {
	t.Helper()
	results, stats, err := tc.Compile(context.Background(), s, opt)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if err := CheckModule(r.SPIRV); err != nil {
			t.Errorf("%s: %v", s[i].Name, err)
		}
	}
	return results, stats
}
