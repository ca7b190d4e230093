package vk

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
)

// indirectStride is the size of a VkDispatchIndirectCommand.
const indirectStride = 12

// grids has the number of workgroups of every step, and the buffers that the host writes for the symbols of a run. If
// the number depends on symbols or on a kernel, the device reads it from a buffer (an indirect dispatch).
type grids struct {
	list           []grid           // by step
	symbolicCounts *Buffer          // workgroup counts of symbolic grids; nil if there are none
	gatedCounts    *Buffer          // workgroup counts of gated grids; nil if there are none
	symbols        []kernel.Symbol  // the symbols that grids depend on
	bounds         []kernel.Symbol  // see boundsOf
	written        []symbolBuffer   // the buffers with contents that depend on symbols
	now            map[string]int64 // the symbols for which the buffers were written; nil if unknown
}

// grid is the number of workgroups of a step.
type grid struct {
	counts   [3]uint32 // if neither symbolic nor gated
	symbolic bool      // whether the counts depend on symbols
	gated    bool      // whether it is in a while loop, which a gate step ends by setting the counts to 0
	offset   int64     // offset of the counts in grids.symbolicCounts or grids.gatedCounts
}

// symbolBuffer is a buffer with contents that depend on symbols. put writes them.
type symbolBuffer struct {
	*Buffer
	put func(to []byte, symbols map[string]int64) error
}

// makeGrids evaluates grids that do not depend on symbols, allocates a buffer for the counts of the others, and finds
// the buffers that depend on symbols.
func (rec *recorder) makeGrids() {
	g := &rec.grids
	g.symbols, g.bounds = gridSymbolsOf(rec.program), boundsOf(rec.program)
	g.list = make([]grid, len(rec.steps))
	for i, step := range rec.program.Gated() {
		g.list[step] = grid{gated: true, offset: int64(i) * indirectStride}
	}
	size := int64(0)
	for i, s := range rec.steps {
		x := &g.list[i]
		switch {
		case x.gated: // a kernel writes its counts
		case s.IsStatic():
			x.counts = bailout.Must(s.Grid.Eval(nil))
		default:
			*x = grid{symbolic: true, offset: size}
			size += indirectStride
		}
	}
	if size > 0 {
		g.symbolicCounts = rec.newBuffer("grids", kernel.BufParams, size, SharedMemory)
		symbolic := func(x *grid) bool { return x.symbolic }
		g.written = append(g.written, symbolBuffer{g.symbolicCounts, rec.putCounts(symbolic)})
	}
	for _, b := range rec.buffersOf(kernel.BufGrids) {
		g.written = append(g.written, symbolBuffer{b.at.Buffer, rec.putCounts(func(x *grid) bool { return x.gated })})
	}
	for _, b := range rec.buffersOf(kernel.BufGated) {
		g.gatedCounts = b.at.Buffer
	}
	if len(rec.program.Symbols) > 0 {
		for _, b := range rec.buffersOf(kernel.BufParams) {
			g.written = append(g.written, symbolBuffer{b.at.Buffer, rec.putSymbols})
		}
	}
}

// gridSymbolsOf returns the symbols that grids depend on, or nil if the program does not declare all of them.
func gridSymbolsOf(p *kernel.Program) (list []kernel.Symbol) {
	used := map[string]bool{}
	for _, s := range p.Steps {
		for _, k := range s.Kernels() {
			for _, factors := range k.Grid {
				for _, f := range factors {
					for _, name := range f.Extent.Symbols() {
						used[name] = true
					}
				}
			}
		}
	}
	for _, s := range p.Symbols {
		if used[s.Name] {
			list = append(list, s)
		}
	}
	if len(list) < len(used) { // a grid has a symbol that the program does not declare
		return nil
	}
	return list
}

// boundsOf returns the symbols of all steps' alternatives, without duplicates. The bound of such a symbol is the
// largest value for which the alternative runs, such as a kernel for few rows.
func boundsOf(p *kernel.Program) (list []kernel.Symbol) {
	for _, s := range p.Steps {
		for _, a := range s.Alternatives {
			if !slices.Contains(list, a.Symbol) {
				list = append(list, a.Symbol)
			}
		}
	}
	return list
}

// full reports whether all symbols that grids depend on are at their bounds, for example because a batch is full. Such
// runs are frequent, so they get recordings of their own with constant workgroup counts, and the device need not read
// the counts from memory.
func (g *grids) full(symbols map[string]int64) bool {
	for _, s := range g.symbols {
		if symbols[s.Name] != s.Bound {
			return false
		}
	}
	return len(g.symbols) > 0
}

// put writes the buffers for the values of symbols, unless they were last written for the same values. The device must
// not be reading them.
func (g *grids) put(symbols map[string]int64) error {
	if g.now != nil && maps.Equal(g.now, symbols) {
		return nil
	}
	g.now = nil // an error may leave some buffers written
	for _, b := range g.written {
		if err := b.put(b.Bytes(), symbols); err != nil {
			return err
		}
	}
	g.now = symbols
	return nil
}

// putCounts returns a symbolBuffer.put that writes the workgroup counts of the grids for which `which` returns true. A
// grid has three counts, 32-bit words from its offset on.
func (rec *recorder) putCounts(which func(x *grid) bool) func(to []byte, symbols map[string]int64) error {
	return func(to []byte, symbols map[string]int64) error {
		for i := range rec.grids.list {
			x := &rec.grids.list[i]
			if !which(x) {
				continue
			}
			counts, err := rec.groups(i, symbols)
			if err != nil {
				return err
			}
			for j, n := range counts {
				binary.NativeEndian.PutUint32(to[x.offset+4*int64(j):], n)
			}
		}
		return nil
	}
}

// groups returns the workgroup counts of step i for the given values of symbols.
func (rec *recorder) groups(i int, symbols map[string]int64) (counts [3]uint32, err error) {
	step, err := rec.steps[i].For(symbols)
	if err == nil {
		counts, err = step.Grid.Eval(symbols)
	}
	if err != nil {
		return counts, fmt.Errorf("step %s: %w", rec.steps[i].Name, err)
	}
	return counts, nil
}

// putSymbols writes the values of symbols in the format in which kernels read them.
func (rec *recorder) putSymbols(to []byte, symbols map[string]int64) error {
	for i, s := range rec.program.Symbols {
		binary.NativeEndian.PutUint32(to[4*i:], uint32(symbols[s.Name]))
	}
	return nil
}
