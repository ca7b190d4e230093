package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// maxArena is the largest arena, in bytes: 1 TiB, the limit that package ir has for a tensor.
const maxArena = 1 << 40

// checker checks a program. The check ends at its first error.
type checker struct {
	*Program
	part   string           // the part that is checked, as the beginning of an error
	bounds map[string]int64 // of symbols
}

// Check returns an error if a program has inconsistent indices or sizes. The program may be from a damaged or hostile
// file. Each check may rely on the earlier ones: for example, the sizes of buffers are checked before steps that refer
// to buffers.
func (p *Program) Check() (err error) {
	defer bailout.Caught(&err)
	c := &checker{Program: p, bounds: map[string]int64{}}
	for _, s := range p.Symbols {
		c.bounds[s.Name] = s.Bound
	}
	for _, check := range []func(){c.checkTexts, c.checkRegions, c.checkBuffers, c.checkExtents, c.checkShaders,
		c.checkDispatches, c.checkPrepared, c.checkGates, c.checkFaults, c.checkPersistent, c.checkPorts} {
		c.part = ""
		check()
	}
	return nil
}

// begin names the part that is checked next.
func (c *checker) begin(format string, args ...any) { c.part = fmt.Sprintf(format, args...) + ": " }

// require ends the check with an error unless ok.
func (c *checker) require(ok bool, format string, args ...any) {
	if !ok {
		bailout.Check(fmt.Errorf("%s"+format, append([]any{c.part}, args...)...))
	}
}

// must ends the check with err, if it is an error.
func (c *checker) must(err error) {
	if err != nil {
		c.require(false, "%w", err)
	}
}

// checkBuffers checks the arena and all buffers.
func (c *checker) checkBuffers() {
	c.require(c.ArenaBytes >= 0 && c.ArenaBytes <= maxArena, "arena of %d bytes", c.ArenaBytes)
	for i, b := range c.Buffers {
		c.begin("buffer %d (%s)", i, b.Name)
		c.checkBuffer(b)
	}
}

// checkBuffer checks a buffer's size, kind, layout and offset.
func (c *checker) checkBuffer(b Buffer) {
	t := ir.Type{DType: b.DType, Shape: b.Shape}
	c.must(b.Shape.Check())
	need, err := t.MaxBytes()
	c.must(err)
	size := max(need, 16) // a buffer has at least 16 bytes, and a multiple of 16
	if b.Layout != LayoutBlocks {
		c.require(b.Kind == BufWeight, "layout %q of a buffer that is not a weight", b.Layout)
		size, err = b.Layout.Bytes(b.DType, b.Shape.MaxElems())
		c.must(err)
	}
	c.require(b.Bytes >= size && b.Bytes%16 == 0 && b.Bytes <= size+16, "%d bytes for %s", b.Bytes, t)
	for _, d := range b.Shape {
		c.checkDim(d)
	}
	switch b.Kind {
	case BufTemp:
		c.require(b.Offset >= 0 && b.Offset%16 == 0 && b.Offset <= c.ArenaBytes-b.Bytes,
			"offset %d is outside the arena of %d bytes", b.Offset, c.ArenaBytes)
	case BufWeight:
		total := int64(0)
		for _, s := range b.Segments {
			n, err := s.Bytes()
			c.must(err)
			c.require(s.Weight != "" || int64(len(s.Data)) == n, "constant of %d bytes, want %d", len(s.Data), n)
			total += n
		}
		c.require(total == need, "segments of %d bytes for %d", total, need)
	case BufParams:
		c.require(b.DType == ir.U32 && need == 4*int64(len(c.Symbols)), "%s for the values of %d symbols", t,
			len(c.Symbols))
	case BufFault, BufLate:
		c.require(b.DType == ir.U32 && need == 4, "%s for a word", t)
	case BufBarrier:
		c.require(b.DType == ir.U32 && b.Shape.MaxElems() == BarrierWords, "%s for %d counters", t, BarrierWords)
	case BufInput, BufOutput, BufState, BufPrepared, BufGrids, BufGated: // nothing more to check
	default:
		c.require(false, "unknown kind %q", b.Kind)
	}
}

// checkExtents checks the list of extents.
func (c *checker) checkExtents() {
	for _, d := range c.Extents {
		c.begin("extent %s", d)
		c.checkDim(d)
	}
}

// checkShaders checks the sizes of workgroups, shared memory and subgroups.
func (c *checker) checkShaders() {
	for i, s := range c.Shaders {
		c.require(s.Workgroup >= 1 && s.Workgroup <= 1<<16 && s.SharedBytes >= 0 && s.SharedBytes <= 1<<24 &&
			s.SubgroupSize >= 0 && s.SubgroupSize <= 1<<10,
			"shader %d (%s): workgroup of %d with %d bytes shared and subgroups of %d", i, s.Name, s.Workgroup,
			s.SharedBytes, s.SubgroupSize)
	}
}

// checkDispatches checks the steps and persistent kernels, with their alternatives.
func (c *checker) checkDispatches() {
	for i, s := range c.Dispatches() {
		c.begin("step %d (%s)", i, s.Name)
		c.checkShaderOf(s)
		c.checkGrid(s.Grid)
		c.checkAlternatives(s)
	}
}

// checkShaderOf checks a step's shader and buffers.
func (c *checker) checkShaderOf(s Step) {
	c.require(s.Shader >= 0 && s.Shader < len(c.Shaders), "no shader %d", s.Shader)
	shader := c.Shaders[s.Shader]
	n := shader.Bindings
	c.require(n == len(s.Binds) && n >= 1 && n <= 64, "%d buffers for a shader of %d bindings", len(s.Binds), n)
	for _, b := range s.Binds {
		c.require(b.Buffer >= 0 && b.Buffer < len(c.Buffers), "no buffer %d", b.Buffer)
		c.require(!b.Write || c.Buffers[b.Buffer].Kind != BufInput,
			"it writes buffer %d, an input, which may be a tensor of the caller's", b.Buffer)
		c.require(!b.Address || slices.Contains(shader.Needs, "bufferDeviceAddress"),
			"a buffer by address for a shader that needs no addresses")
	}
}

// checkPorts checks the names of inputs, outputs and states, and whether they match their buffers.
func (c *checker) checkPorts() {
	for _, list := range []struct {
		ports []Port
		kind  BufferKind
	}{{c.Inputs, BufInput}, {c.Outputs, BufOutput}, {c.States, BufState}} {
		names := map[string]bool{}
		for _, port := range list.ports {
			c.begin("%s %q", list.kind, port.Name)
			c.require(port.Name != "" && !names[port.Name], "the name is empty or taken")
			names[port.Name] = true
			c.checkPort(port, list.kind)
		}
	}
}

// checkPort checks that a port's buffer exists, and has the given kind and the port's type.
func (c *checker) checkPort(port Port, kind BufferKind) {
	c.require(port.Buffer >= 0 && port.Buffer < len(c.Buffers) && c.Buffers[port.Buffer].Kind == kind, "no such buffer")
	b := c.Buffers[port.Buffer]
	c.require(b.DType == port.DType && b.Shape.Equal(port.Shape), "the buffer has another type")
	if _, err := ir.ParseInitial(port.Init); err != nil {
		c.require(false, "init: %w", err)
	}
}

// checkTexts finds unprintable characters in strings that are printed raw. vkc itself does not write such strings.
// Names from the graph may have any characters; they are quoted when printed.
func (c *checker) checkTexts() {
	printable := func(s string) bool {
		return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
	}
	for i, s := range c.Shaders {
		c.require(printable(s.Name), "shader %d: the name %q cannot be printed", i, s.Name)
	}
	for i, s := range c.Dispatches() {
		texts := append([]string{s.Name, s.Schedule}, s.Ops...)
		for _, a := range s.Alternatives {
			texts = append(texts, a.Schedule)
		}
		for _, t := range texts {
			c.require(printable(t), "step %d: the text %q cannot be printed", i, t)
		}
	}
}

// checkDim requires that the program's symbols determine the extent and its bound.
func (c *checker) checkDim(d ir.Dim) {
	if d.IsStatic() {
		return
	}
	most, err := d.Eval(c.bounds)
	c.require(err == nil && most == d.Max() && isComputed(d.Sym, c.bounds), "dim %s has no declared symbol", d)
}

// isComputed reports whether a symbol's value follows from a program's symbols.
func isComputed(sym string, symbols map[string]int64) bool {
	if _, ok := symbols[sym]; ok {
		return true
	}
	factors := SymbolFactors(sym)
	return len(factors) > 1 && !slices.ContainsFunc(factors, func(f ir.Dim) bool { return !isComputed(f.Sym, symbols) })
}

// checkGrid finds unknown symbols in a grid, and grids that are too large when every symbol is at its bound.
func (c *checker) checkGrid(g Grid) {
	for _, dim := range g {
		for _, f := range dim {
			c.checkDim(f.Extent)
		}
	}
	_, err := g.Eval(c.bounds)
	c.must(err)
}
