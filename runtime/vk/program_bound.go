package vk

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// bound are the steps of runs recorded once more, on the memory where their inputs lie and their outputs go, after the
// copies of what the host gives. Such a run is one recording without copies of tensors: each copy, and each border
// between recordings, costs the device microseconds that it does nothing else in (M-token-gap).
type bound struct {
	key, last boundKey // last's memory serves the key of the next run
	made      []closer
	recording *Recording // nil before a second run of the key
}

// boundKey is what such a recording is for.
type boundKey struct {
	given  []bufferCopy // ahead of the steps
	params []bufferCopy // of symbols, which are read where the host writes them
	inputs []*Buffer    // by port; nil where the program's own is read
	kept   []*Buffer    // by port
	own    *states
	trips  string
}

func (k boundKey) equal(x boundKey) bool {
	return k.own == x.own && k.trips == x.trips && slices.Equal(k.given, x.given) &&
		slices.Equal(k.params, x.params) && slices.Equal(k.inputs, x.inputs) && slices.Equal(k.kept, x.kept)
}

// Close implements closer.
func (b *bound) Close() error {
	made := b.made
	b.made, b.recording = nil, nil
	return closeList(made)
}

// steps returns the recording of a run that is like the last one of its place in turn, or nil where it is not, or where
// kernels cannot reach all its outputs where they are to go. The device must be done with that last run.
func (b *bound) steps(e *Executable, given []bufferCopy, from []*Buffer, kept []deviceMemory, own *states,
	symbols map[string]int64) (*Recording, error) {
	key := &b.last
	key.own, key.trips, key.inputs = own, e.tripsOf(symbols), append(key.inputs[:0], from...)
	for i, x := range from {
		if x != nil && !e.bindsTo(e.program.Inputs[i].Buffer, x) {
			key.inputs[i] = nil
		}
	}
	key.given, key.params = key.given[:0], key.params[:0]
	for _, c := range given {
		switch {
		case e.boundAt(key, c.dst):
		case slices.Contains(e.params, c.dst) && c.srcAt%int64(e.device.info.Caps.StorageAlignment) == 0:
			key.params = append(key.params, c)
		default:
			key.given = append(key.given, c)
		}
	}
	key.kept = key.kept[:0]
	for i, m := range kept {
		port := e.program.Outputs[i].Buffer
		// What kernels read would take them long from memory of the host.
		if m.place == nil || !e.bindsTo(port, m.Buffer) || m.kind != DeviceMemory && e.uses[port].read {
			return nil, nil
		}
		key.kept = append(key.kept, m.Buffer)
	}
	if !b.key.equal(*key) {
		b.key, b.last = b.last, b.key
		return nil, b.Close()
	}
	if b.recording == nil {
		if err := b.record(e, symbols); err != nil {
			return nil, err
		}
	}
	return b.recording, nil
}

// boundAt reports whether an input that is bound takes the place of a buffer of the program.
func (e *Executable) boundAt(key *boundKey, own *Buffer) bool {
	for i, x := range key.inputs {
		if x != nil && e.inputs[i].own == own {
			return true
		}
	}
	return false
}

// hasSymbols reports whether a run of a recording is the one that has symbols of its own, so that the program's are not
// written.
func (b *bound) hasSymbols(list []*Recording) bool {
	return b.recording != nil && list[0] == b.recording && len(b.key.params) > 0
}

// use says who reaches a buffer of a program.
type use struct {
	ports int  // that lie in it
	read  bool // by steps
}

// usesOf lists who reaches each buffer of a program.
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

// bindsTo reports whether kernels may be given a tensor's memory in place of a buffer of the program: it is as large,
// and the buffer is that of one port alone.
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
	for _, c := range b.key.params {
		i := slices.IndexFunc(ranges, func(r BufferRange) bool { return r.Buffer == c.dst })
		ranges[i] = BufferRange{Buffer: c.src, Offset: c.srcAt, Size: c.size}
	}
	for i, x := range b.key.kept {
		ranges[e.program.Outputs[i].Buffer] = Whole(x)
	}
	bindings, err := e.bind(ranges, func(c closer) { b.made = append(b.made, c) })
	if err == nil {
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
