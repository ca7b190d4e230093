package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// State returns a copy of a state's current value.
func (p *Program) State(name string) (*ir.Data, error) {
	if _, err := p.stateNode(name); err != nil {
		return nil, err
	}
	p.states.running.RLock() // a run writes states in place
	defer p.states.running.RUnlock()
	p.states.mu.Lock()
	v := *p.states.values[name]
	p.states.mu.Unlock()
	return v.data()
}

// SetState sets a state to a copy of d, which must have its dtype and shape.
func (p *Program) SetState(name string, d *ir.Data) error {
	n, err := p.stateNode(name)
	if err != nil {
		return err
	}
	if err := checkData(n, d); err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	if err := hostmem.Check(int64(len(d.Bytes))); err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	v, err := fromData(&ir.Data{DType: d.DType, Dims: slices.Clone(d.Dims), Bytes: slices.Clone(d.Bytes)})
	if err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	if p.kernels == nil { // the interpreter computes with wide elements
		v = v.wide()
	}
	p.states.mu.Lock()
	defer p.states.mu.Unlock()
	*p.states.values[name] = v
	return nil
}

// WithStates returns a program that shares everything with p except the states, which start with their initial values.
func (p *Program) WithStates() (*Program, error) {
	own := &Program{prepared: p.prepared, states: &states{values: map[string]*value{}, aliased: p.inPlace == nil}}
	return own, own.ResetStates()
}

// ResetStates sets all states to their initial values.
func (p *Program) ResetStates() error { return p.initStates(func(string) bool { return true }) }

// shareStates initializes the states that p does not share with program opt.Share. A state with the same name in both
// must have the same type. If p shares one state, it adopts all states of that program and adds its own to them.
func (p *Program) shareStates() error {
	share := p.opt.Share
	if share == nil {
		return p.ResetStates()
	}
	sharesOne := false
	for _, n := range p.graph.Leaves(ir.OpState) {
		have, err := share.stateNode(n.Name())
		if err != nil {
			continue // not shared
		}
		if !have.Type().Equal(n.Type()) {
			return fmt.Errorf("state %q is %s here and %s in the program that shares it: want equal types", n.Name(),
				n.Type(), have.Type())
		}
		sharesOne = true
	}
	if sharesOne {
		p.states = share.states
	}
	known := p.states.all()
	for _, n := range p.graph.Leaves(ir.OpState) { // a third program may have added a state of the name
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			return nodeError(n, err)
		}
		if v, ok := known[n.Name()]; ok && (v.typ != n.DType() || !slices.Equal(v.dims, dims)) {
			return fmt.Errorf("state %q is %s here and %s%v in another program with the same states", n.Name(),
				n.Type(), v.typ, v.dims)
		}
	}
	return p.initStates(func(name string) bool { _, ok := known[name]; return !ok })
}

// initStates sets the states for which which(name) is true to their initial values.
func (p *Program) initStates(which func(name string) bool) error {
	values := map[string]value{}
	left := p.opt.memoryLimit()
	for _, n := range p.graph.Leaves(ir.OpState) {
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			return nodeError(n, err)
		}
		left -= bytesOf(n.DType(), dims)
		if left < 0 {
			return nodeError(n, fmt.Errorf("out of memory: the states exceed the limit of %d MiB: use smaller ones, "+
				"or a higher limit", p.opt.memoryLimit()>>20))
		}
		if !which(n.Name()) { // its memory counts nevertheless
			continue
		}
		v, err := p.initialState(n, dims)
		if err != nil {
			return nodeError(n, err)
		}
		values[n.Name()] = v
	}
	p.states.mu.Lock()
	defer p.states.mu.Unlock()
	p.own = nil
	for _, n := range p.graph.Leaves(ir.OpState) {
		to := p.states.values[n.Name()]
		if to == nil {
			to = new(value)
			p.states.values[n.Name()] = to
		}
		if v, ok := values[n.Name()]; ok {
			*to = v
		}
		p.own = append(p.own, to)
	}
	return nil
}

// initialState returns a new value for state n, of extents dims: zero unless the graph declares another one.
func (p *Program) initialState(n *ir.Node, dims []int) (value, error) {
	v, err := makeValue(n.DType(), dims)
	if err != nil {
		return value{}, err
	}
	if initial := ir.InitialOf(n); initial != (ir.Initial{}) {
		d, err := initial.Value(n.DType(), dims, p.opt.Weights)
		if err != nil {
			return value{}, err
		}
		err = mmap.Guard(func() (err error) { // a weight is read from its mapped file
			v, err = fromData(&ir.Data{DType: d.DType, Dims: dims, Bytes: slices.Clone(d.Bytes)})
			return err
		})
		if err != nil {
			return value{}, err
		}
	}
	if p.kernels != nil {
		v = v.narrow()
	}
	return v, nil
}

// stateNode returns the node of a state, or an error that lists the states.
func (p *Program) stateNode(name string) (*ir.Node, error) {
	if n, ok := p.graph.Named(name); ok && n.Op() == ir.OpState {
		return n, nil
	}
	var names []string
	for _, n := range p.graph.Leaves(ir.OpState) {
		names = append(names, n.Name())
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no state %q: the graph has no states", name)
	}
	return nil, fmt.Errorf("no state %q: the graph has %s", name, strings.Join(names, ", "))
}

// all returns the current values of all states, by name.
func (s *states) all() map[string]value {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[string]value, len(s.values))
	for name, v := range s.values {
		list[name] = *v
	}
	return list
}

// snapshot returns the current values of the graph's states, by number, in memory of x.
func (x *exec) snapshot(p *Program) []value {
	p.states.mu.Lock()
	defer p.states.mu.Unlock()
	x.before = x.before[:0]
	for _, v := range p.own {
		x.before = append(x.before, *v)
	}
	return x.before
}

// commit sets the states to their new values. vals has the values of a run's nodes, by ID.
func (p *Program) commit(vals []value) {
	p.states.mu.Lock()
	defer p.states.mu.Unlock()
	for _, u := range p.graph.Updates() {
		v := vals[u.Value.ID()].detached()
		if v.lent {
			v = v.clone()
		}
		*p.own[p.plan.steps[u.State.ID()].state] = v
	}
}
