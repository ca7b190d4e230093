package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Pricer estimates the time of kernels on a device, so that package passes can decide which rewrites are faster. It
// serves one program at a time, and caches the estimates of equal kernels.
type Pricer struct {
	Caps   device.Caps
	device heuristics
	times  map[timeKey]timed
}

type (
	timeKey struct {
		kernel.Identity
		splits bool // a later rule may split the kernel
	}
	timed struct {
		time float64 // nanoseconds
		why  string  // why the time is unknown, or ""
	}
)

// NewPricer returns the pricer of a device.
func NewPricer(caps device.Caps) Pricer {
	return Pricer{Caps: caps, device: heuristicsOf(caps), times: map[timeKey]timed{}}
}

// priceWork estimates the time of a [kernel.Work], a computation that has no kernels yet, from its memory traffic and
// launches. The note of the estimate says if the device cannot do the work, or is known to be faster without it.
func (p Pricer) priceWork(w kernel.Work, readers []*kernel.Kernel) kernel.Estimate {
	suits := true
	switch w.Form {
	case kernel.FormQuantizedRows:
		suits = WantsBytes(w.Format, w.Rows, w.Columns, p.Caps)
	case kernel.FormStoredRows:
		suits = p.Caps.Features.Storage8 && p.Caps.Features.Storage16 &&
			WantsBytes(w.Format, w.Rows, w.Columns, p.Caps)
	case kernel.FormHalves:
		suits = p.device.splitsRows(w, p.Caps)
	case kernel.FormScores:
		suits = p.device.storesScores && int64(w.Bytes) <= p.device.cache
	case kernel.FormPlanes:
		suits = Layout(w.Format, readers, p.Caps) == kernel.LayoutPlanes
	case kernel.FormKeptRows:
		w.Groups, suits = p.device.keptRows(w)
	}
	switch {
	case !suits:
		return kernel.Estimate{Note: fmt.Sprintf("the device is not faster with %s", w.Form)}
	case w.Custom != nil && !p.runs(w.Custom):
		return kernel.Estimate{Note: "the device cannot run the kernel"}
	}
	time := p.device.rates().Time(w)
	if w.Form == kernel.FormSteps {
		time += p.device.stepsTime(w)
	}
	for _, m := range w.Matmuls {
		time += p.device.multiplyTime(m)
	}
	return kernel.Estimate{After: time}
}

// multiplyTime estimates the time in nanoseconds of a matmul in f32 that has no kernel yet, with its launch.
func (h heuristics) multiplyTime(m kernel.MatmulWork) float64 {
	sh := matShape{Batch: m.Batch, M: m.Rows, N: m.Columns, K: m.Depth}
	elements := m.Rows*m.Depth + m.Depth*m.Columns + m.Rows*m.Columns
	bytes := 4 * float64(m.Batch) * float64(elements)
	return max(least(h.tiles, func(tl ratedTile) float64 { return h.tileTime(tl, sh) }), bytes/h.CopyGBps) + h.LaunchNs
}

// runs reports whether the device can run a custom kernel: it has the features, shared memory and workgroup size.
func (p Pricer) runs(k *ir.CustomKernel) bool {
	return !slices.ContainsFunc(k.Needs, func(feature string) bool { return !p.Caps.Has(feature) }) &&
		uint64(k.SharedBytes) <= uint64(p.Caps.MaxSharedMemory) && workgroupFits(k.Workgroup, p.Caps)
}

// Sizes returns the sizes that rules should propose for a kernel on this device.
func (p Pricer) Sizes(k *kernel.Kernel) (s kernel.Sizes) {
	t := p.device
	switch {
	case k.Family == kernel.FamilyAttention:
		if sched, _, err := Select(k, p.Caps); err == nil && AttentionTileOf(sched).Splits > 1 {
			s.Parts = []int{AttentionTileOf(sched).Splits}
		}
	// A matmul of fewer rows runs as a matvec, for which no rule proposes another size.
	case k.Family == kernel.FamilyMatMul && len(k.Parallel) > 1 && matShapeOf(k).M > MaxMatVecRows:
		_, units := t.bestMatrixTime(k, p.Caps, 1)
		if units || k.MatMuls[0].BF16x3 {
			s.Operands = waysToStore(k)
		}
		if units && k.Fold.IsStatic() {
			s.Tails = t.tails(k, p.Caps)
		}
		if units || t.splitsFloats(k, p.Caps) {
			s.Parts = partsOf(k, units)
		}
	}
	return s
}

// Price estimates the total time of the kernels before and after a rewrite.
func (p Pricer) Price(r kernel.Rewrite) kernel.Estimate {
	if r.Work != nil {
		return p.priceWork(*r.Work, r.Before)
	}
	for _, k := range r.After {
		for _, b := range k.Bindings {
			if b.Write && (b.Elems > math.MaxInt32 || bindingBytes(b) > p.Caps.MaxStorageRange) {
				return kernel.Estimate{Note: fmt.Sprintf("%s takes %d elements, which is too many for one buffer",
					b.Name, b.Elems)}
			}
		}
	}
	before, launched, why := p.timeOf(r.Before, !r.LastSplit)
	after, launches, unknown := p.timeOf(r.After, !r.LastSplit)
	why = cmp.Or(why, unknown)
	if why != "" {
		return kernel.Estimate{Note: why}
	}
	// Launches that both have cancel out.
	before += float64(p.device.LaunchNs * float64(max(launched-launches, 0)))
	after += float64(p.device.LaunchNs * float64(max(launches-launched, 0)))
	return kernel.Estimate{Before: before, After: after, Margin: r.Margin}
}

// timeOf returns the total time in nanoseconds of kernels that run in sequence, and the number of these kernels (run).
// It skips kernels that only repack weights, because they run once, at load. splits says that a later rule splits the
// kernels' sums among workgroups if that is faster. If a time is unknown, why is the reason.
func (p Pricer) timeOf(list []*kernel.Kernel, splits bool) (sum float64, run int, why string) {
	for _, k := range list {
		if k.Family == kernel.FamilyMap && k.CanPrepare(func(int) bool { return false }) {
			continue
		}
		key := timeKey{k.Identity(), splits}
		e, ok := p.times[key]
		if !ok {
			e.time, e.why = p.device.kernelTime(k, p.Caps, splits)
			p.times[key] = e
		}
		if e.why != "" {
			return 0, 0, e.why
		}
		sum, run = sum+e.time, run+1
	}
	return sum, run, ""
}

// kernelTime estimates the time in nanoseconds of a kernel without its launch. splits says that a later rule splits its
// sums among workgroups if that is faster. If the time is unknown, why is the reason.
func (h heuristics) kernelTime(k *kernel.Kernel, caps device.Caps, splits bool) (time float64, why string) {
	switch {
	case k.Family == kernel.FamilyRow:
		// At the least, it takes as long as a kernel that normalizes a single row: 1.8 launches (M-norm-costs).
		w := kernel.Work{Bytes: h.moveTime(k) * h.CopyGBps, Groups: points(k.Parallel)}
		return max(float64(1.8*h.LaunchNs)-h.LaunchNs, h.rates().Time(w)), ""
	case k.Family == kernel.FamilyAttention:
		return h.attentionTime(k, caps)
	case k.Family != kernel.FamilyMatMul:
		return h.moveTime(k), ""
	case matShapeOf(k).M <= MaxMatVecRows || k.RowSums() || k.CutsCols(): // only matvecs do the latter two
		return h.matVecTime(k, caps)
	}
	chosen, _, _ := Select(k, caps)
	if s, ok := chosen.(kernel.Skinny); ok {
		return h.skinnyTime(k, s)
	}
	return h.tiledTime(k, caps, splits)
}

// tiledTime estimates the time of a matmul in nanoseconds: in tiles, or as a matvec if that takes its rows and is
// faster. If splits is set, the contraction may be split among workgroups. If no time is known, why is the reason.
func (h heuristics) tiledTime(k *kernel.Kernel, caps device.Caps, splits bool) (time float64, why string) {
	time, units := h.bestMatrixTime(k, caps, 1)
	if !units {
		time = h.vectorTime(k, 1)
		if time == 0 {
			return 0, "no rates of tiles are known"
		}
	}
	if splits && (units || h.splitsFloats(k, caps)) {
		for _, n := range partsOf(k, units) {
			if split, ok := h.bestMatrixTime(k, caps, n); ok {
				time = min(time, split)
			} else if !units {
				time = min(time, h.vectorTime(k, n))
			}
		}
	}
	if matShapeOf(k).M <= mostMatVecRows {
		if vec, unknown := h.matVecTime(k, caps); unknown == "" {
			time = min(time, vec)
		}
	}
	return time + h.storeTime(k), ""
}

// moveTime is the time in nanoseconds of a kernel's memory traffic. It counts only the parts of buffers that are read.
func (h heuristics) moveTime(k *kernel.Kernel) float64 {
	evaluations := points(append(slices.Clone(k.Parallel), ir.D(int(max(k.Fold.Max(), 1))))) // of each load
	bytes := int64(0)
	for bind, n := range k.Loads() {
		b := k.Bindings[bind]
		bytes += min(int64(bindingBytes(b)), n*evaluations*int64(b.DType.BlockBytes()))
	}
	return float64(bytes)/h.CopyGBps + h.storeTime(k)
}

// storeTime is the time in nanoseconds of a kernel's stores. A store that is not contiguous moves whole sectors.
func (h heuristics) storeTime(k *kernel.Kernel) float64 {
	bytes := uint64(0)
	for _, st := range k.Stores {
		b, n, inner := k.Bindings[st.Bind], points(k.Parallel), innerAxis(k)
		// A store per element writes the whole buffer: n is larger than any.
		if st.PerElement {
			n = unknownExtent
			if k.Family != kernel.FamilyRow || !rowsInterleaved(k) || storesAlongFold(k) {
				inner = k.FoldAxis()
			}
		}
		moved := min(bindingBytes(b), uint64(n)*uint64(b.DType.BlockBytes()))
		if inner >= 0 && !st.Index.Adjacent(inner, 1) {
			moved *= uint64(max(kernel.Sector/b.DType.BlockBytes(), 1))
		}
		bytes += moved
	}
	return float64(bytes) / h.CopyGBps
}

// partsOf lists the numbers of parts into which it is worthwhile to split a matmul's contraction. units says whether
// cooperative matrices multiply the parts.
func partsOf(k *kernel.Kernel, units bool) (list []int) {
	for n := 2; n <= maxParts && k.Fold.IsStatic() && partsFit(k, n, units); n *= 2 {
		list = append(list, n)
	}
	return list
}
