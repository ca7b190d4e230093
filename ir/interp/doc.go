// Package interp runs a graph on the CPU. It is the definition of every op:
// device results are compared with it, constant folding calls it, and it is
// the fallback where there is no device. It is written to be right at a glance
// before it is written to be fast, yet spreads large ops over all cores.
//
//	p, err := interp.New(g, interp.Options{})
//	out, err := p.Run(ctx, map[string]*ir.Data{"x": x}, nil)
//
// Start from [Program]; [Compare] judges another result by an op's tolerance.
//
// # Values
//
// Floats are computed in float64 and rounded to the node's dtype once per op,
// however many steps the op has inside; integers are computed in int64 and
// wrapped. Every reduction adds in one order, that of the elements in memory,
// so results are the same bits from run to run and for any number of workers.
//
// What the op table leaves open is fixed here:
//
//   - attention adds up only the keys that a query sees (causal) and divides
//     by the sum of their weights, so a query that sees no key gives NaN;
//   - an axis that is empty only at run time, because a symbol is 0, has
//     nothing to pick: ops that pick (ir.Node.PicksFrom) then fail, unless their
//     result is empty too;
//   - a cast from integer to float rounds once, even where float64 could not
//     hold the integer;
//   - dim_value wraps to i32.
package interp
