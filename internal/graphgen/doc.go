// Package graphgen makes random graphs, and values for their inputs, states
// and weights, to test everything that compiles or runs graphs.
//
// A graph depends on its seed alone. It may hold any op, with shapes of any
// rank up to 4 that mix numbers (0, 1 and primes among them) and symbols, and
// has several outputs, dead nodes and, often, states.
//
// Results of two correct implementations differ by rounding. So that this
// never tips a comparison over, ops that jump (floor, argmax, a cast to an
// integer…) are only applied to values that every implementation computes
// exactly, and ops that magnify errors only within bounds; see Bounds.
package graphgen
