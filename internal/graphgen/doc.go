// Package graphgen makes random graphs, and values for their inputs, states and weights, to test code that compiles or
// runs graphs.
//
// A graph depends only on its seed. It may use any op, with shapes of any rank up to 4 that mix numbers (including 0, 1
// and primes) and symbols. It has several outputs, dead nodes and, often, states.
//
// Results of two correct implementations differ by rounding. This must not flip a comparison. So ops with jumps (floor,
// argmax, a cast to an integer…) are only applied to values that every implementation computes exactly, and ops that
// magnify errors only within bounds; see Bounds.
package graphgen
