package tune

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Lab opens kernels for measurement on one device.
type Lab interface {
	// Open uploads a kernel and its data.
	Open(ctx context.Context, k *Kernel) (Harness, error)
}

// Harness is one kernel with its data on the device, on which schedules of the kernel are checked and timed.
type Harness interface {
	// Prepare compiles schedules; it is called once. The other methods refer to a schedule by its index in the list.
	// The errors, by index, say why a schedule cannot run.
	Prepare(ctx context.Context, schedules []kernel.Schedule) ([]error, error)
	// Check runs a schedule and compares its results with the reference, or with the results of the first checked
	// schedule. It returns a [*WrongError] if they differ.
	Check(ctx context.Context, i int) error
	// Time returns the median time of a dispatch of each schedule. The schedules alternate for the given number of
	// turns, each for one window per turn, or for the shortest possible time if the window is 0.
	Time(ctx context.Context, which []int, window time.Duration, turns int) ([]time.Duration, error)
	Close() error
}

// WrongError means that a schedule's results differ from the reference.
type WrongError struct{ Err error }

func (e *WrongError) Error() string { return "wrong results: " + e.Err.Error() }
func (e *WrongError) Unwrap() error { return e.Err }

// Options adjusts [Tune].
type Options struct {
	Caps device.Caps
	// Budget is the time limit; a chunk of schedules that has begun is finished. 0 means no limit, and a negative
	// budget measures nothing.
	Budget time.Duration
	// Chunk is the number of schedules of a kernel that are measured together: 12 on a GPU unless set.
	Chunk int
	// Rated measures only the schedules of [schedule.RatedCandidates]: estimates use the rates of their tiles.
	Rated bool
	// Save, if set, is called after each chunk, so that no measurement is lost.
	Save func(*tunefile.File) error
	// Progress, if set, is called before each chunk.
	Progress func(Progress)
	// Now is time.Now; tests may replace it.
	Now func() time.Time
}

// Progress is the progress of a tuning.
type Progress struct {
	Kernels, Done    int    // number of kernels, and of finished kernels
	Schedules, Tried int    // schedules of all kernels, and those tried, including earlier tunings
	About            string // the kernel that is next
	Default, Best    float64
	Spent            time.Duration
}

// Margin is the minimum gain over the default for a schedule to replace it. CPUMargin is the same on a CPU device,
// which other programs use too, so smaller gains may be noise.
const (
	Margin    = 0.02
	CPUMargin = 0.10
)

// Row is the result for one kernel.
type Row struct {
	About           string
	Uses            int
	Tried, Variants int
	Default, Best   float64 // medians of a dispatch in microseconds, 0 if not measured
	Schedule        kernel.Schedule
	Changed         bool   // the best is not the default
	Wrong, Failed   int    // schedules with wrong results, and schedules that could not run
	Why             string // why the kernel cannot be tuned
}

// Tune measures the schedules of kernels that are missing in the file, and stores the measurements and the winners in
// it. It returns one row per kernel, in the same order. It returns an error if the device is lost, Save fails, or ctx
// ends; the file and the rows then have the measurements up to that point.
func Tune(ctx context.Context, lab Lab, kernels []*Kernel, file *tunefile.File, opt Options) ([]Row, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Chunk == 0 {
		opt.Chunk = 12 // schedules measured in one turn of a kernel
		if opt.Caps.Type == device.DeviceCPU {
			opt.Chunk = 6
		}
	}
	t := &tuner{lab: lab, file: file, opt: opt, jobs: newJobs(kernels, file, opt)}
	var err error
	if opt.Budget >= 0 { // below 0 means to measure nothing
		err = t.run(ctx)
	}
	rows := make([]Row, len(t.jobs))
	for i, j := range t.jobs {
		rows[i] = j.row()
	}
	return rows, err
}

// tuner measures chunks of schedules, one kernel's chunk at a time, until the budget is spent.
type tuner struct {
	lab   Lab
	file  *tunefile.File
	opt   Options
	jobs  []*job
	start time.Time
}

// job is the tuning of one kernel.
type job struct {
	kernel   *Kernel
	results  tunefile.Kernel
	standard kernel.Schedule   // the default
	todo     []kernel.Schedule // not measured yet
	variants int
	chunks   int // approximate number of measured chunks, including earlier tunings
	failed   error
}

// newJobs makes the jobs on all cores, because listing the schedules of a matmul takes a while.
func newJobs(kernels []*Kernel, file *tunefile.File, opt Options) []*job {
	jobs := make([]*job, len(kernels))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, k := range kernels {
		group.Go(func() error {
			jobs[i] = newJob(k, file, opt)
			jobs[i].chunks = (len(jobs[i].results.Measured) + opt.Chunk - 1) / opt.Chunk
			return nil
		})
	}
	group.Wait() // the functions never fail
	return jobs
}

// newJob returns the job of a kernel: the schedules to measure, and what an earlier tuning has measured at the same
// lengths.
func newJob(k *Kernel, file *tunefile.File, opt Options) *job {
	j := &job{kernel: k, results: tunefile.Kernel{Key: k.Key, About: k.About, Lengths: k.lengths()}}
	// Times at other lengths do not compare.
	if old := file.Find(k.Key); old != nil && slices.Equal(old.Lengths, j.results.Lengths) {
		j.results = *old
		j.results.Measured = slices.Clone(old.Measured)
	}
	list, none := schedule.Variants, "it has no schedule on this device"
	if opt.Rated {
		list, none = schedule.RatedCandidates, "its default schedule has no tile with a rate"
	}
	candidates := list(k.Kernel, opt.Caps)
	if len(candidates) == 0 {
		j.failed = errors.New(none)
		return j
	}
	j.standard, j.variants = candidates[0].Schedule, len(candidates) // the default is first
	j.results.Standard = j.standard.Config().Variant
	if _, ok := schedule.RatedOf(k.Kernel, j.standard, opt.Caps); ok && k.atBounds() {
		t := schedule.TraitsOf(k.Kernel, opt.Caps)
		j.results.Traits = &t
	}
	for _, c := range candidates {
		if j.find(c.Schedule) == nil {
			j.todo = append(j.todo, c.Schedule)
		}
	}
	return j
}

// find returns the measurement of a schedule, or nil.
func (j *job) find(s kernel.Schedule) *tunefile.Measurement {
	for i := range j.results.Measured {
		if j.results.Measured[i].Schedule == s {
			return &j.results.Measured[i]
		}
	}
	return nil
}

// record stores a measurement, replacing an earlier one of the same schedule.
func (j *job) record(m tunefile.Measurement) {
	m.Why = m.Why[:min(len(m.Why), maxWhy)]
	if old := j.find(m.Schedule); old != nil {
		*old = m
		return
	}
	j.results.Measured = append(j.results.Measured, m)
}

// maxWhy bounds the reasons in a file, since compilers can be wordy.
const maxWhy = 300

// row returns the results of the kernel for a table.
func (j *job) row() Row {
	r := Row{About: j.results.About, Uses: j.kernel.Uses, Tried: j.variants - len(j.todo), Variants: j.variants,
		Default: j.results.Default}
	for _, m := range j.results.Measured {
		switch m.Status {
		case tunefile.Wrong:
			r.Wrong++
		case tunefile.Failed:
			r.Failed++
		}
	}
	if b := j.results.Best; b != nil {
		r.Best, r.Schedule, r.Changed = b.Micros, b.Schedule, b.Schedule != j.standard
	}
	if j.failed != nil {
		r.Why = strings.Join(strings.Fields(j.failed.Error()), " ")
	}
	return r
}

// run measures chunks of schedules until the budget is spent or nothing is left. It stores the measurements after each
// chunk. If a kernel cannot be measured, it goes on with the others.
func (t *tuner) run(ctx context.Context) error {
	t.start = t.opt.Now()
	for {
		j := t.next()
		spent := t.opt.Now().Sub(t.start)
		if j == nil || t.opt.Budget > 0 && spent >= t.opt.Budget {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		t.progress(j, spent)
		err := t.chunk(ctx, j)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, vk.ErrDeviceLost):
			return fmt.Errorf("kernel %s: %w", j.results.About, err)
		case err != nil:
			j.failed, j.todo = err, nil
		}
		if err := t.store(j); err != nil {
			return err
		}
	}
}

// next selects the job for the next chunk, or nil if all are done. At first it selects each kernel once, in the order
// of their estimated times. Then it prefers kernels that take much of the program's time and were measured in few
// chunks.
func (t *tuner) next() *job {
	var best *job
	most := 0.0
	for _, j := range t.jobs {
		if len(j.todo) == 0 || j.failed != nil {
			continue
		}
		if j.chunks == 0 {
			return j
		}
		// The square makes kernels that had many chunks wait longer.
		turns := float64(j.chunks)
		if w := float64(j.kernel.Uses) * j.results.Default / (turns * turns); best == nil || w > most {
			best, most = j, w
		}
	}
	return best
}

// progress calls Options.Progress, before a chunk of job next. spent is the time since the start.
func (t *tuner) progress(next *job, spent time.Duration) {
	if t.opt.Progress == nil {
		return
	}
	p := Progress{Kernels: len(t.jobs), About: next.results.About, Default: next.results.Default, Spent: spent}
	for _, j := range t.jobs {
		p.Schedules += j.variants
		p.Tried += j.variants - len(j.todo)
		if len(j.todo) == 0 {
			p.Done++
		}
	}
	if b := next.results.Best; b != nil {
		p.Best = b.Micros
	}
	t.opt.Progress(p)
}

// store stores the measurements of a kernel in the file, and saves the file.
func (t *tuner) store(j *job) error {
	if len(j.results.Measured) == 0 {
		return nil
	}
	if old := t.file.Find(j.results.Key); old != nil {
		*old = j.results
	} else {
		t.file.Kernels = append(t.file.Kernels, j.results)
	}
	if t.opt.Save == nil {
		return nil
	}
	return t.opt.Save(t.file)
}

// chunk measures the next few schedules of a kernel together with its default and the best so far, because only
// interleaved measurements are comparable.
func (t *tuner) chunk(ctx context.Context, j *job) (err error) {
	list := []kernel.Schedule{j.standard}
	if b := j.results.Best; b != nil && b.Schedule != j.standard {
		list = append(list, b.Schedule)
	}
	n := 0 // schedules of todo that this chunk measures
	for ; n < len(j.todo) && n < t.opt.Chunk; n++ {
		if !slices.Contains(list, j.todo[n]) {
			list = append(list, j.todo[n])
		}
	}
	harness, err := t.lab.Open(ctx, j.kernel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, harness.Close()) }()
	correct, err := j.correct(ctx, harness, list)
	if err != nil {
		return err
	}
	margin := Margin
	if t.opt.Caps.Type == device.DeviceCPU {
		margin = CPUMargin
	}
	if err := j.race(ctx, harness, list, correct, margin); err != nil {
		return err
	}
	j.rate(t.opt.Caps)
	j.todo = j.todo[n:]
	j.chunks++
	return nil
}

// rate sets the field Rated of each measurement to the facts by which the time of its schedule is estimated, if
// [schedule.RatedOf] has any.
func (j *job) rate(caps device.Caps) {
	if j.results.Traits == nil {
		// The default schedule has no estimate, or the symbols are below the bounds for which estimates are made.
		return
	}
	for i := range j.results.Measured {
		m := &j.results.Measured[i]
		if r, ok := schedule.RatedOf(j.kernel.Kernel, m.Schedule, caps); ok {
			m.Rated = &r
		}
	}
}

// correct returns the indices in list of the schedules with correct results, and records the others as wrong or
// failed. It fails if the default, list[0], cannot run or is not correct, because then the others have nothing to
// compare with.
func (j *job) correct(ctx context.Context, harness Harness, list []kernel.Schedule) ([]int, error) {
	failed, err := harness.Prepare(ctx, list)
	if err != nil {
		return nil, err
	}
	var correct []int
	for i, s := range list {
		err := failed[i]
		if err == nil {
			err = harness.Check(ctx, i)
		}
		wrong := (*WrongError)(nil)
		switch {
		case err == nil:
			correct = append(correct, i)
			continue
		case ctx.Err() != nil || errors.Is(err, vk.ErrDeviceLost):
			return nil, err
		case i == 0:
			return nil, fmt.Errorf("its default schedule, %s: %w", s, err)
		case errors.As(err, &wrong):
			j.record(tunefile.Measurement{Schedule: s, Status: tunefile.Wrong, Why: err.Error()})
		default:
			j.record(tunefile.Measurement{Schedule: s, Status: tunefile.Failed, Why: err.Error()})
		}
	}
	return correct, nil
}

// rounds are the rounds of a race, in which schedules of a kernel compete: a first measurement that drops clearly
// slower schedules, a round of the rest, and a final of the best few.
var rounds = []struct {
	window time.Duration
	turns  int
	ratio  float64 // of a time to the best one, up to which schedules stay
	limit  int     // maximum number of schedules that stay
}{
	{0, 1, 1.6, 12},
	{3 * time.Millisecond, 1, 1.15, 4},
	{10 * time.Millisecond, 3, 0, 0},
}

// race times some schedules of list over several rounds; which has their indices. It records the times and the fastest
// schedule, which replaces the default only if it is faster by the margin (0.02 is 2 %).
func (j *job) race(ctx context.Context, harness Harness, list []kernel.Schedule, which []int, margin float64) error {
	var times []time.Duration
	for n, r := range rounds {
		var err error
		if times, err = harness.Time(ctx, which, r.window, r.turns); err != nil {
			return err
		}
		if n == len(rounds)-1 {
			break
		}
		which = j.survivors(list, which, times, r.ratio, r.limit)
	}
	j.decide(list, which, times, margin)
	return nil
}

// survivors returns the schedules for the next round of a race, as indices of list: the default, and up to `limit` of
// the fastest with a time of at most ratio times the best. It records the times of the schedules that drop out. which
// has the schedules of this round, the default first, and times has their times.
func (j *job) survivors(list []kernel.Schedule, which []int, times []time.Duration, ratio float64, limit int) []int {
	order := make([]int, len(which)) // indices into times
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(times[a] - times[b]) })
	slowest := time.Duration(float64(times[order[0]]) * ratio)
	stays := map[int]bool{which[0]: true}
	for rank, i := range order {
		if times[i] <= slowest && rank < limit {
			stays[which[i]] = true
		}
	}
	var next []int
	for n, i := range which {
		if stays[i] {
			next = append(next, i)
			continue
		}
		j.record(tunefile.Measurement{Schedule: list[i], Status: tunefile.Slow, Micros: micros(times[n])})
	}
	return next
}

// decide records the times of the final round and the winner.
func (j *job) decide(list []kernel.Schedule, which []int, times []time.Duration, margin float64) {
	best := 0
	for n, i := range which {
		j.record(tunefile.Measurement{Schedule: list[i], Status: tunefile.OK, Micros: micros(times[n])})
		if times[n] < times[best] {
			best = n
		}
	}
	if float64(times[best]) >= (1-margin)*float64(times[0]) {
		best = 0 // the default
	}
	won := device.Tuned{Schedule: list[which[best]], Micros: micros(times[best])}
	for n := range which {
		if us := micros(times[n]); n != best && (won.Next == 0 || us < won.Next) {
			won.Next = us
		}
	}
	j.results.Best, j.results.Default = &won, micros(times[0])
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
