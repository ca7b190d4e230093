package llm

import "slices"

// Sizes of the parts in which a long prompt is prefilled, and lengths of short texts: smallestPart, times partStep
// again and again. GPUs are hardly faster with more than LargestPart tokens.
const (
	smallestPart = 128
	partStep     = 4 // ratio of successive sizes
	LargestPart  = 2048
)

// Parts lists the part sizes for which prefill programs are compiled, smallest first. The largest is most, the maximum
// number of tokens per run. A program for many tokens decodes quantized weights once for all of them, and uses large
// tiles, which few tokens would not fill.
func Parts(most int) (list []int) {
	for n := smallestPart; n < most; n *= partStep {
		list = append(list, n)
	}
	return append(list, most)
}

// ShortTexts lists the lengths for which separate step programs are compiled, smallest first, in addition to the
// program for the whole context (see Within). A program for texts up to a length pays off only if its kernels differ
// from the others'; the caller compares them after compiling.
func ShortTexts(context int) (list []int) {
	for n := smallestPart; n < context && n <= LargestPart; n *= partStep {
		list = append(list, n)
	}
	return list
}

// MixedSizes lists the sizes for which programs of Mixed are compiled, smallest first. The largest has about as many
// rows of a 7B model as an H200 computes in 100 ms. A run of far fewer rows would leave cores idle in its tiles, so
// there are smaller programs. A program has at most `most` rows, but at least 2*texts: a token of every text and as
// many others.
func MixedSizes(texts, most int) (list []int) {
	for _, n := range []int{256, 512, 1024, 2048} {
		list = append(list, max(min(n, most), 2*texts))
	}
	return slices.Compact(list)
}
