package kernel

// Rewrite is other kernels in place of some, which a rule proposes.
type Rewrite struct {
	Rule          string
	Before, After []*Kernel
	// Margin is how many times the time after the time before must be at least: estimates err. 0 is 1.
	Margin float64
	// LastSplit says that no later rule splits the sums of the kernels. Otherwise they are priced as if split
	// where that is faster.
	LastSplit bool
}

// Estimate is what the kernels before and after a rewrite are expected to take, in nanoseconds.
type Estimate struct {
	Before, After float64
	Margin        float64 // of the rewrite
	Note          string
}

// Gain is how much less the kernels take after the rewrite, beyond the margin.
func (e Estimate) Gain() float64 { return e.Before - max(e.Margin, 1)*e.After }

// Sizes are what a device suggests that rules propose for a kernel.
type Sizes struct {
	Operands [][]StoredOperand // of a matrix product, ways to store some of them
	Tails    []Tail            // of a matrix product
	Parts    []int             // of a contraction, or of the keys of an attention
}

// StoredOperand says that an operand of a matrix product is to be stored before
// it, with so many rows (along its own axis) of so many elements (along the
// contraction). Those beyond its own are padding; a 0 keeps the extent. Operands
// whose contraction is padded are padded alike.
type StoredOperand struct {
	Operand     *Expr
	Rows, Depth int
	// Across stores columns instead: neighbours lie along the operand's own axis.
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

// Tail says that the results of a matrix product from From on along an axis,
// one of the parallel axes, are to be computed by a kernel of their own.
type Tail struct {
	Axis int
	From int64
	// Swap exchanges rows and columns of what is cut off: few columns are then few
	// rows, for which there are other variants.
	Swap bool
}

// Work is what a way to compute something takes, where ways are compared before there are kernels.
type Work struct {
	Form     string  // which way it is
	Bytes    float64 // read and written in order
	Places   float64 // reads, writes and atomics at places of their own, each of which moves a sector of memory
	Launches int     // of kernels that wait for one another
}

// Rates are what a device does of that in a nanosecond, or takes for it.
type Rates struct{ Bytes, LaunchNs float64 }

// Sector is how many bytes are moved where only some of them are wanted.
const Sector = 32

// Time is how many nanoseconds some work takes.
func (r Rates) Time(w Work) float64 {
	return (w.Bytes+Sector*w.Places)/r.Bytes + r.LaunchNs*float64(w.Launches)
}
