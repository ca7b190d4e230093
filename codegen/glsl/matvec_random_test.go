package glsl_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime/vk"
)

var (
	randomVecs = flag.Int("vecs", 20, "how many random products of few rows by blocks to run on the device")
	vecsSeed   = flag.Uint64("vecs-seed", 17, "what they are drawn from")
)

// askingCases prefetch blocks before a row is quantized. In the first case, the columns in flight have fewer sectors
// than the workgroups have invocations, and all columns are in whole tiles. There an extra invocation would prefetch
// past the last block.
func askingCases() []matCase {
	asking := func(name string, t ir.DType, k, run int, prefetch kernel.Prefetch) matCase {
		p := product{m: d(1), n: d(4), k: d(k), a: ir.F32, b: t, transB: true, byteRows: true,
			layout: kernel.LayoutPlanes}
		s := blockRun(vec(1, 32, 1, 4, 8), run)
		s.Coarsen, s.RoundRows, s.Prefetch = 1, true, prefetch
		return matCase{name: name, p: p, s: s}
	}
	cache := kernel.Prefetch{Mode: kernel.PrefetchCache}
	lookup := asking("lookup ahead", ir.IQ1_S, 256, 32, cache)
	lookup.s = withCopies(ir.IQ1_S, vecOf(lookup.s), 32, 2)
	return []matCase{
		asking("past the last column", ir.Q4_0, 64, 32, kernel.Prefetch{Mode: kernel.PrefetchSectors, Depth: 1}),
		asking("one row ahead", ir.Q4_1, 96, 32, cache),
		asking("packed ahead", ir.Q2_K, 512, 64, cache),
		lookup,
	}
}

// rowsOfMatVec is the number of rows that a workgroup of a matvec takes: all rows, or half of them.
func rowsOfMatVec(rows int) int {
	if rows > schedule.MaxMatVecRows {
		return (rows + 1) / 2
	}
	return rows
}

// randomBlockCases are matmuls of one to sixteen rows by blocks of every format, under random schedules that pass
// Check. Some of their shapes have no divisors.
func randomBlockCases(caps device.Caps, count int) []matCase {
	r := rand.New(rand.NewPCG(*vecsSeed, 19))
	coin := func() bool { return r.IntN(2) == 0 }
	own := max(int(caps.SubgroupSize), 1)
	cases := askingCases()
	for len(cases) < count {
		t := blockTypes()[r.IntN(len(blockTypes()))]
		p := product{m: d(1), n: d([]int{1, 7, 8, 24, 32, 33, 1 + r.IntN(70)}[r.IntN(7)]),
			k: d(t.BlockElems() * (1 + r.IntN(512/t.BlockElems()+3))), a: ir.F32, b: t, transB: true,
			gated: r.IntN(4) == 0, bias: coin(), prologue: r.IntN(3) == 0, sharedB: coin(), norm: r.IntN(6) == 0,
			layout: []kernel.Layout{kernel.LayoutPlanes, kernel.LayoutBlocks}[r.IntN(5)/4]}
		if r.IntN(3) == 0 {
			p.m = d(1 + r.IntN(2*schedule.MaxMatVecRows))
		}
		if r.IntN(3) == 0 {
			p.batch = []ir.Dim{d(1 + r.IntN(3))}
		}
		lanes, groups, cols := own*(1+r.IntN(8)), 1+r.IntN(3), []int{1, 2, 3, 4, 7, 8}[r.IntN(6)]
		s := blockRun(vec(rowsOfMatVec(p.m.Static()), lanes, groups, cols, own), 8<<r.IntN(6))
		if coin() {
			s.Coarsen = 1 + r.IntN(5)
			s.TileN *= s.Coarsen
		}
		s.Subnormals, s.Tables = coin(), coin() && quant.Codebook(t) != nil
		if s.Tables && coin() {
			s.Copies = 1 << r.IntN(4)
		}
		switch r.IntN(4) {
		case 0:
			p.bytes, p.a, p.prologue, p.norm = true, ir.I8, false, false
		case 1:
			s.StageRows = coin()
		default:
			p.byteRows, s.RoundRows = true, true
		}
		if digits := s; s.RoundRows && coin() {
			if digits.Digits = 3; takesDigits(p, digits) {
				p.byteRows, s = false, digits
			}
		}
		s.Prefetch = []kernel.Prefetch{{}, {Mode: kernel.PrefetchRuns, Depth: 2}, {Mode: kernel.PrefetchCache},
			{Mode: kernel.PrefetchRegisters}, {Mode: kernel.PrefetchSectors, Depth: 1 + r.IntN(8)}}[r.IntN(5)]
		each := pick(s.Coarsen > 0, int(p.k.Max())/lanes, s.TileK) // elements of a row that an invocation unrolls
		if each*s.ThreadN*s.ThreadM*pick(p.gated || p.norm, 2, 1) > 192 {
			continue // these shaders are long and take long to compile
		}
		if normalized(p, s).Prefetch.Mode != s.Prefetch.Mode {
			continue // it would repeat another case
		}
		if fits(p.kernel(), s, caps) == nil {
			cases = append(cases, matCase{name: fmt.Sprintf("%d %s %v", len(cases), t, s), p: p, s: s})
		}
	}
	return cases
}

var (
	readArray    = regexp.MustCompile(`(?m)^layout\(.*\) readonly (?:volatile )?buffer \w+ \{ \w+ (\w+)\[\]; \};`)
	writtenArray = regexp.MustCompile(`(?m)^layout\(.*\) writeonly buffer \w+ \{ (\w+) (\w+)\[\]; \};`)
)

// withBounds returns a shader that checks its reads from buffers. For a read outside of a buffer it writes past the
// result, and the comparison finds that.
func withBounds(t *testing.T, source string) string {
	t.Helper()
	written := writtenArray.FindStringSubmatch(source)
	arrays := readArray.FindAllStringSubmatchIndex(source, -1)
	if written == nil || len(arrays) == 0 {
		t.Fatalf("no arrays to read and write in\n%s", source)
	}
	ends := writtenArray.FindStringIndex(source)[1]
	var names []string
	for _, a := range arrays {
		names, ends = append(names, source[a[2]:a[3]]), max(ends, a[1])
	}
	ends += strings.Index(source[ends:], "\n") + 1
	uses := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\[`)
	check := fmt.Sprintf("uint within_array(uint at, int size) {\n    if (at < uint(size)) return at;\n    "+
		"%s[%[1]s.length() - 1] = %[2]s(0);\n    return 0u;\n}\n", written[2], written[1])
	return source[:ends] + check + wrapIndices(source[ends:], uses)
}

// wrapIndices wraps the index of every use of some arrays.
func wrapIndices(code string, uses *regexp.Regexp) string {
	at := uses.FindStringSubmatchIndex(code)
	if at == nil {
		return code
	}
	depth, end := 1, at[1]
	for ; depth > 0; end++ {
		depth += map[byte]int{'[': 1, ']': -1}[code[end]]
	}
	index := wrapIndices(code[at[1]:end-1], uses)
	return code[:at[1]] + fmt.Sprintf("within_array(%s, %s.length())]", index, code[at[2]:at[3]]) +
		wrapIndices(code[end:], uses)
}

// TestBlockVecsOnDevice runs random matmuls of few rows by blocks on this machine's Vulkan device, and compares with
// loops. It also checks that no read leaves its buffer, even if the read has no effect.
func TestBlockVecsOnDevice(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	caps := dev.Caps()
	cases := randomBlockCases(caps, *randomVecs)
	shaders, kernels := make([]*glsl.Shader, len(cases)), make([]*kernel.Kernel, len(cases))
	sources := make([]spirv.Shader, len(cases))
	for i := range cases {
		c := &cases[i]
		c.s = relying(caps, c.s)
		kernels[i] = c.p.kernel()
		sh, err := glsl.Emit(kernels[i], c.s, caps, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		// SharedBytes also counts rows that cannot be staged
		if declared := declaredShared(t, sh.Source); sh.SharedBytes < declared {
			t.Errorf("%s: claims %d bytes of shared memory, declares %d", c.name, sh.SharedBytes, declared)
		}
		shaders[i], sources[i] = sh, spirv.Shader{Name: fmt.Sprintf("case%d", i), Source: withBounds(t, sh.Source),
			TargetEnv: envFor(sh.Needs)}
	}
	modules := compileSampled(t, sources)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			notLong(t, caps, modules[i])
			c.compare(t, dev, shaders[i], kernels[i], modules[i], 0)
		})
	}
}
