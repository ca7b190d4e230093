package kernel

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Alternative is another kernel of a step, for small values of a symbol. It computes the same results with the same
// buffers, by another schedule.
type Alternative struct {
	// Symbol is the symbol, with the largest value for which the alternative runs. The symbol may be an expression over
	// symbols, as in [ir.Dim].
	Symbol   Symbol `json:"symbol"`
	Shader   int    `json:"shader"`
	Grid     Grid   `json:"grid"`
	Schedule string `json:"schedule"`
}

// maxAlternatives is the largest number of alternatives of a step in a program.
const maxAlternatives = 8

// Kernels returns a copy of the step for each of its kernels: the step itself first, then its alternatives.
func (s Step) Kernels() []Step {
	all := []Step{s}
	for i := range s.Alternatives {
		all = append(all, s.with(i))
	}
	return all
}

// with returns the step with alternative i as its kernel, or the step itself for -1.
func (s Step) with(i int) Step {
	if i >= 0 {
		a := s.Alternatives[i]
		s.Shader, s.Grid, s.Schedule = a.Shader, a.Grid, a.Schedule
	}
	return s
}

// Choose returns the number of the alternative that runs for the given values of symbols: the first with a large enough
// bound. It returns -1 if the step's own kernel runs.
func (s Step) Choose(symbols map[string]int64) (int, error) {
	for i, a := range s.Alternatives {
		if within, err := a.Symbol.Within(symbols); within || err != nil {
			return i, err
		}
	}
	return -1, nil
}

// Within reports whether the symbol's value is at most its bound, for the given values of symbols.
func (s Symbol) Within(symbols map[string]int64) (bool, error) {
	value, err := valueOf(s.Name, symbols)
	return err == nil && value <= s.Bound, err
}

// valueOf returns the value of a symbol, or of an expression over symbols.
func valueOf(symbol string, symbols map[string]int64) (int64, error) {
	return ir.Dim{Sym: symbol, Bound: math.MaxInt64, Mul: 1}.Eval(symbols)
}

// For returns the step with the kernel that runs for the given values of symbols.
func (s Step) For(symbols map[string]int64) (Step, error) {
	i, err := s.Choose(symbols)
	return s.with(i), err
}

// IsStatic reports whether the step has the same kernel and grid for all values of symbols.
func (s Step) IsStatic() bool { return s.Grid.IsStatic() && len(s.Alternatives) == 0 }

// Narrow returns a kernel for values of a symbol up to bound. Its axes have smaller bounds, so that it gets a schedule
// for few elements. It computes the same results and has the same bindings.
func Narrow(k *Kernel, symbol string, bound int64) *Kernel {
	narrow := func(d ir.Dim) ir.Dim {
		if d.Sym == symbol {
			d.Bound = min(d.Bound, bound)
		}
		return d
	}
	parallel := slices.Clone(k.Parallel)
	for i, d := range parallel {
		parallel[i] = narrow(d)
	}
	return Map(k, Edit{SameBindings: true, Parallel: parallel, Fold: narrow(k.Fold),
		At: func(axis int, extent ir.Dim) Index { return Axis(axis, narrow(extent)) }})
}

// checkAlternatives requires that a step's alternatives are for increasing values of one declared symbol, and that each
// is a valid kernel of the step for these values.
func (c *checker) checkAlternatives(s Step) {
	c.require(len(s.Alternatives) <= maxAlternatives, "%d alternatives, want at most %d", len(s.Alternatives),
		maxAlternatives)
	least := int64(0)
	for i, a := range s.Alternatives {
		c.require(isComputed(a.Symbol.Name, c.bounds) && a.Symbol.Name == s.Alternatives[0].Symbol.Name &&
			a.Symbol.Bound > least, "alternative %d is for values of %q up to %d, want a symbol of the program, the "+
			"same for all alternatives, and increasing values", i, a.Symbol.Name, a.Symbol.Bound)
		least = a.Symbol.Bound
		c.checkShaderOf(s.with(i))
		for _, dim := range a.Grid {
			for _, f := range dim {
				c.checkNarrowed(f.Extent)
			}
		}
		_, err := a.Grid.largest().Eval(nil)
		c.must(err)
	}
}

// checkNarrowed requires that the program's symbols determine the extent, and that its bound is not larger than theirs.
func (c *checker) checkNarrowed(d ir.Dim) {
	if !d.IsStatic() {
		most, err := valueOf(d.Sym, c.bounds)
		c.require(err == nil && d.Bound <= most && isComputed(d.Sym, c.bounds), "dim %s has no declared symbol", d)
	}
}

// MostGroups returns the largest workgroup counts of the step.
func (s Step) MostGroups() ([3]uint32, error) { return s.Grid.largest().Eval(nil) }

// largest returns the grid with every symbol at its bound. [Grid.Eval] accepts no larger values.
func (g Grid) largest() (most Grid) {
	for i, dim := range g {
		for _, f := range dim {
			most[i] = append(most[i], GridFactor{Extent: ir.Dim{Add: f.Extent.Max()}, Tile: f.Tile})
		}
	}
	return most
}
