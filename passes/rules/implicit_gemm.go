package rules

import (
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/passes/plan"
)

// ImplicitGEMM computes a convolution as a matmul, without storing its windows (no im2col). Two small kernels run
// before it. One stores the argument padded and with the channels innermost. The other stores the weights as a matrix,
// with a row for each element of a window in the same order. So a window consists of contiguous runs of elements, and
// neighbouring windows are a fixed distance apart, as tensor cores require.
func ImplicitGEMM(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	w := lower.NewStoredConv(o.fusion, k)
	if w == nil || k.ReadsBlocks(k.MatMuls[0].A) { // every run would dequantize them
		return nil
	}
	stores, matmul, err := w.Kernels()
	if err != nil {
		return nil
	}
	w.Result = id
	o.windows[w.X], o.windows[k.FirstStored()] = w, w // for ChainConvs
	return []Proposal{propose("store windows as runs", id, append(stores, matmul)...)}
}

// ChainConvs lets a convolution that ImplicitGEMM rewrote store its result directly as the padded argument of the next
// such convolution, if no other kernel reads the result. Both convolutions number positions in the same way. So each
// row of the result is a row of the argument, at a fixed offset. The argument's other rows are padding.
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
			// A kernel that only stores the padding replaces the kernel that stored the argument.
			p := propose("store results as the next argument", from.Result, to.Padding(), result)
			p.Default = true
			p.replace(id)
			return []Proposal{p}
		}
	}
	return nil
}
