package trial_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/trial"
)

// fake is a program on a device that a test controls.
type fake struct {
	runtime.Executable
	name   string
	took   time.Duration // of each run, by the test's clock
	fails  atomic.Pointer[error]
	wrong  bool          // results have other bits
	held   chan struct{} // runs wait until it is closed
	begun  chan struct{} // closed when the first run has begun
	once   sync.Once
	runs   atomic.Int64
	closed atomic.Int64
}

func (f *fake) Run(ctx context.Context, in map[string]*ir.Data, opt ...runtime.RunOptions) (*runtime.Result, error) {
	f.runs.Add(1)
	if f.begun != nil {
		f.once.Do(func() { close(f.begun) })
	}
	if f.held != nil {
		<-f.held
	}
	if err := f.fails.Load(); err != nil {
		return nil, *err
	}
	r, err := f.Executable.Run(ctx, in, opt...)
	if err == nil && f.wrong {
		r.Outputs["y"].Bytes[0] ^= 1
	}
	return r, err
}

func (f *fake) Device() string { return f.name }

func (f *fake) Close() error {
	f.closed.Add(1)
	return f.Executable.Close()
}

// pair is a program that begins on one fake device and is tried on another.
type pair struct {
	*trial.Executable
	t             *testing.T
	first, second *fake
	loads         atomic.Int64
}

const after = 5 * time.Millisecond

// load loads a graph on a slow and on a fast device. change adjusts them first.
func load(t *testing.T, g *ir.Graph, change func(p *pair, o *trial.Options)) *pair {
	t.Helper()
	p := &pair{t: t}
	for f, took := range map[**fake]time.Duration{&p.first: 2 * time.Millisecond, &p.second: time.Millisecond} {
		exe, err := cpu.Load(g, nil, cpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		*f = &fake{Executable: exe, took: took}
	}
	p.first.name, p.second.name = "here", "there"
	o := trial.Options{First: "here", Second: "there", After: after, Turn: make(chan struct{}, 1),
		Load: func(context.Context) (runtime.Executable, error) {
			p.loads.Add(1)
			return p.second, nil
		},
		Clock: func(program runtime.Executable, run func() error) (time.Duration, error) {
			return program.(*fake).took, run()
		}}
	if change != nil {
		change(p, &o)
	}
	p.Executable = trial.New(g, p.first, o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := p.first.closed.Load(); n == 0 {
			t.Error("the first device is open")
		}
		if p.loads.Load() > 0 && p.second.closed.Load() == 0 {
			t.Error("the second device is open")
		}
	})
	return p
}

// counting adds the number of earlier runs to its input.
func counting(t *testing.T) *ir.Graph {
	return devtest.Build(t, func(b *frontend.Builder) {
		n := b.State("n", ir.F32)
		b.Update(n, n.AddScalar(1))
		b.Output("y", b.Input("x", ir.F32, b.Sym("N", 8)).Add(n))
	})
}

// adding has no states.
func adding(t *testing.T) *ir.Graph {
	return devtest.Build(t, func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, b.Sym("N", 8)).AddScalar(1))
	})
}

// run runs the program on zeros and returns the first element of y.
func (p *pair) run(opt ...runtime.RunOptions) float64 {
	p.t.Helper()
	x := devtest.TensorOf(p.t, []float32{0, 0, 0}, 3)
	r, err := p.Run(p.t.Context(), map[string]*ir.Data{"x": x}, opt...)
	x.Bytes[3] = 0x7f // the trial has its own copy
	if err != nil {
		p.t.Fatal(err)
	}
	return first(p.t, r.Outputs["y"])
}

func first(t *testing.T, d *ir.Data) float64 {
	t.Helper()
	v, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return v[0]
}

// settle runs the program until the trial has ended, and returns the number of runs. Their results must be right.
func (p *pair) settle() int {
	p.t.Helper()
	for n := 0; ; n++ {
		if p.Why() != "" {
			return n
		}
		want := 1.0
		if len(p.States()) > 0 {
			want = float64(n)
		}
		if got := p.run(); got != want {
			p.t.Fatalf("run %d returns %v, want %v", n, got, want)
		}
	}
}

func TestShortProgramsAreNotTried(t *testing.T) {
	p := load(t, counting(t), nil)
	for range 3 { // they take 6 ms
		p.run()
	}
	if n := p.loads.Load(); n != 0 || p.Why() != "" || p.Device() != p.first.Device() {
		t.Errorf("%d trials after 3 runs: %s", n, p.Why())
	}
}

// TestChangeOver: the program's states, a further set of states, and device tensors stay valid.
func TestChangeOver(t *testing.T) {
	p := load(t, counting(t), nil)
	set, err := p.NewStates()
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.Upload(t.Context(), devtest.TensorOf(t, []float32{100, 0, 0}, 3))
	if err != nil {
		t.Fatal(err)
	}
	if y := p.run(runtime.RunOptions{States: set}); y != 0 {
		t.Errorf("the first run on other states returns %v", y)
	}
	n := p.settle()
	const why = "there: it took 3ms for 3 of your runs, and here 6ms; the bits of the results are the same"
	if p.Why() != why {
		t.Error(p.Why())
	}
	onFirst := p.first.runs.Load()
	if y := p.run(); y != float64(n) {
		t.Errorf("after %d runs and the change-over a run returns %v", n, y)
	}
	if y := p.run(runtime.RunOptions{States: set}); y != 1 {
		t.Errorf("the second run on other states returns %v", y)
	}
	r, err := p.Run(t.Context(), nil, runtime.RunOptions{Inputs: map[string]*runtime.DeviceTensor{"x": before},
		Keep: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	if y, err := r.Kept["y"].Read(t.Context()); err != nil || first(t, y) != float64(n+101) || len(r.Outputs) != 0 {
		t.Errorf("from a device tensor: %v, %v, outputs %v", y, err, r.Outputs)
	}
	_, err = p.Run(t.Context(), nil, runtime.RunOptions{Inputs: r.Kept, States: set})
	devtest.WantError(t, err, `"y"`) // it is no input; the states are as they were
	again, err := p.Run(t.Context(), nil, runtime.RunOptions{States: set,
		Inputs: map[string]*runtime.DeviceTensor{"x": r.Kept["y"]}})
	if err != nil || first(t, again.Outputs["y"]) != float64(n+103) {
		t.Errorf("from a kept output: %v, %v", again, err)
	}
	if d, err := p.ReadState("n"); err != nil || first(t, d) != float64(n+2) {
		t.Errorf("the state is %v, %v", d, err)
	}
	if d, err := set.Read("n"); err != nil || first(t, d) != 3 {
		t.Errorf("the other state is %v, %v", d, err)
	}
	if p.first.runs.Load() != onFirst {
		t.Error("the first device still runs the program")
	}
	if err := errors.Join(r.CloseKept(), before.Close(), set.Reset(), set.Close()); err != nil {
		t.Error(err)
	}
}

// TestStay: a program that changed over returns with its states, for another one to share them.
func TestStay(t *testing.T) {
	p := load(t, counting(t), nil)
	n := p.settle()
	set, err := p.NewStates()
	if err != nil {
		t.Fatal(err)
	}
	p.run(runtime.RunOptions{States: set})
	own, err := p.Stay(t.Context(), "asked for")
	if err != nil || own != runtime.Executable(p.first) || p.Why() != "here: asked for" {
		t.Errorf("%v, %v: %s", own, err, p.Why())
	}
	if y := p.run(); y != float64(n) || p.Device() != p.first.Device() || p.second.closed.Load() != 1 {
		t.Errorf("a run returns %v, want %d; the second device was closed %d times", y, n, p.second.closed.Load())
	}
	if y := p.run(runtime.RunOptions{States: set}); y != 1 {
		t.Errorf("other states return %v", y)
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	for range 9 {
		p.run()
	}
	if p.loads.Load() != 1 {
		t.Error("it was tried again")
	}
}

// TestNoChangeOver: the program stays where it is and says why, and the caller's runs do not notice.
func TestNoChangeOver(t *testing.T) {
	lost := errors.New("lost\nthe device")
	for name, tt := range map[string]struct {
		change func(p *pair, o *trial.Options)
		why    string
	}{
		"slower": {func(p *pair, _ *trial.Options) { p.second.took = 3 * time.Millisecond },
			"here: there was tried and took 9ms for 3 of your runs, and here 6ms"},
		"hardly faster": {func(p *pair, _ *trial.Options) { p.second.took = 1900 * time.Microsecond },
			"was tried and took 5.7ms"},
		"much slower": {func(p *pair, _ *trial.Options) { p.second.took = time.Second },
			"here: there was tried and took 1s for 1 of your runs, and here 2ms"},
		"other bits": {func(p *pair, _ *trial.Options) { p.second.wrong = true },
			"but its results differ in their last bits"},
		"a failing run": {func(p *pair, _ *trial.Options) { p.second.fails.Store(&lost) },
			"here: there was tried and failed: lost the device"},
		"a failing load": {func(p *pair, o *trial.Options) {
			o.Load = func(context.Context) (runtime.Executable, error) { return nil, lost }
		}, "here: there was tried and failed: lost the device"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, counting(t), tt.change)
			n := p.settle()
			if y := p.run(); y != float64(n) || p.Device() != p.first.Device() || !strings.Contains(p.Why(), tt.why) {
				t.Errorf("run %d returns %v: %s\nwant %s", n, y, p.Why(), tt.why)
			}
			if p.loads.Load() > 0 && p.second.closed.Load() == 0 {
				t.Error("the second device has the program still")
			}
		})
	}
}

// TestWrongRunsAreNoSamples: a run with wrong inputs fails as without a trial, before and after the change-over.
func TestWrongRunsAreNoSamples(t *testing.T) {
	p := load(t, adding(t), nil)
	wrong := func() string {
		_, err := p.Run(t.Context(), map[string]*ir.Data{"x": devtest.TensorOf(t, make([]float32, 9), 9)})
		if err == nil {
			t.Fatal("9 elements fit in 8")
		}
		return err.Error()
	}
	before := wrong()
	for p.Why() == "" {
		wrong()
		p.run()
	}
	if now := wrong(); now != before || p.Device() != p.second.Device() {
		t.Errorf("%s; want %s", now, before)
	}
}

// TestFaultsAreTheCallers: a value for which an op has no result is no reason to leave the second device.
func TestFaultsAreTheCallers(t *testing.T) {
	p := load(t, adding(t), nil)
	p.settle()
	fault := error(&ir.FaultError{})
	p.second.fails.Store(&fault)
	_, err := p.Run(t.Context(), map[string]*ir.Data{"x": devtest.TensorOf(t, make([]float32, 3), 3)})
	if got := (*ir.FaultError)(nil); !errors.As(err, &got) || p.Device() != p.second.Device() {
		t.Errorf("%v: %s", err, p.Why())
	}
}

// TestReturns: a program without states returns to the first device when the second one fails.
func TestReturns(t *testing.T) {
	p := load(t, adding(t), nil)
	p.settle()
	lost := errors.New("lost")
	p.second.fails.Store(&lost)
	for range 2 {
		if y := p.run(); y != 1 {
			t.Errorf("returns %v", y)
		}
	}
	if why := p.Why(); why != "here: a run on there failed: lost" || p.second.closed.Load() != 1 {
		t.Errorf("%s; closed %d times", why, p.second.closed.Load())
	}
}

// TestCloseDuringLoad: Close ends the load. The program that it loads anyhow is closed.
func TestCloseDuringLoad(t *testing.T) {
	for _, loads := range []bool{false, true} {
		loading, ended := make(chan struct{}), make(chan struct{})
		p := load(t, counting(t), func(p *pair, o *trial.Options) {
			o.Load = func(ctx context.Context) (runtime.Executable, error) {
				close(loading)
				<-ctx.Done()
				defer close(ended)
				if loads {
					p.loads.Add(1)
					return p.second, nil
				}
				return nil, ctx.Err()
			}
		})
		for range 4 {
			p.run()
		}
		<-loading
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
		default:
			t.Error("it loads still")
		}
		if n := p.second.closed.Load(); loads != (n == 1) {
			t.Errorf("the second device was closed %d times", n)
		}
	}
}

// TestCloseDuringRun: Close waits for the run on the second device.
func TestCloseDuringRun(t *testing.T) {
	p := load(t, counting(t), func(p *pair, _ *trial.Options) {
		p.second.held, p.second.begun = make(chan struct{}), make(chan struct{})
	})
	for begun := false; !begun; {
		p.run()
		select {
		case <-p.second.begun:
			begun = true
		default:
		}
	}
	if y := p.run(); y == 0 { // the caller's runs go on
		t.Errorf("returns %v", y)
	}
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		t.Errorf("closed during a run: %v", err)
	default:
	}
	close(p.second.held)
	if err := <-closed; err != nil || p.second.closed.Load() != 1 {
		t.Errorf("%v; the second device was closed %d times", err, p.second.closed.Load())
	}
}

// TestOneAtATime: programs with one Turn are tried one after the other.
func TestOneAtATime(t *testing.T) {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	p := load(t, counting(t), func(_ *pair, o *trial.Options) { o.Turn = turn })
	for range 9 {
		p.run()
	}
	if p.loads.Load() != 0 {
		t.Error("it is tried out of turn")
	}
	<-turn
	for p.Why() == "" {
		p.run()
	}
	if p.Device() != p.second.Device() {
		t.Error(p.Why())
	}
}

// TestIdleProgramsKeepNoTurn: a program that is not run any more does not delay the trial of another one.
func TestIdleProgramsKeepNoTurn(t *testing.T) {
	turn := make(chan struct{}, 1)
	share := func(_ *pair, o *trial.Options) { o.Turn = turn }
	idle, other := load(t, counting(t), share), load(t, counting(t), share)
	for idle.loads.Load() == 0 {
		idle.run()
	}
	for other.Why() == "" {
		other.run()
	}
	if other.Device() != other.second.Device() {
		t.Error(other.Why())
	}
}

// TestConcurrentRuns: runs of several goroutines go on during the change-over, and no update of a state is lost.
func TestConcurrentRuns(t *testing.T) {
	p := load(t, counting(t), nil)
	var all sync.WaitGroup
	var runs atomic.Int64
	for range 4 {
		all.Go(func() {
			for p.Why() == "" || runs.Load() < 100 {
				x := devtest.TensorOf(t, []float32{0, 0, 0}, 3)
				if _, err := p.Run(t.Context(), map[string]*ir.Data{"x": x}); err != nil {
					t.Error(err)
					return
				}
				runs.Add(1)
			}
		})
	}
	all.Wait()
	if d, err := p.ReadState("n"); err != nil || first(t, d) != float64(runs.Load()) {
		t.Errorf("after %d runs the state is %v, %v", runs.Load(), d, err)
	}
}
