package kernel

import "github.com/vkc-go/vkc/ir"

// Pricer estimates times on one device. Passes know nothing about devices: they propose only rewrites that are correct
// on all devices, and the Pricer decides which of them are faster.
type Pricer interface {
	// Price estimates the time before and after a rewrite. If the estimate has a Note, this device should not do the
	// rewrite.
	Price(Rewrite) Estimate
	// Sizes returns the sizes that rules should propose for a kernel, which depend on the device's tiles.
	Sizes(*Kernel) Sizes
}

// Suits reports whether a device can do some work, and is faster with it than without. readers are the kernels that
// read the work's result, if they exist already.
func Suits(p Pricer, w Work, readers ...*Kernel) bool {
	return p != nil && p.Price(Rewrite{Before: readers, Work: &w}).Note == ""
}

// Rewrite is a proposal to replace some kernels by other kernels, or by work that has no kernels yet.
type Rewrite struct {
	Rule          string
	Before, After []*Kernel
	Work          *Work // instead of After
	// Margin says how much faster the new kernels must be, because estimates have errors: the old time must exceed
	// Margin times the new time. 0 means 1.
	Margin float64
	// LastSplit says that no later rule splits the sums of these kernels among workgroups. Without it, the Pricer
	// assumes that a later rule splits them if that is faster.
	LastSplit bool
}

// Estimate is the estimated time before and after a rewrite, in nanoseconds. Note, if set, says why there is no
// estimate.
type Estimate struct {
	Before, After float64
	Margin        float64 // see Rewrite.Margin
	Note          string
}

// Gain is the time in nanoseconds that the rewrite saves, beyond the margin.
func (e Estimate) Gain() float64 { return e.Before - float64(max(e.Margin, 1)*e.After) }

// Sizes are the sizes that a device suggests to the rules for one kernel.
type Sizes struct {
	Operands [][]StoredOperand // for a matmul: alternatives for materializing some operands
	Tails    []Tail            // for a matmul: parts to compute separately
	Parts    []int             // numbers of parts, for split-K, or for splitting an attention's keys
}

// StoredOperand says that a matmul's operand is materialized before the matmul. It is padded to Rows elements along its
// own axis (the rows of A, or the columns of B), and to Depth elements along the contraction axis. 0 means no padding.
// If the contraction axis of one operand is padded, the contraction axis of the other operand is too.
type StoredOperand struct {
	Operand     *Expr
	Rows, Depth int
	// Across stores the operand transposed: adjacent elements lie along the operand's own axis.
	Across bool
}

// ReadsBlocks reports whether a value is decoded from a block format.
func (k *Kernel) ReadsBlocks(v *Expr) bool {
	return Any([]*Expr{v}, func(e *Expr) bool { return e.Kind == ExprLoad && k.Bindings[e.Bind].DType.IsBlock() })
}

// Tail says that a separate kernel computes the results of a matmul with coordinates From and above along a parallel
// axis.
type Tail struct {
	Axis int
	From int64
	// Swap transposes the tail, so that a few columns become a few rows: there are other variants for few rows.
	Swap bool
	// Only says that this cut is not combined with a cut along another axis.
	Only bool
}

// Work describes one way to compute something, so that ways can be compared before there are kernels for them.
type Work struct {
	Form      Form
	Bytes     float64          // bytes read and written sequentially
	Scattered float64          // number of scattered reads, writes and atomics, each of which moves a memory sector
	Launches  int              // number of dependent dispatches
	Groups    int64            // workgroups that share the work, each on its own core; 0 means enough for all cores
	Custom    *ir.CustomKernel // the kernel that the device must be able to run, if set
	// Format is the block format of a weight. Rows and Columns are the extents of the matmul's result, and Depth is the
	// extent of its contraction axis. For FormSteps, Rows is the number of rows of all states together, Columns the
	// number of elements of a row, and Depth the number of times. For FormKeptRows, Rows is the number of rows, Depth
	// their length, and Format their dtype.
	Format               ir.DType
	Rows, Columns, Depth ir.Dim
	Matmuls              []MatmulWork // in f32, each a dispatch that is not in Launches
}

// MatmulWork is a batch of matmuls [Rows, Depth] x [Depth, Columns].
type MatmulWork struct{ Batch, Rows, Columns, Depth int64 }

// Form names a way to compute something.
type Form string

// The forms that devices prefer or not by measurement.
const (
	FormQuantizedRows Form = "quantized rows" // a kernel quantizes rows to int8 for a matmul with a quantized weight
	FormStoredRows    Form = "stored rows"    // a matmul with a quantized weight reads rows stored as int8 with scales
	FormHalves        Form = "halves"         // such a matmul reads exact rows that are stored as sums of two f16
	FormScores        Form = "scores"         // an attention stores its scores for its gradients
	FormPlanes        Form = "planes"         // the blocks of a weight lie in planes
	FormKeptRows      Form = "kept rows"      // a kernel reads interleaved rows once, and keeps them in registers
)

// The forms of a scan with a matrix as its state.
const (
	FormSteps  Form = "steps"  // one time after the other, with the state in registers
	FormChunks Form = "chunks" // chunks of times by matmuls, and a scan along their states
)

// The forms of a scatter. Each except FormAnyOrder gives the same bits in every run.
const (
	FormCompare    Form = "compare"    // each destination is compared with each index, which is quadratic
	FormAccumulate Form = "accumulate" // updates change destinations by integer atomics
	FormAnyOrder   Form = "any order"  // updates change destinations by float atomics
	FormSort       Form = "sort"       // updates are sorted by their indices, and folded in that order
)

// Rates are a device's speed: bytes per nanosecond of all cores together, and nanoseconds per dispatch.
type Rates struct {
	Bytes, LaunchNs float64
	Cores           int64 // 0 if unknown
}

// Sector is the size in bytes of a memory transaction: a read of fewer bytes moves a whole sector.
const Sector = 32

// Time estimates the time of some work, in nanoseconds.
func (r Rates) Time(w Work) float64 {
	bytes := w.Bytes + float64(Sector*w.Scattered)
	if w.Groups > 0 && w.Groups < r.Cores {
		bytes *= float64(r.Cores) / float64(w.Groups)
	}
	return bytes/r.Bytes + float64(r.LaunchNs*float64(w.Launches))
}
