// Package lower turns an op graph into kernels.
//
// [Fusion] groups nodes into clusters. [Fusion.Lower] makes a kernel of each [Cluster]: it expresses an element of each
// stored node as a function of its coordinates. Fusion rejects a merge of two clusters for which that fails. The
// kernels and the values that they read and write form a [plan.Graph].
package lower
