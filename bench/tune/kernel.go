package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Kernel is a kernel to tune.
type Kernel struct {
	*kernel.Kernel
	Key     string // schedule.TuningKey
	About   string // for people
	Symbols map[string]int64
	Uses    int // steps that run it, of all graphs

	program *kernel.Program // has the kernel as a step
	step    kernel.Step
}

// Kernels returns the distinct kernels of a graph as it is lowered for a device, ordered by decreasing estimated time.
// symbols gives the values of symbols in the measurement; a missing symbol has its bound.
func Kernels(ctx context.Context, g *ir.Graph, caps device.Caps, symbols map[string]int64) ([]*Kernel, error) {
	low, err := compiler.Lower(ctx, g, caps, nil)
	if err != nil {
		return nil, err
	}
	values, err := symbolValues(low.Program, symbols)
	if err != nil {
		return nil, err
	}
	var list []*Kernel
	for i, k := range low.Kernels {
		list = append(list, &Kernel{
			Kernel: k, Key: schedule.TuningKey(k), About: about(k, values), Symbols: values, Uses: 1,
			program: low.Program, step: low.Program.Steps[i],
		})
	}
	return Merge(list), nil
}

// about describes a kernel and the lengths at which it is measured.
func about(k *kernel.Kernel, symbols map[string]int64) string {
	text := schedule.Label(k)
	before := " at"
	for _, name := range k.Symbols() {
		text += fmt.Sprintf("%s %s=%d", before, name, symbols[name])
		before = ","
	}
	return text
}

// lengths returns the values of the kernel's symbols, in an order that does not depend on their names.
func (k *Kernel) lengths() []int64 {
	var list []int64
	for _, name := range k.Kernel.Symbols() {
		list = append(list, k.Symbols[name])
	}
	return list
}

// atBounds reports whether the kernel is measured with every symbol at its bound, for which its time is estimated.
func (k *Kernel) atBounds() bool {
	return !slices.ContainsFunc(k.program.Symbols, func(s kernel.Symbol) bool {
		return slices.Contains(k.Kernel.Symbols(), s.Name) && k.Symbols[s.Name] != s.Bound
	})
}

// Merge returns the distinct kernels of several lists, ordered by decreasing estimated time.
func Merge(lists ...[]*Kernel) []*Kernel {
	seen := map[string]*Kernel{}
	var all []*Kernel
	for _, k := range slices.Concat(lists...) {
		if have := seen[k.Key]; have != nil {
			have.Uses += k.Uses
			continue
		}
		seen[k.Key] = k
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(a, b *Kernel) int { return -compare(a.weight(), b.weight()) })
	return all
}

// compare orders two numbers like cmp.Compare, but treats NaN as equal to every number.
func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// intensity is the number of operations that take about as long as moving a byte.
const intensity = 50

// weight estimates the time of all uses of the kernel, in arbitrary units.
func (k *Kernel) weight() float64 {
	return float64(k.Uses) * max(float64(k.step.Moved), float64(k.step.Flops)/intensity, 1<<10)
}

// symbolValues returns the values of all symbols of a program: the given ones, which it checks, and otherwise the
// bounds.
func symbolValues(p *kernel.Program, given map[string]int64) (map[string]int64, error) {
	values := map[string]int64{}
	var names []string
	for _, s := range p.Symbols {
		names = append(names, s.Name)
		values[s.Name] = s.Bound
		if v, ok := given[s.Name]; ok {
			if v < 1 || v > s.Bound {
				return nil, ir.OutsideBound(s.Name, v, 1, s.Bound)
			}
			values[s.Name] = v
		}
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no symbol %q; the program has %s", name,
				strings.Join(append(names, "no other"), ", "))
		}
	}
	return p.Values(values)
}

// secondSymbols returns a second set of symbol values for checking results: about half of the measured ones, and odd,
// so that no tile size divides them. It returns nil if the kernel has no symbols.
func (k *Kernel) secondSymbols() map[string]int64 {
	if len(k.Kernel.Symbols()) == 0 {
		return nil
	}
	values := map[string]int64{}
	for name, v := range k.Symbols {
		values[name] = min(v/2|1, v)
	}
	values, _ = k.program.Values(values) // as computed for k.Symbols
	return values
}

// tolerance bounds the difference between the results of two schedules in dtype t. It combines the tolerances of the
// fused ops, as package interp does: errors of different ops add as the root of the sum of squares.
func (k *Kernel) tolerance(t ir.DType) ir.Tolerance {
	if !t.IsFloat() {
		return ir.Tolerance{}
	}
	var rel2, abs2 float64
	sum, inexact := false, 0
	add := func(tol ir.Tolerance, eps float64) {
		rel := tol.Eps*0x1p-23 + eps
		rel2, abs2 = rel2+rel*rel, abs2+tol.Abs*tol.Abs
		sum = sum || tol.Sum
		if rel > 0 || tol.Abs > 0 {
			inexact++
		}
	}
	for _, name := range k.Ops {
		if op, err := ir.ParseOp(name); err == nil {
			add(op.Info().Tol, 0)
		}
	}
	for _, p := range k.MatMuls {
		switch {
		case p.ByteRows: // a schedule may quantize the rows, or not
			add(ir.Tolerance{Sum: true}, interp.ByteRows)
		case p.HalfSums:
			add(ir.Tolerance{Sum: true}, interp.HalfSums*epsilon(ir.F16))
		case p.Operands == ir.F16 || p.Operands == ir.BF16:
			add(ir.Tolerance{Sum: true}, epsilon(p.Operands))
		}
	}
	if a := k.Attention; a != nil && a.V.DType == ir.F16 { // matrix units use attention weights in f16
		add(ir.Tolerance{Sum: true}, epsilon(ir.F16))
	}
	if inexact == 0 {
		return ir.Tolerance{}
	}
	add(ir.Tolerance{}, epsilon(t)) // of rounding the result
	return ir.Tolerance{Eps: math.Sqrt(rel2) / epsilon(t), Abs: math.Sqrt(abs2), Sum: sum || inexact > 1}
}

// epsilon returns the machine epsilon of a dtype, in which tolerances count.
func epsilon(t ir.DType) float64 {
	switch t {
	case ir.F16:
		return 0x1p-10
	case ir.BF16:
		return 0x1p-7
	case ir.F8E4M3:
		return 0x1p-3
	}
	return 0x1p-23
}
