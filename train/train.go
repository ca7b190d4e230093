// Package train runs training steps. A step is a graph that takes a batch, updates its states, and outputs the loss.
// frontend.Grad and package optim build most of such a graph.
//
//	exe, err := dev.LoadGraph(ctx, graph, nil)
//	report, err := train.Run(ctx, exe, batches, train.Options{Steps: 1000, Checkpoint: "model.safetensors"})
//
// Batches come from an iterator. While a step runs, the next batch is fetched and copied to the device. Losses are read
// after later steps were submitted, so that the device is never idle.
package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/runtime"
)

// Batches returns the inputs of successive steps, by name. It skips the first `after` steps, which a checkpoint has
// already. It must yield the same batches in every call, or a resumed training differs. An error ends the training.
type Batches func(after int) iter.Seq2[vkc.Tensors, error]

// Options configures a training. Only Steps is required.
type Options struct {
	// Steps is the total number of steps, including those before a checkpoint.
	Steps int
	// Loss names the output with the loss, a scalar; "" means "loss".
	Loss string
	// Tokens is the number of tokens or samples per step, for Progress.PerSecond.
	Tokens int
	// Checkpoint is a safetensors file with all states and the progress of the training. If it exists, the training
	// resumes from it, with the same bits as without the interruption. "" means no checkpoint.
	Checkpoint string
	// Settings are parameters that determine the batches and the initial values, such as a seed, by name. A checkpoint
	// stores them, and a training resumes only with equal ones.
	Settings map[string]string
	// Every is the number of steps between writes of the checkpoint; 0 writes it only at the end, including an end by
	// ctx.
	Every int
	// Progress, if set, is called after each step, in order. It must not use the executable.
	Progress func(Progress)
}

// Progress describes a finished step.
type Progress struct {
	Step, Steps int // the first step is 1
	Loss        float64
	PerSecond   float64       // tokens, over the steps so far; 0 if Options.Tokens is 0
	Left        time.Duration // until the last step, at the rate so far
}

// String is one line without its end.
func (p Progress) String() string {
	s := fmt.Sprintf("step %d of %d, loss %.4f", p.Step, p.Steps, p.Loss)
	if p.PerSecond > 0 {
		s += fmt.Sprintf(", %.0f tokens/s", p.PerSecond)
	}
	if p.Step < p.Steps && p.Left > 0 {
		s += fmt.Sprintf(", %s left", p.Left.Round(time.Second))
	}
	return s
}

// Report is the result of a training.
type Report struct {
	Losses  []float64 // of all steps, including those before a checkpoint
	Resumed int       // number of steps in the checkpoint
	Elapsed time.Duration
}

// ErrDiverged is wrapped by the error of a training with a loss of NaN or infinity.
var ErrDiverged = errors.New("the loss is NaN: try a lower learning rate, or clip gradients")

// trainer is a training in progress.
type trainer struct {
	exe    *vkc.Executable
	opt    Options
	report *Report
	began  time.Time
	first  int // steps that were done when it began
}

// Run trains until Options.Steps steps are done. If ctx ends before, the current step is completed, the checkpoint is
// written, and the error is the context's. The report is never nil.
func Run(ctx context.Context, exe *vkc.Executable, batches Batches, opt Options) (*Report, error) {
	if opt.Loss == "" {
		opt.Loss = "loss"
	}
	t := &trainer{exe: exe, opt: opt, report: &Report{}}
	if opt.Steps < 1 {
		return t.report, fmt.Errorf("train: Options.Steps is %d: want at least 1", opt.Steps)
	}
	if err := errors.Join(t.resume(), t.writable()); err != nil {
		return t.report, err
	}
	t.began, t.first = time.Now(), len(t.report.Losses)
	err := t.run(ctx, batches)
	t.report.Elapsed = time.Since(t.began)
	if opt.Checkpoint != "" && len(t.report.Losses) > t.first && !errors.Is(err, ErrDiverged) {
		err = errors.Join(err, Save(exe, opt.Checkpoint, t.report.Losses, opt.Settings))
	}
	if err != nil {
		err = fmt.Errorf("train: after %d of %d steps: %w", len(t.report.Losses), opt.Steps, err)
	}
	return t.report, err
}

// resume loads the states and losses of the checkpoint, if the file exists.
func (t *trainer) resume() error {
	if t.opt.Checkpoint == "" {
		return nil
	}
	if _, err := os.Stat(t.opt.Checkpoint); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	losses, err := Restore(t.exe, t.opt.Checkpoint, t.opt.Settings)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	t.report.Losses, t.report.Resumed = losses, len(losses)
	return nil
}

// writable checks that the checkpoint can be written, before the training does any work.
func (t *trainer) writable() error {
	if t.opt.Checkpoint == "" {
		return nil
	}
	f, err := atomicfile.Create(t.opt.Checkpoint, 0o644)
	if err != nil {
		return fmt.Errorf("train: the checkpoint: %w", err)
	}
	f.Close() // keeps an existing file
	return nil
}

// batch is a step's inputs, on the device.
type batch struct {
	inputs map[string]*vkc.DeviceTensor
	err    error
}

func (b batch) close() {
	for _, d := range b.inputs {
		d.Close()
	}
}

// fetch copies batches to the device until ctx ends, and sends them to channel `to`, which has no buffer: fetch copies
// one batch ahead of the steps. A batch with an error is the last one.
func (t *trainer) fetch(ctx context.Context, batches Batches, to chan<- batch) {
	defer close(to)
	for in, err := range batches(len(t.report.Losses)) {
		b := batch{inputs: map[string]*vkc.DeviceTensor{}, err: err}
		for name, d := range in {
			if b.err == nil {
				b.inputs[name], b.err = t.exe.Upload(ctx, d)
			}
		}
		select {
		case to <- b:
		case <-ctx.Done():
			b.close()
			return
		}
		if b.err != nil {
			return
		}
	}
}

// run makes the steps. It copies the next batch to the device while a step runs.
func (t *trainer) run(ctx context.Context, batches Batches) (err error) {
	fetching, stop := context.WithCancel(ctx)
	queue := make(chan batch)
	go t.fetch(fetching, batches, queue)
	defer func() {
		stop()
		for b := range queue {
			b.close()
		}
	}()
	var last *vkc.Result // the step with an unread loss
	defer func() { err = errors.Join(err, t.read(last)) }()
	for started := len(t.report.Losses); started < t.opt.Steps; started++ {
		var b batch
		var ok bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok = <-queue:
		}
		switch {
		case !ok && ctx.Err() != nil:
			return ctx.Err()
		case !ok:
			return fmt.Errorf("there are only %d batches", started)
		case b.err != nil:
			b.close()
			return fmt.Errorf("batch %d: %w", started, b.err)
		}
		res, err := t.step(ctx, b)
		if err != nil {
			return err
		}
		before := last
		last = res
		if err := t.read(before); err != nil {
			return err
		}
		if t.opt.Every > 0 && (started+1)%t.opt.Every == 0 && t.opt.Checkpoint != "" {
			last = nil
			if err := t.read(res); err != nil {
				return err
			}
			if err := Save(t.exe, t.opt.Checkpoint, t.report.Losses, t.opt.Settings); err != nil {
				return err
			}
		}
	}
	return nil
}

// step submits a step and does not wait for its end: its outputs stay on the device, where read fetches the loss.
func (t *trainer) step(ctx context.Context, b batch) (*vkc.Result, error) {
	defer b.close() // The runtime keeps the inputs' memory until the run has ended.
	var keep []string
	for _, port := range t.exe.Outputs() {
		keep = append(keep, port.Name)
	}
	// A run canceled by its context may or may not change the states, so the run is not cancelable.
	return t.exe.Run(context.WithoutCancel(ctx), nil, vkc.RunOptions{Inputs: b.inputs, Keep: keep})
}

// read waits for a step to finish and records its loss. It returns ErrDiverged if the loss is not finite. It does
// nothing if res is nil, as before the first step.
func (t *trainer) read(res *vkc.Result) error {
	if res == nil {
		return nil
	}
	defer func() {
		for _, d := range res.Kept {
			d.Close()
		}
	}()
	loss, ok := res.Kept[t.opt.Loss]
	if !ok {
		return fmt.Errorf("the step has no output %q for the loss: name its output in Options.Loss", t.opt.Loss)
	}
	x, err := scalar(loss)
	if err != nil {
		return fmt.Errorf("output %q: %w", t.opt.Loss, err)
	}
	t.report.Losses = append(t.report.Losses, x)
	t.reportProgress(x)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("the loss is %v: %w", x, ErrDiverged)
	}
	return nil
}

// scalar reads a device tensor of one element.
func scalar(d *runtime.DeviceTensor) (float64, error) {
	// Read the result of a started step even if the training's context has ended.
	v, err := d.Read(context.Background())
	if err != nil {
		return 0, err
	}
	list, err := v.Floats()
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("it is %s, want a scalar", v)
	}
	if err != nil {
		return 0, err
	}
	return list[0], nil
}

// reportProgress calls Options.Progress with the last step, its loss, and the speed since the start.
func (t *trainer) reportProgress(loss float64) {
	if t.opt.Progress == nil {
		return
	}
	p := Progress{Step: len(t.report.Losses), Steps: t.opt.Steps, Loss: loss}
	done, elapsed := p.Step-t.first, time.Since(t.began).Seconds()
	if done > 0 && elapsed > 0 {
		each := elapsed / float64(done)
		p.PerSecond = float64(t.opt.Tokens) / each
		p.Left = time.Duration(float64(p.Steps-p.Step) * each * float64(time.Second))
	}
	t.opt.Progress(p)
}
