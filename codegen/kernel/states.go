package kernel

import "slices"

// WrittenStates returns the states that a step writes, as indices of Buffers.
func (p *Program) WrittenStates(s Step) (list []int) {
	for _, b := range s.Binds {
		if b.Write && p.Buffers[b.Buffer].Kind == BufState && !slices.Contains(list, b.Buffer) {
			list = append(list, b.Buffer)
		}
	}
	return list
}

// CopiedStates returns the largest size in bytes of the shared states that one dispatch writes. Loading a program runs
// a dispatch of each kernel, and copies these states before it to restore them.
func (p *Program) CopiedStates(shared func(buffer int) bool) (most uint64) {
	for _, s := range p.Dispatches() {
		size := uint64(0)
		for _, b := range p.WrittenStates(s) {
			if shared(b) {
				size += uint64(p.Buffers[b].Bytes)
			}
		}
		most = max(most, size)
	}
	return most
}
