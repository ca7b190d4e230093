package gomlx

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// axes maps names of dynamic axes to extents. An extent is a number, or a symbol with a bound, and then each call gives
// its value.
type axes map[string]ir.Dim

// symbolName returns the symbol of the i-th dynamic axis in the order of names.
func symbolName(i int) string { return fmt.Sprintf("n%d", i) }

// bounded replaces each axis by a symbol bounded by the next power of two. So one program serves many extents, and its
// buffers are at most twice as long along each axis as a call needs. An empty axis has the bound 0.
func bounded(of shapes.AxisBindings) axes {
	out := axes{}
	for i, name := range slices.Sorted(maps.Keys(of)) {
		out[name] = ir.Symbol(symbolName(i), 1<<bits.Len(uint(of[name]-1)))
	}
	return out
}

// fixed makes each axis a number.
func fixed(of shapes.AxisBindings) axes {
	out := axes{}
	for name, n := range of {
		out[name] = ir.D(n)
	}
	return out
}

// symbols returns the values of the symbols that bounded makes of axes.
func symbols(of shapes.AxisBindings) map[string]int64 {
	out := map[string]int64{}
	for i, name := range slices.Sorted(maps.Keys(of)) {
		out[symbolName(i)] = int64(of[name])
	}
	return out
}

// key returns a map key for the axes.
func (a axes) key() string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		fmt.Fprintf(&key, "%q %s %d,", name, a[name], a[name].Max())
	}
	return key.String()
}

// resolve returns the extent of an axis by its name. The name may be a sum of names and numbers, such as =10+a. It
// returns an error if an extent is unknown.
func (a axes) resolve(name string) (ir.Dim, error) {
	if d, ok := a[name]; ok {
		return d, nil
	}
	sum := ir.D(0)
	expression, isSum := strings.CutPrefix(name, shapes.SymbolicAxisPrefix)
	for part := range strings.SplitSeq(expression, "+") {
		part = strings.TrimSpace(part)
		d, ok := a[part]
		if n, err := strconv.Atoi(part); err == nil {
			d, ok = ir.D(n), true
		}
		if !ok || !isSum {
			return ir.Dim{}, fmt.Errorf("nothing says what extent the dynamic axis %q has", name)
		}
		var err error
		if sum, err = sum.Sum(d); err != nil {
			return ir.Dim{}, err
		}
	}
	return sum, nil
}

// dims returns the extents of a shape, with those of dynamic axes by their names.
func (l *lowering) dims(s shapes.Shape) ir.Shape {
	out := make(ir.Shape, len(s.Dimensions))
	for i, n := range s.Dimensions {
		out[i] = ir.D(n)
		if n != shapes.DynamicDim {
			continue
		}
		d, err := l.axes.resolve(s.AxisName(i))
		if err != nil {
			l.fail(err)
		}
		out[i] = d
	}
	return out
}

// numbers returns the extents of a shape for operations that need them static.
func (l *lowering) numbers(s shapes.Shape) []int { return numbers(l.b, l.dims(s)) }

// sizes returns the extents of a tensor, for operations that need static extents.
func sizes(x tensor) []int { return numbers(x.Builder(), x.Shape()) }

// extent returns one of sizes.
func extent(x tensor, axis int) int { return numbers(x.Builder(), ir.Shape{x.Dim(axis)})[0] }

// numbers returns extents as numbers. It makes the builder fail if one is a symbol.
func numbers(b *frontend.Builder, dims ir.Shape) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		if !d.IsStatic() {
			b.Fail("gomlx", fmt.Errorf("an operation needs the extent %s as a number", d))
		}
		out[i] = d.Static()
	}
	return out
}

// numel returns the number of elements along some axes.
func numel(x tensor, along []int) ir.Dim {
	var of ir.Shape
	for _, a := range along {
		of = append(of, x.Dim(a))
	}
	n, err := of.Numel()
	if err != nil {
		x.Builder().Fail("gomlx", err)
	}
	return n
}

// size returns an i32 scalar with the value of an extent.
func (l *lowering) size(d ir.Dim) tensor {
	if d.IsStatic() {
		return l.b.Const(int32(d.Static()))
	}
	return l.b.DimValue(d)
}

// name records extent d as the extent of a dynamic axis, by its name, for later operations that use the name.
func (l *lowering) name(axis string, d ir.Dim) {
	if before, ok := l.axes[axis]; ok && before != d {
		l.fail(fmt.Errorf("dynamic axis %q has extent %s here and %s elsewhere", axis, d, before))
	}
	l.axes[axis] = d
}
