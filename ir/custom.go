package ir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// CustomOp describes an op that a program adds to the op table with RegisterCustom. The program supplies its device
// code in one of two forms. Expr or Body is a GLSL function of one element, which is fused like any elementwise op.
// Kernel is a complete compute shader in GLSL or SPIR-V.
type CustomOp struct {
	// Name is "package.op", such as "acme.snake": two words of lower-case letters and digits; the second may also have
	// single underscores. The dot distinguishes custom ops from vkc's own.
	Name string
	// Doc describes the op in one line.
	Doc string
	// Args declares the arguments: at least one, and none variadic. The GLSL refers to them by name.
	Args []ArgInfo
	// Attrs declares attributes of kind int, float or bool. The GLSL sees each as a constant of the same name.
	Attrs []AttrInfo

	// Infer is the shape and dtype rule. It returns the type of each result; only kernels may have more than one. It
	// may assume a valid argument count and valid attributes. If it is nil, arguments broadcast and share one float
	// dtype, which is also the result's. Kernels must have an Infer.
	Infer func(c *Call) ([]Type, error)

	// Expr is a GLSL expression over the arguments and attributes. Alternatively, Body has the statements of a GLSL
	// function that returns the result. f16, bf16 and 8-bit floats have type float, i8 and i16 int, u8 and u16 uint,
	// others their GLSL type: bool, int, uint, double, int64_t.
	Expr, Body string
	// Kernel replaces both by a complete compute shader.
	Kernel *CustomKernel

	// Float and Int are the reference implementation of Expr and Body, in float64 if any argument is a float, and in
	// exact integers. Reference implements Kernel and returns all results. They are optional: without one the op only
	// runs on devices, and comparing it with the reference is an error.
	Float     func(x []float64, a Attrs) float64
	Int       func(x []int64, a Attrs) int64
	Reference func(args []*Data, a Attrs) ([]*Data, error)

	// Tol is how far a device may be from the reference.
	Tol Tolerance
}

// CustomKernel is a complete compute shader. The source sees each argument and result as an array with its name, in the
// dtype's storage type: f16 is float16_t, bf16 uint16_t, f8e4m3, u8 and bool uint8_t, i8 int8_t, a block format the
// largest of uint, uint16_t and uint8_t whose size divides the block size. Arguments are readonly, and results are
// writeonly except those in Zeroed. The constants NAME_size and NAME_dim0, NAME_dim1, … of type uint are the number of
// elements and the extents.
type CustomKernel struct {
	// Outputs names the results, at least one.
	Outputs []string
	// Zeroed names results that are filled with 0 before the kernel starts. The kernel may read them, update them with
	// atomics from several invocations, and leave elements unwritten. If the source calls memoryBarrierBuffer, these
	// results are coherent: after that and a barrier, an invocation reads what others of its workgroup have written.
	Zeroed []string
	// Body has the statements of main. In every run it must write each element of each other result from exactly one
	// invocation, and no invocation may access memory outside the arrays.
	Body string
	// Shared has declarations outside of main: shared memory and functions. Extents that depend on a symbol are only
	// available in Body.
	Shared string
	// SharedBytes is the size of the shared variables.
	SharedBytes int
	// SPIRV replaces Body and Shared for a shader that was compiled elsewhere. It is a module of SPIR-V 1.0 to 1.5 with
	// one entry point, a compute shader named main. Its storage buffers are the arguments and then the results, in set
	// 0 from binding 0 on; arguments are decorated NonWritable. It has no push constants, images or physical addresses,
	// and its workgroup size is Workgroup.
	SPIRV []byte
	// Constants names the values of SPIRV's specialization constants, by SpecId: NAME_size or NAME_dim0, NAME_dim1, …
	// (32 bits), or an attribute (int and float of 32 bits, bool). An extent that depends on a symbol cannot be a
	// constant: the module must derive it from the number of workgroups.
	Constants []string
	// Workgroup is the workgroup size by dimension; 0 counts as 1.
	Workgroup [3]int
	// Grid is the number of workgroups by dimension: the product of the factors, or 1 if there are none.
	Grid [3][]GridRule
	// Needs lists features that the source uses beyond the features for its dtypes, by their names in device.Caps.Has,
	// such as "subgroup_basic".
	Needs []string
}

// GridRule is one factor of a grid dimension: the extent of an axis of an
// argument or result, divided by Tile and rounded up.
type GridRule struct {
	Of   string // the argument's or result's name
	Axis int    // from the end if negative; AllAxes is the number of elements
	Tile int    // at least 1
}

// AllAxes means all axes of a tensor in a GridRule.
const AllAxes = 1 << 20

// Limits on custom ops.
const (
	maxCustomOps  = 1 << 12
	maxCustomText = 1 << 16 // bytes of Expr, Body or another GLSL field
	maxCustomSPV  = 1 << 20 // bytes of a SPIR-V module
	maxCustomArgs = 12      // arguments and results of a kernel, so that all devices can bind them
)

// outputAttr is the attribute that says which result of the kernel a node has. Only kernels with several have it.
const outputAttr = "output"

// custom is the table of registered custom ops.
var custom struct {
	sync.Mutex                           // held by RegisterCustom
	rows       atomic.Pointer[[]*OpInfo] // by op - numOps; replaced, never changed
}

// customRows returns the rows of all registered custom ops: op numOps+i has row i.
func customRows() []*OpInfo {
	if p := custom.rows.Load(); p != nil {
		return *p
	}
	return nil
}

// RegisterCustom adds an op to the table and returns it. Call it once per process, before reading graphs that use the
// op, ideally to initialize a package variable. It returns an error if the op is invalid. It is safe for concurrent
// use.
func RegisterCustom(c CustomOp) (Op, error) {
	c = c.clone()
	info, err := c.row()
	if err != nil {
		return 0, fmt.Errorf("custom op %q: %w", clip(c.Name), err)
	}
	custom.Lock()
	defer custom.Unlock()
	have := customRows()
	switch {
	case slices.ContainsFunc(have, func(o *OpInfo) bool { return o.Name == c.Name }):
		return 0, fmt.Errorf("custom op %q is already registered: register an op only once, in a package "+
			"variable", c.Name)
	case len(have) >= maxCustomOps:
		return 0, fmt.Errorf("custom op %q: there are already %d custom ops, the limit", c.Name, maxCustomOps)
	}
	info.Op = numOps + Op(len(have))
	// Readers may hold the old list, so the new one has its own memory.
	all := append(slices.Clip(have), info)
	custom.rows.Store(&all)
	return info.Op, nil
}

// MustRegisterCustom registers an op as RegisterCustom does, but panics on an error. It is for package variables.
func MustRegisterCustom(c CustomOp) Op {
	op, err := RegisterCustom(c)
	if err != nil {
		panic("ir: " + err.Error())
	}
	return op
}

// customNamed returns the custom op of a name, or an error if there is none.
func customNamed(name string) (Op, error) {
	var names []string
	for _, in := range customRows() {
		if in.Name == name {
			return in.Op, nil
		}
		names = append(names, in.Name)
	}
	known := "no custom op is"
	if len(names) > 0 {
		known = "registered are " + clip(strings.Join(names, ", "))
	}
	return 0, fmt.Errorf("custom op %q %w (%s): call ir.RegisterCustom, or import the package that does, before "+
		"reading the graph",
		clip(name), ErrNotRegistered, known)
}

// ErrNotRegistered means that a graph uses a custom op that this process has not registered.
var ErrNotRegistered = errors.New("is not registered in this process")

// clone makes a deep copy, so that the caller cannot change the op later.
func (c CustomOp) clone() CustomOp {
	c.Args, c.Attrs = slices.Clone(c.Args), slices.Clone(c.Attrs)
	if c.Kernel != nil {
		k := *c.Kernel
		k.Outputs, k.Zeroed, k.Needs = slices.Clone(k.Outputs), slices.Clone(k.Zeroed), slices.Clone(k.Needs)
		k.SPIRV, k.Constants = slices.Clone(k.SPIRV), slices.Clone(k.Constants)
		for i := range k.Grid {
			k.Grid[i] = slices.Clone(k.Grid[i])
		}
		for i, n := range k.Workgroup {
			if n == 0 {
				k.Workgroup[i] = 1
			}
		}
		c.Kernel = &k
	}
	return c
}

// customCost is the assumed cost of a custom op per element: as much as a transcendental function.
const customCost = 16

// row checks the op and returns its row for the op table.
func (c *CustomOp) row() (*OpInfo, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	info := &OpInfo{Name: c.Name, Class: ClassElementwise, Cost: customCost, Args: c.Args, Attrs: c.Attrs,
		Float: c.Float, Int: c.Int,
		Tol: c.Tol, Doc: c.Doc, Custom: c}
	if c.Kernel != nil {
		info.Class = ClassCustom
		if n := len(c.Kernel.Outputs); n > 1 {
			info.Attrs = append(slices.Clip(c.Attrs),
				AttrInfo{Name: outputAttr, Kind: AttrInt, Default: int64(0), Doc: "which result"})
		}
	}
	info.Infer = c.inferOne
	return info, nil
}

// inferOne returns the type of the one result that a node of the op has. Attribute outputAttr selects it.
func (c *CustomOp) inferOne(call *Call) (Type, error) {
	types, err := c.Results(call)
	if err != nil {
		return Type{}, err
	}
	i := call.Attrs.Int(outputAttr)
	if i < 0 || i >= len(types) {
		return Type{}, fmt.Errorf("output %d of an op with %d results", i, len(types))
	}
	return types[i], nil
}

// Results returns the type of every result of a call.
func (c *CustomOp) Results(call *Call) ([]Type, error) {
	if c.Infer == nil {
		t, err := inferCustomScalar(call)
		return []Type{t}, err
	}
	types, err := c.Infer(call)
	if err != nil {
		return nil, err
	}
	want := 1
	if c.Kernel != nil {
		want = len(c.Kernel.Outputs)
	}
	if len(types) != want {
		return nil, fmt.Errorf("the op's Infer gives %d types for %d results", len(types), want)
	}
	for _, t := range types {
		if !t.DType.Valid() || t.DType.IsBlock() {
			return nil, fmt.Errorf("the op's Infer returns %s: results of custom ops have no block format", t.DType)
		}
	}
	if c.Kernel == nil {
		return types, c.checkScalarShape(call, types[0])
	}
	return types, nil
}

// checkScalarShape returns an error unless an elementwise op with result type t can be fused: no argument is a block,
// and the result has the broadcast shape of the arguments.
func (c *CustomOp) checkScalarShape(call *Call, t Type) error {
	for i := range call.Args {
		if call.DType(i).IsBlock() {
			return call.wantKinds(i, KindFloat, KindInt, KindUint, KindBool)
		}
	}
	s, err := call.broadcastArgs()
	if err == nil && !s.Equal(t.Shape) {
		err = fmt.Errorf("the op's Infer returns shape %s: for a function of one element it must return the broadcast "+
			"shape of the arguments, %s", t.Shape, s)
	}
	return err
}

// inferCustomScalar is the rule for an op without Infer: arguments broadcast and share one float dtype.
func inferCustomScalar(c *Call) (Type, error) {
	for i := range c.Args {
		if err := c.wantKinds(i, KindFloat); err != nil {
			return Type{}, err
		}
		if err := c.wantSame(0, i); err != nil {
			return Type{}, err
		}
	}
	s, err := c.broadcastArgs()
	return Type{c.DType(0), s}, err
}

// NodeCall returns the call that made a node, for an Infer or Results after the node exists.
func NodeCall(n *Node) *Call { return &Call{Op: n.op, Args: n.args, Attrs: n.attrs} }

// Exchanges reports whether invocations of a workgroup read elements of results that other invocations have written.
func (k *CustomKernel) Exchanges() bool {
	return strings.Contains(k.Body, "memoryBarrierBuffer") || strings.Contains(k.Shared, "memoryBarrierBuffer")
}

// OutputIndex returns the index of the kernel's result that a node of a custom op has.
func OutputIndex(n *Node) int { return n.attrs.Int(outputAttr) }

// WithOutput returns a copy of a node's attributes that selects result i of the same call.
func WithOutput(a Attrs, i int) Attrs {
	out := slices.Clone(a)
	for j := range out {
		if out[j].Name == outputAttr {
			out[j].Value = int64(i)
		}
	}
	return out
}

// Evaluate computes all results of a kernel by its Go reference and checks their types. It returns ErrNoReference if
// there is none.
func (c *CustomOp) Evaluate(args []*Data, a Attrs, want []Type, symbols map[string]int64) ([]*Data, error) {
	if c.Reference == nil {
		return nil, fmt.Errorf("custom op %s: %w", c.Name, ErrNoReference)
	}
	out, err := c.Reference(args, a)
	if err != nil {
		return nil, fmt.Errorf("reference of custom op %s: %w", c.Name, err)
	}
	if len(out) != len(want) {
		return nil, fmt.Errorf("reference of custom op %s: %d results, want %d", c.Name, len(out), len(want))
	}
	for i, d := range out {
		dims, err := want[i].Shape.Eval(symbols)
		if err != nil {
			return nil, err
		}
		switch {
		case d == nil:
			return nil, fmt.Errorf("reference of custom op %s: result %d is nil", c.Name, i)
		case d.Check() != nil || d.DType != want[i].DType || !slices.Equal(d.Dims, dims):
			return nil, fmt.Errorf("reference of custom op %s: result %d is %s, want %s%v", c.Name, i, d,
				want[i].DType, dims)
		}
	}
	return out, nil
}

// ErrNoReference means that a custom op has no Go reference.
var ErrNoReference = errors.New("only a device can run the op, because it has no Go reference: set Float, Int or " +
	"Reference when registering it")

// Definition returns a digest of everything that defines the op's kernel: its GLSL or SPIR-V and its launch parameters.
// The hash of a graph includes it together with the name, attributes and types, so that a cached program of other GLSL
// is never used.
func (c *CustomOp) Definition() string {
	h := sha256.New()
	part := func(v ...any) { fmt.Fprintf(h, "%q\n", fmt.Sprint(v...)) }
	for _, a := range c.Args {
		part("arg", a.Name)
	}
	part("expr", c.Expr)
	part("body", c.Body)
	if k := c.Kernel; k != nil {
		part("kernel", k.Body)
		part("shared", k.Shared)
		part("outputs", k.Outputs, k.SharedBytes, k.Workgroup, k.Grid, k.Needs)
		if len(k.Zeroed) > 0 {
			part("zeroed", k.Zeroed)
		}
		if k.SPIRV != nil {
			part("spirv", fmt.Sprintf("%x", sha256.Sum256(k.SPIRV)), k.Constants)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}
