package keval

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// Options configures a Machine.
type Options struct {
	// Weights provides the tensors of weight buffers.
	Weights ir.WeightSource
	// Decode decodes whole blocks, as package quant's Dequantize does. It may be nil if no buffer has a block dtype.
	Decode func(dst []float32, t ir.DType, src []byte) error
	// Encode encodes whole blocks, as package quant's Quantize does. It may be nil if no kernel quantizes.
	Encode func(dst []byte, t ir.DType, src []float32) error
	// Order, if set, randomizes the order of the steps between two barriers, and of the points of each step. Results
	// must not depend on it.
	Order *rand.Rand
}

// Machine holds the memory of one program. States outlive its runs.
type Machine struct {
	prog    *kernel.Program
	kernels []*kernel.Kernel
	opt     Options
	mem     []memory // by buffer
	arena   memory
	decoded map[int][]float32 // decoded weights in block formats, by buffer
	gated   []int             // the steps that a gate may skip; see kernel.Region
}

// New checks a program and its kernels, one per step. It allocates memory, loads the weights and the first values of
// the states, and runs the steps that run once at load. An error may come from the program, a kernel or opt.Weights.
func New(p *kernel.Program, kernels []*kernel.Kernel, opt Options) (m *Machine, err error) {
	defer bailout.Caught(&err)
	if len(kernels) != len(p.Steps) {
		fail("%d kernels for %d steps", len(kernels), len(p.Steps))
	}
	for i, k := range kernels {
		if err := checkKernel(k, p.Steps[i]); err != nil {
			fail("step %d (%s): %w", i, k.Name, err)
		}
	}
	bailout.Check(CheckHazards(p, kernels))
	m = &Machine{gated: p.Gated(), prog: p, kernels: kernels, opt: opt, arena: newMemory(p.ArenaBytes),
		decoded: map[int][]float32{}}
	for i := range p.Buffers {
		m.mem = append(m.mem, m.allocate(i)) // it also loads a weight
	}
	for _, p := range m.prog.States {
		d, err := p.First(m.opt.Weights)
		bailout.Check(err)
		copy(m.mem[p.Buffer].bytes, d.Bytes)
	}
	m.prepare()
	return m, nil
}

// prepare runs the prepared steps, which a program runs once, at load. They use no symbols.
func (m *Machine) prepare() {
	if m.prog.Prepared == 0 {
		return
	}
	bounds := map[string]int64{} // for buffers that these steps do not access
	for _, s := range m.prog.Symbols {
		bounds[s.Name] = s.Bound
	}
	l := &level{m: m, elems: m.elements(bounds)}
	for i := range m.prog.Prepared {
		l.add(i)
	}
	l.run()
}

// level collects the steps between two barriers, which may run in any order.
type level struct {
	m       *Machine
	symbols map[string]int64
	elems   []int64 // run-time number of elements, by buffer
	steps   []int
}

// add adds a step. If it begins a new level, add first runs the steps of the last one.
func (l *level) add(step int) {
	if l.m.prog.Steps[step].Barrier {
		l.run()
	}
	l.steps = append(l.steps, step)
}

// run runs the steps that were added, in random order if Options.Order is set.
func (l *level) run() {
	if order := l.m.opt.Order; order != nil {
		order.Shuffle(len(l.steps), func(i, j int) { l.steps[i], l.steps[j] = l.steps[j], l.steps[i] })
	}
	for _, i := range l.steps {
		if !l.m.isOff(i) {
			bailout.Check(l.m.runStep(i, l.symbols, l.elems))
		}
	}
	l.steps = nil
}

// isOff reports whether a gate has set a step's workgroup counts to zero, so that the step is skipped.
func (m *Machine) isOff(step int) bool {
	// A gate stores three words (a workgroup count) per gated step, or zeros for none.
	at := slices.Index(m.gated, step)
	for i, b := range m.prog.Buffers {
		if at >= 0 && b.Kind == kernel.BufGated {
			return binary.LittleEndian.Uint32(m.mem[i].bytes[12*at:]) == 0
		}
	}
	return false
}

// allocate returns memory for a buffer. Temporary buffers are parts of the arena.
func (m *Machine) allocate(buf int) memory {
	b := m.prog.Buffers[buf]
	switch b.Kind {
	case kernel.BufTemp:
		if b.Offset < 0 || b.Offset+b.Bytes > m.prog.ArenaBytes {
			fail("%s: bytes %d to %d are outside the arena of %d", m.name(buf), b.Offset, b.Offset+b.Bytes,
				m.prog.ArenaBytes)
		}
		return memory{bytes: m.arena.bytes, tenant: m.arena.tenant, base: b.Offset}
	case kernel.BufOutput, kernel.BufPrepared:
		return newMemory(b.Bytes)
	case kernel.BufWeight:
		return m.loadWeight(buf)
	}
	mem := memory{bytes: make([]byte, b.Bytes)}
	if b.Kind == kernel.BufGrids { // each step here has one workgroup: the words are 1
		for i := 0; i+4 <= len(mem.bytes); i += 4 {
			mem.bytes[i] = 1
		}
	}
	return mem
}

// loadWeight concatenates the segments of a weight buffer.
func (m *Machine) loadWeight(buf int) memory {
	b := m.prog.Buffers[buf]
	out := memory{bytes: make([]byte, 0, b.Bytes)}
	for _, s := range b.Segments {
		data := s.Data
		if s.Weight != "" {
			if m.opt.Weights == nil {
				fail("%s: no weights were given", m.name(buf))
			}
			d, err := m.opt.Weights.Weight(s.Weight)
			bailout.Check(err)
			if d.DType != s.DType || !slices.Equal(d.Dims, s.Dims) {
				fail("weight %q is %s, want %s%v", s.Weight, d, s.DType, s.Dims)
			}
			data = d.Bytes
		}
		if n, err := s.Bytes(); err != nil || n != int64(len(data)) {
			fail("%s: segment of %d bytes, want %d (%v)", m.name(buf), len(data), n, err)
		}
		out.bytes = append(out.bytes, data...)
	}
	if b.Layout == kernel.LayoutPlanes {
		out.bytes = kernel.PackPlanes(b.DType, out.bytes)
	}
	pad := b.Bytes - int64(len(out.bytes))
	if pad < 0 {
		fail("segments of %d bytes in %s of %d", len(out.bytes), m.name(buf), b.Bytes)
	}
	out.bytes = append(out.bytes, bytes.Repeat([]byte{poison}, int(pad))...)
	return out
}

// name describes a buffer in errors.
func (m *Machine) name(buf int) string {
	if buf < 0 {
		return "nobody"
	}
	return fmt.Sprintf("buffer %d (%s %s)", buf, m.prog.Buffers[buf].Kind, m.prog.Buffers[buf].Name)
}

// Run runs all steps once. symbols has the value of every symbol; the caller has checked the inputs against them (see
// ir.BindInputs). It returns the outputs by name.
func (m *Machine) Run(in map[string]*ir.Data, symbols map[string]int64) (out map[string]*ir.Data, err error) {
	defer bailout.Caught(&err)
	symbols, err = m.prog.Values(symbols)
	bailout.Check(err)
	l := &level{m: m, symbols: symbols, elems: m.elements(symbols)}
	m.arena.reset()
	for _, p := range m.prog.Outputs {
		m.mem[p.Buffer].reset()
	}
	for _, p := range m.prog.Inputs {
		d := in[p.Name]
		if d == nil || int64(d.Elems()) != l.elems[p.Buffer] || d.DType != p.DType {
			fail("input %q: have %v, want %d elements of %s", p.Name, d, l.elems[p.Buffer], p.DType)
		}
		mem := m.mem[p.Buffer].bytes
		// Elements beyond the input's run-time extents hold nothing.
		for i := copy(mem, d.Bytes); i < len(mem); i++ {
			mem[i] = poison
		}
	}
	m.prog.Walk(m.prog.Prepared, l.add, func(r kernel.Region, body func()) {
		trips, err := r.Trips.Eval(symbols)
		bailout.Check(err)
		for range trips {
			// The steps before a trip must not mix with those in it.
			l.run()
			body()
		}
		l.run()
	})
	l.run()
	return m.outputs(symbols, l.elems), nil
}

// elements returns the run-time element count of every buffer.
func (m *Machine) elements(symbols map[string]int64) []int64 {
	elems := make([]int64, len(m.prog.Buffers))
	for i, b := range m.prog.Buffers {
		dims, err := b.Shape.Eval(symbols)
		bailout.Check(err)
		elems[i] = 1
		for _, d := range dims {
			elems[i] *= int64(d)
		}
	}
	return elems
}

// outputs copies the outputs, and fails if an element was never stored. elems has the number of elements by buffer.
func (m *Machine) outputs(symbols map[string]int64, elems []int64) map[string]*ir.Data {
	out := map[string]*ir.Data{}
	for _, p := range m.prog.Outputs {
		dims, err := p.Shape.Eval(symbols)
		bailout.Check(err)
		size := int64(p.DType.BlockBytes())
		mem := m.mem[p.Buffer]
		for x := range elems[p.Buffer] {
			if mem.tenant[x*size] != int32(p.Buffer) {
				fail("output %q: element %d of %d was never stored", p.Name, x, elems[p.Buffer])
			}
		}
		out[p.Name] = &ir.Data{DType: p.DType, Dims: dims, Bytes: slices.Clone(mem.bytes[:elems[p.Buffer]*size])}
	}
	return out
}

// State returns a copy of a state's current value.
func (m *Machine) State(name string) (*ir.Data, error) {
	for _, p := range m.prog.States {
		if p.Name == name {
			dims, err := p.Shape.Eval(nil)
			if err != nil {
				return nil, err
			}
			n, err := p.DType.BytesFor(p.Shape.MaxElems())
			return &ir.Data{DType: p.DType, Dims: dims, Bytes: slices.Clone(m.mem[p.Buffer].bytes[:n])}, err
		}
	}
	return nil, fmt.Errorf("no state %q", name)
}
