package ir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Op names one row of the op table.
type Op uint16

// Class groups ops by how they are compiled.
type Class uint8

// The op classes.
const (
	ClassLeaf        Class = iota + 1 // inputs, weights, constants, state: no arguments
	ClassElementwise                  // one result element from the elements at the same coordinates; fuses anywhere
	ClassView                         // a change of indices, which never needs its own kernel
	ClassReduce                       // reduces axes
	ClassScan                         // sequential along an axis: cumulative sums, sorts
	ClassRow                          // normalizes along an axis: reads each row once
	ClassContraction                  // matmul family
	// Each element of the result depends on a window of the argument: convolutions, pooling, resizing.
	ClassWindow
	ClassIndexing  // gathers or scatters elements by computed or stored indices
	ClassAttention // scaled dot-product attention
	ClassRecurrent // goes along time with a state
	ClassRandom    // computed from each element's index; fuses like elementwise ops
	ClassComposite // defined by its decomposition
	ClassControl   // runs its own graphs: branches and loops
	ClassCustom    // a custom kernel; see CustomOp
	ClassLinear    // Fourier transforms and linear algebra: whole rows or matrices, never fused
)

var classNames = [...]string{"", "leaf", "elementwise", "view", "reduce", "scan", "row", "contraction", "window",
	"indexing", "attention", "recurrent", "random", "composite", "control", "custom", "linear"}

// String returns the class name as docs/OPS.md prints it.
func (c Class) String() string { return classNames[c] }

// ArgInfo declares one argument of an op.
type ArgInfo struct {
	Name     string
	Optional bool // may be omitted, together with all later ones
	Variadic bool // one or more; only the last argument
	// Picks names the argument that this argument's elements index, along the axis of attribute axis or else the
	// outermost. An index out of range is clamped.
	Picks string
}

// GLSL is the scalar form of an elementwise op, per kind of arithmetic: an expression over {0}, {1}, … (arguments) and
// {name} (attributes). An empty string means that the op does not support that kind.
type GLSL struct {
	Float, Int, Uint, Bool string
}

// Tolerance bounds the difference between a device's result and the reference: |got-want| <= Abs + Eps*eps(dtype)*m,
// where m is |want|, or for results of sums the largest |want| of the tensor.
type Tolerance struct {
	Eps float64 // in units of the result dtype's machine epsilon
	Abs float64
	Sum bool // m is the tensor's largest magnitude
}

// OpInfo is one row of the op table. It has all information on an op, except kernels that need more than a scalar
// formula.
type OpInfo struct {
	Op    Op
	Name  string
	Class Class
	Args  []ArgInfo
	Attrs []AttrInfo

	// Infer is the shape and dtype rule. It may only assume that the argument count is valid and that the attributes
	// are present with the right kinds.
	Infer func(c *Call) (Type, error)

	// Float and Int are the scalar reference of an elementwise op, in float64 and in exact integers (bool is 0 or 1).
	// The caller rounds or wraps the result to the result dtype.
	Float func(x []float64, a Attrs) float64
	Int   func(x []int64, a Attrs) int64
	GLSL  GLSL

	// Known, for an elementwise op, returns a shorter scalar form for special values of attributes and arguments.
	// known(i) returns the value of argument i if all its elements are one number that the compiler knows. See
	// [OpInfo.Form].
	Known func(attrs Attrs, known func(arg int) (float64, bool)) GLSL

	// Fold is the definition of an op that folds rows.
	Fold *Fold

	// Running, for a scan, is the basic reduction (see Step) that the scan applies to each prefix: sum for cumsum.
	Running Op

	// Picks reports whether the op computes each element of the result from elements of argument 0, which then must not
	// be empty. Ops with indices use [ArgInfo.Picks] instead.
	Picks func(a Attrs) bool

	// Moves says that the op only stores, moves or casts elements, so that it takes every scalar dtype. Other ops
	// refuse a dtype that is [DType.StorageOnly].
	Moves bool

	// Cost is the approximate number of arithmetic operations per element; 0 means package passes' default for the
	// class.
	Cost int

	Tol Tolerance
	Doc string

	// NoGrad says why the op has no gradient. If it is empty, package frontend has a gradient rule.
	NoGrad string

	// Custom is set for an op that RegisterCustom has added.
	Custom *CustomOp
}

// Form returns the scalar form of an elementwise op. known(i) returns the value of argument i, if all its elements are
// one known number. If such a value allows a shorter form (see Known), Form returns that, and otherwise the form in
// GLSL.
func (in *OpInfo) Form(attrs Attrs, known func(arg int) (float64, bool)) GLSL {
	g := in.GLSL
	if in.Known == nil {
		return g
	}
	short := in.Known(attrs, known)
	return GLSL{Float: cmp.Or(short.Float, g.Float), Int: cmp.Or(short.Int, g.Int), Uint: cmp.Or(short.Uint, g.Uint),
		Bool: cmp.Or(short.Bool, g.Bool)}
}

// costs returns the row with a cost of n operations per element.
func (in OpInfo) costs(n int) OpInfo {
	in.Cost = n
	return in
}

// with returns the row with Known set: shorter forms for special values.
func (in OpInfo) with(known func(Attrs, func(arg int) (float64, bool)) GLSL) OpInfo {
	in.Known = known
	return in
}

// IsExact reports whether an elementwise op never rounds in float dtype t, as max does not: if its arguments are values
// of t, so is its result.
func (in *OpInfo) IsExact(t DType, attrs Attrs) bool {
	if in.Custom != nil || in.Tol != (Tolerance{}) {
		return false
	}
	for _, a := range attrs {
		if v, ok := a.Value.(float64); ok && RoundTo(v, t) != v {
			return false
		}
	}
	return true
}

// Converts reports whether an elementwise op, such as cast, converts elements to the dtype in its attribute rather than
// applying a scalar formula.
func (in *OpInfo) Converts() bool {
	return in.Class == ClassElementwise &&
		slices.ContainsFunc(in.Attrs, func(a AttrInfo) bool { return a.Kind == AttrDType })
}

// Arg returns the index of the argument of that name, or -1.
func (in *OpInfo) Arg(name string) int {
	return slices.IndexFunc(in.Args, func(a ArgInfo) bool { return a.Name == name })
}

// MinArgs returns the smallest number of arguments.
func (in *OpInfo) MinArgs() int {
	n := 0
	for _, a := range in.Args {
		if !a.Optional {
			n++
		}
	}
	return n
}

// MaxArgs returns the largest number of arguments.
func (in *OpInfo) MaxArgs() int {
	if len(in.Args) > 0 && in.Args[len(in.Args)-1].Variadic {
		return 1 << 12
	}
	return len(in.Args)
}

// The op table, by op and by name. init functions fill it: a literal would be an initialization cycle, because shape
// rules print op names, which are in the table.
var (
	opTable  [numOps]*OpInfo
	opByName = map[string]Op{}
)

// rows adds rows to the op table.
func rows(list ...OpInfo) {
	for i := range list {
		in := &list[i]
		if opTable[in.Op] != nil {
			panic("ir: op row declared twice: " + in.Name)
		}
		if _, ok := opByName[in.Name]; ok {
			panic("ir: op name declared twice: " + in.Name)
		}
		opTable[in.Op] = in
		opByName[in.Name] = in.Op
	}
}

// Ops returns vkc's own ops, in table order, without custom ops.
func Ops() []Op {
	all := make([]Op, 0, numOps-1)
	for op := Op(1); op < numOps; op++ {
		all = append(all, op)
	}
	return all
}

// ParseOp returns the op of that name.
func ParseOp(name string) (Op, error) {
	if op, ok := opByName[name]; ok {
		return op, nil
	}
	if strings.Contains(name, ".") {
		return customNamed(name)
	}
	if near := nearestOp(name); near != "" {
		return 0, fmt.Errorf("unknown op %q: did you mean %q? docs/OPS.md lists all ops", name, near)
	}
	return 0, fmt.Errorf("unknown op %q: docs/OPS.md lists all ops", name)
}

// Info returns the op's row of the op table. For an unknown op it returns a row with only a name.
func (op Op) Info() *OpInfo {
	if rows := customRows(); op >= numOps && int(op-numOps) < len(rows) {
		return rows[op-numOps]
	}
	if op == 0 || op >= numOps || opTable[op] == nil {
		return &OpInfo{Name: fmt.Sprintf("op(%d)", uint16(op))}
	}
	return opTable[op]
}

// String returns the op's name.
func (op Op) String() string { return op.Info().Name }

// Class returns the op's class.
func (op Op) Class() Class { return op.Info().Class }

// nearestOp returns the op name with the smallest edit distance, if that is at most 2, or "".
func nearestOp(name string) string {
	if len(name) > 40 { // longer than all names: save the time
		return ""
	}
	best, bestDist := "", 3
	for _, n := range slices.Sorted(maps.Keys(opByName)) {
		if d := editDistance(name, n); d < bestDist {
			best, bestDist = n, d
		}
	}
	return best
}

// editDistance returns the number of insertions, deletions and replacements of bytes that turn a into b (Wagner and
// Fischer 1974).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // after i rounds: the distances of a[:i] to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		prev := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			prev, row[j] = row[j], min(row[j]+1, row[j-1]+1, prev+cost)
		}
	}
	return row[len(b)]
}
