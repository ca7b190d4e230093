package ir

// Limits of a graph. The readers check every size before using it, so that a hostile file cannot cause an overflow or
// unbounded allocation.
const (
	// MaxRank is the largest number of axes of a tensor.
	MaxRank = 8
	// maxElems bounds the elements and the bytes of one tensor (1 TiB).
	maxElems = 1 << 40
	// MaxNodes bounds the nodes of one graph.
	MaxNodes = 1 << 20
)
