// Package rules replaces kernels by faster ones: it stores operands, splits contractions, and fuses or removes
// kernels.
//
// A [Rule] makes proposals for a kernel: other kernels in its place, which are correct on any device. The [Optimizer]
// asks the pricer, a cost model of the device, for the time of the kernels before and after each proposal, and takes
// the proposal that saves the most time.
package rules
