package kernel

import "github.com/vkc-go/vkc/ir"

// Pricer says what pays off on a device. Passes know nothing of devices and propose only rewrites that are correct on
// all of them.
type Pricer interface {
	// Price estimates the time before and after a rewrite. A rewrite with a note is not for this device.
	Price(Rewrite) Estimate
	// Sizes returns the sizes that rules should propose for a kernel, which depend on the device's tiles.
	Sizes(*Kernel) Sizes
}

// Suits reports whether a device can do some work, and prefers that to doing without. readers are the kernels that read
// its result, if they exist.
func Suits(p Pricer, w Work, readers ...*Kernel) bool {
	return p != nil && p.Price(Rewrite{Before: readers, Work: &w}).Note == ""
}

// Rewrite is a proposal to replace some kernels by others, or by work for which there are no kernels yet.
type Rewrite struct {
	Rule          string
	Before, After []*Kernel
	Work          *Work // instead of After
	// Margin is the factor by which the time before must exceed the time after, since estimates err. 0 means 1.
	Margin float64
	// LastSplit says that no later rule splits the sums of these kernels. Otherwise they are priced as split if that is
	// faster.
	LastSplit bool
}

// Estimate is the estimated time before and after a rewrite, in nanoseconds. Note says why there is none.
type Estimate struct {
	Before, After float64
	Margin        float64 // of the rewrite
	Note          string
}

// Gain is the time that the rewrite saves, beyond the margin.
func (e Estimate) Gain() float64 { return e.Before - float64(max(e.Margin, 1)*e.After) }

// Sizes are a device's suggestions to the rules for a kernel.
type Sizes struct {
	Operands [][]StoredOperand // for a matmul: alternatives for materializing some operands
	Tails    []Tail            // for a matmul
	Parts    []int             // for split-K, or for splitting an attention's keys
}

// StoredOperand says that a matmul's operand is materialized before it, padded to Rows (along its own axis) by Depth
// (along the contraction axis). A 0 keeps the extent. Operands with a padded contraction axis are padded alike.
type StoredOperand struct {
	Operand     *Expr
	Rows, Depth int
	// Across stores the operand transposed: adjacent elements lie along the operand's own axis.
	Across bool
}

// ReadsBlocks reports whether a value is decoded from a block format.
func (k *Kernel) ReadsBlocks(v *Expr) bool {
	found := false
	Walk([]*Expr{v}, func(e *Expr) {
		found = found || e.Kind == ExprLoad && k.Bindings[e.Bind].DType.IsBlock()
	})
	return found
}

// Tail says that a separate kernel computes the results of a matmul from From on along Axis, one of the parallel axes.
type Tail struct {
	Axis int
	From int64
	// Swap transposes the tail: a few columns become a few rows, for which there are other variants.
	Swap bool
}

// Work is one way to compute something, for comparing ways before kernels exist.
type Work struct {
	Form      Form
	Bytes     float64          // read and written sequentially
	Scattered float64          // scattered reads, writes and atomics, each of which moves a memory sector
	Launches  int              // dependent dispatches
	Custom    *ir.CustomKernel // that the device must be able to run, if set
	// Format is the block format of a weight, and Rows and Columns the size of the matmul's result.
	Format        ir.DType
	Rows, Columns ir.Dim
}

// Form names a way to compute something.
type Form string

// The forms that devices prefer or not by measurement.
const (
	FormQuantizedRows Form = "quantized rows" // a kernel quantizes rows to int8 for a matmul with a quantized weight
	FormStoredRows    Form = "stored rows"    // such a matmul reads rows that are stored as int8 with scales
	FormScores        Form = "scores"         // an attention's scores are stored for its gradients, not recomputed
	FormPlanes        Form = "planes"         // the blocks of a weight lie in planes
)

// The forms of a scatter. Each except FormAnyOrder gives the same bits in every run.
const (
	FormCompare    Form = "compare"    // each destination is compared with each index, which is quadratic
	FormAccumulate Form = "accumulate" // updates change destinations by integer atomics
	FormAnyOrder   Form = "any order"  // updates change destinations by float atomics
	FormSort       Form = "sort"       // updates in the order of their indices are folded
)

// Rates are a device's speed: bytes per nanosecond, and nanoseconds per dispatch.
type Rates struct{ Bytes, LaunchNs float64 }

// Sector is the size of a memory transaction in bytes, even if only some of them are needed.
const Sector = 32

// Time estimates the nanoseconds of some work.
func (r Rates) Time(w Work) float64 {
	return (w.Bytes+float64(Sector*w.Scattered))/r.Bytes + float64(r.LaunchNs*float64(w.Launches))
}
