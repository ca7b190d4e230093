package glsl_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/ir"
)

// TestMatMulGolden pins the GLSL of matmuls, each scheduled for the named device. TestMatMulOnDevice checks their
// numbers; a difference here is a change to review.
func TestMatMulGolden(t *testing.T) {
	rows := ir.Symbol("T", 2048)
	cases := []struct {
		name, device string
		p            product
	}{
		{"matmul_f32", "nvidia-h100", product{m: d(4096), n: d(4096), k: d(4096), a: ir.F32, b: ir.F32}},
		{"matmul_q4_0_prompt", "nvidia-h100", product{m: rows, n: d(4096), k: d(4096), a: ir.F32, b: ir.Q4_0, transB: true}},
		{"matmul_partial_gated",
			"generic", product{batch: []ir.Dim{d(3)}, m: rows, n: d(100), k: d(37), a: ir.F16, b: ir.F32,
				transB: true, gated: true, prologue: true, bias: true, half: true}},
		{"matmul_batch", "lavapipe", product{batch: []ir.Dim{d(2), d(8)}, m: d(64), n: d(64), k: d(64), a: ir.F32, b: ir.F32, transB: true}},
		{"matmul_coopmat2", "nvidia-h100", product{m: rows, n: d(4096), k: d(4096), a: ir.F16, b: ir.F16, transB: true, bias: true, half: true, operands: ir.F16}},
		{"matmul_coopmat_q8_0", "nvidia-h100", product{m: d(512), n: d(4096), k: d(4096), a: ir.F16, b: ir.Q8_0, transB: true, half: true, operands: ir.F16}},
		{"matmul_coopmat_gated", "amd-rdna3", product{m: rows, n: d(1000), k: d(4096), a: ir.F16, b: ir.F16, gated: true, half: true, operands: ir.F16}},
		{"matmul_coopmat2_i8", "nvidia-h100", product{m: rows, n: d(4096), k: d(4096), a: ir.I8, b: ir.I8, transB: true, bias: true, half: true, operands: ir.I8}},
		{"matmul_coopmat_u8", "nvidia-h100", product{m: d(512), n: d(4096), k: d(4100), a: ir.U8, b: ir.U8, transB: true, operands: ir.U8}},
		{"matmul_dot_i8", "intel-xe", product{m: rows, n: d(1000), k: d(4096), a: ir.I8, b: ir.I8, transB: true, bias: true, operands: ir.I8}},
		{"matvec_i8", "nvidia-h100", product{m: d(1), n: d(4096), k: d(4096), a: ir.I8, b: ir.I8, transB: true, bias: true, operands: ir.I8}},
		{"matvec_q4_0", "nvidia-h100", product{m: d(1), n: d(4096), k: d(4096), a: ir.F32, b: ir.Q4_0, transB: true, bias: true}},
		{"matvec_q4_0_norm", "nvidia-h100", product{m: d(1), n: d(4096), k: d(4096), a: ir.F32, b: ir.Q4_0, transB: true, gated: true, norm: true, layout: kernel.LayoutPlanes}},
		{"matvec_iq2_xs_lookup", "nvidia-h100", product{m: d(1), n: d(4096), k: d(4096), a: ir.I8, b: ir.IQ2_XS, transB: true, bytes: true, layout: kernel.LayoutPlanes}},
		{"matvec_gated_f16", "amd-rdna3", product{m: d(2), n: d(14336), k: d(4096), a: ir.F32, b: ir.F16, transB: true, gated: true}},
		{"skinny_q4_K", "nvidia-h100", product{m: d(8), n: d(14336), k: d(4096), a: ir.F32, b: ir.Q4_K, transB: true, bias: true, layout: kernel.LayoutPlanes}},
		{"skinny_q4_0_i8", "nvidia-h100", product{m: ir.Symbol("T", 16), n: d(12288), k: d(4096), a: ir.I8, b: ir.Q4_0, transB: true, bytes: true, layout: kernel.LayoutPlanes}},
		{"matvec_columns", "generic", product{batch: []ir.Dim{d(32)}, m: d(1), n: d(128), k: rows, a: ir.F32, b: ir.F32}},
	}
	var sources []spirv.Shader
	for _, c := range cases {
		k := c.p.kernel()
		caps := profile(t, c.device)
		s, _, err := schedule.Select(k, caps)
		check(t, err)
		sh, err := glsl.Emit(k, s, caps, k.Symbols())
		check(t, err)
		again, err := glsl.Emit(c.p.kernel(), s, caps, k.Symbols())
		check(t, err)
		if again.Source != sh.Source {
			t.Errorf("%s: the same kernel has another text the second time", c.name)
		}
		checkGolden(t, c.name, sh.Source)
		sources = append(sources, spirv.Shader{Name: c.name, Source: sh.Source, TargetEnv: envFor(sh.Needs)})
	}
	compileAll(t, sources)
}

// TestNeedsAgree checks that package schedule asks for the features that the generator uses: a device that has the
// former must be able to run the shader.
func TestNeedsAgree(t *testing.T) {
	bare := profile(t, "nvidia-h100")
	bare.Features.Storage8, bare.Features.Storage16, bare.Features.Int64 = false, false, false
	for _, caps := range []device.Caps{profile(t, "nvidia-h100"), bare} {
		for _, dtype := range ir.DTypes() {
			k := product{m: d(64), n: d(256), k: d(256), a: ir.F32, b: dtype, transB: true}.kernel()
			s, _, err := schedule.Select(k, caps)
			check(t, err)
			sh, err := glsl.Emit(k, s, caps, nil)
			if err != nil {
				if !dtype.IsBlock() {
					t.Errorf("%s: %v", dtype, err)
				}
				continue // a block format without kernels yet
			}
			promised := schedule.Needs(k)
			for _, n := range []string{emit.NeedPreserveNaN, emit.NeedPreserveNaN64, emit.NeedStorage8,
				emit.NeedStorage16, emit.NeedInt64} { // used if the device has them, and avoided otherwise
				if caps.Has(n) {
					promised = append(promised, n)
				}
			}
			for _, n := range sh.Needs {
				if !slices.Contains(promised, n) {
					t.Errorf("%s: the text needs %s, package target asks for %v", dtype, n, promised)
				}
				if !caps.Has(n) {
					t.Errorf("%s: the text needs %s, which package target does not know", dtype, n)
				}
			}
		}
	}
}

// TestMatrixLoops checks that lavapipe's compiler is told to keep the loops of a kernel on cooperative matrices, and
// that another driver's is told to unroll them.
func TestMatrixLoops(t *testing.T) {
	k := product{m: d(512), n: d(512), k: d(512), a: ir.F16, b: ir.F16, operands: ir.F16}.kernel()
	caps := profile(t, "amd-rdna3")
	s, _, err := schedule.Select(k, caps)
	check(t, err)
	for driver, hint := range map[uint32]string{caps.DriverID: "[[unroll]]",
		profile(t, "lavapipe").DriverID: "[[dont_unroll]]"} {
		caps.DriverID = driver
		sh, err := glsl.Emit(k, s, caps, nil)
		check(t, err)
		hints := regexp.MustCompile(`\[\[\w+\]\]`).FindAllString(sh.Source, -1)
		if slices.Sort(hints); !slices.Equal(slices.Compact(hints), []string{hint}) {
			t.Errorf("driver %d: %s on %s has hints %v, want %s", driver, k.Name, s, hints, hint)
		}
	}
}

// TestMatMulRefused checks that a schedule that cannot be written is an error.
func TestMatMulRefused(t *testing.T) {
	caps := profile(t, "generic")
	ok := product{m: d(64), n: d(64), k: d(64), a: ir.F32, b: ir.F32}
	bad := tiled(64, 64, 16, 4, 4) // 256 invocations, the device has 128
	if _, err := glsl.Emit(ok.kernel(), bad, caps, nil); err == nil {
		t.Error("a workgroup too large for the device is written")
	}
	rows := product{m: ir.Symbol("T", 64), n: d(64), k: d(64), a: ir.F32, b: ir.F32}
	if _, err := glsl.Emit(rows.kernel(), tiled(16, 16, 8, 2, 2), caps, nil); err == nil {
		t.Error("a symbol that the program does not have is taken")
	}
	if _, err := glsl.Emit(rows.kernel(), vec(8, 8, 1, 1, 0), caps, []string{"T"}); err == nil {
		t.Error("a matvec of up to 64 rows is written")
	}
}
