//go:build !amd64

package fast

// On these processors there is no assembly.

// convTile computes a tile of a convolution: count vectors of neighbouring positions by 4*blocks output channels.
func convTile(count int, out []float32, stride int, in []float32, offsets []int32, weights []float32, skip,
	blocks int, add bool) {
	convTilePlain(count*lanes, out, stride, in, offsets, weights, skip, blocks, add)
}

// convTaps computes n neighbouring positions of one channel of a depthwise convolution.
func convTaps(out, in []float32, offsets []int32, weights []float32, n, step int) {
	convTapsPlain(out[:n], in, offsets, weights, step)
}

func convPosition(out, terms, weights []float32) { convPositionPlain(out, terms, weights) }

// moveRows copies rows of n elements, which are `from` elements apart in src and `to` in dst.
func moveRows(dst []float32, to int, src []float32, from, n, rows int) {
	moveRowsPlain(dst, to, src, from, n, rows)
}

// secondOnes returns 0: it copies no elements.
func secondOnes([]float32, []float32) int { return 0 }

// mergeLists sets groups of 4 bytes: byte k of group i becomes element i of list k, plus shift.
func mergeLists(groups []byte, src *[4][]byte, shift int32) { mergeListsPlain(groups, src, shift) }

// mergeGroups does nothing.
func mergeGroups([]byte, *[4][]int32, int, int32) bool { return false }

// scaleRows sets rows of n floats to integers times a factor. Rows are `from` elements apart in src, and `to` elements
// apart in dst.
func scaleRows(dst []float32, to int, src []int32, from, n, rows int, factor float32) {
	scaleRowsPlain(dst, to, src, from, n, rows, factor)
}

// narrowWords sets each byte of dst to the low bits of a word of src plus shift. It returns the sum of these words.
func narrowWords(dst []byte, src []int32, shift int32) int32 {
	return narrowWordsPlain(dst, src, shift)
}

// winogradInputs does nothing: these processors do not use Winograd's algorithm.
func winogradInputs([]float32, int, []float32, int, int) {}

// winogradResults does nothing: these processors do not use Winograd's algorithm.
func winogradResults([]float32, int, []float32, int, int) {}

// below reports whether the magnitudes of all elements are below a number.
func below(list []float32, most float32) bool { return belowPlain(list, most) }
