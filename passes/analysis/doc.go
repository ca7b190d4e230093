// Package analysis answers questions about an op graph that both passes/rewrite and passes/lower ask: which nodes are
// leaves, which states are updated in place ([Overwrites]), which attentions a kernel can compute.
package analysis
