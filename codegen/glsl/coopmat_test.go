package glsl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// matrixProducts are matmuls that cooperative matrices support.
func matrixProducts() []matCase {
	f32, f16, bf16, q4, q8, i8, u8 := ir.F32, ir.F16, ir.BF16, ir.Q4_0, ir.Q8_0, ir.I8, ir.U8
	return append(planeProducts(), []matCase{
		{name: "whole tiles", p: product{m: d(128), n: d(128), k: d(128), a: f16, b: f16, operands: f16, half: true}},
		{name: "f32 result", p: product{m: d(128), n: d(192), k: d(64), a: f16, b: f16, operands: f16}},
		{name: "partial tiles", p: product{m: d(72), n: d(88), k: d(40), a: f16, b: f16, operands: f16, half: true}},
		{name: "odd", p: product{m: d(67), n: d(89), k: d(41), a: f16, b: f16, operands: f16, half: true}},
		{name: "multiples of four", p: product{m: d(68), n: d(92), k: d(44), a: f16, b: f16, operands: f16,
			transB: true}},
		{name: "short contraction", p: product{m: d(33), n: d(40), k: d(1), a: f16, b: f16, operands: f16}},
		{name: "B transposed", p: product{m: d(64), n: d(96), k: d(72), a: f16, b: f16, operands: f16, transB: true,
			half: true}},
		{name: "A transposed", p: product{m: d(72), n: d(96), k: d(64), a: f16, b: f16, operands: f16, transA: true,
			half: true}},
		{name: "both transposed, odd", p: product{m: d(71), n: d(95), k: d(63), a: f16, b: f16, operands: f16,
			transA: true, transB: true}},
		{name: "bias", p: product{m: d(64), n: d(64), k: d(64), a: f16, b: f16, operands: f16, bias: true, half: true}},
		{name: "bias, odd", p: product{m: d(65), n: d(63), k: d(64), a: f16, b: f16, operands: f16, bias: true,
			half: true}},
		{name: "gated", p: product{m: d(64), n: d(80), k: d(64), a: f16, b: f16, operands: f16, gated: true,
			bias: true, transB: true}},
		{name: "prologue", p: product{m: d(64), n: d(80), k: d(48), a: f32, b: f16, operands: f16, prologue: true}},
		{name: "prologue, odd", p: product{m: d(61), n: d(79), k: d(47), a: f32, b: f16, operands: f16, prologue: true,
			transA: true}},
		{name: "q8_0", p: product{m: d(40), n: d(72), k: d(96), a: f16, b: q8, operands: f16, transB: true,
			half: true}},
		{name: "q4_0", p: product{m: d(40), n: d(72), k: d(96), a: f32, b: q4, operands: f16, transB: true,
			bias: true}},
		{name: "banded", p: product{batch: []ir.Dim{d(2)}, m: d(256), n: d(300), k: d(16), a: f16, b: f16,
			operands: f16, transB: true, half: true}},
		{name: "half sums", p: product{m: d(64), n: d(80), k: d(64), a: f16, b: f16, operands: f16, half: true,
			halfSums: true}},
		{name: "banded, the last in part", p: product{m: d(270), n: d(300), k: d(16), a: f16, b: f16, operands: f16,
			transB: true, half: true}},
		{name: "half sums, epilogue", p: product{m: d(64), n: d(72), k: d(40), a: f16, b: f16, operands: f16,
			bias: true, halfSums: true}},
		{name: "q4_K", p: product{m: d(40), n: d(40), k: d(512), a: f16, b: ir.Q4_K, operands: f16, transB: true,
			loose: true}},
		{name: "q6_K", p: product{m: d(40), n: d(40), k: d(256), a: f16, b: ir.Q6_K, operands: f16, transB: true,
			loose: true}},
		{name: "q5_1", p: product{m: d(40), n: d(40), k: d(64), a: f16, b: ir.Q5_1, operands: f16, transB: true,
			loose: true}},
		{name: "batch", p: product{batch: []ir.Dim{d(2), d(3)}, m: d(33), n: d(40), k: d(48), a: f16, b: f16,
			operands: f16, bias: true}},
		{name: "batch, odd", p: product{batch: []ir.Dim{d(3)}, m: d(35), n: d(41), k: d(21), a: f16, b: f16,
			operands: f16, half: true}},
		{name: "batch of A only", p: product{batch: []ir.Dim{d(3)}, m: d(40), n: d(48), k: d(16), a: f16, b: f16,
			operands: f16, sharedB: true}},
		{name: "T rows", p: product{m: tT, n: d(64), k: d(32), a: f16, b: f16, operands: f16, transB: true,
			gated: true}, symbols: []int64{0, 1, 16, 33, 70}},
		{name: "T columns", p: product{m: d(64), n: tT, k: d(32), a: f16, b: f16, operands: f16, half: true},
			symbols: []int64{0, 1, 16, 33, 70}},
		{name: "8T columns", p: product{m: d(64), n: tT.Times(8), k: d(32), a: f16, b: f16, operands: f16, half: true},
			symbols: []int64{0, 1, 3, 70}},
		{name: "T deep", p: product{m: d(64), n: d(48), k: tT, a: f16, b: f16, operands: f16},
			symbols: []int64{0, 1, 4, 33, 70}},
		{name: "8T deep", p: product{m: d(64), n: d(48), k: tT.Times(8), a: f16, b: f16, operands: f16, transB: true},
			symbols: []int64{0, 1, 9, 70}},
		{name: "results across", p: product{m: d(128), n: d(192), k: d(64), a: f16, b: f16, operands: f16,
			across: true, half: true}},
		{name: "results across, some of a tile", p: product{batch: []ir.Dim{d(2)},
			m: d(84), n: d(75), k: d(64), a: f16, b: f16, operands: f16, across: true, bias: true}},
		{name: "results across, odd", p: product{m: d(67), n: d(89), k: d(41), a: f16, b: f16, operands: f16,
			across: true, bias: true, half: true}},
		{name: "results across, half sums", p: product{m: d(68), n: d(80), k: d(64), a: f16, b: f16, operands: f16,
			across: true, half: true, halfSums: true}},
		{name: "results across, T rows", p: product{m: tT, n: d(64), k: d(32), a: f16, b: f16, operands: f16,
			across: true}, symbols: []int64{0, 1, 33, 70}},
		{name: "bf16", p: product{m: d(64), n: d(72), k: d(96), a: bf16, b: bf16, operands: bf16, half: true}},
		{name: "i8", p: product{m: d(128), n: d(128), k: d(128), a: i8, b: i8, operands: i8, transB: true}},
		{name: "i8, odd", p: product{m: d(67), n: d(89), k: d(41), a: i8, b: i8, operands: i8}},
		{name: "i8, half units", p: product{m: d(72), n: d(88), k: d(40), a: i8, b: i8, operands: i8, transA: true,
			transB: true}},
		{name: "i8, scaled", p: product{batch: []ir.Dim{d(2)}, m: d(96), n: d(64), k: d(64), a: i8, b: i8,
			operands: i8, transB: true, bias: true, half: true}},
		{name: "i8, plus one", p: product{m: d(64), n: d(64), k: d(64), a: i8, b: i8, operands: i8, transB: true,
			plusOne: true}},
		{name: "i8, prologue", p: product{m: d(61), n: d(79), k: d(48), a: i8, b: i8, operands: i8, prologue: true,
			bias: true}},
		{name: "i8, T rows", p: product{m: tT, n: d(64), k: d(64), a: i8, b: i8, operands: i8, transB: true,
			gated: true}, symbols: []int64{0, 1, 16, 33, 70}},
		{name: "u8", p: product{m: d(64), n: d(128), k: d(128), a: u8, b: u8, operands: u8, transA: true}},
		{name: "u8, sums that wrap", p: product{m: d(16), n: d(16), k: d(147456), a: u8, b: u8, operands: u8,
			transB: true}},
		{name: "u8, scaled", p: product{m: d(65), n: d(63), k: d(64), a: u8, b: u8, operands: u8, transB: true,
			bias: true}},
		{name: "u8, plus one", p: product{m: d(64), n: d(64), k: tT, a: u8, b: u8, operands: u8, plusOne: true},
			symbols: []int64{0, 1, 33, 70}},
		{name: "bf16, odd", p: product{m: d(63), n: d(71), k: d(95), a: bf16, b: bf16, operands: bf16, bias: true,
			transB: true}},
	}...)
}

// planeProducts are matmuls by blocks in planes, for formats with quants that are read eight at once, and for other
// formats.
func planeProducts() []matCase {
	var cases []matCase
	for _, t := range []ir.DType{ir.Q4_0, ir.Q4_1, ir.Q5_0, ir.Q8_0, ir.Q2_K, ir.Q3_K, ir.Q4_K, ir.Q5_K, ir.Q6_K,
		ir.TQ1_0, ir.TQ2_0, ir.IQ4_NL} {
		cases = append(cases,
			matCase{name: t.String() + " in planes", p: product{m: d(24), n: d(40), k: d(2 * t.BlockElems()),
				a: ir.F16, b: t, operands: ir.F16, transB: true, loose: true, layout: kernel.LayoutPlanes}})
	}
	return cases
}

// fragments returns the fragment shape of a device for a dtype.
func fragments(caps device.Caps, t ir.DType) (device.MatrixShape, bool) {
	c, sums := device.Component(t.String()), device.Component("f32")
	switch t {
	case ir.I8:
		sums = "i32"
	case ir.U8:
		sums = "u32"
	}
	i := slices.IndexFunc(caps.Matrices, func(m device.MatrixShape) bool {
		// or f16 of the same shape
		return m.A == c && m.B == c && m.C == sums && m.R == sums && m.Scope == device.ScopeSubgroup
	})
	if i < 0 {
		return device.MatrixShape{}, false
	}
	return caps.Matrices[i], true
}

// coopMat is a schedule of sm x sn subgroups with fm x fn fragments each, in steps of fk fragments.
func coopMat(caps device.Caps, t ir.DType, sm, sn, fm, fn, fk int) (kernel.CoopMat, bool) {
	m, ok := fragments(caps, t)
	sub := int(caps.SubgroupSize)
	return kernel.CoopMat{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat,
		Workgroup: sub * sm * sn, Vec: 4, Subgroup: sub}, Tile: kernel.Tile{TileM: sm * fm * int(m.M),
		TileN: sn * fn * int(m.N), TileK: fk * int(m.K)}}, Fragment: kernel.Fragment{FragM: int(m.M), FragN: int(m.N),
		FragK: int(m.K)}, SubgroupsM: sm, SubgroupsN: sn}, ok
}

func coopMat2(workgroup, m, n, k int) kernel.CoopMat2 {
	return kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2,
		Workgroup: workgroup, Vec: 4}, Tile: kernel.Tile{TileM: m, TileN: n, TileK: k}}}
}

// unrolled is a schedule with the given number of unrolled steps.
func unrolled(steps int, s kernel.CoopMat2) kernel.CoopMat2 {
	s.Unroll = steps
	return s
}

// inPieces divides the sums of a tile.
func inPieces(s kernel.CoopMat2, down, across int) kernel.CoopMat2 {
	s.PiecesM, s.PiecesN = down, across
	return s
}

// banded goes down two rows of tiles before the next column.
func banded(s kernel.Schedule) kernel.Schedule {
	switch s := s.(type) {
	case kernel.CoopMat:
		s.Band = 2
		return s
	case kernel.CoopMat2:
		s.Band = 2
		return s
	}
	return s
}

// matrixCases are these matmuls under schedules of both kinds of cooperative matrices that a device can run. refused
// has the reasons for the others.
func matrixCases(caps device.Caps, seed uint64) (cases []matCase, refused []string) {
	r := rand.New(rand.NewPCG(seed, 17))
	for _, c := range matrixProducts() {
		var schedules []kernel.Schedule
		// Drivers on the CPU compile a shader in about a second per 16 fragments.
		sm, fm, fn, fk := 1+r.IntN(2), 1+r.IntN(2), 1+r.IntN(2), 1+r.IntN(2)
		if caps.Type == device.DeviceCPU && fm*fn == 4 {
			fk = 1
		}
		if s, ok := coopMat(caps, c.p.operands, sm, 3-sm, fm, fn, fk); ok {
			s.OneStage = r.IntN(2) == 0
			schedules = append(schedules, s)
		}
		schedules = append(schedules, coopMat2(128, 64, 64, 32), coopMat2(256, 64, 128, 16),
			unrolled(2, coopMat2(256, 64, 128, 16)),
			inPieces(coopMat2(128, 64, 64, 32), 2, 2), inPieces(coopMat2(256, 64, 128, 16), 1, 2),
			inPieces(coopMat2(256, 64, 128, 16), 2, 1))
		if c.p.integers() {
			schedules = append(schedules, coopMat2(256, 64, 128, 64))
		}
		for _, s := range schedules {
			if strings.HasPrefix(c.name, "banded") {
				s = banded(s)
			}
			x := c
			x.s, x.name = s, fmt.Sprintf("%s/%s", c.name, s)
			if err := fits(c.p.kernel(), s, caps); err != nil {
				refused = append(refused, fmt.Sprintf("%s: %v", x.name, err))
				continue
			}
			if len(x.symbols) == 0 {
				x.symbols = []int64{0}
			}
			cases = append(cases, x)
		}
	}
	return cases, refused
}

// emitCases writes the shaders of cases.
func emitCases(t *testing.T, caps device.Caps, cases []matCase) ([]*glsl.Shader, []spirv.Shader) {
	t.Helper()
	shaders, sources := make([]*glsl.Shader, len(cases)), make([]spirv.Shader, len(cases))
	for i, c := range cases {
		k := c.p.kernel()
		sh, err := glsl.Emit(k, c.s, caps, k.Symbols())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if declared := declaredShared(t, sh.Source); sh.SharedBytes != declared {
			t.Errorf("%s: claims %d bytes of shared memory, declares %d", c.name, sh.SharedBytes, declared)
		}
		shaders[i], sources[i] = sh, spirv.Shader{Name: fmt.Sprintf("case%d", i), Source: sh.Source,
			TargetEnv: envFor(sh.Needs)}
	}
	return shaders, sources
}

// TestMatrixUnitsCompile generates both variants for every profile with cooperative matrices. Profiles share many
// shaders, so the compiler and the validator get a covering set, and the optimizer a part of it.
func TestMatrixUnitsCompile(t *testing.T) {
	t.Parallel()
	type shader struct {
		matCase
		profile string
		source  spirv.Shader
	}
	var all []shader
	for _, name := range device.Kinds() {
		caps := profile(t, name)
		if !caps.Features.CooperativeMatrix {
			continue
		}
		cases, refused := matrixCases(caps, 1)
		want := []string{"coopmat "}
		if caps.Features.CooperativeMatrix2 {
			want = append(want, "coopmat2 ")
		}
		for _, variant := range want {
			if !slices.ContainsFunc(cases, func(c matCase) bool { return strings.Contains(c.name, "/"+variant) }) {
				t.Errorf("%s: %sruns no case: %q", name, variant, refused)
			}
		}
		_, sources := emitCases(t, caps, cases)
		for i, c := range cases {
			sources[i].Name = fmt.Sprintf("case%d", len(all))
			all = append(all, shader{c, name, sources[i]})
		}
	}
	var sources []spirv.Shader
	for _, s := range pairs.Pick(all, func(s shader) pairs.Of {
		p := s.p
		product, _, _ := strings.Cut(s.name, "/")
		return pairs.Of{Name: product, Properties: []any{s.profile, s.s.Config().Variant, numberOf(s.s, "unroll"),
			numberOf(s.s, "pieces_m"), numberOf(s.s, "pieces_n"),
			p.a, p.b, p.operands, p.layout, p.transA, p.transB, p.prologue, p.bias, p.gated, p.half, p.halfSums,
			p.across, p.plusOne, len(p.batch) > 0, p.sharedB, p.m.IsStatic(), p.n.IsStatic(), p.k.IsStatic(),
			p.m.Add%8 == 0, p.n.Add%8 == 0, p.k.Add%8 == 0}}
	}) {
		sources = append(sources, s.source)
	}
	t.Logf("%d of %d shaders", len(sources), len(all))
	compileSampled(t, sources)
}

// TestMatrixUnitsOnDevice runs matmuls on the cooperative matrices of this machine's device, in every variant that it
// has, and compares with loops.
func TestMatrixUnitsOnDevice(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	caps := dev.Caps()
	cases, refused := matrixCases(caps, 2)
	if caps.Type == device.DeviceCPU { // its driver compiles too slowly for all
		for i := range cases {
			if i%2 == 0 {
				cases[i/2] = cases[i]
			}
		}
		cases = cases[:(len(cases)+1)/2]
	}
	if len(cases) == 0 {
		t.Skipf("%s has no matrix units for these: %s", caps.Name, refused[0])
	}
	shaders, sources := emitCases(t, caps, cases)
	modules := compileSampled(t, sources)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, symbol := range c.symbols {
				c.compare(t, dev, shaders[i], c.p.kernel(), modules[i], symbol)
			}
		})
	}
}
