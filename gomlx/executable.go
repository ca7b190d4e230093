package gomlx

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Executable is a compiled computation. Several goroutines may run it at the same time.
type Executable struct {
	backend  *Backend
	function *Function

	mu       sync.Mutex
	closed   bool
	routines map[string]*routine // by the extents of dynamic axes and the donated inputs
	numbers  map[string]bool     // by the bounds of dynamic axes: whether extents must be numbers
}

var _ compute.Executable = (*Executable)(nil)

// Finalize implements compute.Executable: it frees the computation's programs. Execute then returns an error.
func (e *Executable) Finalize() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, r := range e.routines {
		r.close(e.backend)
	}
	e.routines = nil
}

// Inputs implements compute.Executable: it returns the names and the shapes of the parameters.
func (e *Executable) Inputs() (names []string, of []shapes.Shape) {
	for _, p := range e.function.parameters {
		names, of = append(names, p.op.name), append(of, p.shape)
	}
	return names, of
}

// Outputs implements compute.Executable: it returns the shapes of the results.
func (e *Executable) Outputs() (of []shapes.Shape) {
	for _, r := range e.function.results {
		of = append(of, r.shape)
	}
	return of
}

// Execute implements compute.Executable. It returns as soon as the run is submitted; reading a result waits for it.
func (e *Executable) Execute(inputs []compute.Buffer, donate []bool, _ compute.DeviceNum) ([]compute.Buffer, error) {
	parameters := e.function.parameters
	if len(inputs) != len(parameters) || len(donate) != 0 && len(donate) != len(inputs) {
		return nil, errors.Errorf("computation %q: %d inputs and %d donations for %d parameters",
			e.function.builder.name,
			len(inputs), len(donate), len(parameters))
	}
	extents := shapes.AxisBindings{} // of dynamic axes
	donated := map[*value]bool{}
	in := make([]*storage, len(inputs))
	defer closeAll(in)
	for i, given := range inputs {
		buf, ok := given.(*Buffer)
		p := parameters[i]
		if !ok || buf == nil || buf.backend != e.backend {
			return nil, errors.Errorf("input %d (%q): a %T that is not a buffer of this backend", i, p.op.name, given)
		}
		if buf.shape.DType != p.shape.DType {
			return nil, errors.Errorf("input %d (%q) is %s, want %s", i, p.op.name, buf.shape, p.shape)
		}
		if err := extents.Extract(p.shape, buf.shape); err != nil {
			return nil, errors.WithMessagef(err, "input %d (%q) is %s, want %s", i, p.op.name, buf.shape, p.shape)
		}
		donates := len(donate) > 0 && donate[i]
		// After an error, a donated buffer is closed too, as it no longer belongs to the caller.
		s, err := buf.held(donates)
		if err != nil {
			return nil, errors.WithMessagef(err, "input %d (%q)", i, p.op.name)
		}
		in[i], donated[p] = s, donates
	}
	ctx := context.Background()
	r, err := e.ready(ctx, extents, donated)
	if err != nil {
		return nil, err
	}
	out, err := r.run(ctx, e.backend, in, symbols(extents))
	if err != nil {
		return nil, errors.WithMessagef(err, "computation %q", e.function.builder.name)
	}
	buffers := make([]compute.Buffer, len(out))
	for i, s := range out {
		buffers[i] = newBuffer(e.backend, e.function.results[i].shape.DType, s)
	}
	return buffers, nil
}

// ready returns the loaded routine for a call with the given extents of dynamic axes. The routine has symbols for the
// extents, so that it serves other extents too. If an operation cannot use symbols, or the device has too little memory
// for their bounds, the routine is for these extents only.
func (e *Executable) ready(ctx context.Context, of shapes.AxisBindings, donated map[*value]bool) (*routine, error) {
	load := func(a axes) (*routine, error) {
		r, err := e.routine(a, donated)
		if err == nil {
			err = r.load(ctx, e.backend)
		}
		return r, err
	}
	bounds := bounded(of)
	e.mu.Lock()
	// Symbols failed for these bounds before.
	numbers := e.numbers[bounds.key()] || len(of) == 0
	e.mu.Unlock()
	if !numbers {
		if r, err := load(bounds); err == nil {
			return r, nil
		}
	}
	r, err := load(fixed(of))
	if err == nil && !numbers {
		e.mu.Lock()
		e.numbers[bounds.key()] = true
		e.mu.Unlock()
	}
	return r, err
}

// routine returns the function compiled for given extents of its dynamic axes and given donated parameters.
func (e *Executable) routine(of axes, donated map[*value]bool) (*routine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Errorf("computation %q is finalized", e.function.builder.name)
	}
	key := of.key()
	for i, p := range e.function.parameters {
		if donated[p] {
			key += fmt.Sprint(" ", i)
		}
	}
	if r, ok := e.routines[key]; ok {
		return r, nil
	}
	r, err := compile(e.function, nil, maps.Clone(of), donated)
	if err != nil {
		return nil, err
	}
	e.routines[key] = r
	return r, nil
}

// routine is a compiled function: steps that the host executes in order. Most routines have one step, a program.
type routine struct {
	inputs, results []*value
	steps           []*step

	mu     sync.Mutex
	loaded bool
}

// step computes values from others, by a program or by a flow on the host.
type step struct {
	in, out []*value
	graph   *ir.Graph
	updates map[int]int // maps results to the inputs that they overwrite
	program *program    // once it is loaded
	flow    flow
}

// flow is control flow that the host runs: a loop, a branch, or a call of a function that contains one. run does not
// close the storages that it receives.
type flow interface {
	// compile makes the routines of the flow's functions.
	compile(of axes) (flow, error)
	routines() []*routine
	run(ctx context.Context, b *Backend, in []*storage, symbols map[string]int64) ([]*storage, error)
}

// compile makes a routine of a function. The captured values become inputs after its parameters. Programs are ordered
// by level: an operation is in the program of level n if it depends on n successive loops or branches. Operations that
// depend only on constants are built in every program that uses them.
func compile(f *Function, captured []*value, of axes, donated map[*value]bool) (*routine, error) {
	r := &routine{inputs: slices.Concat(f.parameters, captured), results: f.results}
	s := newSchedule(r.inputs, f.results)
	for level := 0; level <= s.last; level++ {
		if err := r.addProgram(f, s, level, of, donated); err != nil {
			return nil, err
		}
		for _, op := range s.order {
			if op.flow == nil || s.level[op] != level {
				continue
			}
			compiled, err := op.flow.compile(of)
			if err != nil {
				return nil, err
			}
			r.steps = append(r.steps, &step{in: op.args, out: op.results, flow: compiled})
		}
	}
	return r, nil
}

// load compiles the routine's programs for the device at the first call.
func (r *routine) load(ctx context.Context, b *Backend) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return nil
	}
	for _, s := range r.steps {
		if s.flow != nil {
			for _, inner := range s.flow.routines() {
				if err := inner.load(ctx, b); err != nil {
					return err
				}
			}
			continue
		}
		if s.program != nil {
			continue
		}
		p, err := b.load(ctx, s.graph)
		if err != nil {
			return err
		}
		s.program = p
	}
	r.loaded = true
	return nil
}

// schedule holds the level of each operation that the results need.
type schedule struct {
	order  []*operation // in dependency order
	level  map[*operation]int
	given  map[*value]bool
	stored []*value // values used outside the program that computes them
	last   int
}

// constantLevel is the level of operations that need no input.
const constantLevel = -1

// newSchedule returns the order and the level of all operations that the results need, given the inputs. Its list
// stored has the values that later programs, loops or the caller read.
func newSchedule(inputs, results []*value) *schedule {
	s := &schedule{level: map[*operation]int{}, given: map[*value]bool{}}
	for _, v := range inputs {
		s.given[v] = true
	}
	for _, v := range results {
		s.visit(v)
	}
	seen := map[*value]bool{}
	store := func(v *value) {
		if !seen[v] && !s.given[v] && v.op.flow == nil {
			s.stored = append(s.stored, v)
		}
		seen[v] = true
	}
	for _, op := range s.order {
		for _, a := range op.args {
			if l := s.levelOf(a); op.flow != nil || l != constantLevel && l < s.level[op] {
				store(a)
			}
		}
	}
	for _, v := range results {
		store(v)
	}
	return s
}

// levelOf returns the first level at which a value is available.
func (s *schedule) levelOf(v *value) int {
	switch {
	case s.given[v]:
		return 0
	case v.op.flow != nil:
		return s.level[v.op] + 1
	}
	return s.level[v.op]
}

// visit adds the operation of a value to the order, after the operations that it depends on. A loop or branch makes the
// level of its users one higher.
func (s *schedule) visit(v *value) {
	if _, ok := s.level[v.op]; ok || s.given[v] {
		return
	}
	level := constantLevel
	for _, a := range v.op.args {
		s.visit(a)
		level = max(level, s.levelOf(a))
	}
	if v.op.flow != nil {
		level = max(level, 0)
	}
	s.level[v.op] = level
	s.order = append(s.order, v.op)
	s.last = max(s.last, s.levelOf(v))
}

// addProgram adds the step that computes the values of a level by one program, unless there are none. The program may
// overwrite donated inputs with results.
func (r *routine) addProgram(f *Function, s *schedule, level int, of axes, donated map[*value]bool) error {
	in, out := s.valuesOf(level)
	if len(out) == 0 {
		return nil
	}
	var updates map[int]int
	if s.last == 0 {
		in = r.inputs // all of them, so that the graph declares every input
		updates = r.inPlace(s, out, donated)
	}
	g, err := frontend.Build(f.builder.name, func(b *frontend.Builder) {
		l := newLowering(b, of)
		over := map[*value]bool{}
		for _, i := range updates {
			over[in[i]] = true
		}
		l.inputs(in, s.order, over)
		for j, v := range out {
			if i, ok := updates[j]; ok {
				b.Update(l.tensors[in[i]], l.value(v))
			} else {
				b.Output(outputName(j), l.value(v))
			}
		}
	})
	if err != nil {
		return errors.WithMessagef(err, "computation %q", f.builder.name)
	}
	r.steps = append(r.steps, &step{in: in, out: out, graph: g, updates: updates})
	return nil
}

// valuesOf returns the stored values that the program of a level computes (out), and the values that are known before
// and that it needs for that (in).
func (s *schedule) valuesOf(level int) (in, out []*value) {
	seen := map[*value]bool{}
	var walk func(v *value) // back from a stored value to known ones
	walk = func(v *value) {
		if seen[v] {
			return
		}
		seen[v] = true
		if l := s.levelOf(v); s.given[v] || v.op.flow != nil || l != constantLevel && l < level {
			in = append(in, v)
			return
		}
		for _, a := range v.op.args {
			walk(a)
		}
	}
	for _, v := range s.stored {
		if max(s.level[v.op], 0) == level {
			out = append(out, v)
			walk(v)
		}
	}
	return in, out
}

// inPlace lets results overwrite donated inputs. It assigns to each donated input, in order, the first free result of
// the same type, and returns the index of the input by the index of the result. It skips inputs that are results
// themselves or are used as blocks.
func (r *routine) inPlace(s *schedule, out []*value, donated map[*value]bool) map[int]int {
	kept := map[*value]bool{}
	for _, v := range r.results {
		kept[v] = true
	}
	for _, op := range s.order {
		for i := range op.blocks {
			kept[op.args[i]] = true
		}
	}
	updates := map[int]int{}
	for i, p := range r.inputs {
		if !donated[p] || kept[p] || p.shape.IsDynamic() {
			continue
		}
		for j, v := range out {
			if _, taken := updates[j]; !taken && v.shape.Equal(p.shape) {
				updates[j] = i
				break
			}
		}
	}
	return updates
}

// run computes the results of inputs. The caller closes both.
func (r *routine) run(ctx context.Context, b *Backend, in []*storage, symbols map[string]int64) (
	out []*storage, err error) {
	known := map[*value]*storage{}
	defer func() {
		for _, s := range known {
			err = cmp.Or(err, s.close())
		}
	}()
	for i, v := range r.inputs {
		if known[v] == nil {
			known[v] = in[i].share()
		}
	}
	for _, s := range r.steps {
		args := make([]*storage, len(s.in))
		for i, v := range s.in {
			args[i] = known[v]
		}
		var made []*storage
		if s.flow != nil {
			made, err = s.flow.run(ctx, b, args, symbols)
		} else {
			made, err = s.program.run(ctx, b, args, symbols, len(s.out), s.updates)
		}
		if err != nil {
			return nil, err
		}
		for i, v := range s.out {
			known[v] = made[i]
		}
	}
	for _, v := range r.results {
		out = append(out, known[v].share())
	}
	return out, nil
}

// close releases the programs of the steps, and of the bodies of loops and branches.
func (r *routine) close(b *Backend) {
	for _, s := range r.steps {
		if s.flow != nil {
			for _, inner := range s.flow.routines() {
				inner.close(b)
			}
		} else if s.program != nil {
			b.release(s.program)
		}
	}
}

// closeAll closes storages. Elements may be nil.
func closeAll(of []*storage) {
	for _, s := range of {
		if s != nil {
			_ = s.close()
		}
	}
}
