package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// heuristics are the tuning parameters of a class of devices, for kernels without a [Tuning]. Each class has its own
// file, with the reasons next to the numbers.
type heuristics struct {
	machine   // approximate speed of the device
	handicaps // of matrix units
	// fill is the number of workgroups that keep the device busy; with fewer, part of it is idle.
	fill int64
	// cache is the approximate size of the last-level cache in bytes, which Vulkan does not report. If little is known,
	// it is less than current devices have.
	cache int64
	// storesScores means that gradients of an attention are faster with stored scores than with recomputed ones, if the
	// cache holds the scores (M-attention-gradients).
	storesScores bool
	// subgroup is the subgroup size of generated kernels, or 0 to reduce through shared memory.
	subgroup int

	// registers is the number of 32-bit registers that an invocation may use before it spills, or before so few
	// subgroups fit on a core that memory latency is exposed.
	registers int
	// coreInvocations, coreRegisters and coreShared are the maximum number of invocations on a core, and the registers
	// and bytes of shared memory that they share; 0 if unknown or unlimited.
	coreInvocations, coreRegisters, coreShared int
	// registerFile is the number of 32-bit registers that a workgroup's invocations share; 0 for no limit.
	registerFile int
	// byteWord is the number of registers that the compiler uses for a multiplied word of bytes: more than 1 if it
	// unpacks the word.
	byteWord int
	// unrolled is the number of multiplications up to which the compiler fully unrolls a loop, with all its loads
	// first.
	unrolled int64
	// unrolledRow is the number of elements of an invocation's row up to which the compiler unrolls loops that read it
	// twice, and keeps the row in registers.
	unrolledRow int64
	// operandLanes is the number of invocations of a subgroup that hold distinct parts of an operand fragment; the
	// others hold copies. 0 means all.
	operandLanes int

	mapWorkgroup   int  // invocations of an elementwise workgroup
	coarsenGathers bool // whether an invocation takes several points if indices are loaded
	mapTiles       bool // whether strided operands pass through shared memory

	rowWorkgroup int   // invocations of a workgroup of rows
	rowLanes     int   // most invocations that share a row
	rowPerLane   int64 // elements per invocation to aim at
	rowSerial    int64 // rows up to this long are folded by one invocation each
	rowCache     int   // maximum number of row elements that an invocation keeps

	tiles []ratedTile // of matmuls, the largest first

	// direct is the tile of the direct variant: the maximum number of rows, and the columns of an invocation with one
	// product. It is zero if the device should not use the variant.
	direct tile

	matrixTiles   []matrixTile      // of matmuls on matrix units, in any order
	byteTiles     []matrixTile      // of byte matmuls on matrix units; nil for matrixTiles with twice the depth
	flashTiles    []ratedTile       // for attentions: rows, keys, steps along the contraction axis
	flashMatrices []flashMatrixTile // of attentions on matrix units

	// Attentions of few rows: invocations per workgroup, lanes that share a key, and keys per lane at a time. flashRun
	// is the longest run of keys per workgroup, or 0 for any.
	flashWorkgroup, flashLanes, flashKeys int
	flashRun                              int64
	// If each of its workgroups has a core to itself, it has up to flashMost invocations and reads flashGBps. Zeros
	// mean the usual number, and a core's share of the copy bandwidth.
	flashMost int
	flashGBps float64

	vecWorkgroup int   // invocations of a matvec workgroup
	vecColumns   int   // columns that share the loads of A
	vecSums      int64 // maximum sums per invocation of a matvec before the compiler spills; 0 for no limit
	// how to read elements that are not blocks, by number of rows; vecColumns is for other cases
	vecRows  blockVecs
	units    map[ir.DType]formatUnits // ranges of few rows by blocks for which matrix units are faster
	vecLanes int                      // invocations per sum without subgroups

	blocks     map[ir.DType]blockHeuristics
	subnormals bool // whether f16 supports subnormal numbers

	// Matvecs over blocks of formats without their own row.
	blockRun     int // elements of a block that an invocation reads at once
	blockRunK    int // the same for K formats and tq2_0, where a word holds many
	blockLanes   int // invocations per sum, at least
	blockColumns int // columns that share the reading of A
}

// tile is a matmul tile: a workgroup computes M x N results in steps of K, and each invocation ThreadM x ThreadN.
type tile struct{ M, N, K, ThreadM, ThreadN int }

func (t tile) workgroup() int { return t.M / t.ThreadM * (t.N / t.ThreadN) }

// matrixTile is a tile of a matmul on matrix units: a workgroup computes M x N results in steps of K. Several products
// share the N columns. A coopmat workgroup is a grid of SubgroupsM x SubgroupsN subgroups.
type matrixTile struct {
	Variant                kernel.Variant
	Workgroup              int // of coopmat2
	M, N, K                int
	PiecesM, PiecesN       int // for coopmat2: number of matrices that hold its accumulators, if several
	SubgroupsM, SubgroupsN int // of coopmat
	// Efficiency is the fraction of the machine's peak that a matmul reaches if it is large enough for any tile. The
	// choice of a tile weighs it against how evenly a matmul's tiles fill the device.
	Efficiency float64
	// Alone is the efficiency with one workgroup per core, if different. Efficiency is then for PerCore workgroups per
	// core, if set.
	Alone   float64
	PerCore int
	// Blocks, Runs and Products restrict a tile to matmuls with blocks, to operands in runs, and to kernels with that
	// number of products. Others were not measured, or have faster tiles.
	Blocks, Runs bool
	Products     int
	// Unroll, for coopmat2, is the maximum number of unrolled steps. The tile is not used for a matmul whose number of
	// steps has no divisor of at least a third of it.
	Unroll int
}

func heuristicsOf(caps device.Caps) heuristics {
	if of, ok := byClass[device.Class(caps)]; ok {
		return of(caps)
	}
	return generic(caps)
}

// subgroupOf returns the default subgroup size if kernels can rely on it, or 0.
func subgroupOf(caps device.Caps) int {
	n := int(caps.SubgroupSize)
	if n > 1 && powerOfTwo(n) && caps.SubgroupOps.Has(subgroupSums) && caps.CanRelyOn(n) {
		return n
	}
	return 0
}

// machine is a Machine with its number of cores.
type machine struct {
	device.Machine
	cores int64
}

// cacheRate is the bytes per nanosecond at which workgroups read data that all of them read.
func (m machine) cacheRate() float64 { return 3 * m.CopyGBps }

// normTime is the nanoseconds of a kernel that normalizes one row (M-norm-costs).
func (m machine) normTime() float64 { return float64(1.8 * m.LaunchNs) }

// handicaps are slowdowns, by default on matrix units, relative to a matmul with operands stored in whole tiles.
type handicaps struct {
	clamped      float64 // reads are clamped at the edges of narrow tiles; more in wide ones
	besideDriver float64 // operands are staged in addition to the driver's own staging
	shifted      float64 // windows are shifted into alignment
	unaligned    float64 // operands are not aligned to 16 bytes
	computed     float64 // operands are computed inline, at most
	computedRows float64 // rows of a tile that takes as long to compute as to multiply
	gathered     float64 // bytes are gathered from non-adjacent positions, such as in windows
	gatheredTile float64 // the same in tiles without matrix units
	seldomFull   float64 // tiles of many columns with groups of few rows
}
