package optest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/vkc-go/vkc/internal/randblocks"
	"github.com/vkc-go/vkc/ir"
)

// layout says through which view the op reads an argument.
type layout uint8

const (
	plain      layout = iota
	transposed        // axes in reverse order
	sliced            // the middle of a larger tensor
	stepped           // every second element along each axis
	flipped           // in reverse order along each axis
	repeated          // broadcast along the outermost axis
	viewed            // transposed, stepped and flipped
	layouts
)

var layoutNames = [layouts]string{"plain", "transposed", "sliced", "stepped", "flipped", "broadcast", "viewed"}

// builder adds a case to a graph. After an error it adds nothing more, and err has that error.
type builder struct {
	g         *ir.Graph
	prefix    string
	rng       *rand.Rand
	inputs    map[string]*ir.Data
	weights   map[string]*ir.Data
	typesOnly bool   // infer types only: do not make the tensors of leaves
	first     values // if not small, the values of the first float input
	leaves    int    // number of leaves added, for their names
	err       error
}

// newBuilder returns a builder of a case. prefix is the beginning of the names of its inputs, and seed determines their
// values.
func newBuilder(g *ir.Graph, prefix, seed string) *builder {
	h := fnv.New64a()
	h.Write([]byte(seed))
	return &builder{g: g, prefix: prefix, rng: rand.New(rand.NewPCG(h.Sum64(), 1)), inputs: map[string]*ir.Data{},
		weights: map[string]*ir.Data{}}
}

func attr(name string, v any) ir.Attr { return ir.Attr{Name: name, Value: v} }

// op adds a node, or returns nil after an error.
func (b *builder) op(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	if b.err != nil {
		return nil
	}
	n, err := b.g.Add(op, args, attrs, "")
	b.err = err
	return n
}

// view adds an op on x alone.
func (b *builder) view(op ir.Op, x *ir.Node, attrs ...ir.Attr) *ir.Node {
	return b.op(op, []*ir.Node{x}, attrs...)
}

// leaf adds an input, weight or state, with a tensor of the selected values. bound is the exclusive limit of indices.
func (b *builder) leaf(op ir.Op, t ir.DType, dims []int, v values, bound int) *ir.Node {
	name := fmt.Sprintf("%s.%d", b.prefix, b.leaves)
	b.leaves++
	n := b.op(op, nil, attr("name", name), attr("dtype", t), attr("shape", ir.ShapeOf(dims...)))
	// States begin with zeros.
	if n == nil || b.typesOnly || op == ir.OpState {
		return n
	}
	// The first float argument that has elements gets the values in b.first, and others do not.
	if b.first != small && t.IsFloat() && ir.ShapeOf(dims...).MaxElems() > 0 {
		v, b.first = b.first, small
	}
	var d *ir.Data
	if t.IsBlock() {
		d, b.err = blocks(b.rng, t, dims)
	} else {
		d, b.err = tensor(b.rng, t, dims, v, bound)
	}
	if op == ir.OpWeight {
		b.weights[name] = d
	} else {
		b.inputs[name] = d
	}
	return n
}

// blocks returns a tensor of random blocks.
func blocks(rng *rand.Rand, t ir.DType, dims []int) (*ir.Data, error) {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	randblocks.Fill(d.Bytes, t, -1, 1, rng)
	return d, nil
}

// input adds an input that the op reads without a view.
func (b *builder) input(t ir.DType, dims []int, v values) *ir.Node {
	return b.leaf(ir.OpInput, t, dims, v, 0)
}

// given adds an input of the given extents with the values in list.
func (b *builder) given(t ir.DType, list []float64, dims ...int) *ir.Node {
	n := b.leaf(ir.OpInput, t, dims, small, 0)
	if n != nil && !b.typesOnly {
		b.inputs[n.Name()], b.err = ir.FromFloats(t, list, dims...)
	}
	return n
}

// indices adds an input of indices into an axis of that extent. Some are out of range.
func (b *builder) indices(t ir.DType, extent int, dims ...int) *ir.Node {
	return b.leaf(ir.OpInput, t, dims, index, extent)
}

// arg adds an argument: an input, and the views of the layout. dims are the extents after the views.
func (b *builder) arg(t ir.DType, dims []int, l layout, v values) *ir.Node {
	switch l {
	case transposed:
		return b.transpose(b.input(t, reversed(dims), v))
	case sliced:
		// one element before the slice and two after it
		return b.slice(b.input(t, affine(dims, 1, 3), v), dims, 1, 1)
	case stepped:
		// every second element, from the second one on
		return b.slice(b.input(t, affine(dims, 2, 1), v), dims, 1, 2)
	case flipped:
		return b.flip(b.input(t, dims, v))
	case repeated:
		from := slices.Clone(dims)
		if len(from) > 0 {
			from[0] = 1
		}
		return b.view(ir.OpBroadcast, b.input(t, from, v), attr("shape", ir.ShapeOf(dims...)))
	case viewed:
		x := b.slice(b.input(t, affine(reversed(dims), 2, 1), v), reversed(dims), 1, 2)
		return b.flip(b.transpose(x))
	}
	return b.input(t, dims, v)
}

func reversed(dims []int) []int {
	r := slices.Clone(dims)
	slices.Reverse(r)
	return r
}

// affine returns mul*d+add for each extent.
func affine(dims []int, mul, add int) []int {
	r := make([]int, len(dims))
	for i, d := range dims {
		r[i] = mul*d + add
	}
	return r
}

// transpose reverses the order of the axes.
func (b *builder) transpose(x *ir.Node) *ir.Node {
	if x == nil {
		return nil
	}
	perm := make([]int64, x.Rank())
	for i := range perm {
		perm[i] = int64(len(perm) - 1 - i)
	}
	return b.view(ir.OpTranspose, x, attr("perm", perm))
}

// flip reverses the elements along all axes.
func (b *builder) flip(x *ir.Node) *ir.Node {
	if x == nil {
		return nil
	}
	axes := make([]int64, x.Rank())
	for i := range axes {
		axes[i] = int64(i)
	}
	return b.view(ir.OpFlip, x, attr("axes", axes))
}

// slice returns dims elements of x, from coordinate start along every axis, step apart.
func (b *builder) slice(x *ir.Node, dims []int, start, step int) *ir.Node {
	starts, steps, limits := make([]int64, len(dims)), make([]int64, len(dims)), make([]int, len(dims))
	for i, d := range dims {
		starts[i], steps[i], limits[i] = int64(start), int64(step), start+d*step
	}
	return b.view(ir.OpSlice, x, attr("starts", starts), attr("limits", ir.ShapeOf(limits...)), attr("steps", steps))
}
