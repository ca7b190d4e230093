package target

import "github.com/vkc-go/vkc/codegen/kernel"

// nvidiaByteTiles are tiles of products of bytes. Rates in TOP/s with B in rows along the contraction: of i8 4096^3, and
// of 512x4096x14336 from 64x64 down, of which Alone is twice that of f16. M-i8 and M-tile-rates have what is slower.
var nvidiaByteTiles = []matrixTile{
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 128, K: 128, PiecesM: 2, Rate: 614},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 128, Rate: 564},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, Rate: 485},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 128, K: 128, Rate: 538},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 256, K: 128, Rate: 491},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 128, K: 128, Rate: 395},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 64, N: 64, K: 128, Rate: 340, Alone: 280},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 32, N: 32, K: 256, Rate: 175, Alone: 140},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 128, K: 64, Rate: 412},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 32, Rate: 410, Alone: 280},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 256, K: 32, Rate: 402},
	{Variant: kernel.VarCoopMat, SubgroupsM: 4, SubgroupsN: 2, M: 256, N: 128, K: 32, Rate: 379},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 64, Rate: 316},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 128, Rate: 241},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 64, Rate: 276, Alone: 260},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 32, N: 32, K: 128, Rate: 155, Alone: 120},
	{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 4, M: 16, N: 64, K: 128, Rate: 145, Alone: 122},
}
