package rules

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/passes/plan"
)

// Proposal is a replacement of some kernels by others that compute the same values on any device.
type Proposal struct {
	What    string // the change in a few words, for people
	Changes []Change
	// Margin and LastSplit are copied to its [kernel.Rewrite].
	Margin    float64
	LastSplit bool
	// Default says that the proposal is taken if no other one for the kernel saves time, or if there is no pricer.
	Default bool
}

// Change replaces one kernel by several, see [plan.Graph.Replace].
type Change struct {
	ID plan.KernelID
	By []*kernel.Kernel
}

// Decision records a proposal, its estimated times, and whether it was taken.
type Decision struct {
	Rule, Kernel, What string
	// Of names the weights that the kernel reads, or its inputs and states if it reads no weights.
	Of []string
	kernel.Estimate
	Taken bool
}

// propose returns a proposal that replaces one kernel.
func propose(what string, id plan.KernelID, by ...*kernel.Kernel) Proposal {
	return Proposal{What: what, Changes: []Change{{id, by}}}
}

// replace adds the replacement of kernel id to the proposal. It overrides an earlier replacement of the same kernel.
func (p *Proposal) replace(id plan.KernelID, by ...*kernel.Kernel) {
	for i := range p.Changes {
		if p.Changes[i].ID == id {
			p.Changes[i].By = by
			return
		}
	}
	p.Changes = append(p.Changes, Change{id, by})
}

// changes reports whether the proposal replaces or removes kernel id.
func (p *Proposal) changes(id plan.KernelID) bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.ID == id })
}

// kernel returns the kernel that will have an ID after the proposal's changes so far.
func (p *Proposal) kernel(o *Optimizer, id plan.KernelID) *kernel.Kernel {
	for _, c := range p.Changes {
		if n := len(c.By); c.ID == id && n > 0 {
			return c.By[n-1]
		}
	}
	return o.Plan.Kernel(id)
}

// Rule makes proposals that replace a kernel and possibly kernels that it exchanges values with.
type Rule func(*Optimizer, plan.KernelID) []Proposal

// Optimizer applies rules to the kernels of a program.
type Optimizer struct {
	Plan      *plan.Graph // the kernels, and the values that they pass on
	Decisions []Decision  // in order

	fusion     *lower.Fusion
	pricer     kernel.Pricer                      // or nil
	windows    map[plan.ValueID]*lower.StoredConv // convolutions of ImplicitGEMM, by stored argument and by result
	scaledRows map[scaledRowID]plan.ValueID       // stored rows times weights of PrescaleRows
}

// NewOptimizer returns an optimizer for the kernels of f. Without a pricer it takes only default proposals.
func NewOptimizer(f *lower.Fusion, pricer kernel.Pricer) Optimizer {
	return Optimizer{Plan: f.Plan, fusion: f, pricer: pricer, windows: map[plan.ValueID]*lower.StoredConv{},
		scaledRows: map[scaledRowID]plan.ValueID{}}
}

// Apply applies a rule to each kernel: it asks the rule for proposals and takes the best one that saves time.
func (o *Optimizer) Apply(name string, rule Rule) {
	for _, id := range o.Plan.IDs() {
		if o.Plan.Kernel(id) != nil { // an earlier proposal may have removed it
			o.decide(name, id, rule(o, id))
		}
	}
}

// Canonicalize brings every kernel into the canonical form for which schedules are chosen and code is generated.
func (o *Optimizer) Canonicalize() {
	for _, id := range o.Plan.IDs() {
		o.Plan.Replace(id, kernel.Canonical(o.Plan.Kernel(id)))
	}
}

// decide takes the proposal that saves the most time for a kernel, or the default proposal, and records a [Decision]
// for each proposal.
func (o *Optimizer) decide(rule string, id plan.KernelID, list []Proposal) {
	best, most := -1, 0.0     // index of the proposal to take, and its gain
	first := len(o.Decisions) // index of the decision about list[0]
	for i, p := range list {
		d := Decision{Rule: rule, Kernel: o.Plan.Kernel(id).Name, What: p.What, Of: o.named(o.Plan.Kernel(id))}
		w := kernel.Rewrite{Rule: rule, Margin: p.Margin, LastSplit: p.LastSplit}
		for _, c := range p.Changes {
			w.Before, w.After = append(w.Before, o.Plan.Kernel(c.ID)), append(w.After, c.By...)
		}
		switch n := mostBindings(w.After); {
		case n > max(o.fusion.Limits.Bindings, mostBindings(w.Before)):
			d.Note = fmt.Sprintf("a kernel would bind %d buffers, more than %d", n, o.fusion.Limits.Bindings)
		case p.Default && best < 0:
			best = i // until one with a gain comes
		case !p.Default && o.pricer != nil:
			d.Estimate = o.pricer.Price(w)
			if d.Gain() > most {
				best, most = i, d.Gain()
			}
		}
		o.Decisions = append(o.Decisions, d)
	}
	if best >= 0 {
		o.Decisions[first+best].Taken = true
		for _, c := range list[best].Changes {
			o.Plan.Replace(c.ID, c.By...)
		}
	}
}

// named lists the names of the weights that a kernel reads, or of its inputs and states if it reads no weights.
func (o *Optimizer) named(k *kernel.Kernel) []string {
	var weights, others []string
	seen := map[*ir.Node]bool{}
	for _, b := range k.Bindings {
		switch v := o.Plan.Value(b.Buffer); {
		case v.Node == nil: // scratch memory
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

// leafNames appends to a list the names of all leaves below node n, such as the parts of packed weights. seen has the
// nodes that were visited.
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

// mostBindings returns the largest number of bindings of a kernel in the list.
func mostBindings(list []*kernel.Kernel) (most int) {
	for _, k := range list {
		most = max(most, len(k.Bindings))
	}
	return most
}

// sizes returns the sizes that a rule should propose for a kernel, such as the sizes of tails and split sums. Without a
// pricer there are none.
func (o *Optimizer) sizes(k *kernel.Kernel) kernel.Sizes {
	if o.pricer == nil {
		return kernel.Sizes{}
	}
	return o.pricer.Sizes(k)
}
