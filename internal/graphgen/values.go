package graphgen

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/vkc-go/vkc/internal/randblocks"
	"github.com/vkc-go/vkc/ir"
)

// Values makes tensors that depend only on a seed, a name and a type, so that they stay the same while a graph is
// shrunk. It is an ir.WeightSource for its graph.
type Values struct {
	Seed  uint64
	Graph *ir.Graph
	// Special adds NaNs, infinities, zeros of both signs and the largest and smallest floats. Results are then only
	// comparable if they are exact.
	Special bool
}

// wild in the name of an integer input makes Values choose from all values of its dtype.
const wild = "wild"

// blockMagnitude bounds the elements of weights in block dtypes.
const blockMagnitude = 2

// rangeOf returns the range of the values of an input or weight.
func rangeOf(n *ir.Node) (lo, hi float64) {
	switch t := n.DType(); {
	case t == ir.Bool:
		return 0, 1
	case t.IsBlock():
		return -blockMagnitude, blockMagnitude
	case t.IsFloat():
		return -1.5, 1.5
	case strings.Contains(n.Name(), wild):
		a, b := ir.IntRange(t)
		return float64(a), float64(b)
	case t.Kind() == ir.KindUint:
		return 0, 11
	}
	return -4, 11
}

// rng returns the random numbers for a name.
func (v Values) rng(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(v.Seed, h.Sum64()))
}

// Inputs returns a tensor for every input, for the given symbol values. Different values of run give different tensors.
func (v Values) Inputs(symbols map[string]int64, run int) (map[string]*ir.Data, error) {
	in := map[string]*ir.Data{}
	for _, n := range v.Graph.Leaves(ir.OpInput) {
		dims, err := n.Shape().Eval(symbols)
		if err != nil {
			return nil, err
		}
		if in[n.Name()], err = v.tensor(v.rng(fmt.Sprint(n.Name(), run)), n, dims); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// Weight returns the weight of that name.
func (v Values) Weight(name string) (*ir.Data, error) {
	n, ok := v.Graph.Named(name)
	if !ok || n.Op() != ir.OpWeight {
		return nil, fmt.Errorf("no weight %q", name)
	}
	dims, err := n.Shape().Eval(nil)
	if err != nil {
		return nil, err
	}
	return v.tensor(v.rng(name), n, dims)
}

// tensor returns random elements for node n.
func (v Values) tensor(rng *rand.Rand, n *ir.Node, dims []int) (*ir.Data, error) {
	t := n.DType()
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	if t.IsBlock() {
		randblocks.Fill(d.Bytes, t, -1, 1, rng)
		return d, nil
	}
	lo, hi := rangeOf(n)
	if !t.IsFloat() {
		ints := make([]int64, d.Elems())
		for i := range ints {
			ints[i] = integer(rng, t, lo, hi)
		}
		return ir.FromInts(t, ints, dims...)
	}
	floats := make([]float64, d.Elems())
	for i := range floats {
		floats[i] = v.float(rng, lo, hi)
	}
	return ir.FromFloats(t, floats, dims...)
}

// integer returns a random integer from lo to hi.
func integer(rng *rand.Rand, t ir.DType, lo, hi float64) int64 {
	if hi-lo > 1<<16 { // any value, but mostly ones near the ends and near 0
		a, b := ir.IntRange(t)
		switch rng.IntN(4) {
		case 0:
			return a + rng.Int64N(3)
		case 1:
			return b - rng.Int64N(3)
		case 2:
			return rng.Int64N(20) - 5
		}
		return int64(rng.Uint64())
	}
	return int64(lo) + rng.Int64N(int64(hi-lo)+1)
}

// float returns a value from a short list in many cases, to produce ties and zeros, and otherwise any value of the
// range.
func (v Values) float(rng *rand.Rand, lo, hi float64) float64 {
	if v.Special && rng.IntN(3) == 0 {
		list := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1,
			math.MaxFloat32, 0x1p-126}
		return list[rng.IntN(len(list))]
	}
	if rng.IntN(4) == 0 {
		return math.Round(lo + rng.Float64()*(hi-lo))
	}
	return lo + rng.Float64()*(hi-lo)
}

// Symbols returns up to n choices of values for the graph's symbols: all at their bound, all 0, all 1, and then random
// ones. It leaves out choices that make an extent negative, such as T-2 for T = 0.
func (v Values) Symbols(n int) []map[string]int64 {
	rng := v.rng("symbols")
	names := v.Graph.Symbols()
	if len(names) == 0 {
		return []map[string]int64{{}}
	}
	var list []map[string]int64
	for i := 0; len(list) < n && i < 4*n; i++ {
		values := map[string]int64{}
		for _, s := range names {
			bound, _ := v.Graph.SymbolBound(s)
			switch i {
			case 0:
				values[s] = bound
			case 1:
				values[s] = 0
			case 2:
				values[s] = min(1, bound)
			default:
				values[s] = rng.Int64N(bound + 1)
			}
		}
		if v.valid(values) {
			list = append(list, values)
		}
	}
	return list
}

// valid reports whether all extents of the graph are valid under these symbol values.
func (v Values) valid(symbols map[string]int64) bool {
	for _, n := range v.Graph.Nodes() {
		if _, err := n.Shape().Eval(symbols); err != nil {
			return false
		}
	}
	return true
}
