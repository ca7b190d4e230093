// Package palette has the colours that examples/colours knows.
package palette

// Colours are the model's choices, by index.
var Colours = []struct {
	Name string
	RGB  [3]float32 // from 0 to 1
}{
	{"black", [3]float32{0, 0, 0}},
	{"white", [3]float32{1, 1, 1}},
	{"red", [3]float32{1, 0, 0}},
	{"green", [3]float32{0, 0.5, 0}},
	{"blue", [3]float32{0, 0, 1}},
	{"yellow", [3]float32{1, 1, 0}},
	{"orange", [3]float32{1, 0.65, 0}},
	{"grey", [3]float32{0.5, 0.5, 0.5}},
}
