package vkc

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/passes"
)

// layOut chooses for every weight of blocks how they lie in memory, and tells
// the buffer and all kernels that read it.
func layOut(s *passes.State, caps target.Caps) error {
	type place struct{ kernel, binding int }
	places := map[int][]place{} // by buffer
	for i, st := range s.Program.Steps {
		for j, b := range st.Binds {
			places[b.Buffer] = append(places[b.Buffer], place{i, j})
		}
	}
	for i := range s.Program.Buffers {
		b := &s.Program.Buffers[i]
		if b.Kind != kernel.BufWeight || !b.DType.IsBlock() {
			continue
		}
		var readers []*kernel.Kernel
		for _, p := range places[i] {
			readers = append(readers, s.Kernels[p.kernel])
		}
		var err error
		if !slices.ContainsFunc(places[i], func(p place) bool { return s.Kernels[p.kernel].Bindings[p.binding].DType != b.DType }) {
			b.Layout = target.Layout(b.DType, readers, caps)
		} // else a kernel copies them, and they lie as in the file
		if b.Bytes, err = b.Layout.Bytes(b.DType, b.Shape.MaxElems()); err != nil {
			return err
		}
		for _, p := range places[i] {
			s.Kernels[p.kernel].Bindings[p.binding].Layout = b.Layout
		}
	}
	return nil
}
