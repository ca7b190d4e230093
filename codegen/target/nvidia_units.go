package target

import "github.com/vkc-go/vkc/ir"

// nvidiaUnits was measured on an H100: 14336x14336 by rows of floats, and of bytes,
// in planes, in microseconds of a kernel alone. Behind each format stand eight rows of
// floats, and what they take otherwise; where fewer are faster otherwise was measured
// for q4_0 and q4_K, and is where lines through one row and eight meet for the others.
// More than eight rows were measured for those two. What is not here is faster
// otherwise: iq2_xs 206, 193; iq4_nl 208, 185; mxfp4 207, 189; eight rows of bytes by
// q4_1 78.7, 73.1; q5_0 91.7, 86.8; q8_0 88.0, 86.9; q5_K 104, 95.1; q6_K 161, 106.
var nvidiaUnits = map[ir.DType]formatUnits{
	// 16 rows 151, 751; 32 rows 235, 1036. Of bytes 8 rows 63.4, 72.4; 16 77.0, 665; 32 113, 929.
	ir.Q4_0: {unitsFrom(4, 8, 2, 128).andMore(8, 1, 128), unitsFrom(7, 4, 1, 256).andMore(8, 1, 128)}, // 84.4, 157
	ir.Q4_1: {floats: unitsFrom(5, 8, 1, 128)},                                                        // 118, 202
	ir.Q5_0: {floats: unitsFrom(5, 8, 1, 256)},                                                        // 112, 187
	ir.Q5_1: {floats: unitsFrom(6, 8, 1, 128)},                                                        // 156, 213
	ir.Q8_0: {floats: unitsFrom(3, 8, 2, 128)},                                                        // 96.3, 159; three rows 96.0, 102

	ir.Q2_K: {floats: unitsFrom(8, 8, 1, 128)}, // 171, 189
	ir.Q3_K: {floats: unitsFrom(6, 8, 1, 128)}, // 168, 250
	// 16 rows 167, 780; 32 rows 278, 1071. Of bytes 16 109, 682; 32 171, 971.
	ir.Q4_K:  {unitsFrom(5, 8, 1, 128).andMore(8, 1, 128), unitsFrom(9, 8, 1, 256).andMore(8, 1, 128)}, // 131, 176
	ir.Q5_K:  {floats: unitsFrom(5, 8, 1, 128)},                                                        // 149, 227
	ir.Q6_K:  {floats: unitsFrom(6, 4, 1, 128)},                                                        // 179, 244
	ir.TQ1_0: {floats: unitsFrom(4, 8, 2, 128)},                                                        // 128, 285
	ir.TQ2_0: {unitsFrom(4, 8, 1, 256), unitsFrom(7, 4, 1, 256)},                                       // 85.0, 190; of bytes 58.6, 71.8

	ir.IQ1_S:   {floats: unitsFrom(7, 8, 2, 128)}, // 157, 181
	ir.IQ1_M:   {floats: unitsFrom(8, 8, 1, 128)}, // 211, 239
	ir.IQ2_XXS: {floats: unitsFrom(6, 8, 1, 256)}, // 149, 186
	ir.IQ2_S:   {floats: unitsFrom(7, 8, 1, 128)}, // 219, 283
	ir.IQ3_XXS: {floats: unitsFrom(6, 8, 1, 256)}, // 154, 215
	ir.IQ3_S:   {floats: unitsFrom(6, 8, 1, 256)}, // 165, 232
	ir.IQ4_XS:  {floats: unitsFrom(8, 4, 1, 128)}, // 216, 252
}
