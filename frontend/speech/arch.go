package speech

import (
	"fmt"
	"slices"
	"strings"
)

// architecture is a row of the table of models. Each has a file of its own.
type architecture struct {
	name string // the value of general.architecture, and the prefix of keys

	// class is the value of "architectures" in config.json of Hugging Face's folders. keys has a line for each size:
	// the key in GGUF and the one in config.json. wants has a line for each key of config.json that must have a value,
	// if it is there. names has a line for each weight: its name here, in Hugging Face's folders, and in whisper.cpp's
	// files, which have the names of the first publication. N is the number of a layer. The word bare says that the
	// last name has no ending.
	class, keys, wants, names string

	norm float64 // the epsilon of layer norms, which neither spelling has

	// weights lists the weights.
	weights func(c Config) []weightSpec
}

// weightSpec describes a weight.
type weightSpec struct {
	name     string
	dims     []int
	matrix   bool // rows are multiplied by it, so that it may be quantized
	optional bool
}

// architectures is the table of models.
var architectures = []architecture{
	whisper,
}

// Architectures returns the values of general.architecture that FromGGUF reads, sorted.
func Architectures() []string {
	var names []string
	for _, a := range architectures {
		names = append(names, a.name)
	}
	slices.Sort(names)
	return names
}

// find returns the architecture of a name.
func find(name string) (a architecture, ok bool) {
	for _, a := range architectures {
		if a.name == name {
			return a, true
		}
	}
	return architecture{}, false
}

// spelling is a place in the lines of architecture.names.
type spelling int

const (
	inFolder spelling = 1 // Hugging Face
	inGGML   spelling = 2 // whisper.cpp
)

// foreign returns the names of a model's weights in spelling s, by vkc's name. A line of the table stands for a weight
// and its bias, and a line with N for the weights and biases of all layers. In whisper.cpp's spelling, a line with the
// word bare stands for a single weight without an ending.
func (a architecture) foreign(c Config, s spelling) map[string]string {
	names := map[string]string{}
	for _, line := range lines(a.names) {
		layers := 1
		switch {
		case strings.HasPrefix(line[0], "enc.blk.N."):
			layers = c.Encoders
		case strings.HasPrefix(line[0], "dec.blk.N."):
			layers = c.Decoders
		}
		for i := range layers {
			own, other := layered(line[0], i), layered(line[s], i)
			if s == inGGML && len(line) > int(s)+1 { // bare
				names[own+".weight"] = other
				continue
			}
			for _, end := range []string{".weight", ".bias"} {
				names[own+end] = other + end
			}
		}
	}
	return names
}

// layered returns a name with the number of a layer.
func layered(name string, i int) string {
	return strings.Replace(name, ".N.", fmt.Sprintf(".%d.", i), 1)
}

// lines returns the words of each line of a table.
func lines(table string) (list [][]string) {
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}
