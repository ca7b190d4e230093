package spirv

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// loopShader puts a body into a shader that uses its result.
func loopShader(body string) Shader {
	return Shader{Name: body, Source: `#version 430
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float a[]; };
void main() {
	uint g = gl_GlobalInvocationID.x;
	float s = 0;
	` + body + `
	a[g] = s;
}
`}
}

// loops counts the loops in a module, all of them and those marked to be
// unrolled.
func loops(t *testing.T, tc *Toolchain, module []byte) (all, marked int) {
	t.Helper()
	text, err := tc.Disassemble(t.Context(), module)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "OpLoopMerge") {
			all++
			if strings.Contains(line, " Unroll") {
				marked++
			}
		}
	}
	return all, marked
}

// TestUnroll says which loops spirv-opt unrolls, for who generates them. Those
// that it cannot must keep their mark for the driver.
func TestUnroll(t *testing.T) {
	tests := []struct {
		name, body  string
		all, marked int
	}{
		{"up", "[[unroll]] for (uint i = 0; i < 4; i++) s += a[g + i];", 0, 0},
		{"up to and with", "[[unroll]] for (uint i = 0; i <= 6; i++) s += a[g + i];", 0, 0},
		{"down", "[[unroll]] for (int i = 5; i >= 0; i--) s += a[g + i];", 0, 0},
		{"step", "[[unroll]] for (uint i = 0; i < 64; i += 16) s += a[g + i];", 0, 0},
		{"long", "[[unroll]] for (uint i = 0; i < 200; i++) s += a[g + i];", 0, 0},
		{"two counters", "[[unroll]] for (uint i = 0, j = 8; i < 4; i++, j += 8) s += a[g + i + j];", 0, 0},
		{"branch inside", "[[unroll]] for (uint i = 0; i < 6; i++) { if (a[i] > 0) s += a[g + i]; }", 0, 0},
		{"barrier inside", "[[unroll]] for (uint i = 0; i < 4; i++) { s += a[g + i]; barrier(); }", 0, 0},
		{"behind a return", "if (g > 9) return; [[unroll]] for (uint i = 0; i < 4; i++) s += a[g + i];", 0, 0},
		{"nest", "[[unroll]] for (uint i = 0; i < 4; i++) [[unroll]] for (uint j = 0; j < 4; j++) s += a[g * i + j];", 0, 0},
		{"inside a loop", "for (uint k = 0; k < g; k++) [[unroll]] for (uint i = 0; i < 4; i++) s += a[g * k + i];", 1, 0},
		{"unmarked", "for (uint i = 0; i < 4; i++) s += a[g + i];", 1, 0},
		{"not equal", "[[unroll]] for (uint i = 0; i != 6; i++) s += a[g + i];", 1, 1},
		{"halving", "[[unroll]] for (uint i = 32; i > 0; i >>= 1) s += a[g + i];", 1, 1},
		{"doubling", "[[unroll]] for (uint i = 1; i < 32; i *= 2) s += a[g + i];", 1, 1},
		{"continue", "[[unroll]] for (uint i = 0; i < 6; i++) { if (a[i] > 0) continue; s += a[g + i]; }", 1, 1},
		{"break", "[[unroll]] for (uint i = 0; i < 6; i++) { if (a[i] > 0) break; s += a[g + i]; }", 1, 1},
		{"triangle", "[[unroll]] for (uint i = 0; i < 6; i++) [[unroll]] for (uint j = 0; j <= i; j++) s += a[g * i + j];", 2, 2},
		{"runtime bound", "[[unroll]] for (uint i = 0; i < g; i++) s += a[i];", 1, 1},
	}
	for _, dir := range realDirs(t) {
		tc := find(t, FindOptions{SearchDirs: []string{dir}})
		var s []Shader
		for _, tt := range tests {
			s = append(s, loopShader(tt.body))
		}
		results, _ := compile(t, tc, s, Options{Optimize: true, Validate: tc.Val.Found()})
		for i, tt := range tests {
			if all, marked := loops(t, tc, results[i].SPIRV); all != tt.all || marked != tt.marked {
				t.Errorf("%s: %s: %d loops left, %d marked; want %d, %d",
					tc.Opt.Version, tt.name, all, marked, tt.all, tt.marked)
			}
		}
	}
}

// TestPassesMatchO compares with spirv-opt -O, byte for byte. -O is another
// list in other versions, so only those are compared that optimizerPasses was
// derived from.
func TestPassesMatchO(t *testing.T) {
	compared := 0
	for _, dir := range realDirs(t) {
		tc := find(t, FindOptions{SearchDirs: []string{dir}})
		if !strings.Contains(tc.Opt.Version, " v2023.1 ") && !strings.Contains(tc.Opt.Version, " v2026.4 ") {
			continue
		}
		compared++
		s := program(t)
		plain, _ := compile(t, tc, s, Options{})
		ours, _ := compile(t, tc, s, Options{Optimize: true})
		for i := range s {
			out, err := runTool(t.Context(), tc.Opt,
				command{limits: defaultLimits, stdin: plain[i].SPIRV, args: []string{
					"--target-env=" + DefaultTargetEnv, "-O", "--strip-debug", "--compact-ids", "-", "-o", "-"}})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.stdout, ours[i].SPIRV) {
				t.Errorf("%s: %s: %d bytes with -O, %d with our passes, not the same",
					tc.Opt.Version, s[i].Name, len(out.stdout), len(ours[i].SPIRV))
			}
		}
	}
	if compared == 0 {
		t.Skip("no spirv-opt of a version that the passes were derived from")
	}
}

// TestArraysBecomeValues: the accumulators of unrolled tiles must not remain arrays in memory, even with more than 100
// elements.
func TestArraysBecomeValues(t *testing.T) {
	for _, dir := range realDirs(t) {
		tc := find(t, FindOptions{SearchDirs: []string{dir}})
		for _, tn := range []int{4, 16} {
			s := sample(t, "matmul", map[string]int{"TM": 8, "TN": tn})
			results, _ := compile(t, tc, []Shader{s}, Options{Optimize: true, Validate: true})
			text, err := tc.Disassemble(t.Context(), results[0].SPIRV)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(text, "OpVariable %_ptr_Function"); n != 0 {
				t.Errorf("%s: %d variables left in %s", tc.Opt.Version, n, s.Name)
			}
			// 2023.1 makes some more of the multiplications and additions in gelu.
			if fma := strings.Count(text, " Fma "); fma < 16*8*tn {
				t.Errorf("%s: %d fma in %s, want at least %d", tc.Opt.Version, fma, s.Name, 16*8*tn)
			}
		}
	}
}

// TestSmallConstants stores constants of types that the shader may only store: folding their conversions
// would make the module unsound.
func TestSmallConstants(t *testing.T) {
	const head = `#version 430
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
`
	const body = `layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int8_t a[]; };
layout(binding = 1) buffer B { uint8_t b[]; };
layout(binding = 2) buffer C { uint16_t c[]; };
layout(binding = 3) buffer D { float16_t d[]; };
layout(binding = 4) buffer E { int e[]; };
void main() {
	uint i = gl_GlobalInvocationID.x;
	int v = 2;
	[[unroll]] for (int j = 0; j < 3; j++) v += j;
	a[i] = int8_t(v);
	b[i] = uint8_t(e[i] > 0 ? 1 : 0);
	c[i] = uint16_t(77u);
	d[i] = float16_t(1.5);
}
`
	const unroll = "#extension GL_EXT_control_flow_attributes : require\n"
	const arithmetic = "#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
	s := []Shader{{Name: "stored", Source: head + unroll + body},
		{Name: "computed", Source: head + arithmetic + unroll + body}}
	eachToolchain(t, func(t *testing.T, tc *Toolchain) {
		if !tc.Opt.Found() || !tc.Val.Found() {
			t.Skip("no spirv-opt and spirv-val")
		}
		results, _ := compile(t, tc, s, Options{Optimize: true, Validate: true})
		plain, _ := compile(t, tc, s, Options{})
		for i := range s {
			if all, _ := loops(t, tc, results[i].SPIRV); all != 0 || len(results[i].SPIRV) >= len(plain[i].SPIRV) {
				t.Errorf("%s: %s is not optimized", tc.Opt.Version, s[i].Name)
			}
		}
		if smallConstants(results[0].SPIRV) {
			t.Errorf("%s: constants of types that are only stored", tc.Opt.Version)
		}
	})
}

// BenchmarkOptimize compares the passes with -O on matmul tiles.
func BenchmarkOptimize(b *testing.B) {
	tc := realTools(b)
	for _, tile := range [][2]int{{4, 4}, {8, 8}} {
		s := sample(b, "matmul", map[string]int{"TM": tile[0], "TN": tile[1]})
		plain, _ := compile(b, tc, []Shader{s}, Options{})
		for _, passes := range [][]string{{"-O"}, optimizerPasses} {
			name := "passes"
			if len(passes) == 1 {
				name = "O"
			}
			b.Run(fmt.Sprintf("%dx%d/%s", tile[0], tile[1], name), func(b *testing.B) {
				for b.Loop() {
					args := append([]string{"--target-env=" + DefaultTargetEnv}, passes...)
					c := command{limits: defaultLimits, stdin: plain[0].SPIRV, args: append(args, "-", "-o", "-")}
					if _, err := runTool(b.Context(), tc.Opt, c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
