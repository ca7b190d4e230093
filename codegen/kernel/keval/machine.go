package keval

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
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

// New checks a program and its kernels, one per step, and loads the weights.
func New(p *kernel.Program, kernels []*kernel.Kernel, opt Options) (*Machine, error) {
	if len(kernels) != len(p.Steps) {
		return nil, fmt.Errorf("%d kernels for %d steps", len(kernels), len(p.Steps))
	}
	for i, k := range kernels {
		if err := checkKernel(k, p.Steps[i]); err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i, k.Name, err)
		}
	}
	if err := CheckHazards(p); err != nil {
		return nil, err
	}
	m := &Machine{gated: p.Gated(), prog: p, kernels: kernels, opt: opt, arena: newMemory(p.ArenaBytes),
		decoded: map[int][]float32{}}
	for i, b := range p.Buffers {
		mem, err := m.allocate(b)
		if err != nil {
			return nil, fmt.Errorf("buffer %d (%s): %w", i, b.Name, err)
		}
		m.mem = append(m.mem, mem)
	}
	if err := m.begin(); err != nil {
		return nil, err
	}
	if err := m.prepare(); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return m, nil
}

// begin sets states to their initial values.
func (m *Machine) begin() error {
	for _, p := range m.prog.States {
		d, err := p.First(m.opt.Weights)
		if err != nil {
			return err
		}
		copy(m.mem[p.Buffer].bytes, d.Bytes)
	}
	return nil
}

// prepare runs the prepared steps: those that a program runs once, at load. They use no symbols.
func (m *Machine) prepare() error {
	if m.prog.Prepared == 0 {
		return nil
	}
	bounds := map[string]int64{} // for buffers that these steps do not access
	for _, s := range m.prog.Symbols {
		bounds[s.Name] = s.Bound
	}
	elems, err := m.elements(bounds)
	if err != nil {
		return err
	}
	return m.steps(0, m.prog.Prepared, nil, elems)
}

// steps runs steps from to to-1.
func (m *Machine) steps(from, to int, symbols map[string]int64, elems []int64) error {
	for _, level := range m.levels(from, to) {
		for _, i := range level {
			if err := m.step(i, symbols, elems); err != nil {
				return fmt.Errorf("step %d (%s): %w", i, m.kernels[i].Name, err)
			}
		}
	}
	return nil
}

// run runs the steps of one program run, and repeats regions.
func (m *Machine) run(symbols map[string]int64, elems []int64) (err error) {
	var level []int
	flush := func() {
		if m.opt.Order != nil {
			m.opt.Order.Shuffle(len(level), func(i, j int) { level[i], level[j] = level[j], level[i] })
		}
		for _, i := range level {
			if err == nil && !m.isOff(i) {
				if err = m.step(i, symbols, elems); err != nil {
					err = fmt.Errorf("step %d (%s): %w", i, m.kernels[i].Name, err)
				}
			}
		}
		level = nil
	}
	m.prog.Walk(m.prog.Prepared, func(i int) {
		if m.prog.Steps[i].Barrier {
			flush()
		}
		level = append(level, i)
	}, func(r kernel.Region, body func()) {
		trips, wrong := r.Trips.Eval(symbols)
		if wrong != nil && err == nil {
			err = wrong
		}
		for range trips {
			if err != nil {
				return
			}
			flush()
			body()
		}
		flush()
	})
	flush()
	return err
}

// isOff reports whether a gate has set a step's workgroup counts to zero, so that the step is skipped.
func (m *Machine) isOff(step int) bool {
	at := slices.Index(m.gated, step)
	for i, b := range m.prog.Buffers {
		if at >= 0 && b.Kind == kernel.BufGated {
			return binary.LittleEndian.Uint32(m.mem[i].bytes[12*at:]) == 0
		}
	}
	return false
}

// allocate returns memory for a buffer. Temporary buffers are parts of the arena.
func (m *Machine) allocate(b kernel.Buffer) (memory, error) {
	switch b.Kind {
	case kernel.BufTemp:
		if b.Offset < 0 || b.Offset+b.Bytes > m.prog.ArenaBytes {
			return memory{}, fmt.Errorf("bytes %d to %d are outside the arena of %d", b.Offset, b.Offset+b.Bytes,
				m.prog.ArenaBytes)
		}
		return memory{bytes: m.arena.bytes, tenant: m.arena.tenant, base: b.Offset}, nil
	case kernel.BufOutput, kernel.BufPrepared:
		return newMemory(b.Bytes), nil
	case kernel.BufState:
		return memory{bytes: make([]byte, b.Bytes)}, nil
	case kernel.BufWeight:
		return m.loadWeight(b)
	case kernel.BufGrids: // each step here has one workgroup
		ones := memory{bytes: make([]byte, b.Bytes)}
		for i := 0; i+4 <= len(ones.bytes); i += 4 {
			ones.bytes[i] = 1
		}
		return ones, nil
	}
	return memory{bytes: make([]byte, b.Bytes)}, nil
}

// loadWeight concatenates the segments of a weight buffer.
func (m *Machine) loadWeight(b kernel.Buffer) (memory, error) {
	out := memory{bytes: make([]byte, 0, b.Bytes)}
	for _, s := range b.Segments {
		data := s.Data
		if s.Weight != "" {
			if m.opt.Weights == nil {
				return memory{}, fmt.Errorf("no weights were given")
			}
			d, err := m.opt.Weights.Weight(s.Weight)
			if err != nil {
				return memory{}, err
			}
			if d.DType != s.DType || !slices.Equal(d.Dims, s.Dims) {
				return memory{}, fmt.Errorf("weight %q is %s, want %s%v", s.Weight, d, s.DType, s.Dims)
			}
			data = d.Bytes
		}
		if n, err := s.Bytes(); err != nil || n != int64(len(data)) {
			return memory{}, fmt.Errorf("segment of %d bytes, want %d (%v)", len(data), n, err)
		}
		out.bytes = append(out.bytes, data...)
	}
	if b.Layout == kernel.LayoutPlanes {
		out.bytes = kernel.PackPlanes(b.DType, out.bytes)
	}
	if int64(len(out.bytes)) > b.Bytes {
		return memory{}, fmt.Errorf("segments of %d bytes in a buffer of %d", len(out.bytes), b.Bytes)
	}
	for int64(len(out.bytes)) < b.Bytes {
		out.bytes = append(out.bytes, poison)
	}
	return out, nil
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
func (m *Machine) Run(in map[string]*ir.Data, symbols map[string]int64) (map[string]*ir.Data, error) {
	symbols, err := m.prog.Values(symbols)
	if err != nil {
		return nil, err
	}
	elems, err := m.elements(symbols)
	if err != nil {
		return nil, err
	}
	m.arena.reset()
	for _, p := range m.prog.Outputs {
		m.mem[p.Buffer].reset()
	}
	for _, p := range m.prog.Inputs {
		d := in[p.Name]
		if d == nil || int64(d.Elems()) != elems[p.Buffer] || d.DType != p.DType {
			return nil, fmt.Errorf("input %q: have %v, want %d elements of %s", p.Name, d, elems[p.Buffer], p.DType)
		}
		mem := m.mem[p.Buffer].bytes
		for i := copy(mem, d.Bytes); i < len(mem); i++ {
			mem[i] = poison
		}
	}
	if err := m.run(symbols, elems); err != nil {
		return nil, err
	}
	return m.outputs(symbols, elems)
}

// elements returns the run-time element count of every buffer.
func (m *Machine) elements(symbols map[string]int64) ([]int64, error) {
	elems := make([]int64, len(m.prog.Buffers))
	for i, b := range m.prog.Buffers {
		n, err := count(b.Shape, symbols)
		if err != nil {
			return nil, fmt.Errorf("buffer %d (%s): %w", i, b.Name, err)
		}
		elems[i] = n
	}
	return elems, nil
}

func count(s ir.Shape, symbols map[string]int64) (int64, error) {
	dims, err := s.Eval(symbols)
	n := int64(1)
	for _, d := range dims {
		n *= int64(d)
	}
	return n, err
}

// levels returns steps from to to-1 in execution order, grouped between barriers.
func (m *Machine) levels(from, to int) [][]int {
	var levels [][]int
	for i := from; i < to; i++ {
		if m.prog.Steps[i].Barrier || i == from {
			levels = append(levels, nil)
		}
		levels[len(levels)-1] = append(levels[len(levels)-1], i)
	}
	if m.opt.Order != nil {
		for _, l := range levels {
			m.opt.Order.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		}
	}
	return levels
}

func (m *Machine) outputs(symbols map[string]int64, elems []int64) (map[string]*ir.Data, error) {
	out := map[string]*ir.Data{}
	for _, p := range m.prog.Outputs {
		dims, err := p.Shape.Eval(symbols)
		if err != nil {
			return nil, err
		}
		size := int64(p.DType.BlockBytes())
		mem := m.mem[p.Buffer]
		for x := range elems[p.Buffer] {
			if mem.tenant[x*size] != int32(p.Buffer) {
				return nil, fmt.Errorf("output %q: element %d of %d was never stored", p.Name, x, elems[p.Buffer])
			}
		}
		out[p.Name] = &ir.Data{DType: p.DType, Dims: dims, Bytes: slices.Clone(mem.bytes[:elems[p.Buffer]*size])}
	}
	return out, nil
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
