package interp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// State returns a copy of what a state holds now.
func (p *Program) State(name string) (*ir.Data, error) {
	if _, err := p.stateNode(name); err != nil {
		return nil, err
	}
	return p.snapshot()[name].data()
}

// SetState makes a state hold a copy of d, which must have its dtype and shape.
func (p *Program) SetState(name string, d *ir.Data) error {
	n, err := p.stateNode(name)
	if err != nil {
		return err
	}
	if err := checkData(n, d); err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	v := fromData(&ir.Data{DType: d.DType, Dims: slices.Clone(d.Dims), Bytes: slices.Clone(d.Bytes)}).wide()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states[name] = v
	return nil
}

// ResetStates sets all states to zero, as they are at first.
func (p *Program) ResetStates() error {
	states := map[string]value{}
	left := p.opt.memoryLimit()
	for _, n := range p.graph.Leaves(ir.OpState) {
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			return nodeError(n, err)
		}
		if left -= bytesOf(n.DType(), dims); left < 0 {
			return nodeError(n, fmt.Errorf("the states need more than the memory limit of %d MiB", p.opt.memoryLimit()>>20))
		}
		v, err := makeValue(n.DType(), dims)
		if err != nil {
			return nodeError(n, err)
		}
		states[n.Name()] = v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states = states
	return nil
}

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

func (p *Program) snapshot() map[string]value {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.states)
}

// commit applies the graph's updates.
func (p *Program) commit(vals []value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.graph.Updates() {
		p.states[u.State.Name()] = vals[u.Value.ID()].wide()
	}
}
