package tune

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// fakeLab measures by a formula, on a clock of its own.
type fakeLab struct {
	micros func(about string, s kernel.Schedule) float64
	wrong  func(s kernel.Schedule) bool
	fails  func(s kernel.Schedule) bool
	clock  time.Time
	each   time.Duration // that a stand takes
	opened []string
	timed  map[kernel.Schedule]int
	open   int
	// onOpen is called first.
	onOpen func()
}

func (l *fakeLab) Open(_ context.Context, k *Kernel) (Harness, error) {
	if l.onOpen != nil {
		l.onOpen()
	}
	l.opened = append(l.opened, k.About)
	l.open++
	return &fakeStand{lab: l, about: k.About}, nil
}

type fakeStand struct {
	lab   *fakeLab
	about string
	list  []kernel.Schedule
}

func (s *fakeStand) Prepare(_ context.Context, list []kernel.Schedule) ([]error, error) {
	s.list = list
	errs := make([]error, len(list))
	for i, sched := range list {
		if s.lab.fails != nil && s.lab.fails(sched) {
			errs[i] = errors.New("it does not compile")
		}
	}
	return errs, nil
}

func (s *fakeStand) Check(_ context.Context, i int) error {
	if s.lab.wrong != nil && s.lab.wrong(s.list[i]) {
		return &WrongError{errors.New("1 of 2 elements")}
	}
	return nil
}

func (s *fakeStand) Time(_ context.Context, which []int, _ time.Duration, _ int) ([]time.Duration, error) {
	var times []time.Duration
	for _, i := range which {
		if s.lab.timed == nil {
			s.lab.timed = map[kernel.Schedule]int{}
		}
		s.lab.timed[s.list[i]]++
		times = append(times, time.Duration(s.lab.micros(s.about, s.list[i])*1e3))
	}
	return times, nil
}

func (s *fakeStand) Close() error {
	s.lab.open--
	s.lab.clock = s.lab.clock.Add(s.lab.each)
	return nil
}

func caps(t testing.TB, name string) device.Caps {
	t.Helper()
	c, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoKernels are a large map and a small reduction.
func twoKernels(t testing.TB, c device.Caps) []*Kernel {
	t.Helper()
	g, err := frontend.Build("two", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1024, 1024)
		b.Output("y", x.Exp())
		z := b.Input("z", ir.F32, 8, 64)
		b.Output("sum", z.Sum(1))
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Kernels(context.Background(), g, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || !strings.HasPrefix(list[0].About, "map") || !strings.HasPrefix(list[1].About, "row") {
		t.Fatalf("kernels %v", list)
	}
	return list
}

// byWorkgroup is fastest at that size.
func byWorkgroup(best int) func(string, kernel.Schedule) float64 {
	return func(_ string, s kernel.Schedule) float64 {
		if s.Config().Workgroup == best && s.Config().Vec == 4 {
			return 50
		}
		return 100 + float64(s.Config().Workgroup)/100
	}
}

func TestTuneFindsTheBest(t *testing.T) {
	c := caps(t, "nvidia-h100")
	kernels := twoKernels(t, c)
	file := tunefile.New(c)
	lab := &fakeLab{micros: byWorkgroup(64)}
	rows, err := Tune(context.Background(), lab, kernels, file,
		Options{Caps: c, Now: func() time.Time { return lab.clock }})
	if err != nil || lab.open != 0 {
		t.Fatalf("%v, %d stands open", err, lab.open)
	}
	for i, r := range rows {
		if r.Best != 50 || r.Schedule.Config().Workgroup != 64 ||
			r.Tried != r.Variants || r.Variants < 2 || r.Why != "" {
			t.Errorf("row %d: %+v", i, r)
		}
		k := kernels[i]
		s, reason, _, err := schedule.SelectTuned(k.Kernel, c, file.Tuning())
		if err != nil || s != r.Schedule || !strings.HasPrefix(reason, "tuned: 50 us, next best ") {
			t.Errorf("select: %v (%s), %v", s, reason, err)
		}
	}
	if _, err := file.Encode(); err != nil {
		t.Error(err)
	}
}

// TestTuneKeepsTheDefault where nothing is better by more than noise.
func TestTuneKeepsTheDefault(t *testing.T) {
	c := caps(t, "nvidia-h100")
	kernels := twoKernels(t, c)[:1]
	for name, tt := range map[string]struct {
		other   float64
		changed bool
		cpu     bool
	}{
		"as fast": {100, false, false}, "1.5 % better": {98.5, false, false}, "3 % better": {97, true, false},
		"3 % better on a processor": {97, false, true}, "12 % better on a processor": {88, true, true},
	} {
		here := c
		if tt.cpu {
			here.Type = device.DeviceCPU
		}
		standard, _, err := schedule.Select(kernels[0].Kernel, here)
		if err != nil {
			t.Fatal(err)
		}
		lab := &fakeLab{micros: func(_ string, s kernel.Schedule) float64 {
			if s == standard {
				return 100
			}
			return tt.other
		}}
		file := tunefile.New(here)
		rows, err := Tune(context.Background(), lab, kernels, file, Options{Caps: here})
		if err != nil || rows[0].Changed != tt.changed || rows[0].Default != 100 {
			t.Errorf("%s: %+v, %v", name, rows[0], err)
		}
	}
}

// TestTuneRefusesWrong: the fastest schedule never wins if its results are
// wrong or it does not run.
func TestTuneRefusesWrong(t *testing.T) {
	c := caps(t, "nvidia-h100")
	lab := &fakeLab{
		micros: byWorkgroup(64),
		wrong:  func(s kernel.Schedule) bool { return s.Config().Workgroup == 64 },
		fails:  func(s kernel.Schedule) bool { return s.Config().Workgroup == 32 },
	}
	file := tunefile.New(c)
	rows, err := Tune(context.Background(), lab, twoKernels(t, c), file, Options{Caps: c})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.Wrong == 0 || r.Failed == 0 || r.Schedule.Config().Workgroup == 64 || r.Best == 50 {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	for s, n := range lab.timed {
		if s.Config().Workgroup == 64 || s.Config().Workgroup == 32 {
			t.Errorf("%s was timed %d times", s, n)
		}
	}
}

// TestTuneDefaultIsWrong: without a default that is right there is nothing to
// compare with, and nothing is chosen.
func TestTuneDefaultIsWrong(t *testing.T) {
	c := caps(t, "nvidia-h100")
	kernels := twoKernels(t, c)
	standard, _, _ := schedule.Select(kernels[0].Kernel, c)
	lab := &fakeLab{micros: byWorkgroup(64), wrong: func(s kernel.Schedule) bool { return s == standard }}
	file := tunefile.New(c)
	rows, err := Tune(context.Background(), lab, kernels, file, Options{Caps: c})
	if err != nil || !strings.Contains(rows[0].Why, "default schedule") || rows[0].Best != 0 || rows[1].Best != 50 {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, chosen := file.Tuning()[kernels[0].Key]; chosen {
		t.Error("something was chosen for the kernel")
	}
}

// TestTuneResumes: within a budget each kernel gets a turn before any gets a second one. Measured schedules are not
// measured again, except the default and the best.
func TestTuneResumes(t *testing.T) {
	c := caps(t, "nvidia-h100")
	kernels := twoKernels(t, c)
	lab := &fakeLab{micros: byWorkgroup(1024), each: time.Second}
	file := tunefile.New(c)
	saves := 0
	opt := Options{Caps: c, Chunk: 4, Budget: 2 * time.Second, Now: func() time.Time { return lab.clock },
		Save: func(*tunefile.File) error { saves++; return nil }}
	rows, err := Tune(context.Background(), lab, kernels, file, opt)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{kernels[0].About, kernels[1].About}; !slices.Equal(lab.opened, want) || saves != 2 {
		t.Errorf("opened %v, want %v; %d saves", lab.opened, want, saves)
	}
	if rows[0].Tried != 4 || rows[1].Tried != 4 {
		t.Errorf("tried %d and %d", rows[0].Tried, rows[1].Tried)
	}
	text, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if file, err = tunefile.Parse(text); err != nil {
		t.Fatal(err)
	}
	before := map[string]tunefile.Kernel{}
	for _, k := range file.Kernels {
		before[k.Key] = k
	}
	lab.timed, lab.opened, opt.Budget = nil, nil, 0
	if rows, err = Tune(context.Background(), lab, kernels, file, opt); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.Tried != r.Variants || r.Schedule.Config().Workgroup != 1024 {
			t.Errorf("row %d: %+v", i, r)
		}
		old := before[kernels[i].Key]
		for _, m := range old.Measured {
			anchor := m.Schedule == old.Best.Schedule || m.Micros == old.Default
			if lab.timed[m.Schedule] > 0 && !anchor {
				t.Errorf("%s of %s was measured again", m.Schedule, r.About)
			}
		}
	}
	done := len(lab.opened)
	if _, err = Tune(context.Background(), lab, kernels, file, opt); err != nil || len(lab.opened) != done {
		t.Errorf("%d stands were opened though nothing was left: %v", len(lab.opened)-done, err)
	}
}

// TestTuneInterrupted: results measured before the context ended are kept.
func TestTuneInterrupted(t *testing.T) {
	c := caps(t, "nvidia-h100")
	ctx, cancel := context.WithCancel(context.Background())
	lab := &fakeLab{micros: byWorkgroup(1024)}
	lab.onOpen = func() {
		if len(lab.opened) == 2 {
			cancel()
		}
	}
	file := tunefile.New(c)
	var kept *tunefile.File
	_, err := Tune(ctx, lab, twoKernels(t, c), file,
		Options{Caps: c, Chunk: 3, Save: func(f *tunefile.File) error { kept = f; return nil }})
	if !errors.Is(err, context.Canceled) || kept == nil || len(kept.Kernels) != 2 || len(kept.Kernels[0].Measured) < 3 {
		t.Errorf("%v, kept %+v", err, kept)
	}
}

// TestTuneStopsOnAFullDisk and says so.
func TestTuneStopsOnAFullDisk(t *testing.T) {
	c := caps(t, "nvidia-h100")
	full := errors.New("disk full")
	_, err := Tune(context.Background(), &fakeLab{micros: byWorkgroup(64)}, twoKernels(t, c), tunefile.New(c),
		Options{Caps: c, Save: func(*tunefile.File) error { return full }})
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

func TestGoOn(t *testing.T) {
	list := make([]kernel.Schedule, 6)
	for i := range list {
		list[i] = kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: i + 1}}
	}
	j := &job{}
	next := j.survivors(list, []int{0, 1, 2, 3, 5}, []time.Duration{90, 10, 11, 12, 30}, 1.5, 2)
	if diff := cmp.Diff([]int{0, 1, 2}, next); diff != "" {
		t.Error(diff) // the default, though slow, and the best two
	}
	if len(j.results.Measured) != 2 || j.results.Measured[0].Status != tunefile.Slow ||
		j.results.Measured[1].Schedule != list[5] {
		t.Errorf("%+v", j.results.Measured)
	}
}

func TestKernels(t *testing.T) {
	g, err := frontend.Build("g", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, ir.Symbol("T", 64), 32)
		b.Output("y", x.Exp())
		b.Output("z", x.Exp().Sum(1))
	})
	if err != nil {
		t.Fatal(err)
	}
	c := caps(t, "lavapipe")
	for _, tt := range []struct {
		given map[string]int64
		want  int64
		fails string
	}{{nil, 64, ""}, {map[string]int64{"T": 3}, 3, ""}, {map[string]int64{"T": 65}, 0, "outside 1..64"},
		{map[string]int64{"U": 1}, 0, `no symbol "U"`}} {
		list, err := Kernels(context.Background(), g, c, tt.given)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v: %v", tt.given, err)
			}
			continue
		}
		if err != nil || len(list) == 0 || list[0].Symbols["T"] != tt.want {
			t.Errorf("%v: %v, %v", tt.given, list, err)
		}
	}
	list, err := Kernels(context.Background(), g, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Kernels(context.Background(), g, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	uses := list[0].Uses
	if merged := Merge(list, again); len(merged) != len(list) || merged[0].Uses != 2*uses {
		t.Errorf("%d kernels, of %d uses, merged to %d of %d", len(list), uses, len(merged), merged[0].Uses)
	}
}

// TestRoundedRows: schedules that quantize the rows of a matmul may differ from those that do not.
func TestRoundedRows(t *testing.T) {
	g, err := frontend.Build("g", func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 1, 4096), b.Weight("w", ir.Q4_0, 4096, 4096)
		b.Output("y", x.MatMulTIn(frontend.ByteRows, w))
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Kernels(context.Background(), g, caps(t, "nvidia-h200"), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := list[0]
	s, _, err := schedule.Select(k.Kernel, caps(t, "nvidia-h200"))
	if v, ok := s.(kernel.MatVec); err != nil || !ok || !v.RoundRows {
		t.Fatalf("%s: %v does not quantize the rows, %v", k.About, s, err)
	}
	if tol := k.tolerance(ir.F32); tol.Eps*epsilon(ir.F32) < interp.ByteRows || !tol.Sum {
		t.Errorf("the tolerance is %+v, want at least %g of the terms", tol, interp.ByteRows)
	}
}

// TestRated: only schedules in tiles with rates are measured, and the file has the facts for their estimates.
func TestRated(t *testing.T) {
	c := caps(t, "nvidia-h100")
	g, err := frontend.Build("g", func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F16, ir.D(512), 1024), b.Input("w", ir.F16, ir.D(512), 1024)
		b.Output("y", x.MatMul(w.Transpose(1, 0)).Cast(ir.F32))
		b.Output("z", x.Exp())
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Kernels(context.Background(), g, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := tunefile.New(c)
	rows, err := Tune(context.Background(), &fakeLab{micros: byWorkgroup(256)}, list, file,
		Options{Caps: c, Rated: true})
	if err != nil || len(rows) != 2 || len(file.Kernels) != 1 {
		t.Fatalf("%v, %+v, %+v", err, rows, file.Kernels)
	}
	k := file.Kernels[0]
	if k.Traits == nil || k.Traits.Rows != 512 || k.Traits.ReadNs <= 0 || k.Standard == "" || len(k.Measured) < 10 {
		t.Errorf("%+v", k)
	}
	for _, m := range k.Measured {
		if r := m.Rated; r == nil || r.Table != schedule.RatesMatrix || r.Flops*float64(r.Groups) < 2*512*512*1024 {
			t.Errorf("%+v: %+v", m, r)
		}
	}
	if !strings.Contains(rows[1].Why, "no tile with a rate") {
		t.Errorf("%+v", rows[1])
	}
	if text, err := file.Encode(); err != nil {
		t.Error(err)
	} else if _, err := tunefile.Parse(text); err != nil {
		t.Error(err)
	}
}
