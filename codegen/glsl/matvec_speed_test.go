package glsl_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
	speed        = flag.Bool("speed", false, "time matvecs over block formats on the device")
	speedFormats = flag.String("formats", ".", "which formats to time")
	speedRows    = flag.Int("rows", 1, "how many rows to time matvecs with")
	speedSize    = flag.String("size", "14336x14336", "columns and depth of the matrix to time")
	speedPlan    = flag.String("plan", "", "a file of what to time, besides the chosen schedules: lines like \"q4_0 "+
		"1 floats lanes=32,64 wg=128 cols=4,8 run=16,32 staged=0,1\", with only=1 without the chosen ones, or, on "+
		"matrix units, \"q4_0 8 bytes sn=4,8 sk=1,2 frags=1 depth=256\"")
	speedLimit = flag.Duration("limit", time.Hour, "how long to go on timing")
)

// TestBlockMatVecSpeed prints median times of matmuls of few rows, measured on the device's clock after 250 ms of work.
// It first compares every schedule's results with the reference.
func TestBlockMatVecSpeed(t *testing.T) {
	if !*speed {
		t.Skip("run with -args -speed")
	}
	dev := vktest.Device(t, vk.DeviceOptions{})
	var n, depth int
	if _, err := fmt.Sscanf(*speedSize, "%dx%d", &n, &depth); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	bench := &speedBench{dev: dev}
	defer bench.close(t)
	for task := range prepareSpeed(t, dev, speedLines(t), n, depth) {
		if time.Since(start) > *speedLimit {
			break
		}
		bench.run(t, task)
	}
}

// speedLine lists the timed schedules of a format: the chosen one, and every combination of the options.
type speedLine struct {
	dtype   ir.DType
	rows    int
	bytes   bool
	halves  bool // rows of sums of two f16 values
	rounds  bool // rows of floats that the kernel may quantize to int8
	options map[string][]int
}

func speedLines(t *testing.T) []speedLine {
	var lines []speedLine
	if *speedPlan == "" {
		formats := regexp.MustCompile(*speedFormats)
		for _, dt := range append([]ir.DType{ir.F16, ir.BF16}, blockTypes()...) {
			for _, ints := range []bool{false, true} {
				if formats.MatchString(dt.String()) && (!ints || dt.IsBlock()) {
					lines = append(lines, speedLine{dtype: dt, rows: *speedRows, bytes: ints})
				}
			}
		}
		return lines
	}
	text, err := os.ReadFile(*speedPlan)
	check(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) >= 3 && words[0][0] != '#' {
			lines = append(lines, parseSpeedLine(t, words))
		}
	}
	return lines
}

// kind names the kind of rows.
func (l speedLine) kind() string {
	switch {
	case l.bytes:
		return "bytes"
	case l.halves:
		return "halves"
	case l.rounds:
		return "rounds"
	}
	return "floats"
}

// option returns the first value of an option, or otherwise if the option is not set.
func (l speedLine) option(key string, otherwise int) int {
	if own := l.options[key]; own != nil {
		return own[0]
	}
	return otherwise
}

func parseSpeedLine(t *testing.T, words []string) speedLine {
	dt, err := ir.ParseDType(words[0])
	check(t, err)
	rows, err := strconv.Atoi(words[1])
	check(t, err)
	l := speedLine{dtype: dt, rows: rows, bytes: words[2] == "bytes", rounds: words[2] == "rounds",
		halves:  words[2] == "halves",
		options: map[string][]int{}}
	for _, w := range words[3:] {
		key, list, _ := strings.Cut(w, "=")
		for _, v := range strings.Split(list, ",") {
			n, err := strconv.Atoi(v)
			check(t, err)
			l.options[key] = append(l.options[key], n)
		}
	}
	return l
}

// product is the matmul that a line times.
func (l speedLine) product(n, depth int) product {
	p := product{m: d(l.rows), n: d(n), k: d(depth), a: ir.F32, b: l.dtype, transB: true, bytes: l.bytes,
		byteRows: l.rounds}
	if l.bytes {
		p.a = ir.I8
	}
	if p.halves = l.halves; l.halves {
		p.a = ir.F16
	}
	if l.dtype.IsBlock() {
		p.layout = kernel.LayoutPlanes
	}
	return p
}

// schedules lists the schedules of a line that the device can run, the chosen one first.
func (l speedLine) schedules(t *testing.T, k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	chosen, _, err := schedule.Select(k, caps)
	check(t, err)
	list := []kernel.Schedule{chosen}
	if len(l.options) == 0 {
		return list
	}
	if l.options["only"] != nil {
		list = nil
	}
	all := []kernel.MatVec{{}}
	vary := func(key string, otherwise int, set func(*kernel.MatVec, int)) {
		values := l.options[key]
		if values == nil {
			values = []int{otherwise}
		}
		var next []kernel.MatVec
		for _, s := range all {
			for _, v := range values {
				set(&s, v)
				next = append(next, s)
			}
		}
		all = next
	}
	vary("sub", int(caps.SubgroupSize), func(s *kernel.MatVec, v int) { s.Subgroup = v })
	vary("lanes", 128, func(s *kernel.MatVec, v int) { s.LanesPerRow = v })
	vary("wg", 128, func(s *kernel.MatVec, v int) { s.Workgroup = v })
	vary("cols", 4, func(s *kernel.MatVec, v int) { s.ThreadN = v })
	vary("run", 0, func(s *kernel.MatVec, v int) { s.TileK = v })
	modes := []kernel.PrefetchMode{kernel.PrefetchNone, kernel.PrefetchRuns, kernel.PrefetchCache,
		kernel.PrefetchRegisters, kernel.PrefetchSectors}
	vary("prefetch", 0, func(s *kernel.MatVec, v int) { s.Prefetch.Mode = modes[v%len(modes)] })
	vary("depth", 0, func(s *kernel.MatVec, v int) { s.Prefetch.Depth = v })
	vary("tables", 0, func(s *kernel.MatVec, v int) { s.Tables = v > 0 })
	vary("copies", 0, func(s *kernel.MatVec, v int) { s.Copies = v })
	vary("staged", 0, func(s *kernel.MatVec, v int) { s.StageRows = v > 0 })
	vary("small", 0, func(s *kernel.MatVec, v int) { s.Subnormals = v > 0 })
	vary("coarsen", 0, func(s *kernel.MatVec, v int) { s.Coarsen = v })
	vary("digits", 0, func(s *kernel.MatVec, v int) { s.Digits = v })
	if l.options["sn"] != nil {
		return append(list, l.matrixSchedules(t, k, caps)...)
	}
	for _, o := range all {
		if l.options["wg"] == nil {
			o.Workgroup = max(128/o.LanesPerRow, 1) * o.LanesPerRow
		}
		s := vec(l.rows, o.LanesPerRow, o.Workgroup/o.LanesPerRow, o.ThreadN, o.Subgroup)
		s.TileK, s.Prefetch, s.Tables, s.Copies, s.StageRows = o.TileK, o.Prefetch, o.Tables ||
			o.Copies > 0, o.Copies, o.StageRows
		s.Coarsen, s.Digits, s.RoundRows = o.Coarsen, o.Digits, l.rounds || o.Digits > 0
		s.TileN *= max(s.Coarsen, 1)
		s.Subnormals = l.dtype.IsBlock() && !l.bytes && !s.RoundRows || o.Subnormals
		if o.Workgroup%o.LanesPerRow == 0 && fits(k, s, caps) == nil && !slices.Contains(list, kernel.Schedule(s)) {
			list = append(list, s)
		}
	}
	return list
}

// matrixSchedules lists the schedules of a line on cooperative matrices. The options are the subgroups along columns
// and contraction axis, the fragments of columns of each, and the depth of a step. For many rows they are also the
// subgroups across the rows (sm), the fragments of rows of each (down) and the rows of a fragment (fragn).
func (l speedLine) matrixSchedules(t *testing.T, k *kernel.Kernel, caps device.Caps) []kernel.Schedule {
	var list []kernel.Schedule
	for _, sn := range l.options["sn"] {
		for _, sk := range l.options["sk"] {
			for _, frags := range l.options["frags"] {
				for _, depth := range l.options["depth"] {
					s, ok := skinnySchedule(caps, k, sn, sk, frags, depth)
					for _, sm := range l.options["sm"] {
						for _, down := range l.options["down"] {
							for _, fragN := range l.options["fragn"] {
								wide, _ := wideSchedule(caps, sm, sn, down, frags, depth, fragN)
								wide.Stages = l.option("stages", 1)
								if err := fits(k, wide, caps); err == nil {
									list = append(list, wide)
								} else {
									fmt.Println(wide, err)
								}
							}
						}
					}
					if ok && l.options["sm"] == nil && fits(k, s, caps) == nil {
						list = append(list, s)
					}
				}
			}
		}
	}
	return list
}

// speedTask is a line that is prepared while the previous line is timed.
type speedTask struct {
	speedLine
	n, depth  int // the options n and k, or the size
	p         product
	k         *kernel.Kernel
	schedules []kernel.Schedule
	shaders   []*glsl.Shader
	pipelines []*vk.Pipeline
	weights   tensor // of distinctRows columns
}

// distinctRows is the number of different rows of a timed matrix. The rows repeat, because quantizing more would take
// longer than timing.
const distinctRows = 8

// speedAhead is the number of lines that are prepared at a time.
const speedAhead = 6

// prepareSpeed prepares lines, several at a time, and yields them in order.
func prepareSpeed(t *testing.T, dev *vk.Device, lines []speedLine, n, depth int) func(func(*speedTask) bool) {
	type matrix struct {
		dtype ir.DType
		depth int
	}
	weights := map[matrix]func() tensor{}
	for _, l := range lines {
		m := matrix{l.dtype, l.option("k", depth)}
		weights[m] = sync.OnceValue(func() tensor {
			return randomTensor(t, rand.New(rand.NewPCG(1, 2)), m.dtype, int64(m.depth*distinctRows))
		})
	}
	return func(yield func(*speedTask) bool) {
		var ready []chan *speedTask
		for i := range lines {
			for next := len(ready); next < len(lines) && next < i+speedAhead; next++ {
				c := make(chan *speedTask, 1)
				ready = append(ready, c)
				go func() {
					defer close(c)
					task := &speedTask{speedLine: lines[next]}
					task.n, task.depth = task.option("n", n), task.option("k", depth)
					task.weights = weights[matrix{task.dtype, task.depth}]()
					task.p = task.product(task.n, task.depth)
					task.k = task.p.kernel()
					task.schedules = task.speedLine.schedules(t, task.k, dev.Caps())
					task.compile(t, dev)
					c <- task
				}()
			}
			if task := <-ready[i]; task != nil && !yield(task) { // one that failed has said so
				return
			}
		}
	}
}

func (task *speedTask) compile(t *testing.T, dev *vk.Device) {
	var sources []spirv.Shader
	for i, s := range task.schedules {
		sh, err := glsl.Emit(task.k, s, dev.Caps(), nil)
		check(t, err)
		task.shaders = append(task.shaders, sh)
		sources = append(sources,
			spirv.Shader{Name: fmt.Sprint(i), Source: sh.Source, TargetEnv: envFor(sh.Needs)})
	}
	var descs []vk.PipelineDesc
	for i, code := range compileAll(t, sources) {
		sh := task.shaders[i]
		descs = append(descs,
			vk.PipelineDesc{Name: task.schedules[i].String(), Code: code, Buffers: len(task.k.Bindings),
				SubgroupSize: sh.SubgroupSize, FullSubgroups: sh.SubgroupSize > 0})
	}
	var err error
	task.pipelines, err = dev.NewPipelines(context.Background(), descs, nil)
	check(t, err)
}

// copiesBeyondCache is the number of copies of weights that are timed in turn.
func copiesBeyondCache(size int) int { return min(1+(192<<20-1)/size, timedRuns) }

// speedBench holds the weights on the device.
type speedBench struct {
	dev      *vk.Device
	depth    int
	dtype    ir.DType
	n        int
	weights  []*vk.Buffer // copies that together are larger than any cache
	lastWork time.Time
}

func (b *speedBench) close(t *testing.T) {
	for _, w := range b.weights {
		check(t, w.Close())
	}
	b.weights = nil
}

func (b *speedBench) run(t *testing.T, task *speedTask) {
	if b.weights == nil || b.dtype != task.dtype || b.n != task.n || b.depth != task.depth {
		b.close(t)
		b.dtype, b.n, b.depth = task.dtype, task.n, task.depth
		data := task.repeated(task.n / distinctRows)
		for n := 0; n < copiesBeyondCache(len(data)); n++ {
			b.weights = append(b.weights, b.buffer(t, "b", data))
		}
	}
	in, want, allowed := task.inputs(t, b.depth)
	ranges := make([][]vk.BufferRange, len(b.weights))
	var out *vk.Buffer
	for _, bind := range task.k.Bindings {
		var buf *vk.Buffer
		switch {
		case bind.Write:
			buf = b.buffer(t, bind.Name, make([]byte, 4*b.n*task.rows))
			out = buf
		case bind.Name != "b":
			buf = b.buffer(t, bind.Name, in[bind.Name])
		}
		if buf != nil {
			defer buf.Close()
		}
		for i, w := range b.weights {
			if buf != nil {
				w = buf
			}
			ranges[i] = append(ranges[i], vk.Whole(w))
		}
	}
	type timed struct {
		time time.Duration
		text string
	}
	var results []timed
	size, _ := task.dtype.BytesFor(int64(b.n) * int64(b.depth))
	for i, s := range task.schedules {
		unwritten := bytes.Repeat([]byte{0xff}, int(out.Size())) // NaN: no schedule passes with another's results
		check(t, b.dev.Upload(context.Background(), out, 0, unwritten))
		enough := time.Hour
		if len(results) > 0 {
			enough = results[0].time * 5 / 4
		}
		each := b.time(t, task, i, ranges, enough)
		verdict := ""
		if err := b.wrong(t, out, want, allowed); err != nil {
			verdict = " WRONG"
			t.Errorf("%s %s: %v", task.dtype, s, err)
		}
		text := fmt.Sprintf("%-8s %5dx%d n=%d %-6s %8.1f us %6.0f GB/s  lanes=%-3d cols=%d  %s%s", task.dtype, task.n,
			b.depth, task.rows, task.kind(),
			each.Seconds()*1e6, float64(size)/each.Seconds()/1e9, numberOf(s, "lanes_per_row"),
			numberOf(s, "thread_n"), s, verdict)
		fmt.Println(text + map[bool]string{true: " (chosen)"}[i == 0 && task.options["only"] == nil])
		if verdict == "" {
			results = append(results, timed{each, text})
			slices.SortStableFunc(results, func(x, y timed) int { return int(x.time - y.time) })
		}
	}
	for _, r := range results[:min(len(results), 3)] {
		fmt.Println("best:", r.text)
	}
}

func (b *speedBench) buffer(t *testing.T, name string, data []byte) *vk.Buffer {
	buf, err := b.dev.NewBuffer(name, int64(len(data)), vk.DeviceMemory)
	check(t, err)
	check(t, b.dev.Upload(context.Background(), buf, 0, data))
	return buf
}

// repeated returns the weights the given number of times, in their memory layout.
func (task *speedTask) repeated(times int) []byte {
	if task.p.layout != kernel.LayoutPlanes {
		return slices.Repeat(task.weights.bytes, times)
	}
	dt, packed := task.dtype, kernel.PackPlanes(task.dtype, task.weights.bytes)
	blocks := int64(len(task.weights.bytes) / dt.BlockBytes())
	planes := kernel.PlanesOf(dt)
	out := make([]byte, kernel.PlaneBase(dt, len(planes), blocks*int64(times)))
	for i, p := range planes {
		part := packed[kernel.PlaneBase(dt, i, blocks):][:blocks*int64(p.Bytes)]
		to := out[kernel.PlaneBase(dt, i, blocks*int64(times)):]
		for range times {
			to = to[copy(to, part):]
		}
	}
	return out
}

// inputs returns the contents of the other bindings, the results of every row for the distinct columns, and the allowed
// error of each result.
func (task *speedTask) inputs(t *testing.T, depth int) (in map[string][]byte, want, allowed []float64) {
	r := rand.New(rand.NewPCG(3, 4))
	in = map[string][]byte{}
	var a tensor
	if task.bytes {
		scales := randomTensor(t, r, ir.F32, int64(task.rows*depth/32))
		a = randomBytes(r, int64(task.rows*depth), scales)
		in["scales"] = scales.bytes
	} else {
		a = randomTensor(t, r, task.p.a, int64(task.rows*depth))
	}
	if task.halves {
		low := randomTensor(t, r, task.p.a, int64(task.rows*depth))
		in["a_low"], a = low.bytes, addedTo(a, low)
	}
	in["a"] = a.bytes
	if c := quant.Codebook(task.dtype); c != nil {
		in["codebook"] = c.Bytes
	}
	for row := range task.rows {
		for col := range distinctRows {
			sum, squares := 0.0, 0.0
			for i := range depth {
				product := a.values[row*depth+i] * task.weights.values[col*depth+i]
				sum += product
				squares += product * product
			}
			want = append(want, sum)
			if task.rounds {
				allowed = append(allowed, roundedError*math.Sqrt(squares))
			} else {
				allowed = append(allowed, 1e-3*(1+math.Abs(sum)))
			}
		}
	}
	return in, want, allowed
}

// roundedError is six standard deviations of the error of quantizing rows to int8, relative to a sum of random signs.
const roundedError = 6 * 4e-3

// timedRuns is the number of dispatches that a median is taken of.
const timedRuns = 16

// time returns the median time of a dispatch. A dispatch that takes longer than enough is measured only roughly.
func (b *speedBench) time(t *testing.T, task *speedTask, i int, ranges [][]vk.BufferRange,
	enough time.Duration) time.Duration {
	defer task.pipelines[i].Close()
	var sets []vk.BindingSet
	for _, r := range ranges {
		sets = append(sets, vk.BindingSet{Name: task.k.Name, Buffers: r})
	}
	bindings, err := b.dev.NewBindings(sets)
	check(t, err)
	defer bindings.Close()
	stamps, err := b.dev.NewTimestamps(timedRuns + 1)
	check(t, err)
	defer stamps.Close()
	grid, err := task.shaders[i].Grid.Eval(nil)
	check(t, err)
	list := b.dev.NewCommandList()
	list.ResetTimestamps(stamps)
	list.BindPipeline(task.pipelines[i])
	list.Timestamp(stamps, 0)
	for run := range timedRuns {
		list.Bind(bindings, run%len(ranges))
		list.Dispatch(grid[0], grid[1], grid[2])
		list.Barrier(vk.StageCompute, vk.StageCompute)
		list.Timestamp(stamps, run+1)
	}
	recording, err := b.dev.Record(task.k.Name, list)
	check(t, err)
	defer recording.Close()
	work := func(d time.Duration) time.Duration {
		for start := time.Now(); ; {
			check(t, b.dev.Run(context.Background(), recording))
			if time.Since(start) > d {
				break
			}
		}
		b.lastWork = time.Now()
		return medianGap(t, stamps)
	}
	if time.Since(b.lastWork) > 20*time.Millisecond { // the clock has fallen
		work(250 * time.Millisecond)
	}
	if look := work(4 * time.Millisecond); look > enough {
		return look
	}
	return work(30 * time.Millisecond)
}

// medianGap is the median time between timestamps.
func medianGap(t *testing.T, stamps *vk.Timestamps) time.Duration {
	times, err := stamps.Read(0, timedRuns+1)
	check(t, err)
	each := make([]time.Duration, timedRuns)
	for run := range each {
		each[run] = times[run+1] - times[run]
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// wrong returns an error if results are too far from want.
func (b *speedBench) wrong(t *testing.T, out *vk.Buffer, want, allowed []float64) error {
	raw := make([]byte, out.Size())
	check(t, b.dev.Download(context.Background(), raw, out, 0))
	got := make([]float64, len(raw)/4)
	ir.DecodeFloats(got, ir.F32, raw)
	for i, g := range got {
		at := i/b.n*distinctRows + i%b.n%distinctRows
		if want := want[at]; !(math.Abs(g-want) <= allowed[at]) {
			return fmt.Errorf("row %d, column %d is %g, want %g", i/b.n, i%b.n, g, want)
		}
	}
	return nil
}
