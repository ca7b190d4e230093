package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// heuristics is how a class of devices likes its work cut, where no [Tuning] says it
// for a kernel. Each class has a file of its own, with the numbers beside their reasons.
type heuristics struct {
	machine   // how fast the device is, about
	handicaps // of matrix units
	// fill is how many workgroups keep the device busy; a schedule that makes
	// fewer leaves part of it idle.
	fill int64
	// cache is about how many bytes the cache before memory holds, which Vulkan
	// does not report: where little is known, less than devices of today have.
	cache int64
	// storesScores is whether gradients of an attention are faster with scores that are stored, where the cache
	// holds them, than with scores computed again (M-attention-gradients).
	storesScores bool
	// subgroup is the subgroup size that kernels are written for, 0 to reduce
	// through shared memory.
	subgroup int

	// registers is how many of 32 bits an invocation may need before some go to memory, or before so few
	// subgroups fit a core that it waits for memory.
	registers int
	// coreInvocations, coreRegisters and coreShared are how many invocations are on a core at a time, and how many
	// registers and bytes of shared memory they share; 0: not known, or no limit.
	coreInvocations, coreRegisters, coreShared int
	// registerFile is how many of 32 bits the invocations of one workgroup share; 0: it gets as many as it needs.
	registerFile int
	// byteWord is how many the compiler has in use for a word of bytes that is multiplied: more than 1 where it takes
	// the word apart.
	byteWord int
	// unrolled is up to how many multiplications the compiler writes a loop out, whose loads then all come first.
	unrolled int64
	// unrolledRow is up to how many elements of a row, of one invocation, the compiler writes loops out that read it
	// twice, and keeps it meanwhile.
	unrolledRow int64
	// operandLanes is how many invocations of a subgroup hold the fragment of an operand, which the others hold again;
	// 0: all share it.
	operandLanes int

	mapWorkgroup   int  // invocations of an elementwise workgroup
	coarsenGathers bool // whether an invocation takes several points where indices are loaded
	mapTiles       bool // whether operands that lie across come through shared memory

	rowWorkgroup int   // invocations of a workgroup of rows
	rowLanes     int   // most invocations that share a row
	rowPerLane   int64 // elements per invocation to aim at
	rowSerial    int64 // rows up to this long are folded by one invocation each
	rowCache     int   // most elements of a row that an invocation keeps

	tiles []ratedTile // of matrix products, the largest first

	// direct is the tile of the direct variant: the most rows, and the columns of
	// an invocation where there is one product. Zero where it is not for the device.
	direct tile

	matrixTiles   []matrixTile      // of products on matrix units, in any order
	byteTiles     []matrixTile      // of those of bytes; nil for the same twice as deep
	flashTiles    []ratedTile       // of attentions: rows, keys, steps along the dot axis
	flashMatrices []flashMatrixTile // of attentions on matrix units

	// Attentions of few rows: invocations of a workgroup, lanes that share a key
	// and keys that each takes at a time; and the longest run of keys for one
	// workgroup, or 0 for any.
	flashWorkgroup, flashLanes, flashKeys int
	flashRun                              int64
	// Where a workgroup of them has a core to itself, it has up to flashMost invocations, and reads flashGBps; 0 is
	// as many as others, and a core's share of what copying reaches.
	flashMost int
	flashGBps float64

	vecWorkgroup int   // invocations of a matvec workgroup
	vecColumns   int   // columns that share the reading of A
	vecSums      int64 // most sums of an invocation of a matvec, beyond which the compiler spills; 0: it does not
	// how elements that are no blocks are read by more and more rows; vecColumns goes for the others
	vecRows  blockVecs
	units    map[ir.DType]formatUnits // how few rows by blocks go to matrix units, where that is faster
	vecLanes int                      // invocations per sum where subgroups are not relied on

	blocks     map[ir.DType]blockHeuristics
	subnormals bool // whether halves keep subnormal numbers

	// Matvecs over blocks of other formats.
	blockRun     int // elements of a block that an invocation takes at once
	blockRunK    int // the same of K formats and tq2_0, of which a word holds many
	blockLanes   int // invocations per sum, at least
	blockColumns int // columns that share the reading of A
}

// tile is a matrix tile: M x N results of a workgroup in steps of K, each
// invocation computing ThreadM x ThreadN.
type tile struct{ M, N, K, ThreadM, ThreadN int }

func (t tile) workgroup() int { return t.M / t.ThreadM * (t.N / t.ThreadN) }

// matrixTile is a tile of a product on matrix units: M x N results of a
// workgroup in steps of K, or of several products N columns together. A coopmat workgroup is a grid of SubgroupsM x
// SubgroupsN subgroups.
type matrixTile struct {
	Variant                kernel.Variant
	Workgroup              int // of coopmat2
	M, N, K                int
	PiecesM, PiecesN       int // of coopmat2: the matrices its sums are divided into, if several
	SubgroupsM, SubgroupsN int // of coopmat
	// Efficiency is the share of the machine's peak that a product reaches which is
	// large enough for any tile: the choice weighs it against how evenly the tiles of
	// a product spread over the device.
	Efficiency float64
	// Alone is the efficiency where every core has one workgroup only, if that is
	// another. Efficiency is then that of PerCore workgroups, if it is more than one.
	Alone   float64
	PerCore int
	// Blocks, Runs and Products restrict a tile to products by blocks, to those of
	// operands in runs, and to kernels of so many products: nothing was measured of
	// others, or they are faster in other tiles.
	Blocks, Runs bool
	Products     int
	// Unroll, of coopmat2, is the most steps to be written out; a product whose
	// steps have no divisor of a third as many or more does without the tile.
	Unroll int
}

func heuristicsOf(caps device.Caps) heuristics {
	if of, ok := byClass[device.Class(caps)]; ok {
		return of(caps)
	}
	return generic(caps)
}

// subgroupOf returns the default subgroup size where kernels can rely on it, or 0.
func subgroupOf(caps device.Caps) int {
	n := int(caps.SubgroupSize)
	if n > 1 && powerOfTwo(n) && caps.SubgroupOps.Has(subgroupSums) && caps.CanRelyOn(n) {
		return n
	}
	return 0
}

// machine is a Machine of so many cores.
type machine struct {
	device.Machine
	cores int64
}

// cacheRate is how many bytes workgroups read in a nanosecond that all of them read.
func (m machine) cacheRate() float64 { return 3 * m.CopyGBps }

// normTime is how many nanoseconds a kernel takes that norms one row (M-norm-costs).
func (m machine) normTime() float64 { return 1.8 * m.LaunchNs }

// handicaps are by how much a product, on matrix units where nothing else is said, is slower than one whose
// operands lie in memory in whole tiles.
type handicaps struct {
	clamped      float64 // reads are held back at the edges of narrow tiles, and more in wide ones
	besideDriver float64 // operands are staged beside what the driver stages itself
	shifted      float64 // windows are shifted into place
	unaligned    float64 // operands do not begin at 16 bytes
	computed     float64 // operands are computed on the way, at most
	computedRows float64 // a tile of so many rows takes as long to compute as to multiply
	gathered     float64 // bytes come from places that are no neighbours, such as those of windows
	gatheredTile float64 // the same in tiles without matrix units
	seldomFull   float64 // tiles of many columns hold groups of few rows
}
