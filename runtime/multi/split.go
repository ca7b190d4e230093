package multi

import (
	"context"
	"fmt"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime/collective"
)

// Split is a program's graph divided into one part per device: [Layers] or [Shards].
type Split interface {
	// Parts lists the parts in the order of their devices.
	Parts() []Part
	// Weights returns the weights of a part. from has the weights of the whole graph.
	Weights(from ir.WeightSource, part int) ir.WeightSource
}

// Part is a part of a program: the graph of one device.
type Part struct {
	Graph  *ir.Graph
	Device int // index of the device
}

// Layers has the consecutive parts of a graph for a [Pipeline].
type Layers []partition.Part

// SplitLayers cuts a graph into consecutive parts for these devices. other is another program's split, or empty: the
// weights and states that both programs have stay on the same devices.
func SplitLayers(g *ir.Graph, list []Member, other Layers) (_ Layers, err error) {
	defer bailout.Caught(&err)
	stored := max(storedBy(g), 1) // tensors may be empty, and each share must be above 0
	return partition.SplitLayers(g, shares(list, float64(stored)), partition.Homes(other))
}

// Parts implements Split.
func (l Layers) Parts() (list []Part) {
	for _, p := range l {
		list = append(list, Part{p.Graph, p.Device})
	}
	return list
}

// Weights implements Split.
func (l Layers) Weights(from ir.WeightSource, _ int) ir.WeightSource { return from }

// Shards has the graphs of the devices of a [Tensor], by rank. Each has a share of every divided op.
type Shards []partition.Shard

// SplitTensor divides the ops of a graph among the devices of a group. It asks the group whether the kernels of a
// device may wait for other devices at an exchange.
func SplitTensor(ctx context.Context, g *ir.Graph, group *collective.Group) (list Shards, err error) {
	defer bailout.Caught(&err)
	first := bailout.Must(partition.SplitTensor(g, group.Ranks, 0, true))
	waits := first.Waits
	if waits {
		waits = bailout.Must(group.Waits(ctx, bailout.Must(first.Exchanges(nil))))
	}
	for rank := range group.Ranks {
		list = append(list, bailout.Must(partition.SplitTensor(g, group.Ranks, rank, waits)))
	}
	return list, nil
}

// Parts implements Split.
func (s Shards) Parts() (list []Part) {
	for rank, one := range s {
		list = append(list, Part{one.Graph, rank})
	}
	return list
}

// Weights implements Split.
func (s Shards) Weights(from ir.WeightSource, rank int) ir.WeightSource {
	if from == nil || len(s[rank].Cut) == 0 {
		return from
	}
	return &shardWeights{from, s[rank].Cut, len(s), rank}
}

// shardWeights returns one rank's shards of the weights in cut, and other weights whole.
type shardWeights struct {
	ir.WeightSource
	cut          map[string]int // axes along which weights are cut, by name
	shards, rank int
}

// Weight implements ir.WeightSource.
func (w *shardWeights) Weight(name string) (*ir.Data, error) {
	d, err := w.WeightSource.Weight(name)
	axis, ok := w.cut[name]
	if err != nil || d == nil || !ok {
		return d, err
	}
	return cutData(d, axis, w.shards, w.rank)
}

// WeightType returns the dtype and dims of a rank's shard of a weight. [ir.WeightType] calls it.
func (w *shardWeights) WeightType(name string) (ir.DType, []int, error) {
	t, dims, err := ir.WeightType(w.WeightSource, name)
	axis, ok := w.cut[name]
	if err != nil || !ok || axis >= len(dims) {
		return t, dims, err
	}
	dims = append([]int(nil), dims...)
	dims[axis] /= w.shards
	return t, dims, nil
}

// cutLayout returns the layout of a slice if a tensor is cut into equal slices (shards) along an axis: its dims (part),
// and the number (rows) and size in bytes (each) of the contiguous pieces of the tensor that it consists of.
func cutLayout(t ir.DType, dims []int, axis, shards int) (part []int, each, rows int, err error) {
	if axis >= len(dims) || dims[axis]%shards != 0 {
		return nil, 0, 0, fmt.Errorf("%s%v cannot be cut into %d parts along axis %d", t, dims, shards, axis)
	}
	part = append([]int(nil), dims...)
	part[axis] /= shards
	size, err := ir.ByteSize(t, part[axis:])
	rows = 1
	for _, n := range dims[:axis] {
		rows *= n
	}
	return part, int(size), rows, err
}

// cutData returns a rank's shard of a tensor. A shard along the outermost axis aliases the tensor.
func cutData(d *ir.Data, axis, shards, rank int) (*ir.Data, error) {
	dims, each, rows, err := cutLayout(d.DType, d.Dims, axis, shards)
	if err == nil && len(d.Bytes) != each*rows*shards {
		err = fmt.Errorf("%s%v has %d bytes", d.DType, d.Dims, len(d.Bytes))
	}
	if err != nil {
		return nil, err
	}
	part := &ir.Data{DType: d.DType, Dims: dims}
	if rows == 1 { // the shard is contiguous
		part.Bytes = d.Bytes[rank*each : (rank+1)*each : (rank+1)*each]
		return part, nil
	}
	part.Bytes = make([]byte, each*rows)
	for r := range rows {
		copy(part.Bytes[r*each:], d.Bytes[(r*shards+rank)*each:][:each])
	}
	return part, nil
}

// joinData concatenates the shards of all ranks along an axis, which cutData made.
func joinData(parts []*ir.Data, axis int) (*ir.Data, error) {
	dims := append([]int(nil), parts[0].Dims...)
	dims[axis] *= len(parts)
	_, each, rows, err := cutLayout(parts[0].DType, dims, axis, len(parts))
	if err != nil {
		return nil, err
	}
	d := &ir.Data{DType: parts[0].DType, Dims: dims, Bytes: make([]byte, each*rows*len(parts))}
	for rank, p := range parts {
		for r := range rows {
			copy(d.Bytes[(r*len(parts)+rank)*each:], p.Bytes[r*each:][:each])
		}
	}
	return d, nil
}
