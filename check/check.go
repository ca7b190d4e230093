package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// Checker compares the results of a program's runs with the CPU reference. The reference has states of its own, so
// every run of a program with states must be checked, from the first run on.
type Checker struct {
	graph      *ir.Graph
	reference  *interp.Program
	tolerances []ir.Tolerance // by node
}

// New makes a checker for a graph: it loads the graph on the CPU reference. weights may be nil if the graph has none.
func New(g *ir.Graph, weights ir.WeightSource) (*Checker, error) {
	if err := g.Verify(); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	g, _, err := ir.FitWeights(g, weights)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	ref, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return &Checker{g, ref, interp.Tolerances(g)}, nil
}

// Report is the outcome of a check.
type Report struct {
	Values []Value // outputs, then states, in the graph's order
}

// Value compares one output or state with the reference.
type Value struct {
	Name      string
	State     bool // a state, not an output
	Tolerance ir.Tolerance
	interp.Report
}

// OK reports whether every value is within its tolerance.
func (r *Report) OK() bool {
	if r == nil {
		return false
	}
	for _, v := range r.Values {
		if !v.OK {
			return false
		}
	}
	return true
}

// Err returns nil if every value is within its tolerance. Otherwise the error has one line that names each value
// outside its tolerance and the element with the largest deviation.
func (r *Report) Err() error {
	if r == nil {
		return errors.New("nothing was checked: the report is nil")
	}
	var bad []string
	for _, v := range r.Values {
		if err := v.Err(); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", v.title(), err))
		}
	}
	if bad == nil {
		return nil
	}
	return errors.New("past the tolerance: " + strings.Join(bad, "; "))
}

// title names the value in messages.
func (v Value) title() string {
	if v.State {
		return fmt.Sprintf("state %q", v.Name)
	}
	return fmt.Sprintf("output %q", v.Name)
}

// Check runs the reference on the inputs of a run and compares its outputs with the run's outputs. exe is the
// executable that made the outputs; Check reads the states from it. exe may be nil if the graph has no states.
func (c *Checker) Check(ctx context.Context, exe runtime.Executable, in map[string]*ir.Data, symbols map[string]int64,
	outputs map[string]*ir.Data) (*Report, error) {
	if c == nil || c.reference == nil {
		return nil, errors.New("check: the checker is nil: New makes one, unless it returns an error")
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	want, err := c.reference.Run(ctx, in, symbols)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	r := &Report{}
	for _, o := range c.graph.Outputs() {
		got, ok := outputs[o.Name]
		if !ok {
			return nil, fmt.Errorf("check: the run gave no output %q", o.Name)
		}
		tol := c.tolerances[o.Node.ID()]
		r.Values = append(r.Values, Value{o.Name, false, tol, interp.Compare(got, want[o.Name], tol)})
	}
	for _, u := range c.graph.Updates() {
		v, err := c.state(exe, u)
		if err != nil {
			return nil, fmt.Errorf("check state %q: %w", u.State.Name(), err)
		}
		r.Values = append(r.Values, v)
	}
	return r, nil
}

// state compares a state of exe with the reference's.
func (c *Checker) state(exe runtime.Executable, u ir.Update) (Value, error) {
	name, tol := u.State.Name(), c.tolerances[u.Value.ID()]
	if exe == nil {
		return Value{}, errors.New("it can be read only from the executable, which is nil")
	}
	got, err := exe.ReadState(name)
	if err != nil {
		return Value{}, err
	}
	want, err := c.reference.State(name)
	if err != nil {
		return Value{}, err
	}
	return Value{name, true, tol, interp.Compare(got, want, tol)}, nil
}
