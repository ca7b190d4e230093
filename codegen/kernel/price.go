package kernel

import "github.com/vkc-go/vkc/ir"

// Pricer decides which proposals pay off on a device. Rules know nothing of devices and propose only rewrites that are
// correct on all of them.
type Pricer interface {
	// RoundRows reports whether to quantize rows to int8 for a matmul with a weight in block format t, given the
	// numbers of rows and of the weight's columns.
	RoundRows(t ir.DType, rows, columns ir.Dim) bool
	// ReadRows reports whether a matmul with such a weight should read rows stored as bytes with scales in that format
	// instead of as floats.
	ReadRows(t ir.DType, rows, columns ir.Dim) bool
	// StoreScores reports whether storing an attention's scores of the given size for its gradients is faster than
	// recomputing them.
	StoreScores(bytes int64) bool
	// Time estimates the time of some work in nanoseconds.
	Time(Work) float64
	// Runs reports whether the device has the features, the shared memory and the workgroup size of a custom kernel.
	Runs(*ir.CustomKernel) bool
	// Layout returns the layout for the blocks of a weight, given the kernels that read it.
	Layout(t ir.DType, readers []*Kernel) Layout
	// Sizes returns the sizes that rules should propose where these depend on the device.
	Sizes(*Kernel) Sizes
	// Price estimates the time of kernels before and after a rewrite.
	Price(Rewrite) Estimate
}

// Rewrite is a rule's proposal to replace some kernels by others.
type Rewrite struct {
	Rule          string
	Before, After []*Kernel
	// Margin is the factor by which the time before must exceed the time after, since estimates err. 0 means 1.
	Margin float64
	// LastSplit says that no later rule splits the sums of these kernels. Otherwise they are priced as split if that is
	// faster.
	LastSplit bool
}

// Estimate is the estimated time of the kernels before and after a rewrite, in nanoseconds.
type Estimate struct {
	Before, After float64
	Margin        float64 // of the rewrite
	Note          string
}

// Gain is the time that the rewrite saves, beyond the margin.
func (e Estimate) Gain() float64 { return e.Before - max(e.Margin, 1)*e.After }

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

// Work is the cost of one way to compute something, for comparing ways before kernels exist.
type Work struct {
	Form     string  // name of the way
	Bytes    float64 // read and written sequentially
	Places   float64 // scattered reads, writes and atomics, each of which moves a memory sector
	Launches int     // dependent dispatches
}

// Rates are a device's speed: bytes per nanosecond, and nanoseconds per dispatch.
type Rates struct{ Bytes, LaunchNs float64 }

// Sector is the size of a memory transaction in bytes, even if only some of them are needed.
const Sector = 32

// Time estimates the nanoseconds of some work.
func (r Rates) Time(w Work) float64 {
	return (w.Bytes+Sector*w.Places)/r.Bytes + r.LaunchNs*float64(w.Launches)
}
