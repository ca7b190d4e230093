package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/ir"
)

// maxArena is the largest arena, in bytes: 1 TiB, the limit that package ir has for a tensor.
const maxArena = 1 << 40

// Check returns an error if a program has inconsistent indices or sizes, as a damaged or hostile file may. It checks
// what a reference points to before the reference.
func (p *Program) Check() error {
	for _, check := range []func() error{p.checkTexts, p.checkRegions, p.checkBuffers, p.checkExtents, p.checkShaders,
		p.checkDispatches, p.checkPrepared, p.checkGates, p.checkFaults, p.checkPersistent, p.checkPorts} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Program) checkBuffers() error {
	if p.ArenaBytes < 0 || p.ArenaBytes > maxArena {
		return fmt.Errorf("arena of %d bytes", p.ArenaBytes)
	}
	for i, b := range p.Buffers {
		if err := p.checkBuffer(b); err != nil {
			return fmt.Errorf("buffer %d (%s): %w", i, b.Name, err)
		}
	}
	return nil
}

// checkBuffer returns an error if a buffer's size, kind, layout or offset is invalid.
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

func (p *Program) checkExtents() error {
	for _, d := range p.Extents {
		if err := p.checkDim(d); err != nil {
			return fmt.Errorf("extent %s: %w", d, err)
		}
	}
	return nil
}

func (p *Program) checkShaders() error {
	for i, s := range p.Shaders {
		if s.Workgroup < 1 || s.Workgroup > 1<<16 || s.SharedBytes < 0 || s.SharedBytes > 1<<24 || s.SubgroupSize < 0 ||
			s.SubgroupSize > 1<<10 {
			return fmt.Errorf("shader %d (%s): workgroup of %d with %d bytes shared and subgroups of %d", i, s.Name,
				s.Workgroup, s.SharedBytes, s.SubgroupSize)
		}
	}
	return nil
}

func (p *Program) checkDispatches() error {
	for i, s := range p.Dispatches() {
		if err := p.checkDispatch(s); err != nil {
			return fmt.Errorf("step %d (%s): %w", i, s.Name, err)
		}
	}
	return nil
}

// checkDispatch returns an error if a step's shader, buffers or grid are invalid.
func (p *Program) checkDispatch(s Step) error {
	if s.Shader < 0 || s.Shader >= len(p.Shaders) {
		return fmt.Errorf("no shader %d", s.Shader)
	}
	shader := p.Shaders[s.Shader]
	if n := shader.Bindings; n != len(s.Binds) || n < 1 || n > 64 {
		return fmt.Errorf("%d buffers for a shader of %d bindings", len(s.Binds), n)
	}
	for _, b := range s.Binds {
		switch {
		case b.Buffer < 0 || b.Buffer >= len(p.Buffers):
			return fmt.Errorf("no buffer %d", b.Buffer)
		case b.Write && p.Buffers[b.Buffer].Kind == BufInput:
			return fmt.Errorf("it writes buffer %d, an input, which may be a tensor of the caller's", b.Buffer)
		case b.Address && !slices.Contains(shader.Needs, "bufferDeviceAddress"):
			return errors.New("a buffer by address for a shader that needs no addresses")
		}
	}
	return p.checkGrid(s.Grid)
}

// checkPorts returns an error if inputs, outputs or states have duplicate names or do not match their buffers.
func (p *Program) checkPorts() error {
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
			if err := p.checkPort(port, list.kind); err != nil {
				return fmt.Errorf("%s %q: %w", list.kind, port.Name, err)
			}
		}
	}
	return nil
}

func (p *Program) checkPort(port Port, kind BufferKind) error {
	if port.Buffer < 0 || port.Buffer >= len(p.Buffers) || p.Buffers[port.Buffer].Kind != kind {
		return errors.New("no such buffer")
	}
	b := p.Buffers[port.Buffer]
	if b.DType != port.DType || !b.Shape.Equal(port.Shape) {
		return errors.New("the buffer has another type")
	}
	if _, err := ir.ParseInitial(port.Init); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	return nil
}

// checkTexts returns an error if strings that are printed raw have unprintable characters. vkc itself does not write
// such strings. Names from the graph may have any characters; they are quoted when printed.
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

// checkDim returns an error unless the program's symbols determine the extent and its bound.
func (p *Program) checkDim(d ir.Dim) error {
	if d.IsStatic() {
		return nil
	}
	bounds := map[string]int64{}
	for _, s := range p.Symbols {
		bounds[s.Name] = s.Bound
	}
	most, err := d.Eval(bounds)
	if err != nil || most != d.Max() || !isComputed(d.Sym, bounds) {
		return fmt.Errorf("dim %s has no declared symbol", d)
	}
	return nil
}

// isComputed reports whether a symbol's value follows from a program's symbols.
func isComputed(sym string, symbols map[string]int64) bool {
	if _, ok := symbols[sym]; ok {
		return true
	}
	factors := SymbolFactors(sym)
	return len(factors) > 1 && !slices.ContainsFunc(factors, func(f ir.Dim) bool { return !isComputed(f.Sym, symbols) })
}

// checkGrid returns an error if a grid has unknown symbols or is too large when every symbol is at its bound.
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
