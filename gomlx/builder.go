package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/compute/support/sets"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Builder makes one computation.
type Builder struct {
	notimplemented.Builder
	backend  *Backend
	name     string
	main     *Function
	compiled bool
}

var _ compute.Builder = (*Builder)(nil)

// Name implements compute.Builder: it returns the computation's name.
func (b *Builder) Name() string { return b.name }

// Main implements compute.Builder: it returns the function that the computation runs.
func (b *Builder) Main() compute.Function { return b.main }

// NewFunction implements compute.Builder: it returns an empty function that other functions of the computation can
// call.
func (b *Builder) NewFunction(name string) (compute.Function, error) {
	switch {
	case b.compiled:
		return nil, errors.Errorf("function %q: computation %q is compiled already", name, b.name)
	case name == "" || name == compute.MainName:
		return nil, errors.Errorf("function %q: a function needs a name other than %q", name, compute.MainName)
	}
	return b.function(name, nil), nil
}

func (b *Builder) function(name string, parent *Function) *Function {
	return &Function{Function: notimplemented.Function{ErrFn: notImplemented}, builder: b, name: name, parent: parent}
}

// OpShape implements compute.Builder: it returns the shape of a value.
func (b *Builder) OpShape(v compute.Value) (shapes.Shape, error) { return b.main.Shape(v) }

// Compile implements compute.Builder. It prepares the computation, unless it has dynamic axes, but compiles no program
// for the device: the first call does, when the donated inputs and the extents of dynamic axes are known.
func (b *Builder) Compile() (compute.Executable, error) {
	switch {
	case b.compiled:
		return nil, errors.Errorf("computation %q is compiled already", b.name)
	case b.main.results == nil:
		return nil, errors.Errorf("computation %q has no results: its main function needs a Return", b.name)
	}
	b.compiled = true
	e := &Executable{backend: b.backend, function: b.main, routines: map[string]*routine{},
		numbers: map[string]bool{}}
	for _, p := range b.main.parameters {
		if p.shape.IsDynamic() {
			return e, nil
		}
	}
	_, err := e.routine(axes{}, nil)
	return e, err
}

// value is one result of an operation. GoMLX holds it as a compute.Value.
type value struct {
	op    *operation
	index int
	shape shapes.Shape
}

// operation is a recorded call of a method of [Function]: its arguments, and how to build it with package frontend.
type operation struct {
	kind     compute.OpType
	name     string // of a parameter
	function *Function
	args     []*value // followed by the values that its closures capture
	results  []*value
	build    build
	// flow is set for loops and branches that the host runs between programs.
	flow flow
	// data holds the values of a constant.
	data *ir.Data
	// blocks maps the indices of byte arguments that hold quantized blocks to the blocks' dtype.
	blocks map[int]ir.DType
}

// build emits an operation: it returns the results for given arguments.
type build func(l *lowering, in []frontend.Tensor) []frontend.Tensor

// one returns the build function of an operation with one result, which b computes.
func one(b func(in []frontend.Tensor) frontend.Tensor) build {
	return func(_ *lowering, in []frontend.Tensor) []frontend.Tensor { return []frontend.Tensor{b(in)} }
}

// Function records the operations of a function or closure. It implements compute.Function. The embedded type
// implements the methods that vkc does not support; they return compute.ErrNotImplemented.
type Function struct {
	notimplemented.Function
	builder    *Builder
	name       string // empty for a closure
	parent     *Function
	parameters []*value
	results    []*value
}

var _ compute.Function = (*Function)(nil)

// Name implements compute.Function: it returns the function's name, which is empty for a closure.
func (f *Function) Name() string { return f.name }

// Builder implements compute.Function: it returns the builder of the function's computation.
func (f *Function) Builder() compute.Builder { return f.builder }

// Parent implements compute.Function: it returns the function that a closure was made in, or nil.
func (f *Function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}

// Closure implements compute.Function: it returns an empty function without a name, which may use the values of f.
func (f *Function) Closure() (compute.Function, error) {
	if err := f.open(); err != nil {
		return nil, err
	}
	return f.builder.function("", f), nil
}

// Shape implements compute.Function: it returns the shape of a value.
func (f *Function) Shape(v compute.Value) (shapes.Shape, error) {
	if v, ok := v.(*value); ok && v != nil {
		return v.shape, nil
	}
	return shapes.Invalid(), errors.Errorf("a %T is not a value of backend %s", v, Name)
}

// open refuses to add to a function that is complete.
func (f *Function) open() error {
	if f.builder.compiled || f.results != nil {
		return errors.Errorf("function %q of computation %q is complete: nothing may be added", f.name, f.builder.name)
	}
	return nil
}

// within reports whether f is outer, or a closure somewhere inside it.
func (f *Function) within(outer *Function) bool {
	for ; f != nil; f = f.parent {
		if f == outer {
			return true
		}
	}
	return false
}

// values converts operands to values of this backend. It returns an error unless they belong to the function or to an
// enclosing one.
func (f *Function) values(op compute.OpType, of ...compute.Value) ([]*value, error) {
	if err := f.open(); err != nil {
		return nil, errors.WithMessagef(err, "%s", op)
	}
	values := make([]*value, len(of))
	for i, given := range of {
		v, ok := given.(*value)
		if !ok || v == nil {
			return nil, errors.Errorf("%s: operand %d, a %T, is not a value of backend %s", op, i, given, Name)
		}
		if !f.within(v.op.function) {
			return nil, errors.Errorf("%s: operand %d is a value of function %q, from where it cannot be seen in %q",
				op, i,
				v.op.function.name, f.name)
		}
		values[i] = v
	}
	return values, nil
}

// Parameter implements compute.Function: it adds a parameter and returns its value. Sharding is not supported.
func (f *Function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
	if err := f.open(); err != nil {
		return nil, err
	}
	if sharding != nil {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "parameter %q: sharding in backend %s", name, Name)
	}
	if _, err := elementType(shape.DType); err != nil {
		return nil, errors.WithMessagef(err, "parameter %q", name)
	}
	v := f.keep(&operation{kind: compute.OpTypeParameter, name: name}, shape)[0]
	f.parameters = append(f.parameters, v)
	return v, nil
}

// Constant implements compute.Function: it returns a constant with a copy of flat, a slice of its elements in row-major
// order.
func (f *Function) Constant(flat any, dims ...int) (compute.Value, error) {
	if err := f.open(); err != nil {
		return nil, err
	}
	shape, err := shapeOf(flat, dims)
	if err != nil {
		return nil, err
	}
	d, err := dataOf(flat, shape)
	if err != nil {
		return nil, errors.WithMessage(err, "Constant")
	}
	build := func(l *lowering, _ []frontend.Tensor) []frontend.Tensor { return []frontend.Tensor{l.b.Const(d)} }
	return f.keep(&operation{kind: compute.OpTypeConstant, build: build, data: d}, shape)[0], nil
}

// Return implements compute.Function: it sets the function's results, which completes the function. Sharding is not
// supported.
func (f *Function) Return(results []compute.Value, shardings []*compute.ShardingSpec) error {
	if len(shardings) > 0 {
		return errors.Wrapf(compute.ErrNotImplemented, "sharding in backend %s", Name)
	}
	if len(results) == 0 {
		return errors.Errorf("function %q returns nothing: want a value at least", f.name)
	}
	values, err := f.values(compute.OpTypeIdentity, results...)
	if err != nil {
		return errors.WithMessagef(err, "Return of function %q", f.name)
	}
	f.results = values
	return nil
}

// keep appends an operation with results of these shapes.
func (f *Function) keep(op *operation, of ...shapes.Shape) []*value {
	op.function = f
	for i, s := range of {
		op.results = append(op.results, &value{op: op, index: i, shape: s})
	}
	return op.results
}

// add appends an operation, once it is known that vkc has it.
func (f *Function) add(kind compute.OpType, args []*value, b build, of ...shapes.Shape) ([]*value, error) {
	return f.append(&operation{kind: kind, args: args, build: b}, of...)
}

// append adds an operation and returns its results. It fails if vkc cannot build the operation.
func (f *Function) append(op *operation, of ...shapes.Shape) ([]*value, error) {
	results := f.keep(op, of...)
	if err := checkUint64(op); err != nil {
		return nil, err
	}
	if err := tryOut(op); err != nil {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s: %v", op.kind, err)
	}
	return results, nil
}

// addOne adds an operation with one result, as add does, and returns that. It returns err, the error of shape
// inference, if it is not nil.
func (f *Function) addOne(kind compute.OpType, args []*value, shape shapes.Shape, err error, b build) (compute.Value,
	error) {
	if err != nil {
		return nil, err
	}
	results, err := f.add(kind, args, b, shape)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// tryOut builds an operation in a graph of its own, so that errors appear early. It skips an operation with dynamic
// axes, which can only be built once their extents are known.
func tryOut(op *operation) error {
	for _, v := range append(append([]*value{}, op.args...), op.results...) {
		if v.shape.IsDynamic() {
			return nil
		}
	}
	_, err := frontend.Build(op.kind.String(), func(b *frontend.Builder) {
		l := newLowering(b, axes{})
		// Constants are built from their data, and are no inputs.
		l.inputs(slices.DeleteFunc(slices.Clone(op.args), func(v *value) bool { return v.op.data != nil }),
			[]*operation{op}, nil)
		for i, v := range op.results {
			b.Output(outputName(i), l.value(v))
		}
	})
	return err
}

// axisNames returns the names of dynamic axes of the main function's parameters.
func (b *Builder) axisNames() sets.Set[string] {
	names := sets.Make[string]()
	for _, p := range b.main.parameters {
		for i, d := range p.shape.Dimensions {
			if d == shapes.DynamicDim {
				names.Insert(p.shape.AxisName(i))
			}
		}
	}
	return names
}
