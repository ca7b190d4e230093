package vkc

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// The dtypes of elements, for programs that need no other name of package ir.
const (
	F64, F32, F16, BF16 = ir.F64, ir.F32, ir.F16, ir.BF16
	I64, I32, I16, I8   = ir.I64, ir.I32, ir.I16, ir.I8
	U32, U16, U8, Bool  = ir.U32, ir.U16, ir.U8, ir.Bool

	F8E4M3, F8E5M2                 = ir.F8E4M3, ir.F8E5M2
	F8E4M3FNUZ, F8E5M2FNUZ, F8E8M0 = ir.F8E4M3FNUZ, ir.F8E5M2FNUZ, ir.F8E8M0
	F4E2M1                         = ir.F4E2M1
	I4, U4, I2, U2                 = ir.I4, ir.U4, ir.I2, ir.U2
)

// Must returns v, and panics if err is not nil. It is for small programs and for tests.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Func makes a Go function that computes a function of tensors on the best device of this machine:
//
//	distance := vkc.Func[func(a, b [][]float32) ([]float32, error)](func(a, b frontend.Tensor) frontend.Tensor {
//		return a.Sub(b).Sqr().Sum(-1).Sqrt()
//	})
//	d, err := distance(points, centers)
//
// F is the type of the Go function. Each of its parameters and results is a number or bool, a slice of these, a slice
// of such slices, and so on, or an [*ir.Data]. The nesting gives the rank of the tensor and the lengths give its dims;
// inner slices of one level must have equal lengths. An int is an i32. The last result is an error. The first parameter
// may be a [context.Context], which ends a call early.
//
// f builds the graph. It takes one [frontend.Tensor] for each parameter of F and returns one for each result except the
// error. Its first parameter may be a [*frontend.Builder], for constants and loops. f may be called several times. The
// graph must have no weights and no states: pass weights as parameters, or use [Device.LoadGraph].
//
// The first call with tensors of some dims compiles a program for these dims. Later calls with the same dims only run
// it. Func keeps the programs of the last 64 combinations of dims. The function is safe for concurrent use.
//
// Func panics if F or f is not such a function. Every other mistake, such as shapes that do not fit, is the error of a
// call.
func Func[F any](f any) F { return makeFunc[F](nil, f) }

// FuncOn is [Func] on a device. Make each function once: the device keeps its programs until [Device.Close].
func FuncOn[F any](d *Device, f any) F {
	if d == nil {
		d = &Device{}
	}
	return makeFunc[F](d, f)
}

// sharedDevice is the device of all functions of Func. It stays open until the process ends.
var sharedDevice = sync.OnceValues(func() (*Device, error) { return OpenDevice("auto") })

// maxShapes is the number of programs that a function keeps.
const maxShapes = 64

// function is a function of tensors and its programs.
type function struct {
	dev        *Device       // nil for the shared device
	outer      reflect.Type  // the type of the Go function that Func returns
	graph      reflect.Value // the function of tensors that builds the graph
	hasContext bool          // whether the Go function's first parameter is a context
	hasBuilder bool          // whether the first parameter of graph is a builder

	mu       sync.Mutex
	programs []*shapedProgram // in the order of their last use
}

// shapedProgram is the program of a function for arguments of some dtypes and dims. uses counts the calls that are
// running it, plus one while it is in the function's list. The program is closed when uses reaches 0.
type shapedProgram struct {
	key  string
	load func() (*Executable, error)
	uses int
}

// functions are the functions that [FuncOn] made for one device.
type functions struct {
	mu   sync.Mutex
	list []*function
}

func (f *functions) add(one *function) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, one)
}

func (f *functions) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return runtime.Each(f.list, (*function).close)
}

// makeFunc makes a function on a device, or on the shared device if d is nil.
func makeFunc[F any](d *Device, f any) F {
	fn := &function{dev: d, outer: reflect.TypeFor[F](), graph: reflect.ValueOf(f)}
	if err := fn.check(); err != nil {
		panic(fmt.Errorf("vkc.Func[%s](%T): %w", fn.outer, f, err))
	}
	// The device closes the programs of its functions.
	if d != nil {
		d.functions.add(fn)
	}
	call := reflect.MakeFunc(fn.outer, func(args []reflect.Value) []reflect.Value {
		out, err := fn.call(args)
		if err != nil {
			out = make([]reflect.Value, fn.outer.NumOut()-1)
			for i := range out {
				out[i] = reflect.Zero(fn.outer.Out(i))
			}
		}
		// A reflect.Value of a nil error needs the type error.
		failed := reflect.New(errorType).Elem()
		if err != nil {
			failed.Set(reflect.ValueOf(err))
		}
		return append(out, failed)
	})
	return call.Interface().(F)
}

// The types in signatures that are not tensors' values.
var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
	dataType    = reflect.TypeFor[*ir.Data]()
	builderType = reflect.TypeFor[*frontend.Builder]()
	tensorType  = reflect.TypeFor[frontend.Tensor]()
)

// check returns an error unless the type of the Go function (outer) and the function of tensors (graph) fit together.
// It also sets hasContext and hasBuilder, which say that their first parameters are a context or a builder.
func (f *function) check() error {
	outer := f.outer
	switch {
	case outer.Kind() != reflect.Func || outer.IsVariadic():
		return errors.New("the type in brackets must be a function type without ..., such as " +
			"func([]float32) ([]float32, error)")
	case outer.NumOut() < 2 || outer.Out(outer.NumOut()-1) != errorType:
		return errors.New("the function type must have a result, and an error as its last result")
	case f.graph.Kind() != reflect.Func || f.graph.IsNil() || f.graph.Type().IsVariadic():
		return errors.New("the argument must be a function of tensors, such as " +
			"func(x frontend.Tensor) frontend.Tensor")
	}
	graph := f.graph.Type()
	f.hasContext = outer.NumIn() > 0 && outer.In(0) == contextType
	f.hasBuilder = graph.NumIn() > 0 && graph.In(0) == builderType
	if have, want := graph.NumIn()-count(f.hasBuilder), outer.NumIn()-count(f.hasContext); have != want {
		return fmt.Errorf("the function of tensors has %d tensors as parameters, want %d", have, want)
	}
	if have, want := graph.NumOut(), outer.NumOut()-1; have != want {
		return fmt.Errorf("the function of tensors has %d results, want %d", have, want)
	}
	for i := count(f.hasBuilder); i < graph.NumIn(); i++ {
		if graph.In(i) != tensorType {
			return fmt.Errorf("parameter %d of the function of tensors is a %s, want a %s", i, graph.In(i), tensorType)
		}
	}
	for i := range graph.NumOut() {
		if graph.Out(i) != tensorType {
			return fmt.Errorf("result %d of the function of tensors is a %s, want a %s", i, graph.Out(i), tensorType)
		}
	}
	for i := count(f.hasContext); i < outer.NumIn(); i++ {
		if err := checkNested(outer.In(i)); err != nil {
			return fmt.Errorf("parameter %d: %w", i, err)
		}
	}
	for i := range outer.NumOut() - 1 {
		if err := checkNested(outer.Out(i)); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}

// count returns the number of parameters that a flag stands for: 1 if it is set.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkNested returns an error unless t is *ir.Data, or numbers or bools in any number of slices.
func checkNested(t reflect.Type) error {
	elem := t
	for elem.Kind() == reflect.Slice {
		elem = elem.Elem()
	}
	if t == dataType || readers[elem.Kind()] != nil && elem.PkgPath() == "" {
		return nil
	}
	return fmt.Errorf("%s: want an *ir.Data, or float32, float64, int, int8 to int64, uint8 to uint32 or bool, alone "+
		"or in slices", t)
}

// call computes the function for the arguments.
func (f *function) call(args []reflect.Value) ([]reflect.Value, error) {
	ctx := context.Background()
	if f.hasContext {
		if ctx, _ = args[0].Interface().(context.Context); ctx == nil {
			return nil, errors.New("vkc.Func: the context is nil: use context.Background()")
		}
		args = args[1:]
	}
	in, data := Tensors{}, make([]*ir.Data, len(args))
	for i, a := range args {
		d, err := toData(a)
		if err != nil {
			return nil, fmt.Errorf("vkc.Func: argument %d, %s: %w", i, a.Type(), err)
		}
		in[argumentName(i)], data[i] = d, d
	}
	res, err := f.run(ctx, in, data)
	if err != nil {
		return nil, err
	}
	out := make([]reflect.Value, f.outer.NumOut()-1)
	for i := range out {
		if out[i], err = toNested(f.outer.Out(i), res.Outputs[resultName(i)]); err != nil {
			return nil, fmt.Errorf("vkc.Func: result %d, %s: %w", i, f.outer.Out(i), err)
		}
	}
	return out, nil
}

func argumentName(i int) string { return fmt.Sprintf("arg%d", i) }
func resultName(i int) string   { return fmt.Sprintf("result%d", i) }

// run runs the program for the arguments' dtypes and dims. The first call with these compiles it. If the program fails
// to load, it leaves the list, so that the next call tries again.
func (f *function) run(ctx context.Context, in Tensors, args []*ir.Data) (*Result, error) {
	p, oldest := f.program(args)
	defer f.release(p)
	if oldest != nil { // it left the list, which was full
		f.release(oldest)
	}
	exe, err := p.load()
	if err != nil {
		f.forget(p)
		return nil, err
	}
	return exe.Run(ctx, in)
}

// program returns the program for arguments of these dtypes and dims, and counts one use of it; the caller must release
// it. A new program may push the least recently used one off the list. program returns that one as oldest, and the
// caller must release it too.
func (f *function) program(args []*ir.Data) (p, oldest *shapedProgram) {
	key := fmt.Sprint(args) // the arguments' dtypes and dims
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.programs, func(p *shapedProgram) bool { return p.key == key })
	if i >= 0 {
		p = f.programs[i]
		f.programs = slices.Delete(f.programs, i, i+1)
	} else {
		p = &shapedProgram{key: key, uses: 1} // the list's use
		p.load = sync.OnceValues(func() (*Executable, error) { return f.compile(args) })
	}
	p.uses++ // the caller's use
	f.programs = append(f.programs, p)
	if len(f.programs) > maxShapes {
		oldest, f.programs = f.programs[0], f.programs[1:]
	}
	return p, oldest
}

// release ends a use of a program, and closes the program after its last use.
func (f *function) release(p *shapedProgram) error {
	f.mu.Lock()
	p.uses--
	last := p.uses == 0
	f.mu.Unlock()
	if !last {
		return nil
	}
	exe, _ := p.load()
	return exe.Close()
}

// forget takes a program off the list and releases the list's use of it. It does nothing if the program is not in the
// list.
func (f *function) forget(p *shapedProgram) error {
	f.mu.Lock()
	i := slices.Index(f.programs, p)
	if i >= 0 {
		f.programs = slices.Delete(f.programs, i, i+1)
	}
	f.mu.Unlock()
	if i < 0 {
		return nil
	}
	return f.release(p)
}

// close forgets all programs.
func (f *function) close() error {
	f.mu.Lock()
	programs := slices.Clone(f.programs)
	f.mu.Unlock()
	return runtime.Each(programs, f.forget)
}

// compile compiles and loads the program for arguments with these dtypes and dims. It returns an error if the function
// of tensors declares weights or states.
func (f *function) compile(args []*ir.Data) (*Executable, error) {
	dev := f.dev
	if dev == nil {
		var err error
		if dev, err = sharedDevice(); err != nil {
			return nil, err
		}
	}
	g, err := frontend.Build("function", func(b *frontend.Builder) {
		var in []reflect.Value
		if f.hasBuilder {
			in = append(in, reflect.ValueOf(b))
		}
		for i, d := range args {
			dims := make([]frontend.Dim, len(d.Dims))
			for axis, n := range d.Dims {
				dims[axis] = n
			}
			in = append(in, reflect.ValueOf(b.Input(argumentName(i), d.DType, dims...)))
		}
		for i, out := range f.graph.Call(in) {
			b.Output(resultName(i), out.Interface().(frontend.Tensor))
		}
	})
	if err != nil {
		return nil, err
	}
	if kept := slices.Concat(g.Leaves(ir.OpWeight), g.Leaves(ir.OpState)); len(kept) > 0 {
		return nil, fmt.Errorf("vkc.Func: the function of tensors declares %s: pass its value as a parameter, or use "+
			"Device.LoadGraph, which takes graphs with weights and states", kept[0].Label())
	}
	return dev.LoadGraph(context.Background(), g, nil)
}

// toData returns an argument as a tensor.
func toData(v reflect.Value) (*ir.Data, error) {
	d, ok := v.Interface().(*ir.Data)
	switch {
	case !ok:
		return ir.FromSlices(v.Interface())
	case d == nil:
		return nil, errors.New("the tensor is nil")
	}
	return d, d.Check()
}

// readers maps each kind of Go element to the function that returns all elements of a tensor as a slice of that kind.
var readers = map[reflect.Kind]func(*ir.Data) (reflect.Value, error){
	reflect.Float32: flat[float32], reflect.Float64: flat[float64], reflect.Bool: flat[bool],
	reflect.Int:  flat[int],
	reflect.Int8: flat[int8], reflect.Int16: flat[int16], reflect.Int32: flat[int32], reflect.Int64: flat[int64],
	reflect.Uint8: flat[uint8], reflect.Uint16: flat[uint16], reflect.Uint32: flat[uint32]}

func flat[T Element](d *ir.Data) (reflect.Value, error) {
	v, err := Values[T](d)
	return reflect.ValueOf(v), err
}

// toNested returns the elements of a tensor as a value of type t: a number, nested slices, or the tensor itself. It
// returns an error if the tensor has another rank, or elements that t cannot hold.
func toNested(t reflect.Type, d *ir.Data) (reflect.Value, error) {
	if t == dataType {
		return reflect.ValueOf(d), nil
	}
	rank, elem := 0, t
	for ; elem.Kind() == reflect.Slice; elem = elem.Elem() {
		rank++
	}
	if rank != len(d.Dims) {
		return reflect.Value{}, fmt.Errorf("the tensor %s has rank %d, want rank %d", d, len(d.Dims), rank)
	}
	all, err := readers[elem.Kind()](d)
	if err != nil {
		return reflect.Value{}, err
	}
	return nest(t, all, d.Dims), nil
}

// nest cuts a slice of all elements into nested slices of type t, one level for each of dims. Without dims it returns
// the only element.
func nest(t reflect.Type, all reflect.Value, dims []int) reflect.Value {
	switch len(dims) {
	case 0:
		return all.Index(0)
	case 1:
		return all.Slice3(0, dims[0], dims[0]).Convert(t)
	}
	out := reflect.MakeSlice(t, dims[0], dims[0])
	for i := range dims[0] {
		size := all.Len() / dims[0]
		out.Index(i).Set(nest(t.Elem(), all.Slice3(i*size, (i+1)*size, (i+1)*size), dims[1:]))
	}
	return out
}
