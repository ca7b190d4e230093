package optest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// Backend loads a graph on the backend under test. Options.Refused tells whether an error means that the backend cannot
// run the graph.
type Backend func(ctx context.Context, g *ir.Graph, weights ir.WeightSource) (runtime.Executable, error)

// Options adjusts Run. The zero value runs all cases.
type Options struct {
	// Filter selects cases by name.
	Filter *regexp.Regexp
	// Smoke selects the few cases per op for a quick run.
	Smoke bool
	// Batch is the maximum number of cases per graph; 0 means 24. Several share a graph because a GLSL compiler takes
	// longer to start than to compile the kernels of a dozen cases.
	Batch int
	// Refused reports whether an error of the backend means that it cannot run a graph. Nil means this package's
	// Refused.
	Refused func(error) bool
	// Jobs is the number of graphs to compile and run at a time; 0 means one. If it is more, the backend must be safe
	// for concurrent use.
	Jobs int
	// Progress, if set, receives the number of finished cases. Calls do not overlap.
	Progress func(done, total int)
}

// refusals are parts of the errors that vkc's own backend returns for graphs that it cannot run.
var refusals = []string{
	"cannot run this graph: it lacks", // a feature of the device
	"has no lowering",                 // an op without kernels
}

// Refused reports whether an error says clearly that a graph cannot be run: it wraps errors.ErrUnsupported, or is vkc's
// error for a missing feature of the device or compiler.
func Refused(err error) bool {
	if errors.Is(err, errors.ErrUnsupported) {
		return true
	}
	for _, r := range refusals {
		if strings.Contains(err.Error(), r) {
			return true
		}
	}
	return false
}

// Select returns the cases that the options select.
func Select(opt Options) []Case {
	var list []Case
	for _, c := range Cases() {
		if (!opt.Smoke || c.Smoke) && (opt.Filter == nil || opt.Filter.MatchString(c.Name)) {
			list = append(list, c)
		}
	}
	return list
}

// Run runs the selected cases on a backend. The report has the failures of cases. The returned error is ctx's, or a
// mistake in the cases themselves.
func Run(ctx context.Context, backend Backend, opt Options) (*Report, error) {
	if opt.Refused == nil {
		opt.Refused = Refused
	}
	if opt.Batch <= 0 {
		opt.Batch = 24
	}
	cases := Select(opt)
	r := &runner{backend: backend, opt: opt, results: make([]Result, len(cases))}
	r.progress(0)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, opt.Jobs))
	for first := 0; first < len(cases) && groupCtx.Err() == nil; first += opt.Batch {
		end := min(first+opt.Batch, len(cases))
		group.Go(func() error { return r.run(groupCtx, cases[first:end], r.results[first:end]) })
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return &Report{Results: r.results}, nil
}

// runner is the state of one Run. Batches run concurrently, each with its own part of results.
type runner struct {
	backend Backend
	opt     Options
	results []Result

	mu   sync.Mutex
	done int // cases
}

// progress reports that more cases are done.
func (r *runner) progress(cases int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += cases
	if r.opt.Progress != nil {
		r.opt.Progress(r.done, len(r.results))
	}
}

// run runs cases in one graph. If the graph as a whole fails, it runs each half of the cases separately, to find the
// case that fails.
func (r *runner) run(ctx context.Context, cases []Case, results []Result) error {
	x, err := newBatch(cases)
	if err != nil {
		return err
	}
	have, failure := x.execute(ctx, r.backend)
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case failure == nil:
		return r.compare(ctx, x, have, results)
	case len(cases) == 1:
		outcome := Fail
		if r.opt.Refused(failure) {
			outcome = Refusal
		}
		results[0] = x.result(0, outcome, failure.Error())
		r.progress(1)
		return nil
	}
	half := len(cases) / 2
	if err := r.run(ctx, cases[:half], results[:half]); err != nil {
		return err
	}
	return r.run(ctx, cases[half:], results[half:])
}

// compare compares a batch that ran with the reference.
func (r *runner) compare(ctx context.Context, x *batch, have outputs, results []Result) error {
	want, flushed, err := x.reference(ctx)
	if err != nil {
		return fmt.Errorf("optest: the reference of %s and %d more: %w", x.cases[0].Name, len(x.cases)-1, err)
	}
	tolerances := interp.Tolerances(x.g)
	for i, o := range x.g.Outputs() {
		tol := tolerances[o.Node.ID()]
		if x.cases[i].Exact {
			tol = ir.Tolerance{}
		}
		results[i] = x.compare(i, have, want, flushed, tol)
	}
	r.progress(len(x.cases))
	return nil
}

func (x *batch) result(i int, o Outcome, reason string) Result {
	c := x.cases[i]
	return Result{Case: c.Name, Op: c.Op.String(), DType: c.DType, Outcome: o, Reason: oneLine(reason)}
}

// oneLine replaces each run of white space, including line ends, by a space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Number is a float64 that JSON can represent: non-finite ones are strings.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Appendf(nil, "%q", ir.FormatFloat(f)), nil
	}
	return fmt.Appendf(nil, "%g", float64(n)), nil
}
