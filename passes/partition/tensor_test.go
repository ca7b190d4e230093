package partition_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes/partition"
)

// TestSplitTensor has the reference compute graphs in parts, which meet, and as a whole. Numbers are small and whole,
// so that sums are exact in any order. collectives is how often the devices exchange values.
func TestSplitTensor(t *testing.T) {
	dims := func(n ...any) []any { return n }
	for _, c := range []struct {
		name        string
		shards      int
		collectives int
		build       func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor // x is [T, 12]
	}{
		{"rows, then columns", 3, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			up, bias := b.ShardedWeight(0, "up", ir.F32, 24, 12), b.ShardedWeight(0, "bias", ir.F32, 24)
			down := b.ShardedWeight(1, "down", ir.F32, 12, 24)
			return x.Add(x.MatMulT(up).Add(bias).Relu().MatMulT(down)).Add(b.Weight("last", ir.F32, 12))
		}},
		{"the result is cut", 3, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 6, 12))
		}},
		{"a whole operand meets a cut sum", 3, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.MatMulT(b.ShardedWeight(1, "w", ir.F32, 5, 12))
		}},
		{"five does not divide twelve", 5, 0, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 12, 12))
		}},
		{"an op without a rule", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 4, 12)).Sum(1)
		}},
		{"numbers that f32 does not hold", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 4, 12)).Cast(ir.I32).MulScalar(1 << 24).AddScalar(1)
		}},
		{"a whole operand is sliced", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			return x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 4, 12)).Mul(x.Slice(1, 2, ir.D(6)))
		}},
		{"heads", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			q := x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 12, 12))
			return q.Reshape(x.Dim(0), 4, 3).SwapAxes(0, 1).Slice(2, 1, ir.D(3)).Unsqueeze(1)
		}},
		{"a head that is cut", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			q := x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 12, 12))
			return q.Reshape(x.Dim(0), 3, 4).SwapAxes(0, 1)
		}},
		{"a state of heads", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			k := x.MatMulT(b.ShardedWeight(0, "w", ir.F32, 12, 12)).Reshape(x.Dim(0), 4, 3).SwapAxes(0, 1)
			cache := b.ShardedState(0, "cache", ir.F32, dims(4, 8, 3)...)
			all := cache.DynamicUpdateSlice(1, k, b.Scalar(ir.I32, 2))
			b.Update(cache, all)
			return all.Add(cache)
		}},
		{"a whole value becomes a part of a state", 2, 1, func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor {
			s := b.ShardedState(0, "s", ir.F32, 12)
			b.Update(s, s.Add(x.Sum(0)))
			return x.Add(s)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := frontend.Build("split", func(b *frontend.Builder) {
				b.Output("y", c.build(b, b.Input("x", ir.F32, b.Sym("T", 4), 12)))
			})
			if err != nil {
				t.Fatal(err)
			}
			weights := weightsOf{}
			for i, n := range g.Leaves(ir.OpWeight) {
				dims, _ := n.Shape().Eval(nil)
				weights[n.Name()] = whole(i, dims...)
			}
			compareParts(t, g, weights, c.shards, c.collectives, false)
			compareParts(t, g, weights, c.shards, c.collectives, true)
		})
	}
}

type weightsOf map[string]*ir.Data

func (w weightsOf) Weight(name string) (*ir.Data, error) { return w[name], nil }

// whole are small whole numbers.
func whole(seed int, dims ...int) *ir.Data {
	d, _ := ir.NewData(ir.F32, dims...)
	values := make([]float64, d.Elems())
	for i := range values {
		values[i] = float64((7*i*i+13*i+5*seed)%11 - 5)
	}
	ir.EncodeFloats(d.Bytes, ir.F32, values)
	return d
}

// compareParts runs a graph twice, whole and in parts.
func compareParts(t *testing.T, g *ir.Graph, weights weightsOf, shards, collectives int, waits bool) {
	t.Helper()
	one, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	words := mailbox.Header + mailbox.SlotWords(shards, []int{200, 200, 200}, true)
	box, err := mailbox.New(make([]uint32, words), shards)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var parts []partition.Shard
	var programs []*interp.Program
	for rank := range shards {
		s, err := partition.SplitTensor(g, shards, rank, waits)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Collectives) != collectives {
			t.Errorf("%d collectives, want %d", len(s.Collectives), collectives)
		}
		own := maps.Clone(weights)
		for name, axis := range s.Cut {
			if own[name] != nil {
				own[name] = partOf(own[name], axis, shards, rank)
			}
		}
		p, err := interp.New(s.Graph, interp.Options{Weights: own})
		if err != nil {
			t.Fatal(err)
		}
		parts, programs = append(parts, s), append(programs, p)
	}
	for run := range 2 {
		x := whole(run, 3, 12)
		want, err := one.Run(t.Context(), map[string]*ir.Data{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for rank, p := range programs {
			all.Add(1)
			go func() {
				defer all.Done()
				in := map[string]*ir.Data{"x": x}
				if parts[rank].Link != "" {
					link := box.Link(rank, uint32(1+run*collectives), 0, mailbox.Addresses{}, 0)
					d, _ := ir.NewData(ir.U32, len(link))
					copy(d.Bytes, bytesOf(link[:]))
					in[parts[rank].Link] = d
				}
				have, err := p.Run(t.Context(), in, nil)
				if err != nil {
					box.Stop()
					t.Errorf("run %d, part %d: %v", run, rank, err)
				} else if !slices.Equal(have["y"].Bytes, want["y"].Bytes) {
					t.Errorf("run %d, part %d differs from the whole", run, rank)
				}
			}()
		}
		all.Wait()
	}
}

func bytesOf(words []uint32) (b []byte) {
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return b
}

// partOf is a rank's part of floats along an axis of at most two.
func partOf(d *ir.Data, axis, shards, rank int) *ir.Data {
	dims := slices.Clone(d.Dims)
	dims[axis] /= shards
	part, _ := ir.NewData(d.DType, dims...)
	columns := dims[len(dims)-1]
	for i := range part.Elems() {
		at := i + rank*int(part.Elems())
		if axis == 1 {
			at = i/columns*columns*shards + rank*columns + i%columns
		}
		copy(part.Bytes[4*i:4*i+4], d.Bytes[4*at:])
	}
	return part
}

// TestSplitTensorBlocks: blocks are not divided, and a matmul that needs a whole weight gets whole rows.
func TestSplitTensorBlocks(t *testing.T) {
	for width, cut := range map[int]bool{64: true, 96: false} {
		g, err := frontend.Build("blocks", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 1, 32).MatMulT(b.ShardedWeight(0, "up", ir.Q4_0, width, 32))
			b.Output("y", x.MatMulT(b.ShardedWeight(1, "down", ir.Q4_0, 32, width)))
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := partition.SplitTensor(g, 2, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Cut["down"]; ok != cut || len(s.Collectives) != 1 {
			t.Errorf("%d columns of blocks of 32 between two: cut %v, %d collectives", width, s.Cut, len(s.Collectives))
		}
	}
	if _, err := partition.SplitTensor(ir.NewGraph("g"), 1, 0, false); err == nil {
		t.Error("one part: want an error")
	}
}
