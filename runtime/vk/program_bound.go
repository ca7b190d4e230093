package vk

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// bound is a recording of the program's steps bound to the memory of a run's own inputs and outputs, after copies of
// the inputs that kernels cannot read in place. It avoids the other copies and the borders between recordings, each of
// which idles the device for microseconds (M-token-gap).
type bound struct {
	key       boundKey
	made      []closer
	recording *Recording // nil before the second run with this key
}

// boundKey identifies such a recording.
type boundKey struct {
	given  []bufferCopy // copies before the steps
	read   []bufferCopy // copies that are avoided: kernels read the host's memory directly
	inputs []*Buffer    // by port; nil means the program's own buffer
	kept   []*Buffer    // by port
	own    *states
	trips  string
	full   bool // grids are recorded at their bounds: see isFull
}

func (k *boundKey) equal(x *boundKey) bool {
	return k.own == x.own && k.trips == x.trips && k.full == x.full && slices.Equal(k.given, x.given) &&
		slices.Equal(k.read, x.read) && slices.Equal(k.inputs, x.inputs) && slices.Equal(k.kept, x.kept)
}

// Close implements closer.
func (b *bound) Close() error {
	made := b.made
	b.made, b.recording = nil, nil
	return closeList(made)
}

// steps returns the recording for a run with the same tensors as an earlier run on these resources. It returns nil if
// there was none, or if kernels cannot write all outputs in place. The earlier run must be done.
func (a *ahead) steps(e *Executable, given []bufferCopy, j *job) (*Recording, error) {
	if !a.prepareKey(e, given, j) {
		return nil, nil
	}
	at := slices.IndexFunc(a.bound, func(b *bound) bool { return b.key.equal(&a.key) })
	if at < 0 {
		if len(a.bound) == maxBound {
			_ = a.bound[maxBound-1].Close() // retires it, which cannot fail
			a.bound = a.bound[:maxBound-1]
		}
		a.bound = slices.Insert(a.bound, 0, &bound{key: a.key})
		a.key = boundKey{}
		return nil, nil
	}
	b := a.bound[at]
	copy(a.bound[1:at+1], a.bound[:at])
	a.bound[0] = b
	if b.recording == nil {
		if err := b.record(e, j.symbols); err != nil {
			return nil, err
		}
	}
	return b.recording, nil
}

// prepareKey computes the key of a run. It reports false if kernels cannot write all outputs in place.
func (a *ahead) prepareKey(e *Executable, given []bufferCopy, j *job) bool {
	key := &a.key
	key.own, key.trips, key.inputs = j.own, e.tripsOf(j.symbols), append(key.inputs[:0], j.from...)
	key.full = e.isFull(j.symbols)
	for i, x := range j.from {
		if x != nil && !e.bindsTo(e.program.Inputs[i].Buffer, x) {
			key.inputs[i] = nil
		}
	}
	key.given, key.read = key.given[:0], key.read[:0]
	for _, c := range given {
		switch {
		case e.boundAt(key, c.dst):
		case c.src == a.host && e.readsGiven(c):
			key.read = append(key.read, c)
		default:
			key.given = append(key.given, c)
		}
	}
	key.kept = key.kept[:0]
	for i, m := range j.kept {
		port := e.program.Outputs[i].Buffer
		// Kernels would read this output back, which is slow from host memory.
		if m.place == nil || !e.bindsTo(port, m.Buffer) || m.kind != DeviceMemory && e.uses[port].read {
			return false
		}
		key.kept = append(key.kept, m.Buffer)
	}
	return true
}

// isFull reports whether all symbols that grids depend on are at their bounds, such as the number of sequences in a
// full batch. Such runs often follow one another. They get separate recordings with constant workgroup counts, so that
// the device need not read the counts.
func (e *Executable) isFull(symbols map[string]int64) bool {
	for _, s := range e.gridSymbols {
		if symbols[s.Name] != s.Bound {
			return false
		}
	}
	return len(e.gridSymbols) > 0
}

// gridSymbolsOf lists the symbols that grids of steps depend on, or nil if the program does not declare all of them.
func gridSymbolsOf(p *kernel.Program) (list []kernel.Symbol) {
	used := map[string]bool{}
	for _, s := range p.Steps {
		for _, factors := range s.Grid {
			for _, f := range factors {
				for _, name := range f.Extent.Symbols() {
					used[name] = true
				}
			}
		}
	}
	for _, s := range p.Symbols {
		if used[s.Name] {
			list = append(list, s)
		}
	}
	if len(list) < len(used) {
		return nil
	}
	return list
}

// readsGiven reports whether kernels or dispatches can read the source of copy c directly. That holds for symbols and
// workgroup counts, and for a whole input in device memory that the host can map.
func (e *Executable) readsGiven(c bufferCopy) bool {
	if c.dst == e.indirect || slices.Contains(e.params, c.dst) {
		return true
	}
	i := e.bufferAt(c)
	return i >= 0 && e.device.hostReachesDevice() && e.uses[i].ports == 1 && c.size >= e.program.Buffers[i].Bytes
}

// bufferAt is the index of the program's buffer that copy c fills, or -1.
func (e *Executable) bufferAt(c bufferCopy) int {
	return slices.IndexFunc(e.ranges, func(r BufferRange) bool { return r.Buffer == c.dst && r.Offset == c.dstAt })
}

// boundAt reports whether the key binds an input in place of the program's buffer own.
func (e *Executable) boundAt(key *boundKey, own *Buffer) bool {
	for i, x := range key.inputs {
		if x != nil && e.inputs[i].own == own {
			return true
		}
	}
	return false
}

// use describes the accesses to a buffer of a program.
type use struct {
	ports int  // the number of ports stored in it
	read  bool // whether a step reads it
}

// usesOf describes the accesses to each buffer of a program.
func usesOf(p *kernel.Program) []use {
	all := make([]use, len(p.Buffers))
	for _, list := range [][]kernel.Port{p.Inputs, p.Outputs} {
		for _, port := range list {
			all[port.Buffer].ports++
		}
	}
	for _, s := range p.Steps {
		for _, b := range s.Binds {
			all[b.Buffer].read = all[b.Buffer].read || b.Read
		}
	}
	return all
}

// bindsTo reports whether kernels may use a tensor's memory in place of a program's buffer: the memory is large enough,
// and the buffer belongs to only one port.
func (e *Executable) bindsTo(buffer int, memory *Buffer) bool {
	return e.uses[buffer].ports == 1 && memory.size >= e.program.Buffers[buffer].Bytes
}

// record records the steps for the key.
func (b *bound) record(e *Executable, symbols map[string]int64) error {
	ranges := e.ranges
	if b.key.own != nil {
		ranges = b.key.own.ranges
	}
	ranges = slices.Clone(ranges)
	for i, x := range b.key.inputs {
		if x != nil {
			ranges[e.program.Inputs[i].Buffer] = Whole(x)
		}
	}
	counts := e.indirect
	countsAt := int64(0)
	for _, c := range b.key.read {
		if c.dst == e.indirect {
			counts, countsAt = c.src, c.srcAt
			continue
		}
		ranges[e.bufferAt(c)] = BufferRange{Buffer: c.src, Offset: c.srcAt, Size: c.size}
	}
	for i, x := range b.key.kept {
		ranges[e.program.Outputs[i].Buffer] = Whole(x)
	}
	bindings, err := e.bind(ranges, func(c closer) { b.made = append(b.made, c) })
	if err == nil {
		if bindings.grids, bindings.gridsAt = counts, countsAt; b.key.full {
			bindings.symbols = symbols
		}
		b.recording, err = e.recordSteps("steps of "+e.program.Name+" on tensors", bindings, symbols, nil, b.key.given,
			nil)
	}
	if err != nil {
		b.Close()
		return err
	}
	b.made = append(b.made, b.recording)
	return nil
}
