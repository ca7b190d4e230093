package rules

import (
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/passes/plan"
)

// ImplicitGEMM computes a convolution as a matmul without storing its windows (im2col). Two small kernels precede it.
// One stores the argument with the channels innermost and with padding, the other stores the weights as a matrix with a
// row per element of a window, in that order. So a window's elements are contiguous runs, and neighbouring positions
// have a fixed stride, as matrix units require.
func ImplicitGEMM(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	w := lower.NewStoredConv(o.fusion, k)
	if w == nil || k.ReadsBlocks(k.Products[0].A) { // every run would dequantize them
		return nil
	}
	stores, product, err := w.Kernels()
	if err != nil {
		return nil
	}
	w.Result = id
	o.windows[w.X], o.windows[k.FirstStored()] = w, w
	return []Proposal{propose("store windows as runs", id, append(stores, product)...)}
}

// ChainConvs lets a convolution store its results directly as the stored argument of the next, if nothing else reads
// them. Both count positions in the same way, so the results are rows of the argument, with a fixed distance to the
// rows where they are computed. The other rows are padding.
func ChainConvs(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	to := o.windows[k.FirstStored()]
	if to == nil || k.FirstStored() != to.X {
		return nil
	}
	for _, b := range k.Bindings {
		from := o.windows[b.Buffer]
		if from == nil || !from.Feeds(to, id) {
			continue
		}
		if result, ok := from.AsArgument(to, k); ok {
			// A padding kernel replaces the kernel that stored the argument.
			p := propose("store results as the next argument", from.Result, to.Padding(), result)
			p.Default = true
			p.also(id)
			return []Proposal{p}
		}
	}
	return nil
}
