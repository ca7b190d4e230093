package ir

// Limits on what a graph may hold. They bound every size before it is used,
// so that a hostile file cannot make vkc overflow or allocate without end.
const (
	// MaxRank is the largest number of axes of a tensor.
	MaxRank = 8
	// maxElems bounds the elements and the bytes of one tensor (1 TiB).
	maxElems = 1 << 40
	// MaxNodes bounds the nodes of one graph.
	MaxNodes = 1 << 20
)
