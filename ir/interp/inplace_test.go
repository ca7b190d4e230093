package interp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// none is a backend that has no kernels.
func none(g *ir.Graph) []*Kernel { return make([]*Kernel, len(g.Nodes())) }

// TestInPlace runs an update that overwrites its state, of floats and of blocks, as a slice or by coordinates. If the
// run fails after the update, the state must be unchanged.
func TestInPlace(t *testing.T) {
	const slice = ir.OpDynamicUpdateSlice
	for _, c := range []struct {
		dtype ir.DType
		op    ir.Op
	}{{ir.F32, slice}, {ir.F16, slice}, {ir.Q8_0, slice}, {ir.F32, ir.OpScatterND}, {ir.F16, ir.OpScatterND},
		{ir.Q8_0, ir.OpScatterND},
		{ir.F32, ir.OpScatter}, {ir.F16, ir.OpScatter}} {
		d, where := c.dtype, ir.Shape{}
		switch c.op {
		case ir.OpScatterND:
			where = ir.ShapeOf(2, 1)
		case ir.OpScatter:
			where = ir.ShapeOf(2, 32)
		}
		failed := errors.New("the kernel failed")
		var fail error
		b := newGraph(t)
		ring := b.leaf(ir.OpState, "ring", d, ir.ShapeOf(3, 32))
		x, at := b.input("x", ir.F32, ir.ShapeOf(2, 32)), b.input("at", ir.I32, where)
		to := ir.OpCast
		if d.IsBlock() {
			to = ir.OpQuantize
		}
		x = b.add(to, []*ir.Node{x}, "dtype", d)
		var after *ir.Node
		if c.op == slice {
			after = b.add(slice, []*ir.Node{ring, x, at}, "wrap", true)
		} else {
			after = b.add(c.op, []*ir.Node{ring, at, x})
		}
		b.update(ring, after)
		y := b.input("y", ir.F32, ir.ShapeOf(1))
		b.output("z", b.add(ir.OpNeg, []*ir.Node{y}))
		p := b.program(Options{Replace: func(g *ir.Graph) []*Kernel {
			list := none(g)
			for i, n := range g.Nodes() {
				if n.Op() == ir.OpNeg {
					list[i] = &Kernel{Compute: func(*Call) error { return fail }, Stored: -1}
				}
			}
			return list
		}})
		if !p.inPlace[after.ID()] || p.states.aliased {
			t.Fatalf("%s: the update is not made in place", d)
		}
		rows := func(v float64) *ir.Data {
			list := make([]float64, 64)
			for i := range list {
				list[i] = v
			}
			return floats(t, ir.F32, list, 2, 32)
		}
		places := func(at int64) *ir.Data {
			if c.op == slice {
				return integers(t, ir.I32, []int64{at})
			}
			width := int(where[1].Static())
			list := append(slices.Repeat([]int64{at}, width), slices.Repeat([]int64{(at + 1) % 3}, width)...)
			return integers(t, ir.I32, list, 2, width)
		}
		step := func(v float64, at int64) error {
			_, err := p.Run(t.Context(), map[string]*ir.Data{"x": rows(v), "y": floats(t, ir.F32, []float64{1}, 1),
				"at": places(at)}, nil)
			return err
		}
		for i, tt := range []struct {
			value float64
			at    int64
			fail  error
			want  [3]float64
		}{
			{1, 0, nil, [3]float64{1, 1, 0}}, {2, 2, nil, [3]float64{2, 1, 2}}, {3, 1, failed, [3]float64{2, 1, 2}},
			{4, 2, failed, [3]float64{2, 1, 2}}, {5, 1, nil, [3]float64{2, 5, 5}},
		} {
			fail = tt.fail
			if err := step(tt.value, tt.at); !errors.Is(err, tt.fail) {
				t.Fatalf("%s, run %d: %v, want %v", d, i, err, tt.fail)
			}
			v := p.states.all()["ring"]
			if v.block != nil {
				var err error
				if v.f32, err = v.block.decode(); err != nil {
					t.Fatal(err)
				}
			}
			have := v.floats()
			for r, want := range tt.want {
				if got := have[32*r+7]; got < want-0.01 || got > want+0.01 {
					t.Errorf("%s, run %d, row %d: %g, want %g", d, i, r, got, want)
				}
			}
		}
	}
}

// TestAliasedStates: two states that one value becomes must not be written in place.
func TestAliasedStates(t *testing.T) {
	b := newGraph(t)
	first := b.leaf(ir.OpState, "first", ir.F32, ir.ShapeOf(2))
	second := b.leaf(ir.OpState, "second", ir.F32, ir.ShapeOf(2))
	x, at := b.input("x", ir.F32, ir.ShapeOf(1)), b.input("at", ir.I32, ir.Shape{})
	after := b.add(ir.OpDynamicUpdateSlice, []*ir.Node{first, x, at})
	b.update(first, after)
	b.update(second, b.add(ir.OpReshape, []*ir.Node{after}, "shape", ir.ShapeOf(2)))
	p := b.program(Options{Replace: none})
	if !p.states.aliased {
		t.Error("the states count as apart")
	}
}

// TestConstantStates: a state becomes a constant in each run, which lies where no program may write.
func TestConstantStates(t *testing.T) {
	b := newGraph(t)
	state := b.leaf(ir.OpState, "state", ir.F32, ir.ShapeOf(2))
	one := b.add(ir.OpConst, nil, "data", floats(t, ir.F32, []float64{1, 1}, 2))
	b.update(state, b.add(ir.OpAdd, []*ir.Node{one, one}))
	b.output("before", b.add(ir.OpNeg, []*ir.Node{state}))
	p := b.program(Options{Replace: none})
	if !p.states.aliased {
		t.Error("the constant counts as the state's own")
	}
	for i, want := range []float64{0, -2, -2} {
		out, err := p.Run(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := out["before"].Floats(); err != nil || got[0] != want || got[1] != want {
			t.Errorf("run %d: %g (%v), want all %g", i, got, err, want)
		}
	}
}

// TestStateBytes: a run that writes a few elements of a state allocates and copies only these, whichever op writes
// them, also if the update is a chain of writes or another node has read the state before. Runs that fail leave the
// state as it was. The values are those of the reference, which copies.
func TestStateBytes(t *testing.T) {
	const rows, width, few = 1 << 11, 256, 3
	write := map[ir.Op]func(b builder, state, at, x *ir.Node, attrs ...any) *ir.Node{}
	for _, op := range []ir.Op{ir.OpScatter, ir.OpScatterAdd} {
		write[op] = func(b builder, state, at, x *ir.Node, attrs ...any) *ir.Node {
			at = b.add(ir.OpBroadcast, []*ir.Node{b.add(ir.OpReshape, []*ir.Node{at}, "shape", ir.ShapeOf(few, 1))},
				"shape", ir.ShapeOf(few, width))
			return b.add(op, []*ir.Node{state, at, x}, attrs...)
		}
	}
	write[ir.OpIndexAdd] = func(b builder, state, at, x *ir.Node, attrs ...any) *ir.Node {
		return b.add(ir.OpIndexAdd, []*ir.Node{state, at, x}, attrs...)
	}
	for _, op := range []ir.Op{ir.OpScatterND, ir.OpScatterNDAdd} {
		write[op] = func(b builder, state, at, x *ir.Node, attrs ...any) *ir.Node {
			at = b.add(ir.OpReshape, []*ir.Node{at}, "shape", ir.ShapeOf(few, 1))
			return b.add(op, []*ir.Node{state, at, x}, attrs...)
		}
	}
	write[ir.OpDynamicUpdateSlice] = func(b builder, state, at, x *ir.Node, _ ...any) *ir.Node {
		first := b.add(ir.OpReduceMin, []*ir.Node{at}, "axes", []int64{0})
		return b.add(ir.OpDynamicUpdateSlice, []*ir.Node{state, x, first})
	}
	failed := errors.New("the kernel failed")
	for op, write := range write {
		for _, form := range []string{"", "chain", "read", "slice", "reshape", "mul", "max"} {
			var attrs []any
			if form == "mul" || form == "max" {
				if op != ir.OpScatterAdd && op != ir.OpScatterNDAdd {
					continue
				}
				attrs = []any{"mode", form}
			}
			for _, d := range []ir.DType{ir.F32, ir.F16, ir.F64, ir.I32, ir.U8, ir.Q8_0} {
				if d.IsBlock() && (form != "" || op != ir.OpScatterND && op != ir.OpDynamicUpdateSlice) {
					continue
				}
				var fail error
				program := func(replace func(g *ir.Graph) []*Kernel) *Program {
					b := newGraph(t)
					shape := ir.ShapeOf(rows, width)
					if form == "reshape" {
						shape = ir.ShapeOf(2, rows/2, width)
					}
					state := b.leaf(ir.OpState, "state", d, shape)
					to := ir.OpCast
					if d.IsBlock() {
						to = ir.OpQuantize
					}
					x := b.add(to, []*ir.Node{b.input("x", ir.F32, ir.ShapeOf(few, width))}, "dtype", d)
					at, y := b.input("at", ir.I32, ir.ShapeOf(few)), b.input("y", ir.F32, ir.ShapeOf(1))
					if form == "read" {
						b.output("before", b.add(ir.OpIndexSelect, []*ir.Node{state, at}))
					}
					if form == "slice" {
						b.output("before", b.add(ir.OpSlice, []*ir.Node{state}, "starts", []int64{0, 0}, "limits",
							ir.ShapeOf(few, width)))
					}
					base := state
					if form == "reshape" {
						base = b.add(ir.OpReshape, []*ir.Node{state}, "shape", ir.ShapeOf(rows, width))
					}
					after := write(b, base, at, x, attrs...)
					if form == "chain" {
						after = write(b, after, at, b.add(ir.OpAdd, []*ir.Node{x, x}))
					}
					if form == "reshape" {
						after = b.add(ir.OpReshape, []*ir.Node{after}, "shape", shape)
					}
					b.update(state, after)
					b.output("z", b.add(ir.OpNeg, []*ir.Node{y}))
					return b.program(Options{Replace: replace})
				}
				name := fmt.Sprintf("%s %s of %s", op, form, d)
				fast, reference := program(func(g *ir.Graph) []*Kernel {
					list := none(g)
					for i, n := range g.Nodes() {
						if n.Op() == ir.OpNeg {
							list[i] = &Kernel{Compute: func(*Call) error { return fail }, Stored: -1}
						}
					}
					return list
				}), program(nil)
				rng := rand.New(rand.NewPCG(1, uint64(op)))
				run := func(want error) (made uint64) {
					x, at := make([]float64, few*width), make([]int64, few)
					for i := range x {
						x[i] = 3 * rng.Float64()
					}
					for i := range at {
						at[i] = int64(rng.IntN(2)*rng.IntN(rows+1) - rng.IntN(2)) // some twice, some out of range
					}
					in := map[string]*ir.Data{"x": floats(t, ir.F32, x, few, width), "at": integers(t, ir.I32, at, few),
						"y": floats(t, ir.F32, []float64{1}, 1)}
					fail = want
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					out, err := fast.Run(t.Context(), in, nil)
					runtime.ReadMemStats(&after)
					if !errors.Is(err, want) {
						t.Fatalf("%s: %v, want %v", name, err, want)
					}
					if want == nil {
						right, err := reference.Run(t.Context(), in, nil)
						if err != nil {
							t.Fatal(err)
						}
						if d := out["before"]; d != nil && !bytes.Equal(d.Bytes, right["before"].Bytes) {
							t.Errorf("%s: the value before differs", name)
						}
					}
					have, err := fast.State("state")
					right, err2 := reference.State("state")
					if err := errors.Join(err, err2); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(have.Bytes, right.Bytes) {
						t.Errorf("%s: the states differ after a run with error %v", name, want)
					}
					return after.TotalAlloc - before.TotalAlloc
				}
				run(nil)
				run(failed)
				if n := run(nil); n > rows*width { // a quarter of a copy as floats
					t.Errorf("%s: a run allocates %d bytes, of a state of %d elements", name, n, rows*width)
				}
			}
		}
	}
}
