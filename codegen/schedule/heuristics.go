package schedule

import (
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// heuristics are the tuning parameters of a class of devices, for kernels that have no entry in a [device.Tuning]. Each
// class has its own file, with the reasons next to the numbers.
type heuristics struct {
	machine   // approximate speed of the device
	handicaps // slowdowns on cooperative matrices
	// fill is the number of workgroups that keep the device busy, two per core; with fewer, part of it is idle.
	fill int64
	// cache is the approximate size of the last-level cache in bytes, which Vulkan does not report. If little is known,
	// it is a guess below the size that current devices have.
	cache int64
	// storesScores says that gradients of an attention are faster if the scores are stored than if they are recomputed,
	// as long as the cache holds the scores (M-attention-gradients).
	storesScores bool
	// subgroup is the subgroup size that generated kernels rely on. 0 means that they reduce through shared memory.
	subgroup int

	// registers is the number of 32-bit registers that an invocation may use. With more, it spills, or too few
	// subgroups fit on a core to hide memory latency.
	registers int
	// coreInvocations, coreRegisters and coreShared are the maximum number of invocations on a core, and the registers
	// and bytes of shared memory that they share; 0 if unknown or unlimited.
	coreInvocations, coreRegisters, coreShared int
	// registerFile is the number of 32-bit registers that a workgroup's invocations share; 0 for no limit.
	registerFile int
	// byteWord is the number of registers that the compiler uses for a word of four int8 elements that is multiplied.
	// It is more than 1 if the compiler unpacks the word.
	byteWord int
	// unrolled is the number of multiplications up to which the compiler unrolls a loop completely and moves all its
	// loads to the front.
	unrolled int64
	// unrolledRow is the longest row of one invocation, in elements, for which the compiler unrolls loops that read the
	// row twice. It then keeps the row in registers.
	unrolledRow int64
	// operandLanes is the number of invocations of a subgroup that hold distinct parts of an operand fragment; the
	// others hold copies. 0 means all.
	operandLanes int

	mapWorkgroup   int  // invocations of an elementwise workgroup
	coarsenGathers bool // whether an invocation computes several points if indices are loaded
	mapTiles       bool // whether strided operands pass through shared memory

	rowWorkgroup int   // invocations of a workgroup of rows
	rowLanes     int   // maximum number of invocations that share a row
	rowPerLane   int64 // preferred number of elements per invocation
	rowSerial    int64 // rows of up to this length are folded by one invocation each
	rowCache     int   // maximum number of row elements that an invocation keeps in registers

	tiles []ratedTile // of matmuls, the largest first

	// direct is the tile of the direct variant: M is the maximum number of rows, and ThreadN the columns of an
	// invocation of a kernel with one matmul. It is zero if the device should not use the variant.
	direct directTile

	matrixTiles   []matrixTile      // of matmuls on cooperative matrices, in any order
	byteTiles     []matrixTile      // the same for int8 matmuls; nil for matrixTiles with twice the depth
	halvesTiles   []matrixTile      // of matmuls of exact rows by blocks, with rows as two f16 values
	flashTiles    []ratedTile       // of attentions: rows, keys, steps along the contraction axis
	flashMatrices []flashMatrixTile // of attentions on cooperative matrices

	// For attentions of few rows: invocations per workgroup, lanes that share a key, and keys that a lane reads at a
	// time. flashMaxKeys is the maximum number of keys per workgroup, or 0 for no limit.
	flashWorkgroup, flashLanes, flashKeys int
	flashMaxKeys                          int64
	// If each workgroup of such an attention has a core to itself, it has up to flashMaxWorkgroup invocations and reads
	// flashGBps. Zeros mean the usual number of invocations, and a core's share of the copy bandwidth.
	flashMaxWorkgroup int
	flashGBps         float64

	vecWorkgroup int   // invocations of a matvec workgroup
	vecColumns   int   // columns per invocation, which share the loads of A
	vecSums      int64 // maximum number of sums per invocation of a matvec before the compiler spills; 0 for no limit
	// vecRows says how to read elements that are not blocks, by number of rows. vecColumns is for all other cases.
	vecRows  blockVecs
	units    map[ir.DType]formatUnits // numbers of rows for which blocks are faster on cooperative matrices
	vecLanes int                      // invocations per sum without subgroups

	blocks     map[ir.DType]blockHeuristics
	subnormals bool // whether f16 supports subnormal numbers

	// The fields below are for matvecs over block formats that have no entry in blocks.
	blockRun     int // elements of a block that an invocation reads at once
	blockRunK    int // the same for K formats and tq2_0, which have many elements per word
	blockLanes   int // minimum number of invocations per sum
	blockColumns int // columns per invocation, which share the loads of A
}

// onePerCore is the number of workgroups that gives each core one.
func (h heuristics) onePerCore() int64 { return h.fill / 2 }

// tile is the tile of a matmul: a workgroup computes M x N results in steps of K along the contraction axis, and each
// invocation computes ThreadM x ThreadN of them.
type tile struct{ M, N, K, ThreadM, ThreadN int }

// workgroup is the number of invocations that compute the tile.
func (t tile) workgroup() int { return t.M / t.ThreadM * (t.N / t.ThreadN) }

// matrixTile is the tile of a matmul on cooperative matrices: a workgroup computes M x N results in steps of K. If a
// kernel has several matmuls, they share the N columns. A coopmat workgroup is a grid of SubgroupsM x SubgroupsN
// subgroups.
type matrixTile struct {
	Variant                kernel.Variant
	Workgroup              int // of coopmat2
	M, N, K                int
	PiecesM, PiecesN       int  // of coopmat2: number of matrices that hold the accumulators, if several
	SubgroupsM, SubgroupsN int  // of coopmat and skinny
	Stages                 int  // of skinny; 0 for one
	OneStage               bool // of coopmat
	// Efficiency is the fraction of the machine's peak rate that a very large matmul reaches. The choice of a tile also
	// weighs how evenly a matmul's tiles fill the device.
	Efficiency float64
	// Alone is the efficiency with one workgroup per core, if that differs. Efficiency is then reached with PerCore
	// workgroups per core, if PerCore is set.
	Alone   float64
	PerCore int
	// The fields that are set restrict the tile to some kernels, because for others it was not measured, or another
	// tile is faster. Blocks: to matmuls with blocks. Stored: without blocks. Runs: with operands that are contiguous
	// in runs only. NoRuns: without such operands. Few: with at most M rows. MatMuls: with that number of matmuls.
	Blocks, Stored, Runs, NoRuns, Few bool
	MatMuls                           int
	// Unroll, for coopmat2, is the maximum number of unrolled steps. A matmul can use the tile only if its number of
	// steps has a divisor between UnrollFrom and Unroll (M-few-steps).
	UnrollFrom, Unroll int
}

// heuristicsOf returns the heuristics of a device's class.
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

// machine is a device.Machine, the measured rates of a device, with its number of cores.
type machine struct {
	device.Machine
	cores int64
}

// rates are the rates by which to estimate the time of work without kernels.
func (m machine) rates() kernel.Rates {
	return kernel.Rates{Bytes: m.CopyGBps, LaunchNs: m.LaunchNs, Cores: m.cores}
}

// cacheRate is the rate, in bytes per nanosecond, of reads of the same data by all workgroups.
func (m machine) cacheRate() float64 { return 3 * m.CopyGBps }

// handicaps are slowdown factors, compared with a matmul on cooperative matrices that reads operands stored in whole
// tiles.
type handicaps struct {
	clamped      float64 // reads are clamped at the edges of narrow tiles; wide tiles lose more
	withDriver   float64 // operands pass through shared memory, and the driver stages its matrices there too
	shifted      float64 // eight elements of a window are unaligned and must be shifted
	unaligned    float64 // operands are not aligned to 16 bytes
	computed     float64 // operands are computed in the kernel; this is the maximum
	computedRows float64 // with this many tile rows, computing an operand takes as long as multiplying it
	gathered     float64 // int8 elements are gathered from non-adjacent positions, such as in windows
	gatheredTile float64 // the same in tiles without cooperative matrices
	seldomFull   float64 // wide tiles, if groups of rows seldom fill a tile
}
