package glsl_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// skinnySchedule is a schedule of sn by sk subgroups, along columns and contraction axis, with frags fragments of
// columns each, in steps of depth.
func skinnySchedule(caps device.Caps, k *kernel.Kernel, sn, sk, frags, depth int) (kernel.Schedule, bool) {
	r, ok := schedule.SkinnyOf(k)
	if !ok {
		return nil, false
	}
	m, ok := fragments(caps, r.Element)
	if !ok {
		return nil, false
	}
	for _, f := range caps.Matrices { // the fewest rows
		if f.A == m.A && f.B == m.B && f.C == device.Component(r.Sums().String()) && f.R == f.C &&
			f.N < m.N && f.K == m.K {
			m = f
		}
	}
	sub, n, rows := int(caps.SubgroupSize), int(m.N), int(k.Parallel[len(k.Parallel)-2].Max())
	return kernel.Skinny{Launch: kernel.Launch{Variant: kernel.VarSkinny, Workgroup: sub * sn * sk, Vec: 4,
		Subgroup: sub}, Tile: kernel.Tile{TileM: (rows + n - 1) / n * n, TileN: sn * frags * int(m.M), TileK: depth},
		Fragment: kernel.Fragment{FragM: int(m.M), FragN: n, FragK: int(m.K)}, SubgroupsN: sn, SubgroupsK: sk}, true
}

// wideSchedule is a schedule for many rows: sm by sn subgroups across rows and columns, with down by frags fragments
// each, in steps of depth. Rows are sums of two f16 values. fragN is the number of rows of a fragment, or 0 for any.
func wideSchedule(caps device.Caps, sm, sn, down, frags, depth, fragN int) (kernel.Skinny, bool) {
	for _, m := range caps.Matrices {
		if m.Scope != device.ScopeSubgroup || m.A != "f16" || m.B != m.A || m.C != "f32" || m.R != m.C ||
			fragN > 0 && fragN != int(m.N) || m.K > 16 {
			continue
		}
		sub := int(caps.SubgroupSize)
		return kernel.Skinny{Launch: kernel.Launch{Variant: kernel.VarSkinny, Workgroup: sub * sn * sm, Vec: 4,
			Subgroup: sub}, Tile: kernel.Tile{TileM: sm * down * int(m.N), TileN: sn * frags * int(m.M), TileK: depth},
			Fragment:   kernel.Fragment{FragM: int(m.M), FragN: int(m.N), FragK: int(m.K)},
			SubgroupsM: sm, SubgroupsN: sn, SubgroupsK: 1}, true
	}
	return kernel.Skinny{}, false
}

// skinnyCases are matmuls by every format that cooperative matrices support, with float and int8 rows.
func skinnyCases(caps device.Caps) (cases []matCase, refused []string) {
	for i, t := range blockTypes() {
		f, ok := schedule.SkinnyFormatOf(t)
		if !ok {
			continue
		}
		add := func(c matCase, ok bool) {
			if !ok {
				refused = append(refused, c.name+": no fragments")
			} else if err := fits(c.p.kernel(), c.s, caps); err != nil {
				refused = append(refused, c.name+": "+err.Error())
			} else {
				cases = append(cases, c)
			}
		}
		for _, bytes := range []bool{false, true} {
			depth := max(f.Span, 64)
			if caps.Type == device.DeviceCPU && t != ir.Q4_0 {
				depth = f.Span // the driver's compiler takes seconds for a step of 64
			}
			// Two subgroups share three steps of formats without superblocks.
			k := (2 + i/2%2) * max(t.BlockElems(), depth)
			p := product{m: d(1 + (3*i)%8), n: d(21 + 16*(i%3)), k: d(k), a: ir.F32, b: t,
				transB: true, bytes: bytes, gated: i%4 == 0, bias: i%3 == 0}
			if i%2 == 0 {
				p.layout = kernel.LayoutPlanes
			}
			if i%5 == 1 {
				p.m = d(9 + i%16)
			}
			if bytes {
				p.a = ir.I8
			} else {
				p.prologue = i%4 == 2
			}
			symbols := []int64{0}
			if t == ir.Q5_0 && !bytes {
				p.m, symbols = ir.Symbol("T", 7), []int64{0, 1, 7}
			}
			sn, sk := 1+i%2, 1+i/2%2
			s, ok := skinnySchedule(caps, p.kernel(), sn, sk, 1+i%2, depth)
			add(matCase{name: fmt.Sprintf("%s by %s", t, p.a), p: p, s: s, symbols: symbols}, ok)
		}
		if i%3 > 0 {
			continue
		}
		p := product{m: ir.Symbol("T", 70), n: d(21 + 16*(i%5)), k: d(2 * max(t.BlockElems(), f.Span, 32)),
			a: ir.F16, b: t, halves: true, transB: true, gated: i%2 == 0, layout: kernel.LayoutPlanes}
		frags := 1 + i/2%2
		if caps.Type == device.DeviceCPU {
			frags = 1 // four fragments in two stages take its driver ten seconds
		}
		s, ok := wideSchedule(caps, 2, 1+i%2, 1+i/3%2, frags, max(f.Span, 32), 0)
		s.Stages = 1 + i/3%2
		add(matCase{name: fmt.Sprintf("%s by many rows", t), p: p, s: s, symbols: []int64{1, 37, 70}}, ok)
	}
	return cases, refused
}

// TestSkinnyCompile takes matmuls by all formats through compiler and validator, and a part of them through the
// optimizer, for a device that has cooperative matrices for them.
func TestSkinnyCompile(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	cases, refused := skinnyCases(caps)
	if len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
	_, sources := emitCases(t, caps, cases)
	compileSampled(t, sources)
}

// TestSkinnyOnDevice runs matmuls of few rows on the cooperative matrices of this machine's device, and compares with
// loops. Drivers on the CPU take a second or more to compile one, so they run a few.
func TestSkinnyOnDevice(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	cases, refused := skinnyCases(dev.Caps())
	if len(cases) == 0 {
		t.Skipf("%s has no matrix units for these: %s", dev.Caps().Name, refused[0])
	}
	if dev.Caps().Type == device.DeviceCPU {
		cases = slices.DeleteFunc(cases, func(c matCase) bool {
			return !slices.Contains([]string{"q4_0 by i8", "q4_1 by i8", "q5_0 by f32", "q5_1 by i8", "q6_K by i8",
				"iq2_xxs by f32", "mxfp4 by i8", "q4_0 by many rows", "q5_1 by many rows"}, c.name)
		})
	}
	shaders, sources := emitCases(t, dev.Caps(), cases)
	modules := compileSampled(t, sources)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, symbol := range c.symbols {
				c.compare(t, dev, shaders[i], c.p.kernel(), modules[i], symbol)
			}
		})
	}
}

// TestSkinnyValues multiplies float rows with infinities, NaN or values far apart in size, as digits and as halves.
func TestSkinnyValues(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	r := rand.New(rand.NewPCG(5, 6))
	rows := []struct {
		what string
		at   func(i int) float64
	}{
		{"an infinity", func(i int) float64 { return pick(i == 3, math.Inf(-1), r.Float64()) }},
		{"no number", func(i int) float64 { return pick(i == 40, math.NaN(), r.Float64()) }},
		{"large", func(int) float64 { return 1e35 * (r.Float64() - 0.5) }},
		{"small", func(int) float64 { return 1e-30 * (r.Float64() - 0.5) }},
		{"an outlier", func(i int) float64 { return pick(i%64 == 7, 3000.0, 1) * (r.Float64() - 0.5) }},
		{"zeros", func(int) float64 { return 0 }},
	}
	for _, dt := range []ir.DType{ir.Q8_0, ir.Q6_K} { // neither has an offset, which would make infinities NaN
		p := product{m: d(len(rows)), n: d(16), k: d(256), a: ir.F32, b: dt, transB: true}
		k := p.kernel()
		f, _ := schedule.SkinnyFormatOf(dt)
		s, ok := skinnySchedule(dev.Caps(), k, 1, 1, 1, f.Span)
		if err := fits(k, s, dev.Caps()); !ok || err != nil {
			t.Skipf("%s has no matrix units for this: %v", dev.Caps().Name, err)
		}
		shaders, sources := emitCases(t, dev.Caps(), []matCase{{name: dt.String(), p: p, s: s}})
		in := map[string]tensor{"b": randomTensor(t, r, dt, k.Bindings[1].Elems),
			"a": {make([]byte, 4*k.Bindings[0].Elems), make([]float64, k.Bindings[0].Elems)}}
		for i := range in["a"].values {
			in["a"].values[i] = rows[i/256].at(i % 256)
		}
		ir.EncodeFloats(in["a"].bytes, ir.F32, in["a"].values)
		ir.DecodeFloats(in["a"].values, ir.F32, in["a"].bytes)
		want, got := p.reference(0, in), make([]float64, len(rows)*16)
		raw := runOnDevice(t, dev, shaders[0], k, compileAll(t, sources)[0], in, 0, int64(len(got)))
		ir.DecodeFloats(got, ir.F32, raw[:4*len(got)])
		for i, w := range want {
			size := 0.0 // of the summands
			for l := range 256 {
				size = max(size, math.Abs(in["a"].values[i/16*256+l]*in["b"].values[i%16*256+l]))
			}
			same := got[i] == w || math.IsNaN(got[i]) && math.IsNaN(w)
			if diff := math.Abs(got[i] - w); !same && !(diff <= 1e-5*size) {
				t.Errorf("%s by a row with %s, column %d: %g, want %g", dt, rows[i/16].what, i%16, got[i], w)
			}
		}
	}
}
