package glsl_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
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

// moduleCache is the directory of the cache of assemble.
var moduleCache string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if moduleCache, err = vktest.CommonCache(); err != nil {
		panic(err)
	}
	return vktest.Main(m)
}

// TestRandomSchedules runs the kernels of random graphs on a device, and compares with the reference. Each kernel has a
// random legal schedule, good or bad. Its operands are materialized and its sums are split at random. Half of the
// graphs are large. Without -graphs the test runs a covering set: each variant meets each dtype and each property of a
// schedule that it has in one of the graphs.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	runs := 0
	var cases []*deviceCase
	var text []string
	for seed := *firstSeed; seed < *firstSeed+uint64(graphCount()); seed++ {
		caps := dev.Caps()
		if seed%3 == 0 { // buffers in words
			caps.Features.Storage8, caps.Features.Storage16 = false, false
		}
		c := &deviceCase{dev: dev, caps: caps, tools: tools, seed: seed}
		var gap *schedule.MissingError
		switch err := c.build(); {
		case errors.As(err, &gap):
			continue
		case err != nil:
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		cases = append(cases, c)
	}
	built := len(cases)
	if *randomGraphs == 0 {
		cases = pairs.CoverAtCost(cases, func(c *deviceCase) ([]string, float64) {
			return c.keys, float64(len(joined(c.text)))
		})
	}
	for _, c := range cases {
		text = append(text, c.text...)
	}
	assembleTogether(tools, text)
	for _, c := range cases {
		n, err := c.run()
		if err != nil {
			t.Errorf("seed %d: %v", c.seed, err)
		}
		runs += n
	}
	t.Logf("%d runs of %d graphs on %s, which cover %d", runs, len(cases), dev.Caps().Name, built)
	if runs == 0 {
		t.Error("nothing ran")
	}
}

type deviceCase struct {
	dev   *vk.Device
	caps  device.Caps // the features of the device that may be used
	tools *spirv.Toolchain
	seed  uint64

	graph *ir.Graph
	state *passes.State
	text  []string // the shaders
	keys  []string // the properties of the kernels and their schedules
}

// noteKernel adds a kernel to the case's keys: its variant with each property of the schedule and with each dtype.
func (c *deviceCase) noteKernel(k *kernel.Kernel, s kernel.Schedule, tight bool) {
	variant := s.Config().Variant
	for _, p := range []any{fmt.Sprint("vec ", s.Config().Vec), fmt.Sprint("subgroup ", s.Config().Subgroup > 0),
		fmt.Sprint("tight ", tight), fmt.Sprint("in words ", !c.caps.Features.Storage8)} {
		c.keys = append(c.keys, fmt.Sprint(variant, ", ", p))
	}
	for _, b := range k.Bindings {
		c.keys = append(c.keys, fmt.Sprint(variant, ", ", b.DType, ", written ", b.Write))
	}
}

// build makes the case's graph and its shaders.
func (c *deviceCase) build() (err error) {
	c.graph, err = graphgen.New(c.seed, graphgen.Options{Large: c.seed%2 == 1})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(c.seed, 0))
	tight := c.caps // so few workgroups that they must loop
	tight.MaxWorkgroupCount = [3]uint32{1 + rng.Uint32N(3), 1 + rng.Uint32N(3), 1 + rng.Uint32N(3)}
	c.state, c.text, err = buildWith(c.graph, anyWay(c.caps, rng),
		func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			caps, loops := c.caps, goesAround(k.Family) && rng.IntN(3) == 0
			if loops {
				caps = tight
			}
			sched, err := anySchedule(k, caps, rng)
			if k.Family == kernel.FamilyAttention && k.Parallel[k.AttentionAxes().Split].Is(1) {
				sched = unsplit(sched) // the keys would have to be split before
			}
			if err == nil {
				c.noteKernel(k, sched, loops)
			}
			return sched, caps, err
		})
	return err
}

func (c *deviceCase) run() (runs int, err error) {
	g := c.graph
	values := graphgen.Values{Seed: c.seed, Graph: g}
	ref, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		return 0, err
	}
	modules, err := assemble(c.tools, c.text)
	if err != nil {
		return 0, err
	}
	exe, err := c.dev.Load(context.Background(), c.state.Program, modules, values, vk.LoadOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	for i, symbols := range values.Symbols(3) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return runs, err
		}
		want, err := ref.Run(context.Background(), in, symbols)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		have, err := exe.Run(context.Background(), in, runtime.RunOptions{Symbols: maps.Clone(symbols)})
		if err != nil {
			return runs, err
		}
		runs++
		if err := compareOutputs(g, have.Outputs, want); err != nil {
			return runs, fmt.Errorf("symbols %v: %w\n%s\n%s", symbols, err, g, joined(c.text))
		}
	}
	return runs, nil
}

// goesAround reports whether kernels of a family can loop if the grid has too few workgroups for their results.
func goesAround(f kernel.Family) bool {
	return f != kernel.FamilyCustom && f != kernel.FamilyMatMul && f != kernel.FamilyAttention &&
		f != kernel.FamilyGroup
}

// anyWay materializes, splits and rounds at random, within the legal choices.
func anyWay(caps device.Caps, rng *rand.Rand) passes.Options {
	return passes.Options{Pricer: passtest.Choices{
		Operands: func(k *kernel.Kernel) (list []kernel.StoredOperand) {
			p := k.MatMuls[0]
			if p.BF16x3 {
				return operandsApart(k, rng)
			}
			for i, v := range []*kernel.Expr{p.A, p.B} {
				if p.Operands == ir.F16 && len(k.MatMuls) == 1 && rng.IntN(3) == 0 {
					d := k.Parallel[len(k.Parallel)-2+i]
					list = append(list,
						kernel.StoredOperand{Operand: v, Rows: rng.IntN(2) * int(d.Max()+rng.Int64N(9))})
				}
			}
			return list
		},
		Parts: func(k *kernel.Kernel) int {
			parts := 1 + rng.IntN(4)
			if k.Family == kernel.FamilyAttention {
				s, err := anySchedule(k, caps, rng)
				if err != nil {
					return 1 // choosing its schedule reports the error again
				}
				return max(numberOf(s, "splits"), 1)
			}
			if _, ok := k.Fold.Quo(int64(parts)); !ok || k.Family != kernel.FamilyMatMul || k.Fold.Max() == 0 {
				return 1
			}
			return parts
		},
		Tails: func(k *kernel.Kernel) (list []kernel.Tail) {
			if k.Family != kernel.FamilyMatMul {
				return nil
			}
			axis := rng.IntN(len(k.Parallel))
			if d := k.Parallel[axis]; d.IsStatic() && d.Add > 1 && rng.IntN(2) == 0 {
				list = append(list, kernel.Tail{Axis: axis, From: 1 + rng.Int64N(d.Add-1), Swap: rng.IntN(2) == 0})
			}
			return list
		},
		Bytes: func(ir.DType, ir.Dim, ir.Dim) bool { return rng.IntN(4) > 0 },
		Take:  func(r kernel.Rewrite) bool { return r.Rule == "implicit_gemm" && rng.IntN(2) == 0 },
	}}
}

// operandsApart materializes all operands of a matmul that is to be split into bf16 parts, or none.
func operandsApart(k *kernel.Kernel, rng *rand.Rand) (list []kernel.StoredOperand) {
	across, seen := rng.IntN(2) == 0, map[*kernel.Expr]bool{}
	for _, p := range k.MatMuls {
		for _, v := range []*kernel.Expr{p.A, p.B} {
			if !seen[v] {
				list = append(list, kernel.StoredOperand{Operand: v, Across: across})
			}
			seen[v] = true
		}
	}
	return list[:len(list)*min(1, rng.IntN(4))]
}

func joined(text []string) string {
	out := ""
	for _, s := range text {
		out += s + "\n"
	}
	return out
}

func compareOutputs(g *ir.Graph, have, want map[string]*ir.Data) error {
	bounds := graphgen.Bounds(g)
	// The bounds treat atan2 as exact because it jumps at the negative axis.
	roundsAtan2 := slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return n.Op() == ir.OpAtan2 })
	for _, o := range g.Outputs() {
		tol := bounds[o.Node.ID()].Tolerance(o.Node)
		if roundsAtan2 && o.Node.DType().IsFloat() {
			tol.Abs += 1e-5
		}
		if err := interp.Compare(have[o.Name], want[o.Name], tol).Err(); err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
	}
	return nil
}

// build lowers a graph and generates its kernels, one shader per step.
func build(g *ir.Graph,
	choose func(*kernel.Kernel) (kernel.Schedule, device.Caps, error)) (*passes.State, []string, error) {
	return buildWith(g, passes.Options{}, choose)
}

// buildWith is build with options of the passes.
func buildWith(g *ir.Graph, opt passes.Options,
	choose func(*kernel.Kernel) (kernel.Schedule, device.Caps, error)) (*passes.State, []string, error) {
	s, err := passes.Run(g, opt)
	if err != nil {
		return nil, nil, err
	}
	var symbols, text []string
	for _, sym := range s.Program.Symbols {
		symbols = append(symbols, sym.Name)
	}
	for i, k := range s.Kernels {
		sched, caps, err := choose(k)
		if err != nil {
			return nil, nil, err
		}
		sh, err := glsl.Emit(k, sched, caps, symbols)
		if err != nil {
			return nil, nil, err
		}
		text = append(text, sh.Source)
		s.Program.Shaders = append(s.Program.Shaders,
			kernel.Shader{Name: k.Name, Bindings: len(k.Bindings), Workgroup: sh.Workgroup,
				SubgroupSize: sh.SubgroupSize, Needs: sh.Needs, SharedBytes: sh.SharedBytes})
		s.Program.Steps[i].Shader, s.Program.Steps[i].Grid = i, sh.Grid
	}
	return s, text, nil
}

// anySchedule picks a schedule that a device can run: one of the candidates, changed at random as far as it stays
// legal.
func anySchedule(k *kernel.Kernel, caps device.Caps, rng *rand.Rand) (kernel.Schedule, error) {
	if gaps := schedule.Missing(k, caps); len(gaps) > 0 {
		return nil, &schedule.MissingError{Kernel: k.Name, Device: caps.Name, Gaps: gaps}
	}
	all := schedule.Candidates(k, caps)
	for range 40 {
		s := all[rng.IntN(len(all))].Schedule
		switch p := s.(type) {
		case kernel.MapTile:
			p.Workgroup, p.Vec, p.TileM, p.TileN = 1<<rng.IntN(8), 1<<rng.IntN(3), 4<<rng.IntN(4), 4<<rng.IntN(4)
			s = p
		case kernel.Points:
			p.Workgroup = 1 << rng.IntN(8)
			if p.Variant == kernel.VarRowWindows {
				p.Coarsen = 2 + rng.IntN(8)
			} else if p.Vec, p.Coarsen = 1<<rng.IntN(3), rng.IntN(4); fits(k, p, caps) != nil {
				p.Coarsen = 0
			}
			s = p
		case kernel.Row:
			if k.Family == kernel.FamilySort {
				break
			}
			p.Launch, p.LanesPerRow = anyLanes(p.Launch, p.LanesPerRow, rng)
			each := (int(k.Fold.Max())/max(1, p.LanesPerRow)/p.Vec + 1) * p.Vec
			p.Cache = rng.IntN(2) * min(each, 64)
			s = p
		case kernel.Lanes:
			if k.Family == kernel.FamilyScan {
				p.Launch, p.LanesPerRow = anyLanes(p.Launch, p.LanesPerRow, rng)
				s = p
			}
		case kernel.Recurrent:
			p.LanesPerRow, p.ThreadM, p.TileK = 1<<rng.IntN(4), 1<<rng.IntN(4), 1<<rng.IntN(4)
			p.Ahead, p.Workgroup, p.Subgroup = rng.IntN(2) == 0, 8<<rng.IntN(4), 0
			if p.LanesPerRow > 1 {
				p.Subgroup = int(caps.SubgroupSize)
			}
			s = p
		default: // stays unchanged
		}
		if fits(k, s, caps) == nil {
			return s, nil
		}
	}
	s, _, err := schedule.Select(k, caps)
	return s, err
}

// assembleTogether compiles the shaders of many cases, so that assemble finds them in the cache: starting a GLSL
// compiler takes longer than compiling a case. An error occurs again with its case.
func assembleTogether(tools *spirv.Toolchain, text []string) { assemble(tools, text) }

// anyLanes changes how lanes share a row.
func anyLanes(l kernel.Launch, lanes int, rng *rand.Rand) (kernel.Launch, int) {
	l.Vec = 1 << rng.IntN(3)
	if rng.IntN(2) == 0 {
		l.Subgroup = 0
	}
	if l.Variant == kernel.VarRowGroup || l.Variant == kernel.VarScanGroup {
		lanes = 2 << rng.IntN(7)
	}
	l.Workgroup = max(lanes, max(1, l.Subgroup)) << rng.IntN(3)
	return l, lanes
}

// launched changes the launch of a schedule of any variant.
func launched(s kernel.Schedule, change func(*kernel.Launch)) kernel.Schedule {
	v := reflect.New(reflect.TypeOf(s)).Elem()
	v.Set(reflect.ValueOf(s))
	change(v.FieldByName("Launch").Addr().Interface().(*kernel.Launch))
	return v.Interface().(kernel.Schedule)
}

// numberOf is the number of that name in JSON of a schedule of any variant.
func numberOf(s kernel.Schedule, name string) int { return int(kernel.Numbers(s)[name]) }

// unsplit is the schedule of an attention without splits.
func unsplit(s kernel.Schedule) kernel.Schedule {
	switch s := s.(type) {
	case kernel.FlashTile:
		s.Splits = 0
		return s
	case kernel.FlashVec:
		s.Splits = 0
		return s
	case kernel.FlashMatrix:
		s.Splits = 0
		return s
	}
	return s
}

// assemble compiles shaders to SPIR-V, as sampled does.
func assemble(tools *spirv.Toolchain, text []string) ([][]byte, error) {
	return sampled(tools, shadersOf(text), spirv.Options{CacheDir: moduleCache})
}

func shadersOf(text []string) []spirv.Shader {
	shaders := make([]spirv.Shader, len(text))
	for i, s := range text {
		shaders[i] = spirv.Shader{Name: fmt.Sprint(i), Source: s, TargetEnv: envOf(s)}
	}
	return shaders
}

// sampled compiles shaders that a device runs. spirv-opt takes a third of the time, so that it goes over one shader in
// four, or over all with VKC_TEST_CASES=all. In TestOpsOnDevice it goes over all.
func sampled(tools *spirv.Toolchain, shaders []spirv.Shader, opt spirv.Options) ([][]byte, error) {
	modules := make([][]byte, len(shaders))
	for _, opt.Optimize = range []bool{false, true} {
		var list []spirv.Shader
		var at []int
		for i, s := range shaders {
			if opt.Optimize == (crc32.ChecksumIEEE([]byte(s.Source))%4 == 0 || os.Getenv(pairs.Env) == "all") {
				list, at = append(list, s), append(at, i)
			}
		}
		compiled, err := modulesOf(tools, list, opt)
		if err != nil {
			return nil, err
		}
		for k, module := range compiled {
			modules[at[k]] = module
		}
	}
	return modules, nil
}

// modulesOf compiles shaders to SPIR-V.
func modulesOf(tools *spirv.Toolchain, shaders []spirv.Shader, opt spirv.Options) ([][]byte, error) {
	results, _, err := tools.Compile(context.Background(), shaders, opt)
	if err != nil {
		return nil, err
	}
	modules := make([][]byte, len(results))
	for i, r := range results {
		modules[i] = r.SPIRV
	}
	return modules, nil
}
