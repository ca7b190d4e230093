package optest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// Backend loads a graph for what is to be proved. An error by which it declines
// a graph, rather than fails at it, is told by Options.Refused.
type Backend func(ctx context.Context, g *ir.Graph, weights ir.WeightSource) (runtime.Executable, error)

// Options adjusts Run. The zero value runs all cases.
type Options struct {
	// Filter selects cases whose name it matches.
	Filter *regexp.Regexp
	// Smoke selects the few cases that stand for each op.
	Smoke bool
	// Batch is how many cases of one op and dtype share a graph at most; 0 means 24.
	Batch int
	// Refused tells errors of the backend that say it cannot run a graph from
	// failures. Nil means Refused of this package.
	Refused func(error) bool
	// Progress, if set, is told how many cases are done.
	Progress func(done, total int)
}

// refusals are in the errors of vkc's own backend that name what it cannot run.
var refusals = []string{
	"cannot run this graph: it lacks", // a feature of the device
	"has no lowering",                 // an op without kernels
}

// Refused reports whether an error says clearly that a graph cannot be run: it
// wraps errors.ErrUnsupported, or is vkc's for what a device or the compiler lacks.
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

// Run runs the selected cases on a backend. What goes wrong with a case is in its
// result; the error is that of ctx, or a mistake in the cases themselves.
func Run(ctx context.Context, backend Backend, opt Options) (*Report, error) {
	r := &runner{backend: backend, opt: opt, report: &Report{}}
	if r.opt.Refused == nil {
		r.opt.Refused = Refused
	}
	if r.opt.Batch <= 0 {
		r.opt.Batch = 24
	}
	cases := Select(opt)
	r.total = len(cases)
	r.progress()
	for len(cases) > 0 {
		n := r.batchSize(cases)
		if err := r.run(ctx, cases[:n]); err != nil {
			return nil, err
		}
		cases = cases[n:]
	}
	return r.report, nil
}

type runner struct {
	backend Backend
	opt     Options
	report  *Report
	total   int
}

func (r *runner) progress() {
	if r.opt.Progress != nil {
		r.opt.Progress(len(r.report.Results), r.total)
	}
}

// batchSize returns how many of the first cases share a graph.
func (r *runner) batchSize(cases []Case) int {
	n := 1
	for n < min(len(cases), r.opt.Batch) && cases[n].Op == cases[0].Op && cases[n].DType == cases[0].DType {
		n++
	}
	return n
}

// run runs cases in one graph and, where that fails as a whole, each by itself.
func (r *runner) run(ctx context.Context, cases []Case) error {
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
		return r.compare(ctx, x, have)
	case len(cases) == 1:
		outcome := Fail
		if r.opt.Refused(failure) {
			outcome = Refusal
		}
		r.done(x.result(0, outcome, failure.Error()))
		return nil
	}
	for i := range cases {
		if err := r.run(ctx, cases[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// compare compares a batch that ran with the reference.
func (r *runner) compare(ctx context.Context, x *batch, have outputs) error {
	want, flushed, err := x.reference(ctx)
	if err != nil {
		return fmt.Errorf("optest: the reference of %s and %d more: %w", x.cases[0].Name, len(x.cases)-1, err)
	}
	tolerances := interp.Tolerances(x.g)
	for i, o := range x.g.Outputs() {
		r.done(x.compare(i, have, want, flushed, tolerances[o.Node.ID()]))
	}
	return nil
}

func (r *runner) done(res Result) {
	r.report.Results = append(r.report.Results, res)
	r.progress()
}

func (x *batch) result(i int, o Outcome, reason string) Result {
	c := x.cases[i]
	return Result{Case: c.Name, Op: c.Op.String(), DType: c.DType, Outcome: o, Reason: oneLine(reason)}
}

// oneLine joins the lines of a text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Number is a float64 that JSON can hold: one that is not finite is a string.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Appendf(nil, "%q", ir.FormatFloat(f)), nil
	}
	return fmt.Appendf(nil, "%g", float64(n)), nil
}
