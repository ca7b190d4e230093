package drivers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/bench/tune"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/toolcaps"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	vkcruntime "github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// compiled is a line of a child's output: a kernel that the driver compiled or rejected.
type compiled struct {
	Device   string                `json:"device"`
	Case     string                `json:"case"` // the first case with the kernel
	Kernel   string                `json:"kernel"`
	Family   kernel.Family         `json:"family"`
	Schedule string                `json:"schedule"`
	Nanos    int64                 `json:"ns"` // compile time of the driver
	Err      string                `json:"err,omitempty"`
	Cost     vkcruntime.KernelCost `json:"cost,omitempty"`
	// Registers is the estimate of package schedule.
	Registers int `json:"estimate,omitempty"`
}

// subject is a graph with kernels to compile.
type subject struct {
	name  string
	graph func() (*ir.Graph, error)
}

// subjects lists the benchmark cases, including models with fewer layers, and the cases of vkc verify --ops that
// represent each op, dtype and block format.
func subjects(all bool) (list []subject) {
	suites := []string{"matmul", "attention", "ops", "memory"}
	if all {
		suites = bench.Suites()
	}
	for _, c := range bench.Cases(bench.Full, suites...) {
		if c.StandIn != nil {
			c = *c.StandIn
		}
		if c.Build == nil {
			continue // needs a model file
		}
		list = append(list, subject{c.Name, func() (*ir.Graph, error) { return c.Graph(c.Sizes) }})
	}
	seen := map[string]bool{}
	for _, c := range optest.Cases() {
		key := fmt.Sprint(c.Op, c.DType)
		if all {
			key += fmt.Sprint(formatsOf(c))
		}
		if seen[key] || !all && !c.Smoke {
			continue
		}
		seen[key] = true
		list = append(list, subject{c.Name, func() (*ir.Graph, error) {
			g, _, ok := c.Build(c.DType)
			if !ok {
				return nil, fmt.Errorf("%s has no graph", c.Name)
			}
			return g, nil
		}})
	}
	return list
}

// formatsOf are the formats of blocks that a case names.
func formatsOf(c optest.Case) (list []string) {
	for _, word := range strings.FieldsFunc(c.Name, func(r rune) bool { return r == '/' || r == ' ' }) {
		if t, err := ir.ParseDType(word); err == nil && t.IsBlock() {
			list = append(list, word)
		}
	}
	return list
}

// kind groups kernels; without -all only one of each kind is compiled.
func kind(k *kernel.Kernel, s kernel.Schedule) string {
	text := fmt.Sprint(k.Family, s.Config().Variant)
	for _, b := range k.Bindings {
		text += fmt.Sprint(" ", b.DType)
	}
	return text
}

// batch is how many kernels go to the GLSL compiler at once.
const batch = 64

// compileAll compiles kernels on a device, and writes a line for each.
func compileAll(dev *vk.Device, all bool, out *json.Encoder) error {
	ctx := context.Background()
	root, _ := cachefile.Root() // without it shaders are compiled again
	tools, err := spirv.Find(ctx, spirv.FindOptions{CacheDir: root})
	if err != nil {
		return err
	}
	if err := tools.Ready(); err != nil {
		return err
	}
	caps, _, err := toolcaps.Expressible(ctx, tools, dev.Caps())
	if err != nil {
		return err
	}
	var rows []compiled
	var shaders []kernel.Shader
	var sources []spirv.Shader
	flush := func() error {
		results, _, err := tools.Compile(ctx, sources, spirv.Options{Optimize: true, CacheDir: root,
			Jobs: runtime.GOMAXPROCS(0)})
		if err != nil {
			return err
		}
		for i := range rows {
			compileOne(dev, shaders[i], results[i].SPIRV, &rows[i])
			if err := out.Encode(rows[i]); err != nil {
				return err
			}
		}
		rows, shaders, sources = nil, nil, nil
		return nil
	}
	seen := map[string]bool{}
	for _, s := range subjects(all) {
		g, err := s.graph()
		if err != nil {
			return err
		}
		low, err := compiler.Lower(ctx, g, caps, nil)
		if err != nil {
			continue // the device lacks a feature; vkc verify --ops counts these
		}
		for i, k := range low.Kernels {
			n := low.Program.Steps[i].Shader
			key := low.Program.Shaders[n].GLSLHash
			if !all {
				key = kind(k, low.Schedules[i])
			}
			if seen[key] || low.SPIRV[n] != nil {
				continue
			}
			seen[key] = true
			sh := low.Program.Shaders[n]
			device := strings.TrimSpace(caps.Name + ", " + caps.DriverName + " " + caps.DriverInfo)
			rows = append(rows, compiled{Device: device,
				Case: s.name, Kernel: k.Name, Family: k.Family, Schedule: low.Schedules[i].String(),
				Registers: schedule.Registers(k, low.Schedules[i], caps)})
			shaders = append(shaders, sh)
			sources = append(sources, spirv.Shader{Name: sh.Name, Source: low.GLSL[n],
				TargetEnv: glsl.TargetEnv(sh.Needs, caps.API)})
		}
		if len(rows) >= batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// compileOne creates the pipeline of a shader and records its cost.
func compileOne(dev *vk.Device, s kernel.Shader, code []byte, row *compiled) {
	desc := dev.DescribeShader(s, code)
	if dev.Caps().Features.PipelineExecutableProperties {
		desc.Capture = vk.CaptureStatistics
	}
	start := time.Now()
	p, err := dev.NewPipeline(desc)
	row.Nanos = time.Since(start).Nanoseconds()
	if err == nil && desc.Capture != 0 {
		row.Cost, err = p.Cost()
	}
	if err != nil {
		row.Err = err.Error()
	}
	p.Close()
}

// TestGoldenDrivers compiles kernels on the drivers. None may fail, spill, or take memory for registers. What one of
// each kind costs is compared with golden/drivers where the driver is of the same version.
func TestGoldenDrivers(t *testing.T) {
	for _, d := range drivers {
		if d.runs || !d.sample && !*all {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			var rows []compiled
			lines := bufio.NewScanner(bytes.NewReader(on(t, d, "compile")))
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				var row compiled
				if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
					t.Fatal(err)
				}
				rows = append(rows, row)
			}
			if len(rows) == 0 {
				t.Fatal("no kernel was compiled")
			}
			for _, r := range rows {
				if r.Err != "" {
					t.Errorf("%s, kernel %s, %s: %s", r.Case, r.Kernel, r.Schedule, r.Err)
				} else if r.spills() {
					t.Errorf("%s, kernel %s, %s spills: %v; %d registers were expected", r.Case, r.Kernel, r.Schedule,
						r.Cost, r.Registers)
				}
			}
			t.Log(summary(d, rows))
			t.Log(estimates(rows))
			if !*all {
				file := strings.ReplaceAll(d.name, ":", "-") + ".txt"
				compare(t, filepath.Join("..", "..", "golden", "drivers", file), table(rows))
			}
		})
	}
}

// spills reports whether the driver put registers of a kernel into memory.
func (c *compiled) spills() bool {
	return c.Cost[vkcruntime.Spills] > 0 || c.Cost[vkcruntime.Scratch] > 0
}

// table is the driver and its version, and a line for each kernel.
func table(rows []compiled) string {
	var b strings.Builder
	fmt.Fprintln(&b, rows[0].Device)
	for _, r := range rows {
		fmt.Fprintf(&b, "%s %s ; %s ;", r.Case, r.Kernel, r.Schedule)
		for _, item := range vkcruntime.CostItems() {
			if text := rounded(item, r.Cost); text != "" {
				fmt.Fprintf(&b, " %s %s", item.Short(), text)
			}
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// rounded is a number of a cost, to two digits where it is large: a change of the last ones is no news.
func rounded(item vkcruntime.CostItem, cost vkcruntime.KernelCost) string {
	v, ok := cost[item]
	if !ok {
		return ""
	}
	if item == vkcruntime.CodeSize || item == vkcruntime.Instructions || item == vkcruntime.Latency ||
		item == vkcruntime.InverseThroughput {
		unit := 1.0
		for v/unit >= 100 {
			unit *= 10
		}
		v = float64(int64(v/unit+0.5)) * unit
	}
	return vkcruntime.KernelCost{item: v}.Text(item)
}

// summary is the driver's row of docs/DRIVERS.md.
func summary(d driver, rows []compiled) string {
	failed, spilled := 0, 0
	slowest := slices.MaxFunc(rows, func(a, b compiled) int { return int(a.Nanos - b.Nanos) })
	for _, r := range rows {
		if r.Err != "" {
			failed++
		}
		if r.spills() {
			spilled++
		}
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %.1f s, %s of %s |", d.name, rows[0].Device, len(rows), failed,
		spilled, float64(slowest.Nanos)/1e9, slowest.Kernel, slowest.Case)
}

// estimates says how well package target estimates registers.
func estimates(rows []compiled) string {
	var have, want []float64
	for _, r := range rows {
		if n, ok := r.Cost[vkcruntime.Registers]; ok && r.Registers > 0 {
			have, want = append(have, float64(r.Registers)), append(want, n)
		}
	}
	return fmt.Sprintf("estimates of registers of %d kernels: rank correlation %.2f", len(have),
		tune.Spearman(have, want))
}

// compare compares a table with its file, or writes it.
func compare(t *testing.T, path, text string) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	have, want := strings.Split(text, "\n"), strings.Split(string(golden), "\n")
	if have[0] != want[0] {
		t.Logf("%s was written by %s, and here is %s: costs are not compared", path, want[0], have[0])
		return
	}
	missing := 0
	for _, line := range have {
		if !slices.Contains(want, line) {
			if missing++; missing <= 10 {
				t.Errorf("not in %s: %s", path, line)
			}
		}
	}
	if missing > 0 || len(have) != len(want) {
		t.Errorf("%s has %d lines, and %d of these %d are not there: -update-golden rewrites it; read the diff",
			path, len(want), missing, len(have))
	}
}
