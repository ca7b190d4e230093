package glsl_test

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

func blockTypes() []ir.DType {
	return slices.DeleteFunc(slices.Clone(ir.DTypes()), func(t ir.DType) bool { return !t.IsBlock() })
}

// blockRun is a schedule with runs of the given number of elements.
func blockRun(s kernel.MatVec, run int) kernel.MatVec {
	s.TileK = run
	return s
}

// withCopies is a schedule that decodes by lookup, if the format supports it.
func withCopies(t ir.DType, s kernel.MatVec, run, copies int) kernel.MatVec {
	f, _ := ir.BlockFormatOf(t)
	if _, ok := schedule.LookupTableOf(t); ok && (run >= 32 || !f.Levels) {
		s.Tables, s.Copies = true, copies
	}
	return s
}

// blockCases are matvecs over every block format, with short and long runs, and the longest. A format changes how one
// element is decoded. So a third of the cases have the second matrix of a gate, and few have several columns for many
// rows: each doubles a kernel.
func blockCases() []matCase {
	var cases []matCase
	for i, t := range blockTypes() {
		n := t.BlockElems()
		for j, run := range []int{8, 32, 256} {
			p := product{m: d(1), n: d(13), k: d(n * (1 + (i+j)%3)), a: ir.F32, b: t, transB: true,
				gated: (i+j)%3 == 1, bias: i%2 == 0, prologue: j == 2}
			s := vec(1, 8, 2, 1+j%2, 8)
			if j == 1 {
				p.m, s = d(2+i%2), vec(2+i%2, 4, 2, 1, 0)
			}
			if j == 2 {
				p.a = ir.F16
			}
			if j != i%2 {
				p.layout = kernel.LayoutPlanes
			}
			if s.StageRows = j == 2; !s.StageRows && p.layout == kernel.LayoutPlanes {
				// CPU drivers take half a minute for several long runs at once
				s.Prefetch = kernel.Prefetch{Mode: kernel.PrefetchRuns, Depth: 3 - j}
			}
			s.Subnormals = j == 1
			s.Tables = j == i%3 && quant.Codebook(t) != nil
			if s.Tables && p.layout == kernel.LayoutPlanes && p.m.Static() < 3 {
				s = withCopies(t, s, run, 1+i%2)
			}
			cases = append(cases, matCase{name: fmt.Sprintf("%s run %d", t, run), p: p, s: blockRun(s, run)})
			s.StageRows = false
			if p.layout == kernel.LayoutPlanes {
				s = withCopies(t, s, run, 2)
			}
			if p.bytes, p.a, p.prologue = true, ir.I8, false; j == i%2 {
				cases = append(cases,
					matCase{name: fmt.Sprintf("%s run %d by bytes", t, run), p: p, s: blockRun(s, run)})
			}
		}
		p := product{m: d(5 + i%4), n: d(13), k: d(2 * n), a: ir.F32, b: t, transB: true, layout: kernel.LayoutPlanes}
		s := blockRun(vec(p.m.Static(), 16, 2, 1+i%2, 8), []int{16, 32, 32}[i%3])
		s.Subnormals, s.Tables, s.StageRows = i%2 == 0, i%2 == 0 && quant.Codebook(t) != nil, true
		cases = append(cases, matCase{name: fmt.Sprintf("%s of %s rows", t, p.m), p: p, s: s})
		p.m, p.bytes, p.a, s.StageRows = d(1+i%8), true, ir.I8, false
		s.TileM, s.ThreadM, s.TileK = p.m.Static(), p.m.Static(), []int{32, 64}[i/2%2]
		if floats := withCopies(t, blockRun(vec(1, 16, 2, 1, 8), 32), 32, 2); floats.Copies > 0 {
			q := product{m: d(1), n: d(13), k: d(2 * n), a: ir.F32, b: t, transB: true, layout: kernel.LayoutPlanes}
			floats.Subnormals = true
			cases = append(cases, matCase{name: fmt.Sprintf("%s looked up as floats", t), p: q, s: floats})
		}
		copies, sums := 1+i%2, s.LanesPerRow*(s.TileM*s.TileN+1) // the sums reuse the table's memory
		for table, ok := schedule.LookupTableOf(t); ok && table.Entries*copies < sums; copies *= 2 {
		}
		s = withCopies(t, s, s.TileK, copies)
		cases = append(cases, matCase{name: fmt.Sprintf("%s of %s rows of bytes", t, p.m), p: p, s: s})
	}
	return append(append(cases, residentCases()...), roundedCases()...)
}

// residentCases keep their rows in registers, as floats or as int8 elements. Some invocations have no part of the last
// run.
func residentCases() []matCase {
	var cases []matCase
	for i, t := range blockTypes() {
		for j, run := range []int{16, 32, 64} {
			p := product{m: d(1 + (i+j)%2), n: d(29), k: d(t.BlockElems() * (2 + 3*(i%3))), a: ir.F32, b: t,
				transB: true, gated: (i+j)%3 == 1, bias: i%2 == 0, prologue: j == 2}
			if j > 0 {
				p.layout = kernel.LayoutPlanes
			}
			s := blockRun(vec(p.m.Static(), 32<<(i%2), 1+i%2, 1+j%2, 8), run)
			s.Coarsen, s.Subnormals, s.Tables = 1+j%2, j == i%2, j == i%3 && quant.Codebook(t) != nil
			s.TileN *= s.Coarsen
			cases = append(cases, matCase{name: fmt.Sprintf("%s resident in runs of %d", t, run), p: p, s: s})
			if f, _ := ir.BlockFormatOf(t); f.Levels {
				continue // they are no int8 elements
			}
			p.byteRows, s.RoundRows, s.Subnormals, s.Prefetch = true, true, false, kernel.Prefetch{}
			if (i+j)%2 == 1 {
				s.Prefetch.Mode = kernel.PrefetchCache
			} else if i%3 > 0 {
				s.Prefetch = kernel.Prefetch{Mode: kernel.PrefetchSectors, Depth: i % 3}
			}
			cases = append(cases, matCase{name: fmt.Sprintf("%s rounded in runs of %d", t, run), p: p, s: s})
			if s = preloading(s); isPreloading(p, s) {
				cases = append(cases, matCase{name: fmt.Sprintf("%s preloaded in runs of %d", t, run), p: p, s: s})
			}
			if p.byteRows, s.Digits = false, 3; p.m.Static() == 1 && takesDigits(p, s) {
				cases = append(cases,
					matCase{name: fmt.Sprintf("%s in digits in runs of %d", t, run), p: p, s: s})
			}
		}
	}
	bytes := product{m: d(1), n: d(29), k: d(320), a: ir.I8, b: ir.Q4_0, transB: true, bytes: true,
		layout: kernel.LayoutPlanes}
	s := blockRun(vec(1, 32, 2, 2, 8), 32)
	s.Coarsen, s.TileN = 3, 3*s.TileN
	columns := product{m: d(1), n: d(29), k: d(96), a: ir.F32, b: ir.F16, transB: true}
	return append(cases, matCase{name: "bytes resident", p: bytes, s: s},
		matCase{name: "f16 in passes", p: columns, s: blockRun(s, 0)})
}

// preloading is a schedule with blocks that are preloaded into registers, and isPreloading reports whether normalizing
// keeps them there.
func preloading(s kernel.MatVec) kernel.MatVec {
	s.Prefetch = kernel.Prefetch{Mode: kernel.PrefetchRegisters}
	return s
}

// normalized is the schedule that the device's selection makes of one.
func normalized(p product, s kernel.MatVec) kernel.MatVec {
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		return kernel.MatVec{}
	}
	made, _ := schedule.New(p.kernel(), s, caps) // the caller checks it
	return vecOf(made)
}

func isPreloading(p product, s kernel.MatVec) bool {
	return normalized(p, s).Prefetch.Mode == kernel.PrefetchRegisters
}

// takesDigits reports whether normalizing keeps a schedule's digits.
func takesDigits(p product, s kernel.MatVec) bool {
	return normalized(p, s).Digits > 0
}

// roundedCases are one row in runs of 64: quantized in shared memory without resident rows, and of int8 elements. 2-bit
// quants are multiplied packed.
func roundedCases() []matCase {
	var cases []matCase
	for i, t := range blockTypes() {
		p := product{m: d(1), n: d(29), k: d(t.BlockElems() * (2 + 3*(i%3))), a: ir.F32, b: t, transB: true,
			gated: i%4 == 1, bias: i%2 == 0, prologue: i%3 == 2, layout: kernel.LayoutPlanes}
		for _, subnormals := range []bool{false, true} {
			s := withCopies(t, blockRun(vec(1, 32, 2, pick(subnormals, 1, 2), 8), 64), 64, 2)
			s.Subnormals = subnormals
			if t.BlockElems() == 256 || !subnormals {
				p.byteRows, s.RoundRows = true, true
				cases = append(cases,
					matCase{name: fmt.Sprintf("%s rounded, subnormals %v", t, subnormals), p: p, s: s})
			}
			bytes := p
			bytes.byteRows, bytes.bytes, bytes.a, bytes.prologue, s.RoundRows = false, true, ir.I8, false, false
			if t.BlockElems() == 256 {
				cases = append(cases,
					matCase{name: fmt.Sprintf("%s bytes, subnormals %v", t, subnormals), p: bytes, s: s})
			}
		}
	}
	return cases
}
