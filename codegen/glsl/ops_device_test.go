package glsl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

// opCase is elementwise ops of one number of arguments on one dtype, as a graph with an output for each op, or with one
// for each dtype that the op converts to. They are few kernels, because a kernel computes several outputs of the same
// arguments.
type opCase struct {
	name  string
	graph *ir.Graph
	args  []*ir.Node
	in    map[string]*ir.Data
}

// Arguments that are hard for functions. The test tries every pair of them.
var (
	hardFloats = []float64{0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 0.25, -0.25, 0.625, -0.9375, 3.75, -7.25, 10, math.Inf(1),
		math.Inf(-1), math.NaN(),
		math.Copysign(0, -1), 0.1, 1e-3, -1e-3, 1e-6, 0.63, 0.93, -10, 20, 50, -50, 88, -88, 100.5, -100.5, 12345.678, -99999, 3e7, -1e30}
	hardInts = []int64{0, 1, -1, 2, -2, 3, 7, -7, 31, 100, 127, -128, 128, 255, -100, 1 << 20, math.MaxInt32,
		math.MinInt32, math.MaxUint32,
		math.MaxInt64, math.MinInt64}
)

// moderate is the number of hardFloats that are easy enough for results with cancellation.
const moderate = 19

// samples returns n arguments of a dtype; inner ones change fastest.
func samples(t ir.DType, args, arg int) *ir.Data {
	count := func(n int) (total, repeat int) {
		total, repeat = 1, 1
		for i := range args {
			total *= n
			if i > arg {
				repeat *= n
			}
		}
		return total, repeat
	}
	n := len(hardFloats)
	switch {
	case !t.IsFloat():
		n = len(hardInts)
	case args > 2:
		n = moderate
	}
	total, repeat := count(n)
	d, err := ir.NewData(t, total)
	if err != nil {
		panic(err)
	}
	floats, ints := make([]float64, total), make([]int64, total)
	for i := range total {
		if t.IsFloat() {
			floats[i] = hardFloats[i/repeat%n]
		} else {
			ints[i] = hardInts[i/repeat%n]
		}
	}
	switch {
	case t.IsFloat():
		ir.EncodeFloats(d.Bytes, t, floats)
	default:
		ir.EncodeInts(d.Bytes, t, ints)
	}
	return d
}

// opsTogether is the maximum number of ops of an opCase.
const opsTogether = 12

// opCases lists every elementwise op with every dtype that it takes, and casts to every dtype.
func opCases(t *testing.T) []*opCase {
	t.Helper()
	type kind struct {
		dtype ir.DType
		args  int
		own   ir.Op // an op with arguments of its own; zero for others
	}
	var all []*opCase
	open := map[kind]*opCase{} // that take more ops
	for _, op := range ir.Ops() {
		if op.Class() != ir.ClassElementwise {
			continue
		}
		for _, dtype := range ir.DTypes() {
			if dtype.IsBlock() {
				continue
			}
			ways := [][]ir.Attr{attrsFor(op)}
			if op.Info().Converts() {
				ways = nil
				for _, to := range ir.DTypes() {
					ways = append(ways, []ir.Attr{{Name: "dtype", Value: to}})
				}
			}
			k := kind{dtype: dtype, args: op.Info().MinArgs()}
			if op == ir.OpWhere || op == ir.OpRsqrt || op.Info().Converts() {
				k.own = op
			}
			c := open[k]
			if c == nil {
				c = newOpCase(op, dtype)
			}
			if !c.add(t, op, ways) {
				continue
			}
			if open[k] == nil {
				open[k], all = c, append(all, c)
			}
			if c.name += " " + op.String(); len(c.graph.Outputs()) >= opsTogether {
				delete(open, k)
			}
		}
	}
	return all
}

// attrsFor gives attributes values that are not their defaults.
func attrsFor(op ir.Op) []ir.Attr {
	values := map[string]float64{"min": -0.75, "max": 2.5, "mul": -1.5, "add": 0.3, "exponent": 3, "alpha": 0.2}
	var out []ir.Attr
	for _, a := range op.Info().Attrs {
		if v, ok := values[a.Name]; ok && a.Kind == ir.AttrFloat {
			out = append(out, ir.Attr{Name: a.Name, Value: v})
		}
	}
	return out
}

// newOpCase makes the arguments of ops like op.
func newOpCase(op ir.Op, t ir.DType) *opCase {
	c := &opCase{name: t.String(), graph: ir.NewGraph("op"), in: map[string]*ir.Data{}}
	n := op.Info().MinArgs()
	for i := range n {
		dtype := t
		if op == ir.OpWhere && i == 0 {
			dtype = ir.Bool
		}
		name := fmt.Sprintf("x%d", i)
		d := samples(t, n, i)
		if dtype != t {
			d = samples(ir.U8, 1, 0)
			bools := &ir.Data{DType: ir.Bool, Dims: samples(t, n, i).Dims}
			for j := range bools.Dims[0] {
				bools.Bytes = append(bools.Bytes, d.Bytes[j%len(d.Bytes)]&1)
			}
			d = bools
		}
		if op == ir.OpRsqrt { // GLSL leaves it undefined for -0
			values, _ := d.Floats()
			for j, v := range values {
				if v == 0 {
					values[j] = 0
				}
			}
			ir.EncodeFloats(d.Bytes, t, values)
		}
		c.in[name] = d
		x, err := c.graph.Add(ir.OpInput, nil, []ir.Attr{{Name: "name", Value: name}, {Name: "dtype", Value: dtype},
			{Name: "shape", Value: ir.ShapeOf(d.Dims...)}}, "")
		if err != nil {
			panic(err)
		}
		c.args = append(c.args, x)
	}
	return c
}

// add adds an output for each valid way to set an op's attributes. It reports false if the op does not take the dtype.
func (c *opCase) add(t *testing.T, op ir.Op, ways [][]ir.Attr) (ok bool) {
	t.Helper()
	for i, attrs := range ways {
		if y, err := c.graph.Add(op, c.args, attrs, ""); err == nil {
			check(t, c.graph.Output(fmt.Sprint(op, i), y))
			ok = true
		}
	}
	return ok
}

// TestOpsOnDevice compares every elementwise op on every dtype with the reference. Arguments include NaN, infinities
// and the ends of the integers.
func TestOpsOnDevice(t *testing.T) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	cases := opCases(t)
	var states []*passes.State
	var sources []string
	outputs := 0
	for _, c := range cases {
		s, text, err := build(c.graph, func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			sched, _, err := schedule.Select(k, dev.Caps())
			return sched, dev.Caps(), err
		})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		states, sources, outputs = append(states, s), append(sources, text...), outputs+len(c.graph.Outputs())
	}
	if outputs < 400 {
		t.Errorf("only %d ops and dtypes", outputs)
	}
	t.Logf("%d kernels for %d ops and dtypes", len(sources), outputs)
	modules, err := modulesOf(tools, shadersOf(sources), spirv.Options{Optimize: true, CacheDir: moduleCache})
	check(t, err)
	for i, c := range cases {
		n := len(states[i].Program.Shaders)
		if err := c.run(dev, states[i], modules[:n]); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, joined(sources[:n]))
		}
		modules, sources = modules[n:], sources[n:]
	}
}

func (c *opCase) run(dev *vk.Device, s *passes.State, modules [][]byte) error {
	exe, err := dev.Load(context.Background(), s.Program, modules, nil, vk.LoadOptions{})
	if err != nil {
		return err
	}
	defer exe.Close()
	have, err := exe.Run(context.Background(), c.in)
	if err != nil {
		return err
	}
	ref, err := interp.New(c.graph, interp.Options{})
	if err != nil {
		return err
	}
	want, err := ref.Run(context.Background(), c.in, nil)
	if err != nil {
		return err
	}
	var wrong []error
	for _, o := range c.graph.Outputs() {
		have, want := have.Outputs[o.Name], want[o.Name]
		c.correct(o.Node, want)
		if err := interp.Compare(have, want, interp.Tolerances(c.graph)[o.Node.ID()]).Err(); err != nil {
			err = fmt.Errorf("%s to %s: %w", o.Node.Op(), o.Node.DType(), err)
			wrong = append(wrong, c.explain(err, o.Node, have, want))
		}
	}
	return errors.Join(wrong...)
}

// correct changes the reference where Go differs from the op's documentation: Go's min and max of an infinity and NaN
// can be the infinity.
func (c *opCase) correct(n *ir.Node, want *ir.Data) {
	if !want.DType.IsFloat() || n.Op() != ir.OpMin && n.Op() != ir.OpMax {
		return
	}
	values, _ := want.Floats()
	for _, d := range c.in {
		x, _ := d.Floats()
		for i := range values {
			if x[i] != x[i] {
				values[i] = math.NaN()
			}
		}
	}
	ir.EncodeFloats(want.Bytes, want.DType, values)
}

// explain adds the arguments at the worst element.
func (c *opCase) explain(err error, n *ir.Node, have, want *ir.Data) error {
	r := interp.Compare(have, want, interp.Tolerances(c.graph)[n.ID()])
	for i := range c.in {
		if v, e := c.in[i].Floats(); e == nil {
			err = fmt.Errorf("%w; %s = %v", err, i, v[r.Index])
		}
	}
	return err
}
