package schedule

import "github.com/vkc-go/vkc/ir"

// nvidiaUnits lists the formats for which matmuls of few rows are faster on cooperative matrices (M-block-units, and
// M-skinny-tiles for 9 to 16 rows).
var nvidiaUnits = map[ir.DType]formatUnits{
	ir.Q4_0: {
		floats: blockUnits{minRows: 4, tile: skinnyTile{8, 2, 128}, moreRows: true, rate: 4.3},
		bytes: blockUnits{minRows: 7, tile: skinnyTile{4, 1, 256}, moreRows: true, rate: 10,
			tiles16: []skinnyTile{{2, 2, 256}, {1, 4, 256}}},
	},
	ir.Q4_1: {floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 128}}},
	ir.Q5_0: {floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 256}}},
	ir.Q5_1: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 128}}},
	ir.Q8_0: {floats: blockUnits{minRows: 3, tile: skinnyTile{8, 2, 128}}},

	ir.Q2_K: {floats: blockUnits{minRows: 8, tile: skinnyTile{8, 1, 128}}},
	ir.Q3_K: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 128}}},
	ir.Q4_K: {
		floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 128}, moreRows: true},
		bytes: blockUnits{minRows: 9, tile: skinnyTile{8, 1, 256}, moreRows: true, rate: 7,
			tiles16: []skinnyTile{{2, 2, 256}, {1, 4, 256}}},
	},
	ir.Q5_K:  {floats: blockUnits{minRows: 5, tile: skinnyTile{8, 1, 128}}},
	ir.Q6_K:  {floats: blockUnits{minRows: 6, tile: skinnyTile{4, 1, 128}, moreRows: true}},
	ir.TQ1_0: {floats: blockUnits{minRows: 4, tile: skinnyTile{8, 2, 128}}},
	ir.TQ2_0: {
		floats: blockUnits{minRows: 4, tile: skinnyTile{8, 1, 256}},
		bytes:  blockUnits{minRows: 7, tile: skinnyTile{4, 1, 256}},
	},

	ir.IQ1_S:   {floats: blockUnits{minRows: 7, tile: skinnyTile{8, 2, 128}}},
	ir.IQ1_M:   {floats: blockUnits{minRows: 8, tile: skinnyTile{8, 1, 128}}},
	ir.IQ2_XXS: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 256}}},
	ir.IQ2_S:   {floats: blockUnits{minRows: 7, tile: skinnyTile{8, 1, 128}}},
	ir.IQ3_XXS: {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 256}}},
	ir.IQ3_S:   {floats: blockUnits{minRows: 6, tile: skinnyTile{8, 1, 256}}},
	ir.IQ4_XS:  {floats: blockUnits{minRows: 8, tile: skinnyTile{4, 1, 128}}},
}
