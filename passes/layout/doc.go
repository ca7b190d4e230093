// Package layout lays out the kernels of a plan in memory: it makes buffers, steps and barriers of a [kernel.Program].
//
// Temporaries share an arena: two whose lifetimes do not overlap may have the same bytes. A barrier stands before each
// step with a hazard.
package layout
