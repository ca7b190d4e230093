package llm

// The sizes of prefill parts, and of short texts, that programs are made for. GPUs are hardly faster with more than
// LargestPart tokens.
const (
	smallestPart = 128
	partStep     = 4 // ratio of successive sizes
	LargestPart  = 2048
)

// Parts lists the sizes of the programs for prefilling in parts of up to most tokens, smallest first. A program for
// many tokens decodes quantized weights once for all of them and uses large tiles, which few tokens would not fill.
func Parts(most int) (list []int) {
	for n := smallestPart; n < most; n *= partStep {
		list = append(list, n)
	}
	return append(list, most)
}

// ShortTexts lists the maximum lengths of texts that get separate step programs, smallest first, in addition to the
// program for the whole context (see Within). Such a program pays off only if its kernels differ; the caller compares
// them after compiling.
func ShortTexts(context int) (list []int) {
	for n := smallestPart; n < context && n <= LargestPart; n *= partStep {
		list = append(list, n)
	}
	return list
}
