package glsl_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime/vk"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

func blockTypes() []ir.DType {
	return slices.DeleteFunc(slices.Clone(ir.DTypes()), func(t ir.DType) bool { return !t.IsBlock() })
}

// blockRun is vec with runs of elements of a block.
func blockRun(s kernel.Schedule, run int) kernel.Schedule {
	s.TileK = run
	return s
}

// blockCases are matvecs over every block format, with short, long and the
// longest runs.
func blockCases() []matCase {
	var cases []matCase
	for i, t := range blockTypes() {
		n := t.BlockElems()
		for j, run := range []int{8, 32, 256} {
			p := product{m: d(1), n: d(13), k: d(n * (1 + (i+j)%3)), a: ir.F32, b: t, transB: true, gated: j == 1, bias: i%2 == 0, prologue: j == 2}
			s := vec(1, 8, 2, 1+j%2, 8)
			if j == 1 {
				p.m, s = d(3), vec(3, 4, 2, 1, 0)
			}
			if j == 2 {
				p.a = ir.F16
			}
			if j != i%2 {
				p.layout, s.Ahead = kernel.LayoutPlanes, j+1
			}
			s.StageRows = j == 2 && s.Ahead == 0
			s.Subnormals = j == 1
			s.Tables = j == i%3 && quant.Codebook(t) != nil
			cases = append(cases, matCase{name: fmt.Sprintf("%s run %d", t, run), p: p, s: blockRun(s, run)})
			s.StageRows = false
			if p.bytes, p.a, p.prologue = true, ir.I8, false; j == i%2 {
				cases = append(cases, matCase{name: fmt.Sprintf("%s run %d by bytes", t, run), p: p, s: blockRun(s, run)})
			}
		}
		p := product{m: d(5 + i%4), n: d(13), k: d(2 * n), a: ir.F32, b: t, transB: true, layout: kernel.LayoutPlanes}
		s := blockRun(vec(p.m.Static(), 16, 2, 4, 8), []int{16, 32, 32}[i%3])
		s.Subnormals, s.Tables, s.StageRows = i%2 == 0, i%2 == 0 && quant.Codebook(t) != nil, true
		cases = append(cases, matCase{name: fmt.Sprintf("%s of %s rows", t, p.m), p: p, s: s})
	}
	return cases
}

var (
	speed        = flag.Bool("speed", false, "time matvecs over block formats on the device")
	speedFormats = flag.String("formats", ".", "which formats to time")
	speedRows    = flag.Int("rows", 1, "how many rows to time matvecs with")
	speedSweep   = flag.String("sweep", "", "time many schedules, not only the chosen one: over floats, over bytes, or both: \"floats bytes\"")
)

// TestBlockMatVecSpeed prints, for every block format, the time of a matrix by
// a vector, medians on the device's clock after 250 ms of work; every variant is
// compared with the reference in some rows first.
func TestBlockMatVecSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	formats := regexp.MustCompile(*speedFormats)
	for _, size := range [][2]int{{4096, 14336}, {14336, 14336}} {
		for _, dt := range blockTypes() {
			if formats.MatchString(dt.String()) && (size[0] == 14336 || *speedSweep == "") {
				timeMatVec(t, dev, dt, size[0], size[1])
			}
		}
	}
}

// speedCase is a schedule over a layout, for floats or for bytes.
type speedCase struct {
	speedData
	s kernel.Schedule
}

type speedData struct {
	layout kernel.Layout
	bytes  bool
}

func (d speedData) product(p product) product {
	if p.layout, p.bytes = d.layout, d.bytes; d.bytes {
		p.a = ir.I8
	}
	return p
}

// String names the case in the table of times.
func (d speedData) String() string {
	return fmt.Sprintf("%-6s %-6s", d.layout, map[bool]string{true: "bytes", false: "floats"}[d.bytes])
}

// speedCases are what is timed: the chosen schedules first.
func speedCases(t *testing.T, p product, caps target.Caps) []speedCase {
	var list []speedCase
	try := func(d speedData, s kernel.Schedule) {
		if target.Check(d.product(p).kernel(), s, caps) == nil {
			list = append(list, speedCase{d, s})
		}
	}
	for _, d := range []speedData{{kernel.LayoutPlanes, false}, {kernel.LayoutPlanes, true}} {
		chosen, _, err := target.Select(d.product(p).kernel(), caps)
		check(t, err)
		try(d, chosen)
	}
	sub := int(caps.SubgroupSize)
	for _, d := range []speedData{{kernel.LayoutPlanes, false}, {kernel.LayoutPlanes, true}} {
		for _, subgroups := range []int{4, 8} {
			for _, cols := range []int{1, 2, 4, 8} {
				for _, ahead := range []int{1, 2} {
					for _, run := range []int{16, 32} {
						s := blockRun(vec(int(p.m.Max()), sub*subgroups, 1, cols, sub), run)
						s.Ahead, s.Subnormals = ahead, !d.bytes
						if strings.Contains(*speedSweep, map[bool]string{true: "bytes", false: "floats"}[d.bytes]) && (ahead == 1 || !d.bytes) {
							try(d, s)
						}
					}
				}
			}
		}
	}
	return list
}

func timeMatVec(t *testing.T, dev *vk.Device, dt ir.DType, n, depth int) {
	p := product{m: d(*speedRows), n: d(n), k: d(depth), a: ir.F32, b: dt, transB: true}
	cases := speedCases(t, p, dev.Caps())
	var sources []spirv.Shader
	var shaders []*glsl.Shader
	for i, c := range cases {
		sh, err := glsl.Emit(c.product(p).kernel(), c.s, dev.Caps(), nil)
		check(t, err)
		shaders, sources = append(shaders, sh), append(sources, spirv.Shader{Name: fmt.Sprint(i), Source: sh.Source})
	}
	modules := compileAll(t, sources)
	runs := map[speedData]*matVecRun{}
	for i, c := range cases {
		if runs[c.speedData] == nil {
			runs[c.speedData] = newMatVecRun(t, dev, c.product(p), dt, n, depth)
			warmed = false
		}
		each := runs[c.speedData].time(t, shaders[i], modules[i])
		size, _ := dt.BytesFor(int64(n) * int64(depth))
		fmt.Printf("%-8s %5dx%-5d %8.1f us %6.0f GB/s  %s %s\n", dt, n, depth, each.Seconds()*1e6, float64(size)/each.Seconds()/1e9, c.speedData, c.s)
	}
	for _, r := range runs {
		r.close(t)
	}
}

// matVecRun is the buffers of a matvec, and the first results it must have.
type matVecRun struct {
	dev    *vk.Device
	k      *kernel.Kernel
	ranges []vk.BufferRange
	out    *vk.Buffer
	want   []float64 // of the first columns, which repeat
	cols   int
}

// distinctRows is how many rows of a timed matrix differ; they repeat, because
// quantizing more would take longer than timing.
const distinctRows = 8

func newMatVecRun(t *testing.T, dev *vk.Device, p product, dt ir.DType, n, depth int) *matVecRun {
	r := rand.New(rand.NewPCG(1, 2))
	k, rows := p.kernel(), int(p.m.Max())
	in := map[string]tensor{"b": randomTensor(t, r, dt, int64(depth*distinctRows))}
	if p.bytes {
		in["scales"] = randomTensor(t, r, ir.F32, int64(rows*depth/32))
		in["a"] = randomBytes(r, int64(rows*depth), in["scales"])
	} else {
		in["a"] = randomTensor(t, r, p.a, int64(rows*depth))
	}
	if c := quant.Codebook(dt); c != nil {
		in["codebook"] = tensor{bytes: c.Bytes}
	}
	m := &matVecRun{dev: dev, k: k, cols: n}
	for row := range rows {
		for col := range distinctRows {
			sum := 0.0
			for i := range depth {
				sum += in["a"].values[row*depth+i] * in["b"].values[col*depth+i]
			}
			m.want = append(m.want, sum)
		}
	}
	b := in["b"]
	whole := make([]byte, 0, len(b.bytes)/distinctRows*n)
	for range n / distinctRows {
		whole = append(whole, b.bytes...)
	}
	in["b"] = tensor{bytes: whole}
	for _, bind := range k.Bindings {
		data := in[bind.Name].bytes
		if bind.Layout == kernel.LayoutPlanes {
			data = kernel.PackPlanes(bind.DType, data)
		}
		if bind.Write {
			data = make([]byte, 4*n*rows)
		}
		buf, err := dev.NewBuffer(bind.Name, int64(len(data)), vk.DeviceMemory)
		check(t, err)
		check(t, dev.Upload(context.Background(), buf, 0, data))
		if bind.Write {
			m.out = buf
		}
		m.ranges = append(m.ranges, vk.Whole(buf))
	}
	return m
}

func (m *matVecRun) close(t *testing.T) {
	for _, r := range m.ranges {
		check(t, r.Buffer.Close())
	}
}

const timedRuns = 24

// time returns the median time of a dispatch.
func (m *matVecRun) time(t *testing.T, sh *glsl.Shader, module []byte) time.Duration {
	ctx := context.Background()
	pipeline, err := m.dev.NewPipeline(vk.PipelineDesc{Name: m.k.Name, Code: module, Buffers: len(m.ranges),
		SubgroupSize: sh.SubgroupSize, FullSubgroups: sh.SubgroupSize > 0})
	check(t, err)
	defer pipeline.Close()
	bindings, err := m.dev.NewBindings([]vk.BindingSet{{Name: m.k.Name, Buffers: m.ranges}})
	check(t, err)
	defer bindings.Close()
	stamps, err := m.dev.NewTimestamps(timedRuns + 1)
	check(t, err)
	defer stamps.Close()
	grid, err := sh.Grid.Eval(nil)
	check(t, err)
	list := m.dev.NewCommandList()
	list.ResetTimestamps(stamps)
	list.BindPipeline(pipeline)
	list.Bind(bindings, 0)
	list.Timestamp(stamps, 0)
	for i := range timedRuns {
		list.Dispatch(grid[0], grid[1], grid[2])
		list.Barrier(vk.StageCompute, vk.StageCompute)
		list.Timestamp(stamps, i+1)
	}
	recording, err := m.dev.Record(m.k.Name, list)
	check(t, err)
	defer recording.Close()
	for start := time.Now(); time.Since(start) < warmUp(); {
		check(t, m.dev.Run(ctx, recording))
	}
	m.compare(t, sh)
	times, err := stamps.Read(0, timedRuns+1)
	check(t, err)
	each := make([]time.Duration, timedRuns)
	for i := range each {
		each[i] = times[i+1] - times[i]
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// warmed is when the device began to work without a pause.
var warmed bool

// warmUp is how long the device must work before its clock has risen: long the
// first time, then as long as its pauses between variants ask for.
func warmUp() time.Duration {
	if warmed {
		return 60 * time.Millisecond
	}
	warmed = true
	return 300 * time.Millisecond
}

func (m *matVecRun) compare(t *testing.T, sh *glsl.Shader) {
	raw := make([]byte, m.out.Size())
	check(t, m.dev.Download(context.Background(), raw, m.out, 0))
	got := make([]float64, len(raw)/4)
	ir.DecodeFloats(got, ir.F32, raw)
	for i, g := range got {
		if want := m.want[i/m.cols*distinctRows+i%m.cols%distinctRows]; !(math.Abs(g-want) <= 1e-3*(1+math.Abs(want))) {
			t.Fatalf("row %d is %g, want %g\n%s", i, g, want, sh.Source)
		}
	}
}
