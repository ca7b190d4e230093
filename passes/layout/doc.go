// Package layout makes a [kernel.Program] of a graph of kernels ([plan.Graph]): a step per kernel, a buffer per value,
// and barriers between steps.
//
// Temporaries share one allocation, the arena: two temporaries may occupy the same bytes if their lifetimes do not
// overlap. A step with a data hazard has a barrier before it.
package layout
