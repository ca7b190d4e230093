package schedule

import "github.com/vkc-go/vkc/codegen/kernel"

// nvidiaByteTiles are tiles for int8 matmuls on cooperative matrices. Efficiencies were measured with B contiguous
// along the contraction axis: for i8 4096^3, and from 64x64 down for 512x4096x14336. Alone is estimated as twice the
// f16 value. M-i8 and M-tile-rates list slower tiles.
var nvidiaByteTiles = []matrixTile{
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 256, N: 128, K: 128, PiecesM: 2, Efficiency: 0.491, MatMuls: 1, NoRuns: true},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 128, Efficiency: 0.451},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 256, K: 64, Efficiency: 0.388},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 128, N: 128, K: 128, Efficiency: 0.43},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 256, K: 128, Efficiency: 0.393},
	{Variant: kernel.VarCoopMat2, Workgroup: 256, M: 64, N: 128, K: 128, Efficiency: 0.316},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 64, N: 64, K: 128, Efficiency: 0.272, Alone: 0.224},
	{Variant: kernel.VarCoopMat2, Workgroup: 128, M: 32, N: 32, K: 256, Efficiency: 0.14, Alone: 0.112},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 128, K: 64, Efficiency: 0.33},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 128, N: 128, K: 32, Efficiency: 0.328, Alone: 0.224},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 4, M: 128, N: 256, K: 32, Efficiency: 0.322},
	{Variant: kernel.VarCoopMat, SubgroupsM: 4, SubgroupsN: 2, M: 256, N: 128, K: 32, Efficiency: 0.303},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 128, K: 64, Efficiency: 0.253},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 128, Efficiency: 0.193},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 64, N: 64, K: 64, Efficiency: 0.221, Alone: 0.208},
	{Variant: kernel.VarCoopMat, SubgroupsM: 2, SubgroupsN: 2, M: 32, N: 32, K: 128, Efficiency: 0.124, Alone: 0.096},
	{Variant: kernel.VarCoopMat, SubgroupsM: 1, SubgroupsN: 4, M: 16, N: 64, K: 128, Efficiency: 0.116, Alone: 0.098},
}
