package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Program is a compiled graph: buffers, shaders, and the steps that run them in order. It is plain data. The SPIR-V is
// stored separately, by shader.
type Program struct {
	Name      string   `json:"name"`
	GraphHash string   `json:"graph_hash"`
	Target    string   `json:"target"`
	Symbols   []Symbol `json:"symbols,omitempty"`

	Buffers []Buffer `json:"buffers"`
	Shaders []Shader `json:"shaders"`
	// Steps run in order; see Step.Barrier.
	Steps []Step `json:"steps"`
	// Regions are the repeated ranges of steps, in the order of their first steps, outer ones first.
	Regions []Region `json:"regions,omitempty"`

	// Persistent are the kernels that run ranges of steps in one dispatch each, in the order of the steps.
	Persistent []Persistent `json:"persistent,omitempty"`

	// Prepared is the number of steps at the beginning that run once, at load. Their results depend only on weights and
	// constants. See [BufPrepared].
	Prepared int `json:"prepared,omitempty"`

	Inputs  []Port `json:"inputs"`
	Outputs []Port `json:"outputs"`
	States  []Port `json:"states,omitempty"`
	// Faults are the words that steps write if the run has failed.
	Faults []FaultPort `json:"faults,omitempty"`

	// Extents are the extents that may be negative for some symbol values, such as T-2, of tensors that have no buffer
	// because a kernel recomputes their elements. A run fails if one of these extents, or an extent of a buffer, is
	// negative.
	Extents ir.Shape `json:"extents,omitempty"`

	// ArenaBytes is the size of the one allocation that all temporaries share. TempBytes is the sum of their sizes.
	ArenaBytes int64 `json:"arena_bytes"`
	TempBytes  int64 `json:"temp_bytes"`
}

// maxSymbolsNamed is the number of symbols that an error names at most.
const maxSymbolsNamed = 8

// Smaller returns advice for an error about too large tensors: how to make the program's tensors smaller.
func (p *Program) Smaller() string {
	if len(p.Symbols) == 0 {
		return "split its tensors"
	}
	var list []string
	for i, s := range p.Symbols {
		if i == maxSymbolsNamed {
			list = append(list, fmt.Sprintf("%d more", len(p.Symbols)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s <= %d", s.Name, s.Bound))
	}
	return fmt.Sprintf("give symbols smaller bounds than %s (of an ONNX model by --bound NAME=N, or --dim NAME=N for "+
		"an extent with one value)", strings.Join(list, ", "))
}

// Symbol is a run-time extent. Symbol i of Program.Symbols is element i of the params buffer, as a uint32.
type Symbol struct {
	Name  string `json:"name"`
	Bound int64  `json:"bound"`
}

// BufferKind says who writes a buffer and how long its contents live.
type BufferKind string

// The buffer kinds.
const (
	BufInput  BufferKind = "input"  // written by the host before each run
	BufOutput BufferKind = "output" // read by the host after each run
	BufWeight BufferKind = "weight" // uploaded once, read-only
	// BufPrepared is written by prepared steps at load. Runs only read it.
	BufPrepared BufferKind = "prepared"
	BufState    BufferKind = "state"  // set at load to Port.Init, outlives runs
	BufTemp     BufferKind = "temp"   // a range of the arena
	BufParams   BufferKind = "params" // the symbol values, written before each run
	BufGrids    BufferKind = "grids"  // the workgroup counts of gated steps, written before each run; see [Region]
	BufGated    BufferKind = "gated"  // the workgroup counts that gates write; 0 skips a step
	BufFault    BufferKind = "fault"  // a word that a step sets if the run fails; see [Fault]
	// BufBarrier has the counters of persistent kernels. They are zero whenever no such kernel runs; see [Persistent].
	BufBarrier BufferKind = "meeting"
	BufLate    BufferKind = "late" // a word that persistent kernels set on a timeout
)

// Buffer is one storage buffer, or one range of the arena.
type Buffer struct {
	Kind  BufferKind `json:"kind"`
	Name  string     `json:"name"`
	DType ir.DType   `json:"dtype"`
	Shape ir.Shape   `json:"shape"`
	// Bytes is the size when all symbols have their bounds, a multiple of 16 and at least 16. The contents are dense
	// and row-major for the symbols' run-time values.
	Bytes int64 `json:"bytes"`
	// Offset is a temporary's position in the arena.
	Offset int64 `json:"offset,omitempty"`
	// Segments are the parts of a weight buffer, concatenated.
	Segments []Segment `json:"segments,omitempty"`
	// Layout is the layout of a weight buffer of blocks. Segments have whole blocks in file order, and the loader
	// rearranges them.
	Layout Layout `json:"layout,omitempty"`
}

// Segment is a part of a weight buffer: a weight, given by name, or a constant of the graph.
type Segment struct {
	Weight string   `json:"weight,omitempty"` // a name, or empty for a constant
	DType  ir.DType `json:"dtype"`
	Dims   []int    `json:"dims,omitempty"` // none for a scalar
	Data   []byte   `json:"data,omitempty"` // of a constant
}

// Bytes returns the length of the segment.
func (s Segment) Bytes() (int64, error) { return ir.ByteSize(s.DType, s.Dims) }

// Port is an input, output or state of the program, with its name and buffer.
type Port struct {
	Name   string   `json:"name"`
	Buffer int      `json:"buffer"`
	DType  ir.DType `json:"dtype"`
	Shape  ir.Shape `json:"shape"`
	// Init is the initial value of a state, in the syntax of ir.ParseInitial; "" is zeros.
	Init string `json:"init,omitempty"`
}

// First returns the initial value of a state. If that is a weight, it reads it from src.
func (p Port) First(src ir.WeightSource) (*ir.Data, error) {
	first, err := ir.ParseInitial(p.Init)
	if err != nil {
		return nil, fmt.Errorf("state %q: init: %w", p.Name, err)
	}
	dims, err := p.Shape.Eval(nil) // states are static
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", p.Name, err)
	}
	d, err := first.Value(p.DType, dims, src)
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", p.Name, err)
	}
	return d, nil
}

// Shader is one compiled shader. Steps with equal kernels share it.
type Shader struct {
	Name string `json:"name"`
	// Bindings is the number of storage buffers, bound from 0 on in set 0.
	Bindings int `json:"bindings"`
	// Workgroup is the number of invocations per workgroup, for display.
	Workgroup int `json:"workgroup"`
	// SubgroupSize is the subgroup size that the shader needs, or 0 if any size will do.
	SubgroupSize int `json:"subgroup_size,omitempty"`
	// Needs lists the device features that the shader uses, by their names in Caps.Has.
	Needs []string `json:"needs,omitempty"`
	// SharedBytes is the size of the shader's shared memory.
	SharedBytes int `json:"shared_bytes,omitempty"`
	// GLSLHash is the SHA-256 of the GLSL source, in hex. It identifies the shader.
	GLSLHash string `json:"glsl_hash"`
}

// Bind attaches a buffer to a binding of a step.
type Bind struct {
	Buffer int  `json:"buffer"`
	Write  bool `json:"write,omitempty"`
	Read   bool `json:"read,omitempty"`
	// Address says that the buffer is larger than a binding may be. The kernel then binds an 8-byte buffer that holds
	// the address of the buffer, and the shader needs bufferDeviceAddress.
	Address bool `json:"address,omitempty"`
}

// Step is one dispatch.
type Step struct {
	Name   string `json:"name"`
	Shader int    `json:"shader"`
	Binds  []Bind `json:"binds"`
	Grid   Grid   `json:"grid"`
	// Alternatives are other kernels of the step, by increasing values of one symbol. The step runs the first one that
	// is for the symbol's value, or else its own kernel.
	Alternatives []Alternative `json:"alternatives,omitempty"`
	// Barrier says that a memory barrier precedes this step: it accesses data that a step since the last barrier
	// accessed, and one of the two writes it. Steps between two barriers form a level and may run at the same time.
	Barrier bool `json:"barrier,omitempty"`
	// Ops names the fused graph ops.
	Ops []string `json:"ops"`
	// Schedule is the schedule's one-line description.
	Schedule string `json:"schedule"`
	// Flops is the number of arithmetic operations. Moved is the number of bytes read and written, with each buffer
	// counted once. Both assume the bounds of all symbols.
	Flops int64 `json:"flops"`
	Moved int64 `json:"moved"`
}

// Grid is the number of workgroups of a step along x, y and z. Each is a product of factors, and 1 if it has none.
type Grid [3][]GridFactor

// GridFactor is one factor of a grid dimension: ceil(Extent/Tile).
type GridFactor struct {
	Extent ir.Dim `json:"extent"`
	Tile   int64  `json:"tile"`
}

// IsStatic reports whether the grid contains no symbol.
func (g Grid) IsStatic() bool {
	for _, dim := range g {
		for _, f := range dim {
			if !f.Extent.IsStatic() {
				return false
			}
		}
	}
	return true
}

// maxGroups is the maximum number of workgroups per dimension on any device.
const maxGroups = 1<<31 - 1

// Eval returns the workgroup counts for the given values of symbols.
func (g Grid) Eval(symbols map[string]int64) ([3]uint32, error) {
	var out [3]uint32
	for i, dim := range g {
		n := int64(1)
		for _, f := range dim {
			v, err := f.Extent.Eval(symbols)
			if err != nil {
				return out, err
			}
			if f.Tile < 1 || f.Tile > maxGroups || v < 0 || v > 1<<62 { // v + f.Tile must not overflow
				return out, fmt.Errorf("grid factor ceil(%s/%d) is not usable", f.Extent, f.Tile)
			}
			q := ceil.Div(v, f.Tile)
			if q > 0 && n > maxGroups/q {
				return out, fmt.Errorf("grid dimension %d has more than 2^31-1 workgroups", i)
			}
			n *= q
		}
		out[i] = uint32(n)
	}
	return out, nil
}

// Values returns the values of all symbols of the program. It computes derived symbols, such as sums and quotients,
// from the given ones.
func (p *Program) Values(symbols map[string]int64) (map[string]int64, error) {
	all := maps.Clone(symbols)
	for _, s := range p.Symbols {
		if ir.IsIdent(s.Name) { // a symbol that the caller gives, and not an expression of symbols
			continue
		}
		delete(all, s.Name)
		v, err := ir.Dim{Sym: s.Name, Bound: s.Bound, Mul: 1}.Eval(all)
		if err != nil {
			return nil, err
		}
		all[s.Name] = v
	}
	return all, nil
}

// ArenaAlign is the alignment of temporaries; no device requires a larger alignment of a storage buffer's offset.
const ArenaAlign = 256

// CheckArena returns an error if a temporary is not aligned, or if two temporaries overlap in the arena while both are
// live. It does not trust the planner: it computes lifetimes from the steps alone. A region runs its steps repeatedly.
// If a trip reads a value before it writes it, the value comes from before the region or from the previous trip, so it
// is live through the whole region.
func (p *Program) CheckArena() error {
	temps, needed := p.temporaries()
	for i, a := range temps {
		if at := p.Buffers[a].Offset; at%ArenaAlign != 0 {
			return fmt.Errorf("buffer %d (%s) lies at byte %d of the arena, which is not a multiple of %d", a,
				p.Buffers[a].Name, at, ArenaAlign)
		}
		for _, b := range temps[:i] {
			x, y, lifeX, lifeY := p.Buffers[a], p.Buffers[b], needed[a], needed[b]
			shareBytes := x.Offset < y.Offset+y.Bytes && y.Offset < x.Offset+x.Bytes
			shareSteps := lifeX[0] <= lifeY[1] && lifeY[0] <= lifeX[1]
			if shareBytes && shareSteps {
				return fmt.Errorf("buffers %d (%s, steps %d to %d) and %d (%s, steps %d to %d) lie in one place",
					b, y.Name, lifeY[0], lifeY[1], a, x.Name, lifeX[0], lifeX[1])
			}
		}
	}
	return nil
}

// temporaries lists the temporaries in order of first use, and for each the first and last step of its lifetime.
func (p *Program) temporaries() (temps []int, needed map[int][2]int) {
	needed = map[int][2]int{}
	for at, st := range p.Steps {
		for _, b := range st.Binds {
			if p.Buffers[b.Buffer].Kind != BufTemp {
				continue
			}
			span, seen := needed[b.Buffer]
			if !seen {
				temps, span[0] = append(temps, b.Buffer), at
			}
			span[1] = at
			needed[b.Buffer] = span
		}
	}
	for range p.Regions { // extending an inner region may require extending the outer one
		for _, r := range p.Regions {
			last := r.First + r.Count - 1
			for buffer, reads := range p.readFirst(r) {
				if span := needed[buffer]; reads || span[0] < r.First {
					needed[buffer] = [2]int{min(span[0], r.First), max(span[1], last)}
				}
			}
		}
	}
	return temps, needed
}

// readFirst lists the temporaries that the steps of a region access. The value is true if the region's first access
// reads.
func (p *Program) readFirst(r Region) map[int]bool {
	list := map[int]bool{}
	for _, st := range p.Steps[r.First : r.First+r.Count] {
		for _, b := range st.Binds {
			if _, seen := list[b.Buffer]; !seen && p.Buffers[b.Buffer].Kind == BufTemp {
				list[b.Buffer] = b.Read
			}
		}
	}
	return list
}

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

// Fault makes a run fail because an op has no result for some value, such as quantizing NaN. A kernel cannot stop a
// run. So it records the fault in a word of memory, and the host checks the word after the run ([Program.Faults]).
//
// The word is 0 if there is no fault. Otherwise it is the bitwise complement of the smallest Index with a fault. So
// kernels can update it by an atomic maximum.
type Fault struct {
	Bind  int   // the binding of the word
	Index Index // the number of the point (for FamilyQuantize, of the block)
	// Most, for FamilyQuantize, is the largest allowed magnitude of an element. NaN is a fault as well.
	Most float32
}

// FaultPort is a word that a step may record a fault in, with the meaning of that fault.
type FaultPort struct {
	Buffer int    `json:"buffer"`
	Op     string `json:"op"`  // the failing op, such as "quantize"
	Why    string `json:"why"` // the reason, as the end of a sentence
	// Elems is the number of argument elements per index.
	Elems int64 `json:"elems"`
}

// Check returns the error that the word records, or nil.
func (f FaultPort) Check(word uint32) error {
	if word == 0 {
		return nil
	}
	first := int64(^word) * f.Elems
	return &ir.FaultError{Op: f.Op, First: first, Last: first + f.Elems - 1, Why: f.Why}
}

// checkFaults requires that each fault port has a fault word of its own.
func (c *checker) checkFaults() {
	seen := map[int]bool{}
	for i, f := range c.Faults {
		c.require(f.Buffer >= 0 && f.Buffer < len(c.Buffers) && c.Buffers[f.Buffer].Kind == BufFault && !seen[f.Buffer],
			"fault %d: buffer %d is not a word for it alone", i, f.Buffer)
		c.require(f.Elems >= 1 && f.Elems <= 1<<20, "fault %d: %d elements", i, f.Elems)
		seen[f.Buffer] = true
	}
}
