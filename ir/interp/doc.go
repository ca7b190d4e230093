// Package interp runs a graph on the CPU. It is the specification of every op: tests compare device results with it,
// constant folding calls it, and it is the fallback without a device. Clarity comes before speed, but large ops use all
// cores.
//
//	p, err := interp.New(g, interp.Options{})
//	out, err := p.Run(ctx, map[string]*ir.Data{"x": x}, nil)
//
// Start from [Program]; [Compare] compares another result within an op's tolerance.
//
// # Values
//
// Floats are computed in float64 and rounded to the node's dtype once per op, even if the op consists of several steps;
// integers are computed in int64 and wrapped. Every reduction adds in memory order, so results have the same bits in
// every run and for any number of workers.
//
// The interpreter decides some details that the op table leaves open:
//
//   - attention sums only over the keys that a query sees (causal) and divides by the sum of their weights, so a
//     query that sees no key gives NaN;
//   - an axis may be empty because a symbol is 0. Ops that need an element (ir.Node.PicksFrom) then fail, unless
//     their result is empty too;
//   - a cast from integer to float rounds once, even if float64 cannot represent the integer;
//   - dim_value wraps to i32.
package interp
