package schedule

import "github.com/vkc-go/vkc/ir"

// nvidiaUnits lists the formats for which matmuls of few rows are faster on cooperative matrices (M-block-units, and
// M-skinny-tiles for 9 to 16 rows).
var nvidiaUnits = map[ir.DType]formatUnits{
	ir.Q4_0: {unitsFrom(4, 8, 2, 128).upTo16(4.3, skinnyTile{8, 2, 128}).above16(8, 1, 128),
		unitsFrom(7, 4, 1, 256).upTo16(10, skinnyTile{2, 2, 256}, skinnyTile{1, 4, 256}).above16(8, 1, 128)},
	ir.Q4_1: {floats: unitsFrom(5, 8, 1, 128)},
	ir.Q5_0: {floats: unitsFrom(5, 8, 1, 256)},
	ir.Q5_1: {floats: unitsFrom(6, 8, 1, 128)},
	ir.Q8_0: {floats: unitsFrom(3, 8, 2, 128)},

	ir.Q2_K: {floats: unitsFrom(8, 8, 1, 128)},
	ir.Q3_K: {floats: unitsFrom(6, 8, 1, 128)},
	ir.Q4_K: {unitsFrom(5, 8, 1, 128).above16(8, 1, 128),
		unitsFrom(9, 8, 1, 256).upTo16(7, skinnyTile{2, 2, 256}, skinnyTile{1, 4, 256}).above16(8, 1, 128)},
	ir.Q5_K:  {floats: unitsFrom(5, 8, 1, 128)},
	ir.Q6_K:  {floats: unitsFrom(6, 4, 1, 128).above16(8, 1, 128)},
	ir.TQ1_0: {floats: unitsFrom(4, 8, 2, 128)},
	ir.TQ2_0: {unitsFrom(4, 8, 1, 256), unitsFrom(7, 4, 1, 256)},

	ir.IQ1_S:   {floats: unitsFrom(7, 8, 2, 128)},
	ir.IQ1_M:   {floats: unitsFrom(8, 8, 1, 128)},
	ir.IQ2_XXS: {floats: unitsFrom(6, 8, 1, 256)},
	ir.IQ2_S:   {floats: unitsFrom(7, 8, 1, 128)},
	ir.IQ3_XXS: {floats: unitsFrom(6, 8, 1, 256)},
	ir.IQ3_S:   {floats: unitsFrom(6, 8, 1, 256)},
	ir.IQ4_XS:  {floats: unitsFrom(8, 4, 1, 128)},
}
