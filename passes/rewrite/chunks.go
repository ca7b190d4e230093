package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Thresholds for splitting the rows of a reduction into chunks. A reduction kernel assigns a workgroup to each row, or
// an invocation if rows are interleaved in memory. So few long rows would leave most of a device idle.
const (
	minLongFold  = 1 << 16 // elements of a row: for longer rows, chunks are faster on any device
	manyRows     = 64      // rows that fill any device with one workgroup each
	minFoldChunk = 4096    // the fewest elements per workgroup that make up for its launch
	minSideFold  = 512     // longest row that one invocation should fold
	// invocations that fill any device: with 4 times as many an H100 takes 7 % longer for the columns of [8192,8192]
	foldLanes = 1 << 17
	sideChunk = 32 // elements of a row per invocation; few enough to stay in registers for a second pass
	sideBlock = 32 // minimum adjacent elements that the invocations of one subgroup read
)

// cut describes how a reduction of long rows is divided into two steps. The folded axes First to Last, joined to one
// axis with Length elements, become three axes [Count, Len, Block]. The first step folds along Len, the second along
// Count and Block. Block is 1, except for few rows that are interleaved in memory: it then makes adjacent invocations
// read adjacent elements, so that they read whole cache lines. Elements beyond Count*Len*Block are the remainder, which
// is folded separately.
type cut struct {
	folded            []bool
	First, Last       int
	Length            int64
	Count, Len, Block int64
}

// foldSize is the size of a reduction that may be divided: its number of rows, their length, and the number of chunks
// per row. interleaved says that adjacent elements belong to different rows.
type foldSize struct {
	rows, length, chunks int64
	interleaved          bool
}

// cutOf returns how to divide a reduction of a tensor with shape s along the folded axes. ok is false if one kernel is
// as fast.
//
// twice means that the kernel of the first step reads its elements twice. Chunks are then short enough to stay in
// registers, unless there would be too many of them. saves reports whether the device is faster with chunks.
func cutOf(s ir.Shape, folded []bool, twice bool, saves func(foldSize) bool) (c cut, ok bool) {
	c.folded = folded
	rows, length, inner := int64(1), int64(1), int64(1)
	var along ir.Shape
	for i, d := range s {
		if folded[i] {
			along = append(along, d)
			length *= d.Max()
			inner = 1 // in the end, the elements after the last folded axis
		} else {
			rows *= d.Max()
			inner *= d.Max()
		}
	}
	if _, err := along.Numel(); err != nil || rows == 0 || length == 0 || !c.findLongestRun(s) {
		return c, false
	}
	interleaved := inner > 1
	if interleaved {
		ok = c.chooseInterleaved(rows, length, inner, twice)
	} else {
		ok = c.chooseContiguous(rows, length)
	}
	return c, ok && saves(foldSize{rows, length, c.Count, interleaved})
}

// findLongestRun sets First, Last and Length to the adjacent folded axes with the most elements, among axes of constant
// extents. It returns false if there are none.
func (c *cut) findLongestRun(s ir.Shape) bool {
	for first := 0; first < len(s); first++ {
		n := int64(1)
		for last := first; last < len(s) && c.folded[last] && s[last].IsStatic(); last++ {
			n *= s[last].Add
			if n > c.Length {
				c.First, c.Last, c.Length = first, last, n
			}
		}
	}
	return c.Length > 1
}

// chooseContiguous chooses the chunks of rows with contiguous elements: rows is their number, and length the number of
// elements of each. It returns false if the rows are short, or fill the device undivided.
func (c *cut) chooseContiguous(rows, length int64) bool {
	if length < 2*minFoldChunk || rows > manyRows {
		return false
	}
	// Enough chunks to fill the device, but each with at least minFoldChunk elements of a row, and with at least two
	// elements of the joined axes.
	count := min(sumGroups/rows, length/minFoldChunk, c.Length/2)
	c.Block = 1
	c.Len = wholeChunks(c.Length, ceil.Div(c.Length, count))
	c.Count = c.Length / c.Len
	return c.Count > 1
}

// chooseInterleaved chooses the chunks of interleaved rows: the elements at one position of `inner` rows are adjacent
// in memory. It returns false if the rows should not be divided. twice says that the first step reads its elements
// twice.
func (c *cut) chooseInterleaved(rows, length, inner int64, twice bool) bool {
	// The rows are short, or one lane for each fills a quarter of the device, or there is one chunk only.
	if length <= minSideFold || rows*4 > foldLanes || c.Length < 2*sideChunk {
		return false
	}
	c.Block = 1
	// A larger Block lets adjacent lanes read more adjacent elements. At least two chunks must remain, here and below.
	for c.Block*inner < sideBlock && c.Length >= 4*sideChunk*c.Block {
		c.Block *= 2
	}
	lanes := int64(foldLanes)
	// Shorter chunks then stay in registers, see cutOf.
	if twice {
		lanes *= 8
	}
	chunk := int64(sideChunk)
	for chunk*lanes < length*rows && 4*chunk*c.Block <= c.Length { // more chunks than lanes, so longer ones will do
		chunk *= 2
	}
	c.Len = chunk
	c.Count = c.Length / (c.Len * c.Block)
	return c.Count > 1
}

// wholeChunks returns a chunk length between chunk and 2*chunk, a multiple of 4. It prefers one that divides length.
func wholeChunks(length, chunk int64) int64 {
	chunk = (chunk + 3) / 4 * 4
	for n := chunk; n < 2*chunk; n += 4 {
		if length%n == 0 {
			return n
		}
	}
	return chunk
}

// chunked returns the number of elements of all chunks, without the remainder.
func (c *cut) chunked() int64 { return c.Count * c.Len * c.Block }

// with returns shape s with the given extents in place of axes First to Last.
func (c *cut) with(s ir.Shape, extents ...int64) ir.Shape {
	return replaced(s, c.First, c.Last, extents)
}

// replaced returns shape s with the given extents in place of axes first to last.
func replaced(s ir.Shape, first, last int, extents []int64) ir.Shape {
	out := slices.Clone(s[:first])
	for _, n := range extents {
		out = append(out, ir.Dim{Add: n})
	}
	return append(out, s[last+1:]...)
}

// axes returns the folded axes of a tensor in which n axes replace axes First to Last. Of the n axes it includes only
// the given ones, counted from 0. For example, axes(3, 1) folds along Len if Count, Len and Block are the n axes.
func (c *cut) axes(n int, of ...int) []int64 {
	var list []int64
	for i := range c.First {
		if c.folded[i] {
			list = append(list, int64(i))
		}
	}
	for _, i := range of {
		list = append(list, int64(c.First+i))
	}
	for i := c.Last + 1; i < len(c.folded); i++ {
		if c.folded[i] {
			list = append(list, int64(i-c.Last-1+c.First+n))
		}
	}
	return list
}
