// Package lower turns an op graph into kernels.
//
// [Fusion] groups nodes into clusters. [Fusion.Lower] makes each [Cluster] a kernel by evaluating its stored nodes at
// symbolic coordinates; a merge of clusters is rejected if that evaluation fails. The kernels and the values that they
// pass on form a [plan.Graph].
package lower
