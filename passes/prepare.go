package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

const (
	// preparedGrowth bounds what a kernel may keep: so many times the bytes that
	// it reads. Operands in two or three parts of bf16 take up to 1.5.
	preparedGrowth = 2
	// preparedSmall is what any kernel may keep, if it reads nothing at all.
	preparedSmall = 64 << 10
)

// prepareWeights finds the kernels that read nothing but weights, constants and
// what others of them make, such as those that store weights as matrix units
// take them. They run once, before all others, and what these need of them is
// kept in buffers outside of the arena. A kernel that makes much of little, as
// a broadcast does, stays with the run.
func prepareWeights(s *State) error {
	p := preparer{s: s, writers: map[int]int{}, ready: map[int]bool{}}
	for _, k := range s.Kernels {
		for _, b := range k.Bindings {
			if b.Write {
				p.writers[b.Buffer]++
			}
		}
	}
	var once, run leveled
	for i, k := range s.Kernels {
		if p.canPrepare(k) {
			p.note(k)
			once.add(k, s.levels[i])
		} else {
			run.add(k, s.levels[i])
		}
	}
	s.kept = map[int]bool{}
	for _, k := range run.kernels {
		for _, b := range k.Bindings {
			s.kept[b.Buffer] = s.kept[b.Buffer] || p.ready[b.Buffer]
		}
	}
	s.prepared = len(once.kernels)
	s.Kernels, s.levels = slices.Concat(once.kernels, run.kernels), slices.Concat(p.before(once.levels, run.levels), run.levels)
	return nil
}

// kindOf is the kind of a buffer that a kernel writes and others read.
func (s *State) kindOf(buffer int) kernel.BufferKind {
	if s.kept[buffer] {
		return kernel.BufPrepared
	}
	return kernel.BufTemp
}

// preparer finds kernels to be prepared, in the order of their levels.
type preparer struct {
	s       *State
	writers map[int]int  // how many kernels write a buffer
	ready   map[int]bool // the buffers that prepared kernels write
}

// note notes what a prepared kernel writes.
func (p *preparer) note(k *kernel.Kernel) {
	for _, b := range k.Bindings {
		if b.Write {
			p.ready[b.Buffer] = true
		}
	}
}

// canPrepare reports whether a kernel needs no run, and keeps little.
func (p *preparer) canPrepare(k *kernel.Kernel) bool {
	if !k.CanPrepare(func(buffer int) bool { return p.ready[buffer] }) {
		return false
	}
	read, kept := int64(0), int64(0)
	for _, b := range k.Bindings {
		bytes, err := b.DType.BytesFor(b.Elems)
		switch {
		case err != nil, b.Write && (!p.isTemp(b.Buffer) || p.writers[b.Buffer] > 1):
			return false
		case b.Write:
			kept += bytes
		default:
			read += bytes
		}
	}
	return kept <= max(preparedGrowth*read, preparedSmall)
}

// isTemp reports whether nobody but kernels sees what is written to a buffer.
func (p *preparer) isTemp(buffer int) bool {
	nodes := p.s.Graph.Nodes()
	if buffer < 0 || buffer >= len(nodes) {
		return true // scratch
	}
	n := nodes[buffer]
	isOutput := slices.ContainsFunc(p.s.Graph.Outputs(), func(o ir.Output) bool { return o.Node == n })
	return n.Op() != ir.OpInput && n.Op() != ir.OpState && !isOutput
}

// before moves levels before all others, so that what is only needed to prepare
// has its place in the arena by itself.
func (p *preparer) before(levels, others []int) []int {
	out := slices.Clone(levels)
	if len(levels) == 0 || len(others) == 0 {
		return out
	}
	shift := slices.Max(levels) + 1 - slices.Min(others)
	for i := range out {
		out[i] -= shift
	}
	return out
}
