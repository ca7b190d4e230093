package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
)

// Shard is one device's graph when several devices compute a graph together. It has the inputs and outputs of the whole
// graph. Its weights and states have the same names as in the whole graph, and some of them are slices; see
// [Shard.Cut].
type Shard struct {
	*ir.Graph
	Cut         map[string]int // by weight or state: the axis along which it is cut
	Collectives []ir.Shape     // shape of the values that the device sends in each exchange of a run, in order
	Link        string         // name of the input with the link (see give), u32[12]; "" if there are no exchanges
	Waits       bool           // whether kernels both write and read values, so that they must be able to wait
}

// Exchanges returns the number of values that a device sends in each exchange of a run, for the given symbols, or the
// maximum for nil.
func (s Shard) Exchanges(symbols map[string]int64) ([]int, error) {
	list := make([]int, len(s.Collectives))
	for i, shape := range s.Collectives {
		list[i] = int(shape.MaxElems())
		if symbols == nil || shape.IsStatic() {
			continue
		}
		dims, err := shape.Eval(symbols)
		if err != nil {
			return nil, err
		}
		list[i] = 1
		for _, n := range dims {
			list[i] *= n
		}
	}
	return list, nil
}

// SplitTensor returns the part of a graph that the device of a rank computes (tensor parallelism, Shoeybi et al.,
// "Megatron-LM", 2019). rank is the device's number, from 0 to shards-1. Attribute "shard" of a weight or state names
// the axis along which vkc cuts it. vkc replicates the tensor instead if it lacks the attribute, or if the axis cannot
// be cut into equal slices of whole quantized blocks. It also replicates tensors of dtypes that f32 cannot represent,
// because devices exchange f32.
//
// The placement of other values follows op by op, as in GSPMD (Xu et al. 2021). A device has a value as a whole, its
// slice along an axis, or a term of a sum over all devices. An op without a rule for its arguments' placement gets
// whole arguments, and outputs are whole. A matmul along a cut contraction axis yields terms, which are summed when
// they are used.
//
// If waits is true, kernels of different devices can wait for each other. Then one kernel exchanges a small value;
// otherwise every exchange takes two kernels.
func SplitTensor(g *ir.Graph, shards, rank int, waits bool) (Shard, error) {
	if shards < 2 || shards > mailbox.MaxRanks || rank < 0 || rank >= shards {
		return Shard{}, fmt.Errorf("split: part %d of %d: want 2 to %d parts", rank, shards,
			mailbox.MaxRanks)
	}
	replicated := map[*ir.Node]bool{}
	for {
		s := &tensorSplitter{old: g, shards: int64(shards), rank: int64(rank), values: make([]placed, len(g.Nodes())),
			whole: map[*ir.Node]*ir.Node{}, views: map[*ir.Node]*ir.Node{}, waits: waits, replicated: replicated,
			Shard: Shard{Graph: ir.NewLike(g), Cut: map[string]int{}}}
		err := s.rewriteGraph()
		var needs *needsWhole
		switch {
		case errors.As(err, &needs): // which each round does for another node
			replicated[needs.node] = true
		case err != nil:
			return Shard{}, fmt.Errorf("split over %d devices: %w", shards, err)
		default:
			return s.Shard, nil
		}
	}
}

// needsWhole is the error of a split that needs the whole value of a node in blocks, which devices cannot exchange. If
// every device computes or stores the whole value, the split is possible.
type needsWhole struct{ node *ir.Node }

func (e *needsWhole) Error() string {
	return fmt.Sprintf("%s %q has blocks, which devices cannot exchange", e.node.Op(), e.node.Name())
}

// Values of placed.axis other than an axis.
const (
	isWhole = -1 // the device has the whole value
	isTerm  = -2 // the value is the sum of all devices' terms
)

// placed is a node of the shard, and which part of a value of the whole graph it is.
type placed struct {
	*ir.Node
	axis int // axis along which it is the rank's slice, or isWhole or isTerm
}

// tensorSplitter makes the shard of one rank.
type tensorSplitter struct {
	Shard
	old          *ir.Graph
	shards, rank int64
	values       []placed              // by ID in the old graph
	whole        map[*ir.Node]*ir.Node // gathered values, by the slice or term that they were made of
	views        map[*ir.Node]*ir.Node // by reshape, transpose or unsqueeze of a slice: its node in the old graph
	replicated   map[*ir.Node]bool     // nodes of the old graph that each device has whole; see needsWhole
	waits        bool
	link         *ir.Node // the latest link; nil before the first exchange
}

// rewriteGraph adds the nodes, outputs and updates of the old graph to the shard.
func (s *tensorSplitter) rewriteGraph() (err error) {
	defer bailout.Caught(&err)
	live := s.old.Live()
	for id, n := range s.old.Nodes() {
		// All shards have all inputs and states, also unused ones.
		if !live[id] && n.Op() != ir.OpInput && n.Op() != ir.OpState {
			continue
		}
		if s.values[id], err = s.node(n); err != nil {
			return fmt.Errorf("%s %q: %w", n.Op(), n.Name(), err)
		}
	}
	for _, o := range s.old.Outputs() {
		bailout.Check(s.Output(o.Name, s.gather(s.values[o.Node.ID()])))
	}
	for _, u := range s.old.Updates() {
		state, v := s.values[u.State.ID()], s.values[u.Value.ID()]
		if state.axis != isWhole && v.axis == isWhole && state.DType().IsBlock() {
			return &needsWhole{u.State}
		}
		bailout.Check(s.Update(state.Node, s.gatherUnless(v, state.axis)))
	}
	return nil
}

// add adds a node.
func (s *tensorSplitter) add(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	return bailout.Must(s.Graph.Add(op, args, attrs, ""))
}

// unary adds an op on x.
func (s *tensorSplitter) unary(op ir.Op, x *ir.Node, attrs ...ir.Attr) *ir.Node {
	return s.add(op, []*ir.Node{x}, attrs...)
}

// attr returns an attribute.
func attr(name string, value any) ir.Attr { return ir.Attr{Name: name, Value: value} }

// node adds the shard's node for a node of the old graph.
func (s *tensorSplitter) node(n *ir.Node) (_ placed, err error) {
	defer bailout.Caught(&err)
	args := make([]placed, len(n.Args()))
	parted := false // whether the device has only a part of an argument
	for i, a := range n.Args() {
		args[i] = s.values[a.ID()]
		parted = parted || args[i].axis != isWhole
	}
	if n.Op() == ir.OpWeight || n.Op() == ir.OpState {
		return s.addLeaf(n), nil
	}
	if parted && !s.replicated[n] {
		if v, ok := s.splitNode(n, args); ok {
			if op := n.Op(); op == ir.OpReshape || op == ir.OpTranspose || op == ir.OpUnsqueeze {
				s.views[v.Node] = n
			}
			return v, nil
		}
	}
	nodes := make([]*ir.Node, len(args))
	for i, a := range args {
		nodes[i] = s.gather(a)
	}
	return placed{s.copy(n, nodes, nil), isWhole}, nil
}

// copy adds a copy of n with the given arguments. A shape other than nil replaces n's attribute "shape".
func (s *tensorSplitter) copy(n *ir.Node, args []*ir.Node, shape ir.Shape) *ir.Node {
	attrs := slices.Clone(n.Attrs())
	for i := range attrs {
		if shape != nil && attrs[i].Name == "shape" {
			attrs[i].Value = shape
		}
	}
	return bailout.Must(s.Graph.Add(n.Op(), args, attrs, n.Pos()))
}

// addLeaf adds a weight or state to this device's graph. If attribute "shard" names an axis and the devices can divide
// it, the device has a slice along the axis. Else it has the whole tensor.
func (s *tensorSplitter) addLeaf(n *ir.Node) placed {
	axis := n.Attrs().Int("shard")
	if axis < 0 || s.replicated[n] || !exchanged(n.DType()) || !s.divides(n.Type(), axis) {
		return placed{s.copy(n, nil, nil), isWhole}
	}
	s.Cut[n.Name()] = axis
	return placed{s.copy(n, nil, s.part(n.Shape(), axis)), axis}
}

// exchanged reports whether devices can exchange values of a dtype. They exchange f32, so integers of 32 bits and more,
// f64, and dtypes that are only stored, are replicated on every device.
func exchanged(t ir.DType) bool {
	return t != ir.F64 && !t.StorageOnly() && (!t.IsInteger() || t.BlockBytes() <= 2)
}

// divides reports whether an axis can be cut into equal slices, one per device, without cutting blocks.
func (s *tensorSplitter) divides(t ir.Type, axis int) bool {
	if axis >= len(t.Shape) || !t.Shape[axis].IsStatic() {
		return false
	}
	unit := s.shards
	if t.DType.IsBlock() && axis == len(t.Shape)-1 {
		unit *= int64(t.DType.BlockElems())
	}
	return t.Shape[axis].Add > 0 && t.Shape[axis].Add%unit == 0
}

// part returns the shape of a device's slice along an axis.
func (s *tensorSplitter) part(shape ir.Shape, axis int) ir.Shape {
	part := slices.Clone(shape)
	part[axis] = ir.Dim{Add: part[axis].Add / s.shards}
	return part
}

// gather returns the whole value. If the device does not have it, gather adds a collective.
func (s *tensorSplitter) gather(v placed) *ir.Node {
	if v.axis == isWhole {
		return v.Node
	}
	if w := s.whole[v.Node]; w != nil {
		return w
	}
	if n := s.views[v.Node]; n != nil { // all views of a value share one exchange
		w := s.copy(n, []*ir.Node{s.gather(s.values[n.Args()[0].ID()])}, nil)
		s.whole[v.Node] = w
		return w
	}
	x, dtype := v.Node, v.DType()
	if dtype.IsBlock() {
		id := slices.IndexFunc(s.values, func(of placed) bool { return of.Node == x })
		bailout.Check(&needsWhole{s.old.Nodes()[id]})
	}
	if dtype != ir.F32 { // f32 represents all exchanged dtypes
		x = s.unary(ir.OpCast, x, attr("dtype", ir.F32))
	}
	if v.axis == isTerm {
		x = s.collective(allReduce, x)
	} else {
		x = s.joinSlices(s.collective(allGather, x), v.axis)
	}
	if dtype != ir.F32 {
		x = s.unary(ir.OpCast, x, attr("dtype", dtype))
	}
	s.whole[v.Node] = x
	return x
}

// joinSlices returns the whole value, given the result of an all_gather: a tensor with the slices of all devices along
// a new outermost axis. The value was cut along the given axis.
func (s *tensorSplitter) joinSlices(all *ir.Node, axis int) *ir.Node {
	shape := slices.Clone(all.Shape()[1:])
	shape[axis] = ir.Dim{Add: shape[axis].Add * s.shards}
	if axis > 0 { // move the new axis next to the cut one
		var perm []int64
		for i := range shape {
			if i == axis {
				perm = append(perm, 0)
			}
			perm = append(perm, int64(i+1))
		}
		all = s.unary(ir.OpTranspose, all, attr("perm", perm))
	}
	return s.unary(ir.OpReshape, all, attr("shape", shape))
}

// collective adds a collective op on x and returns its result.
func (s *tensorSplitter) collective(op ir.Op, x *ir.Node) *ir.Node {
	elements := int64(1)
	for _, d := range x.Shape() {
		elements *= d.Max()
	}
	if elements > maxValues {
		bailout.Check(fmt.Errorf("devices exchange %d values at once: the limit is %d; use fewer tokens at once",
			elements, int64(maxValues)))
	}
	if s.link == nil {
		s.Link = s.linkName()
		s.link = s.add(ir.OpInput, nil, attr("name", s.Link), attr("dtype", ir.U32), attr("shape", linkShape))
	}
	shards := attr("shards", s.shards)
	given := s.link
	if s.waits && elements <= fewValues { // one kernel both writes and reads
		op = map[ir.Op]ir.Op{allReduce: allReduceFew, allGather: allGatherFew}[op]
		s.Waits = true
	} else {
		given = s.add(give, []*ir.Node{x, s.link}, shards)
	}
	y := s.add(op, []*ir.Node{x, given}, shards, attr("output", int64(0)))
	s.link = s.add(op, []*ir.Node{x, given}, shards, attr("output", int64(1)))
	s.Collectives = append(s.Collectives, x.Shape())
	return y
}

// maxValues limits the values of an exchange so that offsets in the mailbox fit in 32 bits.
const maxValues = 1 << 27

// linkName returns a name for the link input that no other leaf has.
func (s *tensorSplitter) linkName() string {
	name := "vkc.link"
	for {
		if _, taken := s.old.Named(name); !taken {
			return name
		}
		name += "_"
	}
}

// gatherUnless returns the rank's slice of a value along an axis, or the whole value if axis is isWhole. If the device
// has another part of the value, it gathers the value and slices it.
func (s *tensorSplitter) gatherUnless(v placed, axis int) *ir.Node {
	if v.axis == axis {
		return v.Node
	}
	x := s.gather(v)
	if axis == isWhole {
		return x
	}
	shape := x.Shape()
	if !s.divides(x.Type(), axis) || x.DType().IsBlock() {
		bailout.Check(fmt.Errorf("axis %d of %s cannot be cut into %d parts", axis, x.Type(), s.shards))
	}
	starts, limits := make([]int64, len(shape)), slices.Clone(shape)
	each := shape[axis].Add / s.shards
	starts[axis], limits[axis] = s.rank*each, ir.Dim{Add: (s.rank + 1) * each}
	return s.unary(ir.OpSlice, x, attr("starts", starts), attr("limits", limits))
}

// splitNode computes the rank's part of node n, given arguments that are wholes, slices along an axis, or terms of a
// sum over all ranks. It returns false if there is no rule for such arguments, or if all of them are whole after it has
// summed the terms.
func (s *tensorSplitter) splitNode(n *ir.Node, args []placed) (placed, bool) {
	for i, a := range args { // only the sum of the terms is a value that ops can read
		if a.axis == isTerm {
			args[i] = placed{s.gather(a), isWhole}
		}
	}
	if !exchanged(n.DType()) || // devices exchange f32 only
		!slices.ContainsFunc(args, func(a placed) bool { return a.axis != isWhole }) {
		return placed{}, false
	}
	switch op := n.Op(); {
	case op == ir.OpMatMul:
		return s.matmul(n, args)
	case op == ir.OpReshape:
		return s.reshape(n, args[0])
	case op == ir.OpTranspose:
		perm := n.Attrs().Ints("perm")
		return placed{s.copy(n, []*ir.Node{args[0].Node}, nil), slices.Index(perm, int64(args[0].axis))}, true
	case op == ir.OpUnsqueeze:
		return s.unsqueeze(n, args[0])
	case op == ir.OpSlice:
		return s.slice(n, args[0])
	case op == ir.OpAttention:
		return s.attention(n, args)
	case op == ir.OpBroadcast:
		axis := args[0].axis + n.Rank() - n.Args()[0].Rank()
		return placed{s.copy(n, []*ir.Node{args[0].Node}, s.part(n.Shape(), axis)), axis}, true
	case op == ir.OpDequantize || op == ir.OpQuantize && args[0].axis < n.Rank()-1 ||
		op.Class() == ir.ClassElementwise && op.Info().Custom == nil:
		return s.elementwise(n, args)
	case op == ir.OpRMSNorm || op == ir.OpLayerNorm || op == ir.OpRope || op == ir.OpL2Normalize || op == ir.OpSoftmax:
		return s.byRows(n, args)
	case op == ir.OpIndexSelect || op == ir.OpDynamicSlice || op == ir.OpDynamicUpdateSlice || op == ir.OpScatter:
		return s.acrossPositions(n, args)
	}
	return placed{}, false
}

// elementwise computes a slice of an elementwise op: it slices all arguments along the axis of the first argument that
// is a slice.
func (s *tensorSplitter) elementwise(n *ir.Node, args []placed) (placed, bool) {
	axis := isWhole // of the result
	for i, a := range args {
		if a.axis != isWhole && axis == isWhole {
			axis = a.axis + n.Rank() - n.Args()[i].Rank()
		}
	}
	nodes := make([]*ir.Node, len(args))
	for i, a := range args {
		shape := n.Args()[i].Shape()
		own := axis - (n.Rank() - len(shape))
		if own < 0 || shape[own] == ir.D(1) {
			own = isWhole // it is broadcast along the axis
		}
		nodes[i] = s.gatherUnless(a, own)
	}
	return placed{s.copy(n, nodes, nil), axis}, true
}

// byRows computes a slice of an op along rows, such as a norm or softmax, if the slice of its first argument is along
// an axis other than the rows', which is the innermost or the attribute axis. The other arguments, such as the norm's
// weight, are the same for all rows.
func (s *tensorSplitter) byRows(n *ir.Node, args []placed) (placed, bool) {
	axis := args[0].axis
	row := n.Rank() - 1
	if n.Op() == ir.OpSoftmax || n.Op() == ir.OpL2Normalize {
		row, _ = ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank()) // the shape rule has checked it
	}
	if axis < 0 || axis == row || n.Op() == ir.OpRope && !s.positionsElsewhere(n, axis) {
		return placed{}, false
	}
	return s.sliceFirstArgs(n, args, axis, 1)
}

// positionsElsewhere reports whether the positions of rope n are along another axis than the given one, and are the
// same for all slices along the given axis.
func (s *tensorSplitter) positionsElsewhere(n *ir.Node, axis int) bool {
	at, _ := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank()) // the shape rule has checked it
	return at != axis && n.Args()[1].Rank() == 1
}

// sliceFirstArgs computes the slice of n along an axis. The first `sliced` arguments are sliced along that axis, and
// the others are whole.
func (s *tensorSplitter) sliceFirstArgs(n *ir.Node, args []placed, axis, sliced int) (placed, bool) {
	nodes := make([]*ir.Node, len(args))
	for i, a := range args {
		if i < sliced {
			nodes[i] = s.gatherUnless(a, axis)
		} else {
			nodes[i] = s.gather(a)
		}
	}
	return placed{s.copy(n, nodes, nil), axis}, true
}

// acrossPositions computes a slice of an op that reads or writes at positions along one axis, such as index_select, if
// its first argument is a slice along another axis. Every slice then uses the same positions.
func (s *tensorSplitter) acrossPositions(n *ir.Node, args []placed) (placed, bool) {
	at, _ := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Args()[0].Rank()) // the shape rule has checked it
	axis, sliced := args[0].axis, 1
	switch {
	case axis < 0 || axis == at:
		return placed{}, false
	case n.Op() == ir.OpScatter:
		sliced = 3 // the tensor, the positions and the new values
	case n.Op() == ir.OpDynamicUpdateSlice:
		sliced = 2 // the tensor and the new values
		if args[1].axis != axis && args[1].DType().IsBlock() {
			return placed{}, false
		}
	}
	return s.sliceFirstArgs(n, args, axis, sliced)
}

// matmul computes a slice of a matmul if only a is cut, along its rows or a batch axis, or only b, along its columns.
// It computes a term if b is cut along the contraction axis, and a is whole or cut in the same way.
func (s *tensorSplitter) matmul(n *ir.Node, args []placed) (placed, bool) {
	a, b := n.Args()[0], n.Args()[1]
	rows, inA := a.Rank()-2, a.Rank()-1
	if n.Attrs().Bool("transpose_a") {
		rows, inA = inA, rows
	}
	inB, columns := b.Rank()-2, b.Rank()-1
	if n.Attrs().Bool("transpose_b") {
		inB, columns = columns, inB
	}
	result := func(axis int) (placed, bool) {
		return placed{s.copy(n, []*ir.Node{args[0].Node, args[1].Node}, nil), axis}, true
	}
	cutA, cutB := args[0].axis, args[1].axis
	cutsBatch := cutA >= 0 && cutA < a.Rank()-2
	switch {
	case cutA == inA && cutB == inB:
		return result(isTerm)
	case cutA == isWhole && cutB == inB && !a.DType().IsBlock(): // blocks cannot be sliced
		args[0] = placed{s.gatherUnless(args[0], inA), inA}
		return result(isTerm)
	case cutA == isWhole && cutB == columns:
		return result(n.Rank() - 1)
	case cutB == isWhole && cutA == rows:
		return result(n.Rank() - 2)
	case cutB == isWhole && b.Rank() == 2 && cutsBatch:
		return result(cutA)
	}
	return placed{}, false
}

// attention computes the slice of an attention with the device's heads, if queries, keys and values are cut by heads.
func (s *tensorSplitter) attention(n *ir.Node, args []placed) (placed, bool) {
	heads := n.Rank() - 3
	nodes := make([]*ir.Node, len(args))
	for i, a := range args {
		node, own := n.Args()[i], heads
		switch name := n.Op().Info().Args[i].Name; {
		case name == "mask" && (node.Rank() < 3 || node.Shape()[node.Rank()-3].Is(1)):
			own = isWhole // one mask for all heads
		case name == "mask":
			own = node.Rank() - 3
		case name == "sinks":
			own = 0 // one per head
		case a.axis != heads: // queries, keys or values
			return placed{}, false
		}
		nodes[i] = s.gatherUnless(a, own)
	}
	return placed{s.copy(n, nodes, nil), heads}, true
}

// reshape computes a slice of a reshape. The reshape may split the cut axis into several axes: the outermost of them is
// then cut. Or it may merge the cut axis with axes inside of it.
func (s *tensorSplitter) reshape(n *ir.Node, x placed) (placed, bool) {
	from, to := n.Args()[0].Shape(), n.Shape()
	was := from[x.axis].Add
	for axis, d := range to {
		divisible := d.IsStatic() && d.Add > 0 && d.Add%s.shards == 0
		if !divisible || !from[:x.axis].SameNumel(to[:axis]) {
			continue
		}
		splits, merges := was%d.Add == 0, d.Add%was == 0
		if splits || merges {
			return placed{s.copy(n, []*ir.Node{x.Node}, s.part(to, axis)), axis}, true
		}
	}
	return placed{}, false
}

// unsqueeze copies an unsqueeze of a divided value. The new axes may move the divided axis.
func (s *tensorSplitter) unsqueeze(n *ir.Node, x placed) (placed, bool) {
	axis := x.axis
	for _, at := range slices.Sorted(slices.Values(n.Attrs().Ints("axes"))) {
		if at < 0 {
			at += int64(n.Rank())
		}
		if int(at) <= axis {
			axis++
		}
	}
	return placed{s.copy(n, []*ir.Node{x.Node}, nil), axis}, true
}

// slice computes a slice op on the device's slice, if the op keeps the whole cut axis. Otherwise it needs the whole
// value.
func (s *tensorSplitter) slice(n *ir.Node, x placed) (placed, bool) {
	if x.axis < 0 || n.Shape()[x.axis] != n.Args()[0].Shape()[x.axis] {
		return placed{}, false
	}
	if steps := n.Attrs().Ints("steps"); len(steps) > 0 && steps[x.axis] != 1 {
		return placed{}, false
	}
	attrs := slices.Clone(n.Attrs())
	for i := range attrs {
		if attrs[i].Name == "limits" {
			attrs[i].Value = s.part(attrs[i].Value.(ir.Shape), x.axis)
		}
	}
	return placed{s.unary(ir.OpSlice, x.Node, attrs...), x.axis}, true
}
