package vk

import "slices"

// bound is a recording of the program's steps in which kernels read and write the tensors of a run directly, instead of
// the program's own buffers. It begins with copies of the inputs that kernels cannot read directly. The other tensors
// need no copies. It also saves time because it is one recording: between two recordings the device is idle for
// microseconds (M-token-gap).
type bound struct {
	resources
	key       boundKey
	recording *Recording // nil before the second run with this key
}

// boundKey identifies a bound recording: two runs with equal keys can use the same recording.
type boundKey struct {
	before  []bufferCopy // copies of inputs, symbols and grids before the steps
	inPlace []bufferCopy // copies that are left out, because kernels read their source in host memory directly
	inputs  []*Buffer    // the tensors that kernels read as inputs, by port; nil means the program's own buffer
	kept    []*Buffer    // the tensors that kernels write as outputs, by port; nil means the program's own buffer
	states  *states
	path    string // see pathOf
	full    bool   // grids are recorded at their bounds: see grids.full
}

// equal reports whether two keys are the same.
func (k *boundKey) equal(x *boundKey) bool {
	return k.states == x.states && k.path == x.path && k.full == x.full && slices.Equal(k.before, x.before) &&
		slices.Equal(k.inPlace, x.inPlace) && slices.Equal(k.inputs, x.inputs) && slices.Equal(k.kept, x.kept)
}

// bind returns the bound recording of a run if an earlier run with these resources had the same tensors. Otherwise, or
// if there is no tensor that kernels can access directly, it returns nil. inputs lists the copies of inputs, symbols
// and grids that the run needs without a bound recording.
func (r *runResources) bind(e *Executable, inputs []bufferCopy, j *job) *bound {
	if !r.prepareKey(e, inputs, j) {
		return nil
	}
	at := slices.IndexFunc(r.bound, func(b *bound) bool { return b.key.equal(&r.key) })
	if at < 0 { // The first run with a key only keeps the key: it may not come again.
		if len(r.bound) == maxBound {
			_ = r.bound[maxBound-1].Close() // cannot fail: it only retires the resources
			r.bound = r.bound[:maxBound-1]
		}
		r.bound = slices.Insert(r.bound, 0, &bound{key: r.key})
		r.key = boundKey{}
		return nil
	}
	toFront(r.bound, at)
	b := r.bound[0]
	if b.recording == nil {
		b.record(e, j.symbols)
	}
	return b
}

// prepareKey sets r.key to the key of a run. It returns false if kernels can access no tensor of the run directly.
func (r *runResources) prepareKey(e *Executable, inputs []bufferCopy, j *job) (direct bool) {
	key := &r.key
	key.states, key.path, key.full = j.states, e.pathOf(j.symbols), e.grids.full(j.symbols)
	// The lists keep their memory from run to run.
	key.inputs, key.before, key.inPlace, key.kept = key.inputs[:0], key.before[:0], key.inPlace[:0], key.kept[:0]
	for i, x := range j.sources {
		if x != nil && !e.input(i).bindsTo(x) { // kernels cannot use the tensor's memory
			x = nil
		}
		key.inputs = append(key.inputs, x)
	}
	for _, c := range inputs {
		switch {
		case key.makesSuperfluous(e, c):
			direct = true
		case c.src == r.host && e.readsInPlace(c): // the kernels read the input in host memory
			key.inPlace, direct = append(key.inPlace, c), true
		default:
			key.before = append(key.before, c)
		}
	}
	for i, m := range j.kept {
		to := m.Buffer
		if to != nil && !e.writesKept(i, to) {
			to = nil
		}
		key.kept = append(key.kept, to)
		direct = direct || to != nil
	}
	return direct
}

// makesSuperfluous reports whether copy c is superfluous: it fills the buffer of an input, but the kernels read this
// input from the caller's tensor.
func (k *boundKey) makesSuperfluous(e *Executable, c bufferCopy) bool {
	for i, tensor := range k.inputs {
		if tensor != nil && e.input(i).at.Buffer == c.dst {
			return true
		}
	}
	return false
}

// writesKept reports whether kernels may write an output directly to the memory of a kept tensor.
func (e *Executable) writesKept(port int, to *Buffer) bool {
	b := e.output(port)
	slow := b.read && to.kind != DeviceMemory // kernels would read the output from host memory
	return !e.guarded && !slow && b.bindsTo(to)
}

// bindsTo reports whether kernels may use a tensor's memory instead of the program's buffer b: b belongs to only one
// port, and the memory is large enough.
func (b *buffer) bindsTo(memory *Buffer) bool { return b.ports == 1 && memory.size >= b.Bytes }

// readsInPlace reports whether kernels or dispatches can read the source of copy c, in host memory, directly. They can
// if it has symbols or workgroup counts, or is a whole input and the host can map device memory.
func (rec *recorder) readsInPlace(c bufferCopy) bool {
	if slices.ContainsFunc(rec.grids.written, func(b symbolBuffer) bool { return b.Buffer == c.dst }) {
		return true
	}
	i := rec.filledBy(c)
	return i >= 0 && rec.device.hostReachesDevice() && rec.buffers[i].ports == 1 && c.size >= rec.buffers[i].Bytes
}

// filledBy returns the index of the program's buffer that copy c fills, or -1.
func (m *programMemory) filledBy(c bufferCopy) int {
	for i := range m.buffers {
		if at := &m.buffers[i].at; at.Buffer == c.dst && at.Offset == c.dstAt {
			return i
		}
	}
	return -1
}

// record makes the recording for b.key. If that fails, b.recording stays nil.
func (b *bound) record(e *Executable, symbols map[string]int64) {
	defer func() {
		if b.recording == nil {
			_ = b.Close() // what the failed recording has made
		}
	}()
	ranges := slices.Clone(b.key.states.ranges)
	for i, x := range b.key.inputs {
		if x != nil {
			ranges[e.program.Inputs[i].Buffer] = Whole(x)
		}
	}
	counts, countsAt := e.grids.symbolicCounts, int64(0)
	// Instead of copying src to dst, bind src in place of dst.
	for _, c := range b.key.inPlace {
		if c.dst == e.grids.symbolicCounts {
			counts, countsAt = c.src, c.srcAt
			continue
		}
		ranges[e.filledBy(c)] = BufferRange{Buffer: c.src, Offset: c.srcAt, Size: c.size}
	}
	for i, x := range b.key.kept {
		if x != nil {
			ranges[e.program.Outputs[i].Buffer] = Whole(x)
		}
	}
	bindings := e.bind(ranges, &b.resources)
	bindings.grids, bindings.gridsAt = counts, countsAt
	if b.key.full {
		bindings.symbols = symbols
	}
	b.recording = e.recordSteps("steps of "+e.program.Name+" on tensors", bindings, symbols, b.key.before)
	b.keep(b.recording)
}
