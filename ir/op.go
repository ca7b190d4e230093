package ir

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Op names one row of the op table.
type Op uint16

// Class groups ops by the way they are compiled.
type Class uint8

// The op classes.
const (
	ClassLeaf        Class = iota + 1 // inputs, weights, constants, state: no arguments
	ClassElementwise                  // one result element from the elements at the same coordinates; fuses anywhere
	ClassView                         // an index map; never a kernel of its own
	ClassReduce                       // folds axes away
	ClassScan                         // along an axis whose order counts: running sums, sorts
	ClassRow                          // normalizes along an axis: reads each row once
	ClassContraction                  // matmul family
	ClassWindow                       // a result element from a window of the argument: convolutions, pooling, resizing
	ClassIndexing                     // moves elements by computed or stored indices
	ClassAttention                    // scaled dot-product attention
	ClassRandom                       // computed from each element's number, as if elementwise
	ClassComposite                    // defined by its decomposition
	ClassControl                      // runs graphs of its own: branches and loops
	ClassCustom                       // a whole kernel of the program's own; see CustomOp
)

var classNames = [...]string{"", "leaf", "elementwise", "view", "reduce", "scan", "row", "contraction", "window",
	"indexing", "attention", "random", "composite", "control", "custom"}

// String returns the class name as docs/OPS.md prints it.
func (c Class) String() string { return classNames[c] }

// ArgInfo declares one argument of an op.
type ArgInfo struct {
	Name     string
	Optional bool // may be left out, together with all after it
	Variadic bool // one or more; only the last argument
	// Picks names the argument whose elements the op picks by this one: indices of its axis, which is attribute axis,
	// or the outermost. One out of range stands for the nearest.
	Picks string
}

// GLSL is the scalar form of an elementwise op, per kind of arithmetic: an
// expression over {0}, {1}, … (arguments) and {name} (attributes). An empty
// string means the op does not take that kind.
type GLSL struct {
	Float, Int, Uint, Bool string
}

// Tolerance bounds how far a device result may be from the reference:
// |got-want| <= Abs + Eps*eps(dtype)*m, where m is |want|, or for results that
// come from sums the largest |want| of the tensor.
type Tolerance struct {
	Eps float64 // in units of the result dtype's machine epsilon (at most f32's precision is assumed)
	Abs float64
	Sum bool // m is the tensor's largest magnitude
}

// OpInfo is one row of the op table: everything vkc knows of an op outside
// the kernels that need more than a scalar formula.
type OpInfo struct {
	Op    Op
	Name  string
	Class Class
	Args  []ArgInfo
	Attrs []AttrInfo

	// Infer is the shape and dtype rule. It may trust the argument count and
	// the attributes' presence and kinds, nothing else.
	Infer func(c *Call) (Type, error)

	// Float and Int are the scalar reference of an elementwise op, in float64
	// and in exact integers (bool is 0 or 1). The caller rounds or wraps the
	// result to the result dtype.
	Float func(x []float64, a Attrs) float64
	Int   func(x []int64, a Attrs) int64
	GLSL  GLSL

	// Known, of an elementwise op, returns a shorter scalar form where the values of attributes and of arguments say
	// more; known gives that of an argument which is one number everywhere. See [OpInfo.Form].
	Known func(attrs Attrs, known func(arg int) (float64, bool)) GLSL

	// Fold is the definition of an op that folds rows.
	Fold *Fold

	// Running, of a scan, is the basic reduction (see Step) whose results so far are the op's.
	Running Op

	// Picks reports whether each element of the result is one of argument 0, or made of some of them, of which there
	// must be one then. Ops that pick by indices say so of these, in [ArgInfo.Picks].
	Picks func(a Attrs) bool

	// Cost is about how many arithmetic operations an element takes; 0 stands for what package passes takes
	// for usual in the class.
	Cost int

	Tol Tolerance
	Doc string

	// NoGrad says why the op has no gradient. Where it is empty, package frontend has a rule for it.
	NoGrad string

	// Custom is set for an op that RegisterCustom has added.
	Custom *CustomOp
}

// Form returns the scalar form of an elementwise op, given its attributes and those arguments that are one number
// everywhere.
func (in *OpInfo) Form(attrs Attrs, known func(arg int) (float64, bool)) GLSL {
	g := in.GLSL
	if in.Known == nil {
		return g
	}
	short := in.Known(attrs, known)
	return GLSL{Float: cmp.Or(short.Float, g.Float), Int: cmp.Or(short.Int, g.Int), Uint: cmp.Or(short.Uint, g.Uint),
		Bool: cmp.Or(short.Bool, g.Bool)}
}

// costs sets the cost of a row.
func (in OpInfo) costs(n int) OpInfo {
	in.Cost = n
	return in
}

// with gives a row shorter forms for what is known.
func (in OpInfo) with(known func(Attrs, func(arg int) (float64, bool)) GLSL) OpInfo {
	in.Known = known
	return in
}

// IsExact reports whether an elementwise op needs no rounding in float dtype t:
// of arguments that are values of t the result is one too, as the larger of two is.
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

// Converts reports whether an elementwise op makes elements of another dtype by a rule of dtypes, which is no scalar
// formula: the new dtype is its attribute.
func (in *OpInfo) Converts() bool {
	return in.Class == ClassElementwise &&
		slices.ContainsFunc(in.Attrs, func(a AttrInfo) bool { return a.Kind == AttrDType })
}

// Arg returns which argument has that name, or -1.
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

// The table is filled by init functions rather than by one literal because
// shape rules print op names, which reads the table.
var (
	opTable  [numOps]*OpInfo
	opByName = map[string]Op{}
)

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

// Ops returns every op of vkc's own, in table order; CustomOps has the others.
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

// Info returns the op's row.
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

// nearestOp returns the op name at the smallest edit distance, if that is at
// most 2.
func nearestOp(name string) string {
	if len(name) > 40 {
		return ""
	}
	names := make([]string, 0, len(opByName))
	for n := range opByName {
		names = append(names, n)
	}
	sort.Strings(names)
	best, bestDist := "", 3
	for _, n := range names {
		if d := editDistance(name, n); d < bestDist {
			best, bestDist = n, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
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
