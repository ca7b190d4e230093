// Package rules takes kernels to kernels: it materializes operands, splits contractions, and fuses or removes kernels.
//
// A [Rule] proposes other kernels in place of some. A proposal is correct on any device. The [Optimizer] asks the
// pricer for the time before and after each proposal, and takes the one that gains most.
package rules
