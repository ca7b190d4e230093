package passes

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// Pricer decides which proposals pay off on a device. Rules know nothing of devices and propose only rewrites that are
// correct on all of them.
type Pricer interface {
	// RoundRows reports whether to quantize rows to int8 for a matmul with a weight in block format t, given the
	// numbers of rows and of the weight's columns.
	RoundRows(t ir.DType, rows, columns ir.Dim) bool
	// ReadRows reports whether a matmul with such a weight should read rows stored as bytes with scales in that format
	// instead of as floats.
	ReadRows(t ir.DType, rows, columns ir.Dim) bool
	// StoreScores reports whether storing an attention's scores of the given size for its gradients is faster than
	// recomputing them.
	StoreScores(bytes int64) bool
	// Time estimates the time of some work in nanoseconds.
	Time(kernel.Work) float64
	// Has reports whether the device has a feature, by its name in device.Caps.Has.
	Has(feature string) bool
	// Shared returns the limit of a workgroup's shared memory in bytes.
	Shared() int
	// Layout returns the layout for the blocks of a weight, given the kernels that read it.
	Layout(t ir.DType, readers []*kernel.Kernel) kernel.Layout
	// Sizes returns the sizes that rules should propose where these depend on the device.
	Sizes(*kernel.Kernel) kernel.Sizes
	// Price estimates the time of kernels before and after a rewrite.
	Price(kernel.Rewrite) kernel.Estimate
}

// Proposal replaces some kernels by others, and is correct on any device.
type Proposal struct {
	What    string // in a few words
	Changes []Change
	// Margin and LastSplit are copied to its [kernel.Rewrite].
	Margin    float64
	LastSplit bool
	// Default proposals are taken if no other proposal for the kernel gains time, even without a device.
	Default bool
}

// Change replaces one kernel by several, see [plan.Graph.Replace].
type Change struct {
	ID plan.KernelID
	By []*kernel.Kernel
}

// Decision is a proposal and its outcome.
type Decision struct {
	Rule, Kernel, What string
	// Of names the weights that the kernel reads or, if there are none, the inputs and states that it accesses.
	Of []string
	kernel.Estimate
	Taken bool
}

// propose returns a proposal that replaces one kernel.
func propose(what string, id plan.KernelID, by ...*kernel.Kernel) Proposal {
	return Proposal{What: what, Changes: []Change{{id, by}}}
}

// also changes another kernel. What has been changed already is changed again.
func (p *Proposal) also(id plan.KernelID, by ...*kernel.Kernel) {
	for i := range p.Changes {
		if p.Changes[i].ID == id {
			p.Changes[i].By = by
			return
		}
	}
	p.Changes = append(p.Changes, Change{id, by})
}

// kernel returns the current version of a kernel after the changes.
func (p *Proposal) kernel(s *State, id plan.KernelID) *kernel.Kernel {
	for _, c := range p.Changes {
		if n := len(c.By); c.ID == id && n > 0 {
			return c.By[n-1]
		}
	}
	return s.Plan.Kernel(id)
}

// rule is a pass that makes proposals for each kernel and lets the price choose.
func rule(name, why string, propose func(*State, plan.KernelID) []Proposal) Pass {
	return Pass{name, why, func(s *State) error {
		for _, id := range s.Plan.IDs() {
			if s.Plan.Kernel(id) != nil { // an earlier proposal may have removed it
				s.decide(name, id, propose(s, id))
			}
		}
		return nil
	}}
}

// decide takes the proposal with the largest gain for a kernel, and records the outcome of all.
func (s *State) decide(rule string, id plan.KernelID, list []Proposal) {
	best, most, first := -1, 0.0, len(s.Decisions)
	for i, p := range list {
		d := Decision{Rule: rule, Kernel: s.Plan.Kernel(id).Name, What: p.What, Of: s.named(s.Plan.Kernel(id))}
		w := kernel.Rewrite{Rule: rule, Margin: p.Margin, LastSplit: p.LastSplit}
		for _, c := range p.Changes {
			w.Before, w.After = append(w.Before, s.Plan.Kernel(c.ID)), append(w.After, c.By...)
		}
		switch n := mostBindings(w.After); {
		case n > max(s.limits.Bindings, mostBindings(w.Before)):
			d.Note = fmt.Sprintf("a kernel would bind %d buffers, more than %d", n, s.limits.Bindings)
		case p.Default && best < 0:
			best = i
		case !p.Default && s.pricer != nil:
			if d.Estimate = s.pricer.Price(w); d.Gain() > most {
				best, most = i, d.Gain()
			}
		}
		s.Decisions = append(s.Decisions, d)
	}
	if best >= 0 {
		s.Decisions[first+best].Taken = true
		for _, c := range list[best].Changes {
			s.Plan.Replace(c.ID, c.By...)
		}
	}
}

// named lists the weights that a kernel reads or, if there are none, the inputs and states that it accesses.
func (s *State) named(k *kernel.Kernel) []string {
	var weights, others []string
	seen := map[*ir.Node]bool{}
	for _, b := range k.Bindings {
		switch v := s.Plan.Value(b.Buffer); {
		case v.Node == nil:
		case v.Origin == plan.Weight:
			weights = leafNames(weights, v.Node, seen)
		case v.Origin == plan.Input || v.Origin == plan.State:
			others = leafNames(others, v.Node, seen)
		}
	}
	if len(weights) > 0 {
		return weights
	}
	return others
}

// leafNames adds the name of a leaf, or the names of the leaves that a node is made of, such as concatenated weights.
func leafNames(to []string, n *ir.Node, seen map[*ir.Node]bool) []string {
	if seen[n] {
		return to
	}
	seen[n] = true
	for _, a := range n.Args() {
		to = leafNames(to, a, seen)
	}
	if n.Op().Class() == ir.ClassLeaf && n.Name() != "" {
		to = append(to, n.Name())
	}
	return to
}

func mostBindings(list []*kernel.Kernel) (most int) {
	for _, k := range list {
		most = max(most, len(k.Bindings))
	}
	return most
}

// sizes returns the sizes to propose for a kernel: none without a device.
func (s *State) sizes(k *kernel.Kernel) kernel.Sizes {
	if s.pricer == nil {
		return kernel.Sizes{}
	}
	return s.pricer.Sizes(k)
}
