package lib

import "github.com/vkc-go/vkc/ir"

// Exchanged are the arrays in shared memory through which the invocations that quantize one block exchange data.
// Library functions use these names.
var Exchanged = []struct {
	Name, Typ string
	Each      func(lanes, elems int) int // number of elements per block
}{
	{"group_fits", "vec2", func(lanes, _ int) int { return lanes }},
	{"group_codes", "uint", func(lanes, _ int) int { return lanes }},
	{"block_levels", "uint", func(_, elems int) int { return elems / 4 }}, // four quants per element
}

// Codebook is the array in shared memory with the codebook that the functions of grid.glsl search. Its name is not the
// usual name of the buffer, so that shaders may have both.
const Codebook = "searched_codebook"

// quantizers returns the functions that quantize a block, one or two for each format.
func quantizers() (all []Helper) {
	for _, t := range ir.QuantizeFormats() {
		f, _ := ir.BlockFormatOf(t)
		all = append(all, Helper{"quantize_" + f.Name, f32Only, f.Encode})
		if f.Pack != "" { // several invocations may share a block
			all = append(all, Helper{"pack_" + f.Name, f32Only, f.Pack})
		}
	}
	return all
}
