package glsl_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

var attentionSchedulesFlag = flag.Int("attention-schedules", 2,
	"under how many schedules to run each attention, besides one of every variant")

// heads are the shapes of an attention under test: q [heads, T, d] over k [groups, S, d] and v [groups, S, e]. queries
// and keys may be symbols.
type heads struct {
	name          string
	dtype         string
	heads, groups int
	queries, keys string
	d, e          int
	causal, mask  bool
	symbols       []map[string]int64
	softcap       float64
	sinks         bool
	window        int
	ends          bool   // a mask hides all keys from some key on
	of            string // q, k or v: the test runs the gradient of it
}

func (h heads) graph(t *testing.T) *ir.Graph {
	t.Helper()
	mask, input := "", ""
	if h.queries == "T" {
		input = "symbol T <= 70\n"
	}
	if h.keys == "S" {
		input += "symbol S <= 130\n"
	}
	if h.mask {
		mask = ", %m"
		input += fmt.Sprintf(`%%m = input {name="m", dtype=f32, shape=[%s,%s]}`, h.queries, h.keys)
	}
	if h.ends {
		mask = ", %m"
		input += fmt.Sprintf(`%%n = input {name="n", dtype=i32, shape=[]}
			%%i = iota {shape=[%s]} %%c = lt %%i, %%n
			%%zero = const {data=f32[](0.0)} %%inf = const {data=f32[](-inf)} %%m = where %%c, %%zero, %%inf`, h.keys)
	}
	if h.sinks && !h.mask && !h.ends {
		mask = ", %m"
		input += `%m = const {data=f32[](0.0)}`
	}
	if h.sinks {
		mask += ", %s"
		input += fmt.Sprintf("\n%%s = input {name=\"s\", dtype=f32, shape=[%d]}", h.heads)
	}
	op := fmt.Sprintf("attention %%q, %%k, %%v%s {", mask)
	if h.of != "" {
		input += fmt.Sprintf(`
			%%g = input {name="g", dtype=%s, shape=[%d,%s,%d]}
			%%l = input {name="l", dtype=f32, shape=[%[2]d,%[3]s]} %%d = input {name="d", dtype=f32, shape=[%[2]d,%[3]s]}`,
			h.dtype, h.heads, h.queries, h.e)
		op = fmt.Sprintf("attention_grad %%q, %%k, %%v, %%g, %%l, %%d%s {of=%q, ", mask, h.of)
	}
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%[10]s
		%%q = input {name="q", dtype=%[1]s, shape=[%[2]d,%[4]s,%[6]d]}
		%%k = input {name="k", dtype=%[1]s, shape=[%[3]d,%[5]s,%[6]d]}
		%%v = input {name="v", dtype=%[1]s, shape=[%[3]d,%[5]s,%[7]d]}
		%%1 = %[9]scausal=%[8]v, softcap=%[11]g, window=%[12]d}
		%%2 = transpose %%1 {perm=[1,0,2]}
		output "y" %%2
	}`, h.dtype, h.heads, h.groups, h.queries, h.keys, h.d, h.e, h.causal, op, input,
		h.softcap, h.window))
	check(t, err)
	return g
}

func attentionCases() []heads {
	static := []map[string]int64{{}}
	often := []map[string]int64{{}, {}, {}, {}, {}}
	grow := []map[string]int64{{"T": 1, "S": 1}, {"T": 7, "S": 70}, {"T": 0, "S": 5}, {"T": 70, "S": 130},
		{"T": 9, "S": 4}, {"T": 33, "S": 0}}
	keys := []map[string]int64{{"S": 1}, {"S": 0}, {"S": 77}, {"S": 130}}
	return []heads{
		{"whole tiles", "f32", 2, 2, "64", "128", 64, 64, false, false, static, 0, false, 0, false, ""},
		{"whole tiles causal", "f16", 2, 1, "128", "128", 128, 128, true, false, static, 0, false, 0, false, ""},
		{"odd rows and keys", "f16", 3, 3, "37", "101", 64, 64, true, false, static, 0, true, 0, false, ""},
		{"odd rows and keys in a window", "f16", 3, 3, "37", "101", 64, 64, true, false, static, 0, true, 11, false,
			""},
		{"odd vectors", "f32", 2, 1, "9", "33", 7, 5, false, true, static, 0, false, 0, false, ""},
		{"short values", "f16", 2, 2, "20", "20", 32, 3, true, true, static, 0, true, 0, false, ""},
		{"short values in a window", "f16", 2, 2, "20", "20", 32, 3, true, true, static, 0, true, 7, false, ""},
		{"more queries than keys", "f32", 4, 2, "40", "17", 16, 16, true, false, static, 0, false, 0, false, ""},
		{"bf16 heads of 80", "bf16", 8, 2, "5", "90", 80, 80, true, false, static, 0, false, 0, false, ""},
		{"heads of 256", "f16", 2, 1, "17", "65", 256, 256, true, false, static, 0, true, 0, false, ""},
		{"small heads", "f16", 4, 2, "70", "90", 16, 16, true, false, static, 0, false, 0, false, ""},
		{"small heads in a window", "f16", 4, 2, "70", "90", 16, 16, true, false, static, 0, false, 19, false, ""},
		{"small heads with a mask", "f16", 2, 1, "T", "S", 8, 8, true, true, grow, 0, true, 0, false, ""},
		{"small heads with a mask in a window", "f16", 2, 1, "T", "S", 8, 16, true, true, grow, 0, true, 17, false,
			""},
		{"heads of 256 on odd tiles", "f16", 4, 2, "50", "93", 256, 64, true, true, static, 0, false, 0, false, ""},
		{"heads of 256 on odd tiles in a window", "f16", 4, 2, "50", "93", 256, 64, true, true, static, 0, false, 20,
			false, ""},
		{"decode", "f16", 8, 2, "1", "300", 128, 128, true, false, static, 0, false, 0, false, ""},
		{"decode of 3", "f32", 6, 2, "3", "257", 64, 64, true, true, static, 0, true, 0, false, ""},
		{"decode of 3 in a window", "f32", 6, 2, "3", "257", 64, 64, true, true, static, 0, true, 66, false, ""},
		{"soft cap", "f32", 4, 2, "37", "101", 64, 64, true, false, static, 2, false, 0, false, ""},
		{"soft cap and mask", "f16", 4, 2, "T", "S", 64, 64, false, true, grow, 0.5, false, 0, false, ""},
		{"keys up to a number", "f32", 2, 1, "37", "101", 16, 32, false, false, often, 0, true, 0, true, ""},
		{"decode of keys up to a number", "f32", 6, 2, "3", "257", 64, 64, false, false, often, 0, false, 0, true, ""},
		{"gradient of keys", "f32", 4, 2, "70", "90", 16, 24, true, false, static, 0.5, false, 0, false, "k"},
		{"gradient of values", "f16", 2, 1, "23", "19", 16, 16, true, false, static, 0, false, 0, false, "v"},
		{"gradient of queries, T by S", "f16", 2, 1, "T", "S", 20, 12, true, true, grow, 0, false, 17, false, "q"},
		{"gradient of keys, T by S", "bf16", 2, 1, "T", "S", 20, 12, true, true, grow, 0, false, 17, false, "k"},
		{"one key", "f32", 1, 1, "1", "1", 1, 1, false, false, static, 0, false, 0, false, ""},
		{"T by S", "f16", 4, 2, "T", "S", 64, 64, true, false, grow, 0, false, 0, false, ""},
		{"T by S with a mask", "f32", 4, 1, "T", "S", 20, 12, false, true, grow, 0, true, 0, false, ""},
		{"decode over S", "f16", 4, 4, "1", "S", 64, 64, true, false, keys, 0, true, 0, false, ""},
		{"decode over S in a window", "f16", 4, 4, "1", "S", 64, 64, true, false, keys, 0, true, 50, false, ""},
	}
}

// properties are the properties that the kernels of an attention depend on.
func (h heads) properties() []any {
	extent := func(symbol string) string { // "1", "few" or "many", or a symbol
		switch n, err := strconv.Atoi(symbol); {
		case err != nil || n == 1:
			return symbol
		case n < 8:
			return "few"
		}
		return "many"
	}
	return []any{h.dtype, h.heads > h.groups, extent(h.queries), extent(h.keys), h.d%8 == 0, h.d > 64, h.e == h.d,
		h.causal, h.mask, h.softcap > 0, h.sinks, h.window > 0, h.ends, h.of}
}

// TestAttentionOnDevice compares attentions with the reference, under candidate schedules of several classes of
// devices. It runs a covering set of the cases that this device supports: each property of an attention meets each of a
// schedule.
func TestAttentionOnDevice(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	type attempt struct {
		heads
		of int // the index of the case
		s  kernel.Schedule
	}
	var all []attempt
	for i, c := range attentionCases() {
		for _, s := range attentionSchedules(t, c.graph(t), dev.Caps(), uint64(i)) {
			all = append(all, attempt{c, i, s})
		}
	}
	few := pairs.Pick(all, func(a attempt) pairs.Of {
		way := wayOf(a.s)
		return pairs.Of{Name: a.name, Properties: append(a.properties(), way.Variant, way.Paired, way.Steps, way.shared,
			numberOf(a.s, "splits") > 0,
			numberOf(a.s, "heads") > 1, numberOf(a.s, "stages") > 1, a.s.Config().Subgroup > 0), Cost: unrolledBy(a.s)}
	})
	var text []string
	for _, a := range few {
		_, shaders := a.build(t, dev, a.graph(t), a.s)
		text = append(text, shaders...)
	}
	assembleTogether(tools, text)
	used, shared := map[kernel.Variant]int{}, 0
	for i, c := range attentionCases() {
		t.Run(c.name, func(t *testing.T) {
			for _, a := range few {
				if a.of != i {
					continue
				}
				used[a.s.Config().Variant]++
				if numberOf(a.s, "subgroups_n") > 1 {
					shared++
				}
				c.run(t, dev, tools, c.graph(t), a.s)
			}
		})
	}
	if shared == 0 && dev.Caps().Features.CooperativeMatrix {
		t.Error("no attention whose rows several subgroups share")
	}
	t.Logf("kernels by variant, %d of %d: %v, %d with rows that subgroups share", len(few), len(all), used, shared)
}

// attentionSchedules lists different schedules for a graph's attention, among them one of every variant and way to
// share its tile.
func attentionSchedules(t *testing.T, g *ir.Graph, caps device.Caps, seed uint64) []kernel.Schedule {
	t.Helper()
	s, err := passes.Run(g, passes.Options{})
	check(t, err)
	k := s.Kernels[0]
	if k.Family != kernel.FamilyAttention {
		t.Fatalf("the first kernel is a %s", k.Family)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	var fit []kernel.Schedule
	for _, name := range []string{"generic", "nvidia-h100", "amd-rdna3", "lavapipe"} {
		for _, c := range schedule.Candidates(k, profile(t, name)) {
			splits := []int{0, 0, 2, 5}[rng.IntN(4)]
			s := launched(c.Schedule, func(l *kernel.Launch) { l.Subgroup = min(l.Subgroup, int(caps.SubgroupSize)) })
			switch p := s.(type) {
			case kernel.FlashTile:
				p.Splits = splits
				s = p
			case kernel.FlashMatrix:
				p.Splits = splits
				s = p
			case kernel.FlashVec:
				p.Splits, p.LanesPerRow = splits, min(p.LanesPerRow, p.Subgroup)
				if p.Subgroup > 0 {
					p.TileN = p.Workgroup / p.LanesPerRow * p.ThreadN
				}
				s = p
			}
			if fits(k, s, caps) == nil {
				fit = append(fit, s)
			}
		}
	}
	fit = append(append(fit, stepSchedules(k, caps, rng)...), matrixSchedules(k, caps, rng)...)
	rng.Shuffle(len(fit), func(i, j int) { fit[i], fit[j] = fit[j], fit[i] })
	seen, ways := map[kernel.Schedule]bool{}, map[attentionWay]bool{}
	var list []kernel.Schedule
	for _, c := range fit {
		w := wayOf(c)
		if seen[c] || ways[w] && len(list) >= *attentionSchedulesFlag {
			continue
		}
		seen[c], ways[w] = true, true
		list = append(list, c)
	}
	return list
}

// attentionWay is a variant and how it shares its tile.
type attentionWay struct {
	kernel.Variant
	kernel.RegisterTile
	shared int // by subgroups
}

func wayOf(s kernel.Schedule) attentionWay {
	tile, _ := s.(kernel.FlashTile)
	return attentionWay{s.Config().Variant, tile.RegisterTile, numberOf(s, "subgroups_n")}
}

// stepSchedules lists small tiles that are stored step by step, paired or not.
func stepSchedules(k *kernel.Kernel, caps device.Caps, rng *rand.Rand) []kernel.Schedule {
	var fit []kernel.Schedule
	heads := int(k.Parallel[k.AttentionAxes().Head].Add)
	pick := func(list ...int) int { return list[rng.IntN(len(list))] }
	for range 64 {
		s := kernel.FlashTile{Launch: kernel.Launch{Variant: kernel.VarFlashTile, Vec: 4, Subgroup: pick(0,
			int(caps.SubgroupSize))}, Tile: kernel.Tile{TileM: pick(8, 16, 32), TileN: pick(16, 32, 64), TileK: pick(4,
			8, 16)}, RegisterTile: kernel.RegisterTile{Paired: rng.IntN(2) == 0, Steps: true},
			Flash:   kernel.Flash{Heads: pick(1, heads), Splits: pick(0, 0, 2, 5)},
			ThreadM: pick(4, 8), ThreadN: pick(4, 8)}
		s.Workgroup = s.TileM / s.ThreadM * (s.TileN / s.ThreadN)
		if caps.Type == device.DeviceCPU && s.ThreadM*s.ThreadN > 32 {
			continue // the driver's compiler takes seconds, and 4x8 and 8x4 unroll the same loops
		}
		if fits(k, s, caps) == nil {
			fit = append(fit, s)
		}
	}
	return fit
}

// matrixSchedules lists schedules on cooperative matrices that a device can run.
func matrixSchedules(k *kernel.Kernel, caps device.Caps, rng *rand.Rand) []kernel.Schedule {
	var fit []kernel.Schedule
	heads := int(k.Parallel[k.AttentionAxes().Head].Add)
	if caps.Type == device.DeviceCPU && k.Attention.Dot.Add > 32 {
		return nil // the driver's compiler takes half a minute
	}
	largest := 64 // keys
	if caps.Type == device.DeviceCPU {
		largest = 32 // beyond that, its compiler takes ten seconds for a kernel
		if k.Attention.Mask != nil || k.Attention.Window > 0 {
			largest = 16 // two fragments of keys, so that masks and windows cross them
		}
	}
	for _, variant := range []kernel.Variant{kernel.VarFlashMatrix, kernel.VarFlashMatrix2} {
		for _, frag := range []int{8, 16} {
			for _, subgroups := range []int{1, 2, 4, 8} {
				for _, keys := range []int{16, 32, 64} {
					n := int(caps.SubgroupSize)
					if keys > largest {
						continue
					}
					shared := []int{0, 0, 2, 4}[rng.IntN(4)] // the number of subgroups that share rows, or 0
					s := kernel.FlashMatrix{
						Launch: kernel.Launch{Variant: variant, Workgroup: n * subgroups, Subgroup: n, Vec: 4},
						TileM:  max(subgroups/max(shared, 1), 1) * frag, TileN: keys, Stages: 1 + rng.IntN(2),
						Flash: kernel.Flash{Heads: []int{1, heads}[rng.IntN(2)], Splits: []int{0, 0,
							2}[rng.IntN(3)]},
						Fragment: kernel.Fragment{FragM: frag, FragN: frag, FragK: frag}, SubgroupsN: shared}
					if fits(k, s, caps) == nil {
						fit = append(fit, s)
					}
				}
			}
		}
	}
	return fit
}

// build compiles an attention to GLSL under a schedule.
func (h heads) build(t *testing.T, dev *vk.Device, g *ir.Graph, sched kernel.Schedule) (*passes.State, []string) {
	t.Helper()
	split := func(k *kernel.Kernel) int {
		if k.Family == kernel.FamilyAttention {
			return max(numberOf(sched, "splits"), 1)
		}
		return 1
	}
	s, text, err := buildWith(g, passes.Options{Pricer: passtest.Choices{Parts: split}},
		func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			if k.Family == kernel.FamilyAttention {
				return sched, dev.Caps(), nil
			}
			other, _, err := schedule.Select(k, dev.Caps())
			return other, dev.Caps(), err
		})
	check(t, err)
	return s, text
}

func (h heads) run(t *testing.T, dev *vk.Device, tools *spirv.Toolchain, g *ir.Graph, sched kernel.Schedule) {
	t.Helper()
	s, text := h.build(t, dev, g, sched)
	for i, sh := range s.Program.Shaders {
		if declared := declaredShared(t, text[i]); sh.SharedBytes != declared {
			t.Errorf("%v: claims %d bytes of shared memory, declares %d", sched, sh.SharedBytes, declared)
		}
	}
	modules, err := assemble(tools, text)
	check(t, err)
	exe, err := dev.Load(context.Background(), s.Program, modules, nil, vk.LoadOptions{})
	check(t, err)
	defer exe.Close()
	values := graphgen.Values{Seed: 3, Graph: g}
	ref, err := interp.New(g, interp.Options{})
	check(t, err)
	for i, symbols := range h.symbols {
		in, err := values.Inputs(symbols, i)
		check(t, err)
		want, err := ref.Run(context.Background(), in, symbols)
		check(t, err)
		have, err := exe.Run(context.Background(), in, runtime.RunOptions{Symbols: symbols})
		check(t, err)
		if err := compareOutputs(g, have.Outputs, want); err != nil {
			t.Fatalf("%v at %v: %v\n%s", sched, symbols, err, numbered(joined(text)))
		}
	}
}
