package fast

import "unsafe"

// convTile computes a tile of a convolution: count vectors of neighbouring positions (1 to 3) by 4*blocks output
// channels. In out, the positions of each channel begin stride elements after the positions of the channel before. Term
// i of a sum multiplies the elements that begin offsets[i] bytes after the start of in. The weights of each block of 4
// channels begin skip elements after the weights of the block before. If add is true, it adds the sums to out.
func convTile(count int, out []float32, stride int, in []float32, offsets []int32, weights []float32, skip,
	blocks int, add bool) {
	n := count * lanes
	if !vectors || len(offsets) == 0 {
		convTilePlain(n, out, stride, in, offsets, weights, skip, blocks, add)
		return
	}
	// The assembly checks no bounds. The last offset is the largest.
	_, _ = out[(channelBlock*blocks-1)*stride+n-1], in[int(offsets[len(offsets)-1])/4+n-1]
	_ = weights[(blocks-1)*skip+channelBlock*len(offsets)-1]
	f, adds := convTile3, 0
	switch count {
	case 1:
		f = convTile1
	case 2:
		f = convTile2
	}
	if add {
		adds = 1
	}
	f(&out[0], stride, &in[0], &offsets[0], len(offsets), &weights[0], 4*skip, blocks, adds)
}

// convTaps computes n neighbouring positions of one channel of a depthwise convolution. Term i of a sum multiplies
// weights[i] by an element of in. For position 0, that element is offsets[i] bytes after the start of in. Elements for
// neighbouring positions are step elements apart: 1 or 2.
func convTaps(out, in []float32, offsets []int32, weights []float32, n, step int) {
	if !vectors || n < lanes {
		convTapsPlain(out[:n], in, offsets, weights, step)
		return
	}
	// The assembly checks no bounds. With a step of 2 it reads one element more.
	_, _, _ = out[n-1], in[int(offsets[len(offsets)-1])/4+n*step-1], weights[len(offsets)-1]
	four, one := convTaps4, convTaps1
	if step == 2 {
		four, one = convPairs4, convPairs1
	}
	at := 0
	if tiles := n / (4 * lanes); tiles > 0 {
		four(&out[0], &in[0], &offsets[0], len(offsets), &weights[0], tiles)
		at = tiles * 4 * lanes
	}
	if tiles := (n - at) / lanes; tiles > 0 {
		one(&out[at], &in[at*step], &offsets[0], len(offsets), &weights[0], tiles)
		at += tiles * lanes
	}
	if at < n { // the last vector repeats some of the positions before
		at = n - lanes
		one(&out[at], &in[at*step], &offsets[0], len(offsets), &weights[0], 1)
	}
}

// convPosition computes one position of a convolution for blocks of 4 channels. terms has the input's elements in the
// window; their number is a multiple of 8. weights are packed.
func convPosition(out, terms, weights []float32) {
	if !vectors || len(terms) == 0 {
		convPositionPlain(out, terms, weights)
		return
	}
	_ = weights[len(out)*len(terms)-1] // the assembly checks no bounds
	convColumn(&out[0], &terms[0], len(terms), &weights[0], len(out)/channelBlock)
}

// moveRows copies rows of n elements, which are `from` elements apart in src and `to` in dst.
func moveRows(dst []float32, to int, src []float32, from, n, rows int) {
	if !vectors || n == 0 || rows == 0 {
		moveRowsPlain(dst, to, src, from, n, rows)
		return
	}
	_, _ = dst[(rows-1)*to+n-1], src[(rows-1)*from+n-1] // the assembly checks no bounds
	copyRows(unsafe.SliceData(dst), to, unsafe.SliceData(src), from, n, rows)
}

// secondOnes sets the first elements of dst to elements 0, 2, 4 and so on of src, and returns how many it set: as many
// as fill whole vectors.
func secondOnes(dst, src []float32) int {
	n := min(len(dst), len(src)/2) / lanes * lanes
	if !vectors || n == 0 {
		return 0
	}
	everySecond(&dst[0], &src[0], n)
	return n
}

// mergeGroups packs groups of integers as intForm.packB does: group i gets element i of each list of src, plus shift.
// elems is the number of elements of a group. It returns false, and does nothing, if there are too few groups.
func mergeGroups(groups []byte, src *[4][]int32, elems int, shift int32) bool {
	n := len(groups) / groupBytes
	if !vectors || n < lanes {
		return false
	}
	merge := func(at, count int) {
		if elems == 2 {
			mergePairs(&groups[at*groupBytes], &src[0][at], &src[1][at], count)
		} else {
			mergeQuads(&groups[at*groupBytes], &src[0][at], &src[1][at], &src[2][at], &src[3][at], shift, count)
		}
	}
	whole := n / lanes * lanes
	merge(0, whole)
	if whole < n {
		merge(n-lanes, lanes) // the last groups, and some before them again
	}
	return true
}

// mergeLists sets groups of 4 bytes: byte k of group i becomes element i of list k, plus shift.
func mergeLists(groups []byte, src *[4][]byte, shift int32) {
	n := len(groups) / groupBytes
	if !vectors || n < lanes {
		mergeListsPlain(groups, src, shift)
		return
	}
	for _, list := range src {
		_ = list[:n] // the assembly checks no bounds
	}
	merge := func(at, count int) {
		mergeBytes(&groups[at*groupBytes], &src[0][at], &src[1][at], &src[2][at], &src[3][at], shift, count)
	}
	whole := n / lanes * lanes
	merge(0, whole)
	if whole < n {
		merge(n-lanes, lanes) // the last groups, and some before them again
	}
}

// narrowWords sets each byte of dst to the low bits of a word of src plus shift. It returns the sum of these words.
func narrowWords(dst []byte, src []int32, shift int32) int32 {
	whole := 0
	sum := int32(0)
	if vectors && len(dst) >= lanes {
		whole = len(dst) / lanes * lanes
		_ = src[:whole] // the assembly checks no bounds
		sum = shiftedBytes(&dst[0], &src[0], shift, whole)
	}
	return sum + narrowWordsPlain(dst[whole:], src[whole:], shift)
}

// winogradInputs computes the inputs of the 16 products of n tiles that are neighbours in a row. dst has a list for
// each product; the lists are `apart` elements apart. src begins at the tiles' first input row, and its rows are pitch
// elements apart. winogradInputs may also write up to 7 elements after each list.
func winogradInputs(dst []float32, apart int, src []float32, pitch, n int) {
	n = upTo(n)
	// The assembly checks no bounds. n tiles read 4 rows of 2*n+2 elements.
	_, _ = dst[(tileProducts-1)*apart+n-1], src[3*pitch+2*n+1]
	tileInputs(&dst[0], apart, &src[0], pitch, n)
}

// winogradResults computes the two result rows of n tiles, pitch elements apart in dst. src has a list for each of the
// 16 products; the lists are `apart` elements apart. winogradResults may also write up to 14 elements after each row.
func winogradResults(dst []float32, pitch int, src []float32, apart, n int) {
	n = upTo(n)
	_, _ = dst[pitch+2*n-1], src[(tileProducts-1)*apart+n-1] // the assembly checks no bounds
	tileResults(&dst[0], pitch, &src[0], apart, n)
}

// below reports whether the magnitudes of all elements are below a number.
func below(list []float32, most float32) bool {
	whole := 0
	if vectors && len(list) >= lanes {
		whole = len(list) / lanes * lanes
		if allBelow(&list[0], most, whole) == 0 {
			return false
		}
	}
	return belowPlain(list[whole:], most)
}

// scaleRows sets rows of n floats to integers times a factor. Rows are `from` elements apart in src, and `to` elements
// apart in dst.
func scaleRows(dst []float32, to int, src []int32, from, n, rows int, factor float32) {
	if !vectors || n == 0 || rows == 0 {
		scaleRowsPlain(dst, to, src, from, n, rows, factor)
		return
	}
	_, _ = dst[(rows-1)*to+n-1], src[(rows-1)*from+n-1] // the assembly checks no bounds
	scaledRows(&dst[0], to, &src[0], from, n, rows, factor)
}
