package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/ir"
)

// Program is a compiled graph: buffers, shaders, and the steps that run them
// in order. It is plain data; the SPIR-V is kept beside it, by shader.
type Program struct {
	Name      string   `json:"name"`
	GraphHash string   `json:"graph_hash"`
	Target    string   `json:"target"`
	Symbols   []Symbol `json:"symbols,omitempty"`

	Buffers []Buffer `json:"buffers"`
	Shaders []Shader `json:"shaders"`
	Steps   []Step   `json:"steps"`
	// Regions are the runs of steps that are repeated, in the order of their first steps, the outer ones first.
	Regions []Region `json:"regions,omitempty"`

	// Persistent are the kernels that do runs of steps in one dispatch each, in the order of the steps.
	Persistent []Persistent `json:"persistent,omitempty"`

	// Prepared is how many steps, the first ones, run once when the program is
	// loaded: those that make of weights and constants what every run needs. See
	// [BufPrepared].
	Prepared int `json:"prepared,omitempty"`

	Inputs  []Port `json:"inputs"`
	Outputs []Port `json:"outputs"`
	States  []Port `json:"states,omitempty"`
	// Faults are the words in which steps note that the run has failed.
	Faults []FaultPort `json:"faults,omitempty"`

	// Extents are those that some values of symbols make negative, such as T-2, of tensors without a buffer: a kernel
	// computes one element by element for itself. Nothing runs where one is negative, nor where one of a buffer is.
	Extents ir.Shape `json:"extents,omitempty"`

	// ArenaBytes is the size of the one allocation that all temporaries share,
	// with lifetimes overlapped; TempBytes is what they would take side by side.
	ArenaBytes int64 `json:"arena_bytes"`
	TempBytes  int64 `json:"temp_bytes"`
}

// Symbol is a run-time extent. Its value is element i of the params buffer,
// as a uint32, i being its index in Program.Symbols.
type Symbol struct {
	Name  string `json:"name"`
	Bound int64  `json:"bound"`
}

// BufferKind says where the contents of a buffer come from and how long they
// live.
type BufferKind string

// The buffer kinds.
const (
	BufInput  BufferKind = "input"  // written by the host before each run
	BufOutput BufferKind = "output" // read by the host after each run
	BufWeight BufferKind = "weight" // uploaded once, read-only
	// BufPrepared is written by prepared steps and outlives runs, which only read it.
	BufPrepared BufferKind = "prepared"
	BufState    BufferKind = "state"  // set at load to what Port.Init says, outlives runs
	BufTemp     BufferKind = "temp"   // a range of the arena
	BufParams   BufferKind = "params" // the symbol values, written before each run
	BufGrids    BufferKind = "grids"  // the workgroup counts of gated steps, written before each run; see [Region]
	BufGated    BufferKind = "gated"  // the counts that gates leave them
	BufFault    BufferKind = "fault"  // a word that a step sets where the run fails; see [Fault]
	// BufMeeting has the counters of persistent kernels, zeros whenever none of them runs; see [Persistent].
	BufMeeting BufferKind = "meeting"
	BufLate    BufferKind = "late" // a word that persistent kernels set where their workgroups wait in vain
)

// Buffer is one storage buffer, or one range of the arena.
type Buffer struct {
	Kind  BufferKind `json:"kind"`
	Name  string     `json:"name"`
	DType ir.DType   `json:"dtype"`
	Shape ir.Shape   `json:"shape"`
	// Bytes is the size at the bound of every symbol, a multiple of 16 and at
	// least 16. Contents are dense and row-major at the symbols' run-time values.
	Bytes int64 `json:"bytes"`
	// Offset is the position in the arena of a temporary.
	Offset int64 `json:"offset,omitempty"`
	// Segments of a weight buffer, laid one after another.
	Segments []Segment `json:"segments,omitempty"`
	// Layout of a weight buffer of blocks. Segments are whole blocks in the order
	// of files whatever it is: who loads them takes them apart.
	Layout Layout `json:"layout,omitempty"`
}

// Segment is a run of bytes of a weight buffer: a weight by name, or a
// constant held in the graph.
type Segment struct {
	Weight string   `json:"weight,omitempty"` // a name, or empty for a constant
	DType  ir.DType `json:"dtype"`
	Dims   []int    `json:"dims"`
	Data   []byte   `json:"data,omitempty"` // of a constant
}

// Bytes returns the length of the segment.
func (s Segment) Bytes() (int64, error) {
	return ir.ByteSize(s.DType, s.Dims)
}

// Port is a named value at the program's interface.
type Port struct {
	Name   string   `json:"name"`
	Buffer int      `json:"buffer"`
	DType  ir.DType `json:"dtype"`
	Shape  ir.Shape `json:"shape"`
	// Init is what a state holds at first, as ir.ParseInitial reads it; "" is zeros.
	Init string `json:"init,omitempty"`
}

// First returns what a state holds at first. src is asked where that is a weight.
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

// Shader is one compiled kernel text; steps with equal kernels share it.
type Shader struct {
	Name string `json:"name"`
	// Bindings is the number of storage buffers, bound from 0 on in set 0.
	Bindings int `json:"bindings"`
	// Workgroup is the number of invocations per workgroup, for display.
	Workgroup int `json:"workgroup"`
	// SubgroupSize that the shader needs, or 0 where any will do.
	SubgroupSize int `json:"subgroup_size,omitempty"`
	// Needs lists the device features the shader uses (Caps.Has names).
	Needs []string `json:"needs,omitempty"`
	// SharedBytes of workgroup memory.
	SharedBytes int `json:"shared_bytes,omitempty"`
	// GLSLHash is the SHA-256 of the source, in hex: the shader's identity.
	GLSLHash string `json:"glsl_hash"`
}

// Bind attaches a buffer to a binding of a step.
type Bind struct {
	Buffer int  `json:"buffer"`
	Write  bool `json:"write,omitempty"`
	Read   bool `json:"read,omitempty"`
	// Address says that the buffer is larger than a binding may be: bound is one of 8 bytes that holds its address,
	// and the shader needs bufferDeviceAddress.
	Address bool `json:"address,omitempty"`
}

// Step is one dispatch.
type Step struct {
	Name   string `json:"name"`
	Shader int    `json:"shader"`
	Binds  []Bind `json:"binds"`
	Grid   Grid   `json:"grid"`
	// Barrier says that a memory barrier stands before this step, because it
	// reads or overwrites something a step since the last barrier touched.
	// Steps between two barriers form a level and may overlap.
	Barrier bool `json:"barrier,omitempty"`
	// Ops names the graph ops that the kernel fuses.
	Ops []string `json:"ops"`
	// Schedule is the schedule's one-line description.
	Schedule string `json:"schedule"`
	// Flops and Moved are the arithmetic operations and the bytes read and
	// written at the bound of every symbol, counting each buffer once.
	Flops int64 `json:"flops"`
	Moved int64 `json:"moved"`
}

// Grid is the number of workgroups of a step: per dimension the product of
// factors, each rounded up to whole tiles.
type Grid [3][]GridFactor

// GridFactor is one factor of a grid dimension: ceil(Extent/Tile).
type GridFactor struct {
	Extent ir.Dim `json:"extent"`
	Tile   int64  `json:"tile"`
}

// IsStatic reports whether the grid holds no symbol.
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

// maxGroups is the most workgroups per dimension that any device takes.
const maxGroups = 1<<31 - 1

// Eval returns the workgroup counts under the symbol values.
func (g Grid) Eval(symbols map[string]int64) ([3]uint32, error) {
	var out [3]uint32
	for i, dim := range g {
		n := int64(1)
		for _, f := range dim {
			v, err := f.Extent.Eval(symbols)
			if err != nil {
				return out, err
			}
			if f.Tile < 1 || f.Tile > maxGroups || v < 0 || v > 1<<62 {
				return out, fmt.Errorf("grid factor ceil(%s/%d) is not usable", f.Extent, f.Tile)
			}
			q := (v + f.Tile - 1) / f.Tile
			if q > 0 && n > maxGroups/q {
				return out, fmt.Errorf("grid dimension %d has more than 2^31-1 workgroups", i)
			}
			n *= q
		}
		out[i] = uint32(n)
	}
	return out, nil
}

// maxArena bounds the arena (1 TiB), as ir bounds a tensor.
const maxArena = 1 << 40

// Check refuses a program whose indices or sizes do not hold together, as one
// read from a damaged or hostile file may be.
func (p *Program) Check() error {
	if p.ArenaBytes < 0 || p.ArenaBytes > maxArena {
		return fmt.Errorf("arena of %d bytes", p.ArenaBytes)
	}
	if err := p.checkTexts(); err != nil {
		return err
	}
	if err := p.checkRegions(); err != nil {
		return err
	}
	for i, b := range p.Buffers {
		if err := p.checkBuffer(b); err != nil {
			return fmt.Errorf("buffer %d (%s): %w", i, b.Name, err)
		}
	}
	for _, d := range p.Extents {
		if err := p.checkDim(d); err != nil {
			return fmt.Errorf("extent %s: %w", d, err)
		}
	}
	for i, s := range p.Shaders {
		if s.Workgroup < 1 || s.Workgroup > 1<<16 || s.SharedBytes < 0 || s.SharedBytes > 1<<24 || s.SubgroupSize < 0 ||
			s.SubgroupSize > 1<<10 {
			return fmt.Errorf("shader %d (%s): workgroup of %d with %d bytes shared and subgroups of %d", i, s.Name,
				s.Workgroup, s.SharedBytes, s.SubgroupSize)
		}
	}
	for i, s := range p.Dispatches() {
		if s.Shader < 0 || s.Shader >= len(p.Shaders) {
			return fmt.Errorf("step %d (%s): no shader %d", i, s.Name, s.Shader)
		}
		if n := p.Shaders[s.Shader].Bindings; n != len(s.Binds) || n < 1 || n > 64 {
			return fmt.Errorf("step %d (%s): %d buffers for a shader of %d bindings", i, s.Name, len(s.Binds), n)
		}
		for _, b := range s.Binds {
			if b.Buffer < 0 || b.Buffer >= len(p.Buffers) {
				return fmt.Errorf("step %d (%s): no buffer %d", i, s.Name, b.Buffer)
			}
			if b.Write && p.Buffers[b.Buffer].Kind == BufInput {
				return fmt.Errorf("step %d (%s): it writes buffer %d, an input, which may be a tensor of the caller's",
					i, s.Name, b.Buffer)
			}
			if b.Address && !slices.Contains(p.Shaders[s.Shader].Needs, "bufferDeviceAddress") {
				return fmt.Errorf("step %d (%s): a buffer by address for a shader that needs no addresses", i, s.Name)
			}
		}
		if err := p.checkGrid(s.Grid); err != nil {
			return fmt.Errorf("step %d (%s): %w", i, s.Name, err)
		}
	}
	if err := p.checkPrepared(); err != nil {
		return err
	}
	if err := p.checkGates(); err != nil {
		return err
	}
	if err := p.checkFaults(); err != nil {
		return err
	}
	if err := p.checkPersistent(); err != nil {
		return err
	}
	for _, list := range []struct {
		ports []Port
		kind  BufferKind
	}{{p.Inputs, BufInput}, {p.Outputs, BufOutput}, {p.States, BufState}} {
		names := map[string]bool{}
		for _, port := range list.ports {
			if port.Name == "" || names[port.Name] {
				return fmt.Errorf("%s %q: the name is empty or taken", list.kind, port.Name)
			}
			names[port.Name] = true
			if port.Buffer < 0 || port.Buffer >= len(p.Buffers) || p.Buffers[port.Buffer].Kind != list.kind {
				return fmt.Errorf("%s %q: no such buffer", list.kind, port.Name)
			}
			b := p.Buffers[port.Buffer]
			if b.DType != port.DType || !b.Shape.Equal(port.Shape) {
				return fmt.Errorf("%s %q: the buffer has another type", list.kind, port.Name)
			}
			if _, err := ir.ParseInitial(port.Init); err != nil {
				return fmt.Errorf("%s %q: init: %w", list.kind, port.Name, err)
			}
		}
	}
	return nil
}

// checkTexts refuses texts of vkc's own that vkc would not write. They are
// printed as they are; names of the graph may be anything and are quoted.
func (p *Program) checkTexts() error {
	text := func(s string) bool {
		return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
	}
	for i, s := range p.Shaders {
		if !text(s.Name) {
			return fmt.Errorf("shader %d: the name %q cannot be printed", i, s.Name)
		}
	}
	for i, s := range p.Dispatches() {
		for _, t := range append([]string{s.Name, s.Schedule}, s.Ops...) {
			if !text(t) {
				return fmt.Errorf("step %d: the text %q cannot be printed", i, t)
			}
		}
	}
	return nil
}

func (p *Program) checkBuffer(b Buffer) error {
	t := ir.Type{DType: b.DType, Shape: b.Shape}
	if err := b.Shape.Check(); err != nil {
		return err
	}
	need, err := t.MaxBytes()
	if err != nil {
		return err
	}
	size := max(need, 16)
	if b.Layout != LayoutBlocks {
		if b.Kind != BufWeight {
			return fmt.Errorf("layout %q of a buffer that is no weight", b.Layout)
		}
		if size, err = b.Layout.Bytes(b.DType, b.Shape.MaxElems()); err != nil {
			return err
		}
	}
	if b.Bytes < size || b.Bytes%16 != 0 || b.Bytes > size+16 {
		return fmt.Errorf("%d bytes for %s", b.Bytes, t)
	}
	for _, d := range b.Shape {
		if err := p.checkDim(d); err != nil {
			return err
		}
	}
	switch b.Kind {
	case BufTemp:
		if b.Offset < 0 || b.Offset%16 != 0 || b.Offset > p.ArenaBytes-b.Bytes {
			return fmt.Errorf("offset %d is outside the arena of %d bytes", b.Offset, p.ArenaBytes)
		}
	case BufWeight:
		total := int64(0)
		for _, s := range b.Segments {
			n, err := s.Bytes()
			if err != nil {
				return err
			}
			if s.Weight == "" && int64(len(s.Data)) != n {
				return fmt.Errorf("constant of %d bytes, want %d", len(s.Data), n)
			}
			total += n
		}
		if total != need {
			return fmt.Errorf("segments of %d bytes for %d", total, need)
		}
	case BufParams:
		if b.DType != ir.U32 || need != 4*int64(len(p.Symbols)) {
			return fmt.Errorf("%s for the values of %d symbols", t, len(p.Symbols))
		}
	case BufFault, BufLate:
		if b.DType != ir.U32 || need != 4 {
			return fmt.Errorf("%s for a word", t)
		}
	case BufMeeting:
		if b.DType != ir.U32 || b.Shape.MaxElems() != MeetingWords {
			return fmt.Errorf("%s for %d counters", t, MeetingWords)
		}
	case BufInput, BufOutput, BufState, BufPrepared, BufGrids, BufGated:
	default:
		return fmt.Errorf("unknown kind %q", b.Kind)
	}
	return nil
}

// Values returns the values of all symbols of the program, in which sums and
// quotients of symbols are what the others make them.
func (p *Program) Values(symbols map[string]int64) (map[string]int64, error) {
	all := maps.Clone(symbols)
	for _, s := range p.Symbols {
		if ir.IsIdent(s.Name) {
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

func (p *Program) checkDim(d ir.Dim) error {
	if d.IsStatic() {
		return nil
	}
	bounds := map[string]int64{}
	for _, s := range p.Symbols {
		bounds[s.Name] = s.Bound
	}
	most, err := d.Eval(bounds)
	known := err == nil && most == d.Max()
	for _, factor := range SymbolFactors(d.Sym) {
		_, ok := bounds[factor.Sym]
		known = known && ok
	}
	if !known {
		return fmt.Errorf("dim %s has no declared symbol", d)
	}
	return nil
}

func (p *Program) checkGrid(g Grid) error {
	bounds := map[string]int64{}
	for _, s := range p.Symbols {
		bounds[s.Name] = s.Bound
	}
	for _, dim := range g {
		for _, f := range dim {
			if err := p.checkDim(f.Extent); err != nil {
				return err
			}
		}
	}
	_, err := g.Eval(bounds)
	return err
}
