package glsl_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// copyKernel copies elements of x at the given positions.
func copyKernel(t ir.DType, shape []ir.Dim, from, to kernel.Index) *kernel.Kernel {
	b := kernel.NewBuilder()
	v := b.Load(0, t, from, "x")
	return kernel.Canonical(&kernel.Kernel{Name: "copy", Family: kernel.FamilyMap, Parallel: shape,
		Ops: []string{"copy"},
		Bindings: []kernel.Binding{{Name: "x", DType: t, Read: true, Elems: 1024},
			{Name: "out", DType: v.DType, Write: true, Elems: 1024}},
		Stores: []kernel.Store{{Bind: 1, Index: to, Value: v}}})
}

func TestErrors(t *testing.T) {
	i, T := kernel.Axis(0, ir.D(64)), ir.Symbol("T", 64)
	ok := func() *kernel.Kernel { return copyKernel(ir.F32, []ir.Dim{ir.D(64)}, i, i) }
	symbolic := func() *kernel.Kernel {
		return copyKernel(ir.F32, []ir.Dim{T}, kernel.Axis(0, T), kernel.Axis(0, T))
	}
	with := func(k *kernel.Kernel, change func(*kernel.Kernel)) *kernel.Kernel { change(k); return k }
	plain := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 1}}
	b := kernel.NewBuilder()
	tests := []struct {
		name  string
		k     *kernel.Kernel
		sched kernel.Schedule
		want  string
	}{
		{"good", ok(), plain, ""},
		{"unknown variant", ok(), kernel.Launch{Variant: "warp", Workgroup: 64, Vec: 1}, "unknown variant"},
		{"wrong family", ok(), kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowSerial, Workgroup: 64, Vec: 1}},
			"is for row kernels"},
		{"no workgroup", ok(), kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Vec: 1}}, "workgroup of 0"},
		{"unknown symbol", symbolic(), plain, "symbol T is not one of the program's"},
		{"format without its codebook", copyKernel(ir.IQ1_S, []ir.Dim{ir.D(64)},
			i, i), plain, "binding x is iq1_s, but none of the bindings is its codebook"},
		{"store into nothing", with(ok(), func(k *kernel.Kernel) { k.Stores[0].Bind = 5 }), plain,
			"store into binding 5 of 2"},
		{"not for reading", with(ok(), func(k *kernel.Kernel) { k.Bindings[0].Read = false }), plain,
			"read but not declared so"},
		{"not for writing", with(ok(), func(k *kernel.Kernel) { k.Bindings[1].Write = false }), plain,
			"written but not declared so"},
		{"axis without loop", with(ok(), func(k *kernel.Kernel) { k.Stores[0].Index = kernel.Axis(3, ir.D(4)) }),
			plain, "axis 3 has no loop"},
		{"fold without loop", with(ok(), func(k *kernel.Kernel) { k.Stores[0].Value = b.Acc(0, ir.F32, "sum") }),
			plain, "result of fold 0"},
		{"op without a form", with(ok(), func(k *kernel.Kernel) {
			k.Stores[0].Value = b.Apply(ir.OpShl, ir.F32, nil, b.Load(0, ir.F32, i, "x"), b.Load(0, ir.F32, i, "x"))
		}), plain, "op shl has no scalar GLSL form"},
		{"too many points", copyKernel(ir.F32, []ir.Dim{ir.D(1 << 40)}, kernel.Const(0), kernel.Const(0)), plain,
			"more than 2^31"},
	}
	for _, tt := range tests {
		sh, err := glsl.Emit(tt.k, tt.sched, profile(t, "nvidia-h100"), []string{"S"})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && err == nil:
			t.Errorf("%s: no error, but\n%s", tt.name, sh.Source)
		case tt.want != "" && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "copy")):
			t.Errorf("%s: %v; want it to name the kernel and say %q", tt.name, err, tt.want)
		}
	}
	k := symbolic() // a symbol, but no params to read it from
	if _, err := glsl.Emit(k, plain, profile(t, "nvidia-h100"), []string{"T"}); err == nil ||
		!strings.Contains(err.Error(), "binds no params") {
		t.Errorf("without params: %v", err)
	}
}

// TestVectorsOnlyWhereAligned checks that a buffer has a vector view exactly if every access is proven to be aligned.
func TestVectorsOnlyWhereAligned(t *testing.T) {
	T := ir.Symbol("T", 64)
	row, col := kernel.Axis(0, ir.D(8)), kernel.Axis(1, ir.D(64))
	at := row.Times(64).Plus(col)
	shape := []ir.Dim{ir.D(8), ir.D(64)}
	inPlace := copyKernel(ir.F32, shape, at, at)
	inPlace.Bindings = []kernel.Binding{{Name: "state", DType: ir.F32, Read: true, Write: true, Elems: 512}}
	inPlace.Stores[0].Bind = 0
	tests := []struct {
		name          string
		k             *kernel.Kernel
		loads, stores bool
	}{
		{"dense", copyKernel(ir.F32, shape, at, at), true, true},
		{"half", copyKernel(ir.F16, shape, at, at), true, true},
		{"bytes", copyKernel(ir.U8, shape, at, at), true, true},
		{"bool", copyKernel(ir.Bool, shape, at, at), true, true},
		{"double", copyKernel(ir.F64, shape, at, at), true, true},
		{"shifted by one", copyKernel(ir.F32, shape, at.Plus(kernel.Const(1)), at), false, true},
		{"shifted by four", copyKernel(ir.F32, shape, at.Plus(kernel.Const(4)), at), true, true},
		{"rows of 65", copyKernel(ir.F32, shape, row.Times(65).Plus(col), at), false, true},
		{"rows of 2*T", copyKernel(ir.F32, shape, row.Mul(kernel.DimIndex(T)).Times(2).Plus(col), at), false, true},
		{"rows of 4*T", copyKernel(ir.F32, shape, row.Mul(kernel.DimIndex(T)).Times(4).Plus(col), at), true, true},
		{"every other", copyKernel(ir.F32, shape, row.Times(128).Plus(col.Times(2)), at), false, true},
		{"backwards", copyKernel(ir.F32, shape, kernel.Const(511).Minus(at), at), false, true},
		{"one for all columns", copyKernel(ir.F32, shape, row, at), false, true},
		{"blocks", copyKernel(ir.Q8_0, shape, at, at), false, true},
		{"in place", inPlace, false, false},
	}
	sources := map[string]string{}
	for _, tt := range tests {
		tt.k.Bindings = append(tt.k.Bindings, kernel.Binding{Name: "params", DType: ir.U32, Read: true, Params: true})
		sched := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 4}}
		sh, err := glsl.Emit(tt.k, sched, profile(t, "nvidia-h100"), []string{"T"})
		check(t, err)
		sources[tt.name] = sh.Source
		loads, stores := strings.Contains(sh.Source, " x_vec4[]"), strings.Contains(sh.Source, " result_vec4[]")
		if loads != tt.loads || stores != tt.stores {
			t.Errorf("%s: vector loads %v, stores %v; want %v, %v\n%s", tt.name, loads, stores, tt.loads,
				tt.stores, sh.Source)
		}
	}
	compile(t, sources)
}

var (
	declared = regexp.MustCompile(
		`(?m)^\s*(?:const |shared |for \()?(?:uint|int|float|double|bool|int64_t|[fiud]?\d*vec\d)\s+(\w+)(?:\[\w+\])?(?: =|;|\()`)
	extension = map[string]string{
		"GL_EXT_spirv_intrinsics":                       "spirv_execution_mode",
		"GL_EXT_shader_8bit_storage":                    "int8_t|u8vec|i8vec",
		"GL_EXT_shader_16bit_storage":                   "int16_t|float16_t|[iu]16vec|f16vec",
		"GL_EXT_shader_explicit_arithmetic_types_int64": `int64_t|i64vec|\dL`,
		"GL_KHR_shader_subgroup_basic":                  "gl_Subgroup",
		"GL_KHR_shader_subgroup_shuffle":                "subgroupShuffle",
		"GL_KHR_shader_subgroup_vote":                   "subgroupAny",
		"GL_EXT_control_flow_attributes":                "unroll",
		"GL_EXT_shader_subgroup_extended_types_int64":   "int64_t",
		"GL_EXT_shader_integer_mix":                     `mix\(`,
	}
)

// TestNothingUnused checks that maps and row kernels use everything that they declare, and that a kernel has the same
// shader every time.
func TestNothingUnused(t *testing.T) {
	kernels := 0
	for seed := *firstSeed; seed < *firstSeed+uint64(graphCount()); seed++ {
		g, err := graphgen.New(seed, graphgen.Options{})
		check(t, err)
		s, err := passes.Run(g, passes.Options{})
		check(t, err)
		var symbols []string
		for _, sym := range s.Program.Symbols {
			symbols = append(symbols, sym.Name)
		}
		for _, k := range s.Kernels {
			if k.Family == kernel.FamilyMatMul {
				continue
			}
			caps := profile(t, "lavapipe")
			source, ok := emitFor(t, k, caps, symbols)
			if again, _ := emitFor(t, k, caps, symbols); again != source {
				t.Errorf("seed %d, %s: another text the second time", seed, k.Name)
			}
			if ok {
				kernels++
				for _, problem := range unused(source) {
					t.Errorf("seed %d: %s\n%s", seed, problem, source)
				}
			}
		}
	}
	if kernels == 0 {
		t.Error("no kernels")
	}
}

// unused lists names and extensions that a shader declares and does not use.
func unused(source string) []string {
	var problems []string
	for _, m := range declared.FindAllStringSubmatch(source, -1) {
		if name := m[1]; name != "main" &&
			len(regexp.MustCompile(`\b`+name+`\b`).FindAllString(stripComments(source), 2)) < 2 {
			problems = append(problems, name+" is declared and not used")
		}
	}
	for _, m := range regexp.MustCompile(`buffer \w+ \{ \w+ (\w+)\[\]`).FindAllStringSubmatch(source, -1) {
		if strings.Count(source, m[1]+"[") < 2 {
			problems = append(problems, "buffer "+m[1]+" is declared and not used")
		}
	}
	extensions := regexp.MustCompile(`#extension (\w+).*`)
	body := stripComments(extensions.ReplaceAllString(source, ""))
	for _, m := range extensions.FindAllStringSubmatch(source, -1) {
		if pattern := extension[m[1]]; pattern == "" || !regexp.MustCompile(pattern).MatchString(body) {
			problems = append(problems, m[1]+" is switched on and not used")
		}
	}
	for _, m := range regexp.MustCompile(`#define (\w+)`).FindAllStringSubmatch(source, -1) {
		if strings.Count(source, m[1]) < 2 {
			problems = append(problems, m[1]+" is defined and not used")
		}
	}
	return problems
}

func stripComments(source string) string {
	return regexp.MustCompile(`//.*`).ReplaceAllString(source, "")
}

// TestUnusedIsFound checks that the search above can fail.
func TestUnusedIsFound(t *testing.T) {
	source := `#extension GL_EXT_shader_8bit_storage : require
#define INF 1

layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
float lonely(float v) {
    return v;
}
void main() {
    uint i = gl_GlobalInvocationID.x; // i
    float twice = 2.0;
    float y = twice + twice;
}`
	got := strings.Join(unused(source), "; ")
	for _, want := range []string{"lonely", "i is", "y is", "buffer x", "8bit_storage", "INF"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not found: %s", want, got)
		}
	}
	if strings.Contains(got, "twice") {
		t.Errorf("what is used is called unused: %s", got)
	}
}

// TestKeepsNaN: if a device loses NaN or cannot be asked to keep it, the functions that a shader calls keep it
// themselves. On other devices shaders call the plain functions.
func TestKeepsNaN(t *testing.T) {
	k := copyKernel(ir.F32, []ir.Dim{ir.D(8)}, kernel.Axis(0, ir.D(8)), kernel.Axis(0, ir.D(8)))
	b := kernel.NewBuilder()
	x := b.Load(0, ir.F32, kernel.Axis(0, ir.D(8)), "x")
	k.Stores[0].Value = b.Apply(ir.OpExp, ir.F32, nil, b.Apply(ir.OpTanh, ir.F32, nil, x))
	lavapipe := profile(t, "lavapipe")
	swiftShader, plain := lavapipe, lavapipe
	swiftShader.VendorID = device.VendorGoogle
	plain.Features.PreserveNaN32 = false
	const keeps = "#define exp(x) mix(exp(x), x, isnan(x))\n"
	sources := map[string]string{}
	for name, c := range map[string]struct {
		caps device.Caps
		want int
	}{"lavapipe": {lavapipe, 0}, "swiftshader": {swiftShader, 1}, "plain": {plain, 1}} {
		source, _ := emitFor(t, k, c.caps, nil)
		if n := strings.Count(source, keeps); n != c.want || strings.Contains(source, "#define log") {
			t.Errorf("%s: exp is made to keep NaN %d times, want %d, and log not at all:\n%s", name, n, c.want, source)
		}
		sources[name+".comp"] = source
	}
	compile(t, sources)
}

// TestKeepsHalfInfinity: if packHalf2x16 loses infinities, shaders convert to f16 without it. The functions of the
// converted value, here of a sum, are in the shader too.
func TestKeepsHalfInfinity(t *testing.T) {
	k := copyKernel(ir.F16, []ir.Dim{ir.D(8)}, kernel.Axis(0, ir.D(8)), kernel.Axis(0, ir.D(8)))
	b := kernel.NewBuilder()
	k.Bindings[len(k.Bindings)-1].DType = ir.I32
	x := b.Load(0, ir.F16, kernel.Axis(0, ir.D(8)), "x")
	sum := b.Apply(ir.OpAdd, ir.F16, nil, x, x)
	k.Stores[0].Value = b.Cast(ir.I32, b.Apply(ir.OpBitcast, ir.U16, nil, sum))
	lavapipe := profile(t, "lavapipe")
	swiftShader := lavapipe
	swiftShader.VendorID = device.VendorGoogle
	sources := map[string]string{}
	for name, c := range map[string]struct {
		caps device.Caps
		want bool
	}{"lavapipe": {lavapipe, true}, "swiftshader": {swiftShader, false}} {
		source, _ := emitFor(t, k, c.caps, nil)
		if packs := strings.Contains(source, "packHalf2x16(vec2("); packs != c.want {
			t.Errorf("%s: packHalf2x16 is called: %v, want %v\n%s", name, packs, c.want, source)
		}
		sources[name+".comp"] = source
	}
	compile(t, sources)
}

// TestSymbolOrder checks that a shader reads a symbol from the symbol's index in the program.
func TestSymbolOrder(t *testing.T) {
	T := ir.Symbol("T", 64)
	k := copyKernel(ir.F32, []ir.Dim{T}, kernel.Axis(0, T), kernel.Axis(0, T))
	k.Bindings = append(k.Bindings, kernel.Binding{Name: "params", DType: ir.U32, Read: true, Params: true})
	sched := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 1}}
	for i, symbols := range [][]string{{"T"}, {"S", "T"}, {"A", "B", "T", "C"}} {
		sh, err := glsl.Emit(k, sched, profile(t, "nvidia-h100"), symbols)
		check(t, err)
		if want := fmt.Sprintf("const uint T = params[%d];", i); !strings.Contains(sh.Source, want) {
			t.Errorf("symbols %v: no %q in\n%s", symbols, want, sh.Source)
		}
	}
}

// TestBindingsOfOneName checks that each buffer has its own declarations, even if another has the same name: joined
// kernels may bind one name twice.
func TestBindingsOfOneName(t *testing.T) {
	b, i := kernel.NewBuilder(), kernel.Axis(0, ir.D(1024))
	load := func(bind int) *kernel.Expr { return b.Load(bind, ir.Q4_0, i, "w") }
	k := &kernel.Kernel{Name: "add", Family: kernel.FamilyMap, Parallel: []ir.Dim{ir.D(1024)}, Ops: []string{"add"},
		Bindings: []kernel.Binding{{Name: "w", DType: ir.Q4_0, Read: true, Elems: 1024},
			{Name: "w", DType: ir.Q4_0, Read: true, Elems: 1024, Buffer: 1},
			{Name: "w", DType: ir.F32, Write: true, Elems: 1024, Buffer: 2}},
		Stores: []kernel.Store{{Bind: 2, Index: i, Value: b.Apply(ir.OpAdd, ir.F32, nil, load(0), load(1))}}}
	sh, err := glsl.Emit(k, kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 4}},
		profile(t, "nvidia-h100"), nil)
	check(t, err)
	for _, want := range []string{"decode4_w(uint", "decode4_w_2(uint", " w_3_vec4[]", "decode4_w(i", "decode4_w_2(i"} {
		if n := strings.Count(sh.Source, want); n != 1 {
			t.Errorf("%d times %q, want it once:\n%s", n, want, sh.Source)
		}
	}
}

// TestGrids checks the number of workgroups under a limit: they must cover every point, and loop if there are too few.
func TestGrids(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	caps.MaxWorkgroupCount = [3]uint32{65535, 65535, 65535}
	T, S, R, L := ir.Symbol("T", 100000), ir.Symbol("S", 5), ir.Symbol("R", 7), ir.Symbol("L", 50000)
	tests := []struct {
		name  string
		shape []ir.Dim
		loops bool
		grid  [3]uint32 // at the bounds
	}{
		{"one workgroup", []ir.Dim{ir.D(64)}, false, [3]uint32{1, 1, 1}},
		{"part of one", []ir.Dim{ir.D(65)}, false, [3]uint32{2, 1, 1}},
		{"at the limit", []ir.Dim{ir.D(65535 * 64)}, false, [3]uint32{65535, 1, 1}},
		{"past the limit", []ir.Dim{ir.D(65535*64 + 1)}, true, [3]uint32{32768, 1, 1}},
		{"two symbols", []ir.Dim{T, S}, false, [3]uint32{7813, 1, 1}},
		{"four symbols", []ir.Dim{S, R, S, R}, false, [3]uint32{20, 1, 1}},
		{"more points than one dimension has", []ir.Dim{T, L}, true, [3]uint32{782, 50000, 1}},
		{"empty", []ir.Dim{ir.D(0), ir.D(5)}, false, [3]uint32{0, 0, 0}},
	}
	for _, tt := range tests {
		at := kernel.Const(0)
		for i, d := range tt.shape {
			at = at.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(i, d))
		}
		k := copyKernel(ir.F32, tt.shape, kernel.Const(0), at)
		k.Bindings = append(k.Bindings, kernel.Binding{Name: "params", DType: ir.U32, Read: true, Params: true})
		sh, err := glsl.Emit(k, kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 1}},
			caps,
			[]string{"T", "S", "R", "L"})
		check(t, err)
		grid, err := sh.Grid.Eval(map[string]int64{"T": 100000, "S": 5, "R": 7, "L": 50000})
		check(t, err)
		if loops := strings.Contains(sh.Source, "gl_NumWorkGroups"); grid != tt.grid || loops != tt.loops {
			t.Errorf("%s: grid %v, loops %v; want %v, %v\n%s", tt.name, grid, loops, tt.grid, tt.loops, sh.Source)
		}
	}
}
