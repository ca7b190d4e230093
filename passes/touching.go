package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// touching says which kernels, by their places in State.Kernels, read and write
// each buffer, so that passes over kernels need not go over all of them for one.
// Where a kernel was replaced it may name it still; who asks looks again.
type touching struct {
	reads, writes map[int][]int
	outputs       map[int]bool
	states        map[int]bool // and what they become
}

// findTouching notes what all kernels touch.
func (s *State) findTouching() {
	s.touching = touching{reads: map[int][]int{}, writes: map[int][]int{}, outputs: map[int]bool{}, states: map[int]bool{}}
	for i := range s.Kernels {
		s.noteTouching(i)
	}
	for _, o := range s.Graph.Outputs() {
		s.touching.outputs[o.Node.ID()] = true
	}
	for _, u := range s.Graph.Updates() {
		s.touching.states[u.Value.ID()], s.touching.states[u.State.ID()] = true, true
	}
}

// noteTouching notes what the kernel at a place touches, which is new.
func (s *State) noteTouching(i int) {
	for _, b := range s.Kernels[i].Bindings {
		if b.Read {
			s.touching.reads[b.Buffer] = append(s.touching.reads[b.Buffer], i)
		}
		if b.Write {
			s.touching.writes[b.Buffer] = append(s.touching.writes[b.Buffer], i)
		}
	}
}

// readersOf returns the places of the kernels that read a buffer, in order.
func (s *State) readersOf(buffer int) []int {
	return places(s.touching.reads[buffer], func(i int) bool { return readsBuffer(s.Kernels[i], buffer) })
}

// writersOf returns the places of the kernels that write a buffer, in order.
func (s *State) writersOf(buffer int) []int {
	return places(s.touching.writes[buffer], func(i int) bool { return writesBuffer(s.Kernels[i], buffer) })
}

func places(list []int, still func(i int) bool) []int {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	return slices.DeleteFunc(list, func(i int) bool { return !still(i) })
}

func writesBuffer(k *kernel.Kernel, buffer int) bool {
	return slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool { return b.Write && b.Buffer == buffer })
}
