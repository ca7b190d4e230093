package target

import "github.com/vkc-go/vkc/ir"

// nvidiaUnits was measured on an H100: 14336x14336 by rows of floats, and of bytes,
// in planes, in microseconds of a kernel alone. Behind each format stand eight rows of
// floats; where fewer are faster otherwise was measured for q4_0 and q4_K, and is
// where lines through one row and eight meet for the others. Rows of bytes by the
// formats that are not named have been faster otherwise up to eight, and are several
// times faster here than in tiles from nine on.
var nvidiaUnits = map[ir.DType]formatUnits{
	ir.Q4_0: {unitsFrom(4, 8, 2, 128), unitsFrom(7, 4, 1, 256)}, // 84.4, otherwise 157; of bytes 63.4, 72.4
	ir.Q4_1: {unitsFrom(5, 8, 1, 128), unitsFrom(9, 4, 1, 256)}, // 118, 202; 78.7, 73.1
	ir.Q5_0: {unitsFrom(5, 8, 1, 256), unitsFrom(9, 4, 1, 256)}, // 112, 187; 91.7, 86.8
	ir.Q5_1: {unitsFrom(6, 8, 1, 128), unitsFrom(9, 4, 1, 256)}, // 156, 213; 97.4, 87.6
	ir.Q8_0: {unitsFrom(4, 8, 2, 128), unitsFrom(9, 4, 1, 256)}, // 96.3, 159; 88.0, 86.9

	ir.Q2_K:  {unitsFrom(8, 8, 1, 128), unitsFrom(9, 4, 1, 128)}, // 171, 189; 155, 80.4
	ir.Q3_K:  {unitsFrom(6, 8, 1, 128), unitsFrom(9, 4, 1, 128)}, // 168, 250; 153, 98.9
	ir.Q4_K:  {unitsFrom(5, 8, 1, 128), unitsFrom(9, 8, 1, 256)}, // 131, 176; 87.2, 87.5
	ir.Q5_K:  {unitsFrom(5, 8, 1, 128), unitsFrom(9, 4, 1, 256)}, // 149, 227; 104, 95.1
	ir.Q6_K:  {unitsFrom(6, 4, 1, 128), unitsFrom(9, 4, 1, 128)}, // 179, 244; 161, 106
	ir.TQ1_0: {unitsFrom(4, 8, 2, 128), unitsFrom(9, 4, 2, 128)}, // 128, 285; 97.0, 98.8
	ir.TQ2_0: {unitsFrom(4, 8, 1, 256), unitsFrom(7, 4, 1, 256)}, // 85.0, 190; 58.6, 71.8

	ir.IQ1_S:   {unitsFrom(7, 8, 2, 128), unitsFrom(9, 4, 1, 256)}, // 157, 181; 117, 91.2
	ir.IQ1_M:   {unitsFrom(8, 8, 1, 128), unitsFrom(9, 4, 1, 128)}, // 211, 239; 211, 109
	ir.IQ2_XXS: {unitsFrom(6, 8, 1, 256), unitsFrom(9, 4, 1, 256)}, // 149, 186; 114, 90.9
	ir.IQ2_XS:  {unitsFrom(9, 4, 1, 128), unitsFrom(9, 4, 1, 128)}, // 206, 193; 199, 91.6
	ir.IQ2_S:   {unitsFrom(7, 8, 1, 128), unitsFrom(9, 8, 1, 128)}, // 219, 283; 220, 100
	ir.IQ3_XXS: {unitsFrom(6, 8, 1, 256), unitsFrom(9, 4, 1, 256)}, // 154, 215; 114, 98.0
	ir.IQ3_S:   {unitsFrom(6, 8, 1, 256), unitsFrom(9, 4, 1, 256)}, // 165, 232; 125, 102
	ir.IQ4_NL:  {unitsFrom(9, 4, 1, 128), blockUnits{}},            // 208, 185
	ir.IQ4_XS:  {unitsFrom(8, 4, 1, 128), blockUnits{}},            // 216, 252
	ir.MXFP4:   {unitsFrom(9, 4, 1, 128), blockUnits{}},            // 207, 189
}
