// Package analysis answers questions about an op graph that both rewriting and lowering ask: which nodes are leaves,
// which states are updated in place ([Overwrites]), which attentions a kernel can compute.
package analysis
