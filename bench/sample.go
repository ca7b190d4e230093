package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Sample picks coordinates along labelled axes. To check a case, the reference interpreter runs the same ops on the
// picked rows of the inputs and computes the picked part of the outputs. The small graph keeps that fast.
//
// A label may be in a sample only if outputs at some coordinates of its axes depend only on inputs at the same
// coordinates. That holds for the rows and columns of a matmul, and not for its contraction axis.
type Sample map[string]Pick

// Pick chooses coordinates from 0 to n-1, in ascending order.
type Pick func(rng *rand.Rand, n int) []int

// Some picks count coordinates: the first, the last and random ones. With a count of 1 it picks only the first.
func Some(count int) Pick {
	return func(rng *rand.Rand, n int) []int {
		picked := map[int]bool{0: true, n - 1: true}
		for len(picked) < min(count, n) {
			picked[rng.IntN(n)] = true
		}
		return slices.Sorted(maps.Keys(picked))[:min(max(count, 1), len(picked))]
	}
}

// First picks the first coordinates, as many as count says.
func First(count int) Pick {
	return func(_ *rand.Rand, n int) []int { return span(0, min(count, n)) }
}

// Last picks the last coordinates, as many as count says.
func Last(count int) Pick {
	return func(_ *rand.Rand, n int) []int { return span(max(n-count, 0), n) }
}

// span returns the integers from from to to-1.
func span(from, to int) []int {
	var list []int
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// Check compares samples of a run's outputs with the reference.
func (c *Case) Check(ctx context.Context, in, weights, out map[string]*ir.Data) error {
	return c.check(ctx, data{inputs: in, weights: weights}, out)
}

// check compares each of the case's samples of the outputs with the reference, or the whole outputs if there are no
// samples. If MatMul is set, the case is a single matmul, and check also compares all of y with a matmul in Go.
func (c *Case) check(ctx context.Context, d data, out map[string]*ir.Data) error {
	samples := c.Samples
	if len(samples) == 0 {
		samples = []Sample{nil} // picks nothing: all is compared
	}
	for i, s := range samples {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		picked := map[string][]int{}
		for _, label := range slices.Sorted(maps.Keys(s)) {
			picked[label] = s[label](rng, c.Sizes[label])
		}
		if err := c.checkSample(ctx, picked, d, out); err != nil {
			return err
		}
	}
	if c.MatMul {
		return c.checkWhole(d.inputs, d.weights, out)
	}
	return nil
}

// checkWhole checks a case that is a single matmul.
func (c *Case) checkWhole(in, weights, out map[string]*ir.Data) error {
	g, err := c.Graph(c.Sizes)
	if err != nil {
		return err
	}
	w := weights["w"]
	if w == nil {
		w = in["w"]
	}
	return checkMatMul(in["x"], w, out["y"], interp.ToleranceOf(g, g.Outputs()[0].Node))
}

// checkSample runs the reference on the case's graph with smaller sizes, on the picked parts of inputs and weights, and
// compares its outputs with the picked parts of out. picked has the coordinates by label.
func (c *Case) checkSample(ctx context.Context, picked map[string][]int, d data, out map[string]*ir.Data) error {
	sizes := maps.Clone(c.Sizes)
	for label, coords := range picked {
		sizes[label] = len(coords)
	}
	g, err := c.Graph(sizes)
	if err != nil {
		return fmt.Errorf("case %s: sample of sizes %v: %w", c.Name, sizes, err)
	}
	inputs, err := c.part(d.inputs, picked)
	if err != nil {
		return err
	}
	weights, err := c.part(d.weights, picked)
	if err != nil {
		return err
	}
	have, err := c.part(out, picked)
	if err != nil {
		return err
	}
	ref, err := interp.New(g, interp.Options{Weights: weightMap(weights)})
	if err != nil {
		return err
	}
	for name, state := range d.states {
		if err := ref.SetState(name, state); err != nil {
			return err
		}
	}
	want, err := ref.Run(ctx, inputs, c.Symbols)
	if err != nil {
		return fmt.Errorf("case %s: reference: %w", c.Name, err)
	}
	tolerances := interp.Tolerances(g)
	for _, o := range g.Outputs() {
		r := interp.Compare(have[o.Name], want[o.Name], tolerances[o.Node.ID()])
		if err := r.Err(); err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
	}
	return nil
}

// weightMap is weights by name.
type weightMap map[string]*ir.Data

func (m weightMap) Weight(name string) (*ir.Data, error) {
	if d, ok := m[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no weight %q", name)
}

// part returns the tensors cut to the picked coordinates along the axes that have labels.
func (c *Case) part(all map[string]*ir.Data, picked map[string][]int) (map[string]*ir.Data, error) {
	parts := map[string]*ir.Data{}
	for name, d := range all {
		labels, err := c.axes(name, len(d.Dims))
		if err != nil {
			return nil, err
		}
		for axis, label := range labels {
			if coords, ok := picked[label]; ok {
				if d, err = take(d, axis, coords); err != nil {
					return nil, fmt.Errorf("case %s: sample of %q: %w", c.Name, name, err)
				}
			}
		}
		parts[name] = d
	}
	return parts, nil
}

// take returns a copy of the parts of d at the given coordinates along an axis, in their order.
func take(d *ir.Data, axis int, coords []int) (*ir.Data, error) {
	if d.DType.IsBlock() && axis == len(d.Dims)-1 {
		return nil, fmt.Errorf("the innermost axis of %s lies in blocks", d)
	}
	dims := slices.Clone(d.Dims)
	dims[axis] = len(coords)
	part, err := ir.NewData(d.DType, dims...)
	if err != nil {
		return nil, err
	}
	outer := 1
	for _, n := range d.Dims[:axis] {
		outer *= n
	}
	slice := len(d.Bytes) / max(outer*d.Dims[axis], 1) // bytes of one coordinate, for fixed outer axes
	to := 0
	for i := range outer {
		for _, at := range coords {
			from := (i*d.Dims[axis] + at) * slice
			copy(part.Bytes[to:], d.Bytes[from:from+slice])
			to += slice
		}
	}
	return part, nil
}
