package llm

// The parts of a prompt, and the texts, that programs are made for. GPUs are hardly faster with more than the largest
// part.
const (
	smallestPart = 128
	partStep     = 4 // times as many tokens as the one before
	LargestPart  = 2048
)

// Parts returns for how many tokens of a prompt, at most, programs are to be made that read a prompt in parts of up to
// most tokens: the fewest first. One that takes many tokens decodes quantized weights once for all of them and
// multiplies in large tiles, which few tokens would not fill.
func Parts(most int) (list []int) {
	for n := smallestPart; n < most; n *= partStep {
		list = append(list, n)
	}
	return append(list, most)
}

// ShortTexts returns for texts of how many tokens, at most, there is to be a step of its own beside that of a model
// with room for more (see Within): the fewest first. It pays off where its kernels are others, which who compiles it
// sees.
func ShortTexts(context int) (list []int) {
	for n := smallestPart; n < context && n <= LargestPart; n *= partStep {
		list = append(list, n)
	}
	return list
}
