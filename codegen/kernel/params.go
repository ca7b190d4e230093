package kernel

import "fmt"

// Points are the parameters of [VarMap] and [VarRowWindows].
type Points struct {
	Launch
	// Coarsen is the factor of thread coarsening; 0 means 1. In a map, an invocation computes that many points along an
	// outer axis, which share the values that do not depend on that axis. In a kernel of row windows, an invocation
	// computes that many windows.
	Coarsen int `json:"coarsen,omitempty"`
}

// String implements [Schedule].
func (s Points) String() string {
	if s.Variant == VarRowWindows {
		return s.line(count("windows", s.Coarsen))
	}
	return s.line(count("vec", s.Vec), above(1, "coarsen", s.Coarsen))
}

// MapTile are the parameters of [VarMapTile], a map that transposes a TileM x TileN tile through shared memory.
type MapTile struct {
	Launch
	TileM int `json:"tile_m,omitempty"`
	TileN int `json:"tile_n,omitempty"`
}

// String implements [Schedule].
func (s MapTile) String() string { return s.line(count("vec", s.Vec), size("tile", s.TileM, s.TileN)) }

// Row are the parameters of [VarRowSerial], [VarRowGroup] and [VarSelect].
type Row struct {
	Launch
	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a row
	Cache       int `json:"cache,omitempty"`         // row elements that each keeps in registers; 0 re-reads
}

// String implements [Schedule].
func (s Row) String() string {
	cache, vec := count("cache", s.Cache), count("vec", s.Vec)
	switch s.Variant {
	case VarRowSerial:
		return s.line(vec, cache)
	case VarSelect:
		return s.line(cache)
	default:
		return s.line(count("lanes", s.LanesPerRow), cache, vec)
	}
}

// Lanes are the parameters of [VarScanSerial], [VarScanGroup], [VarSort] and [VarQuantize].
type Lanes struct {
	Launch
	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a row, or a block
}

// String implements [Schedule].
func (s Lanes) String() string {
	lanes, vec := count("lanes", s.LanesPerRow), count("vec", s.Vec)
	switch s.Variant {
	case VarScanSerial:
		return s.line(vec)
	case VarScanGroup:
		return s.line(lanes, vec)
	default:
		return s.line(lanes)
	}
}

// Tile is the size of a workgroup's part of a matmul: TileM rows and TileN columns of the result. The workgroup goes
// along the contraction axis in steps of TileK. For matvec, TileK is the approximate number of elements of a block that
// an invocation reads per step; 0 means a quad. For attention, TileN counts keys, and TileK steps along the contraction
// axis of Q*K.
type Tile struct {
	TileM int `json:"tile_m,omitempty"`
	TileN int `json:"tile_n,omitempty"`
	TileK int `json:"tile_k,omitempty"`
}

// Tiles returns the tile itself, for the structs that embed it.
func (t Tile) Tiles() Tile { return t }

func (t Tile) word() string { return size("tile", t.TileM, t.TileN, t.TileK) }

// MatTile are the parameters of [VarMatTile].
type MatTile struct {
	Launch
	Tile
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // columns per invocation
	// Stages is the number of tiles of each operand in shared memory. With 2, one is fetched while the other is
	// multiplied.
	Stages int `json:"stages,omitempty"`
	RegisterTile
}

// RegisterTile describes how invocations share a tile without cooperative matrices.
type RegisterTile struct {
	// Paired assigns each 2x2 block of register tiles to four neighboring invocations, so that every vector from shared
	// memory is used by two of them.
	Paired bool `json:"paired,omitempty"`
	// Steps stores operands in shared memory by steps along the contraction axis instead of by rows. Each invocation
	// then has four adjacent rows and columns.
	Steps bool `json:"steps,omitempty"`
}

// String implements [Schedule].
func (s MatTile) String() string {
	return s.line(s.Tile.word(), size("thread", s.ThreadM, s.ThreadN), above(1, "stages", s.Stages),
		flag("paired", s.Paired), flag("steps", s.Steps))
}

// MatDirect are the parameters of [VarMatDirect].
type MatDirect struct {
	Launch
	Tile
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // columns per invocation
}

// String implements [Schedule].
func (s MatDirect) String() string {
	return s.line(s.Tile.word(), size("thread", s.ThreadM, s.ThreadN))
}

// Prefetch says which blocks the invocations of a matvec load before they need them.
type Prefetch struct {
	Mode PrefetchMode `json:"prefetch,omitempty"`
	// Depth is the number of runs or sectors; other modes have none.
	Depth int `json:"prefetch_depth,omitempty"`
}

// PrefetchMode is a way to load blocks early.
type PrefetchMode string

// The modes. [PrefetchRuns] is for rows that an invocation streams. The others are for resident rows that the kernel
// quantizes: they load blocks of the first pass over columns while the workgroup quantizes its row (M-resident-rows).
const (
	PrefetchNone PrefetchMode = ""
	// PrefetchRuns loads Depth runs before it multiplies the first of them.
	PrefetchRuns PrefetchMode = "runs"
	// PrefetchCache loads the words and scales of the blocks through the decoding code, and drops them. It takes no
	// registers, but many loads if the quants are in several planes. Only formats that need row sums, and are decoded
	// by strips, support it.
	PrefetchCache PrefetchMode = "cache"
	// PrefetchRegisters keeps the loaded blocks in registers until they are multiplied, so it loads no block twice.
	PrefetchRegisters PrefetchMode = "registers"
	// PrefetchSectors loads Depth 32-byte sectors of the largest plane per invocation, in order. It keeps a word of
	// each in a register until the row is ready. It takes the same few loads for every format in planes. It makes the K
	// formats faster, which PrefetchCache does not. Either mode makes the q5 formats faster.
	PrefetchSectors PrefetchMode = "sectors"
)

// Runs returns the number of runs that an invocation loads at once.
func (p Prefetch) Runs() int {
	if p.Mode == PrefetchRuns {
		return p.Depth
	}
	return 1
}

// Blocks reports whether the blocks of the first pass are loaded through the decoding code.
func (p Prefetch) Blocks() bool { return p.Mode == PrefetchCache || p.Mode == PrefetchRegisters }

// word prints the prefetch as a word of a schedule, such as "prefetch=runs:4", or "" for none.
func (p Prefetch) word() string {
	switch {
	case p.Mode == PrefetchNone:
		return ""
	case p.Depth == 0:
		return "prefetch=" + string(p.Mode)
	}
	return fmt.Sprintf("prefetch=%s:%d", p.Mode, p.Depth)
}

// MatVec are the parameters of [VarMatVec].
type MatVec struct {
	Launch
	// Coarsen is the number of passes over columns that a workgroup makes. A pass covers some of the columns, and the
	// rows stay in registers over all passes. 0 keeps no rows in registers.
	Coarsen     int `json:"coarsen,omitempty"`
	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a sum
	Tile
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // columns per invocation

	Prefetch
	// Subnormals, over blocks, says that the device preserves subnormal halves. Quants are then cheap to convert to
	// floats.
	Subnormals bool `json:"subnormals,omitempty"`
	// Tables, over blocks, first copies codebooks to shared memory. Lookups of different entries conflict less there
	// than in a cache.
	Tables bool `json:"tables,omitempty"`
	// Copies, with Tables, is the number of adjacent copies of each entry in shared memory. Invocations read different
	// copies, and so different banks. Blocks in planes are then decoded eight elements at a time.
	Copies int `json:"copies,omitempty"`
	// StageRows, over blocks, copies rows of A to shared memory, so that lanes with long runs read them as fast as
	// lanes with short ones.
	StageRows bool `json:"stage_rows,omitempty"`
	// RoundRows, over blocks, quantizes rows of floats in the kernel. Every workgroup first quantizes a whole row to
	// int8, and keeps it in shared memory, or in registers with Coarsen.
	RoundRows bool `json:"round_rows,omitempty"`
	// Digits, with RoundRows and Coarsen, is the number of signed base-256 digits per element of a quantized row. Three
	// digits keep about as much precision as a float, so they suit any row. 0 means one int8.
	Digits int `json:"digits,omitempty"`

	// schedule.New derives the fields below.
	Decode Decode `json:"decode,omitempty"`
	IntDot bool   `json:"int_dot,omitempty"` // strips are multiplied in integers
	// Chained adds each multiplication of floats to a running sum over all strips, by a chain of fused multiply-adds.
	Chained bool `json:"chained,omitempty"`
}

// String implements [Schedule].
func (s MatVec) String() string {
	launch := s.Launch
	launch.Subgroup = 0 // so that line does not print it a second time
	return launch.line(size("rows", s.TileM, s.TileN), count("vec", s.Vec), above(0, "run", s.TileK),
		s.Prefetch.word(), flag("subnormals", s.Subnormals), flag("tables", s.Tables), above(0, "copies", s.Copies),
		flag("staged", s.StageRows), above(0, "coarsen", s.Coarsen), flag("rounds", s.RoundRows),
		above(0, "digits", s.Digits), above(0, "subgroup", s.Subgroup), count("lanes", s.LanesPerRow),
		flag(string(s.Decode), s.Decode != DecodeQuads), flag("int_dot", s.IntDot), flag("chained", s.Chained))
}

// RowBytes is the number of bytes per element of a quantized row.
func (s MatVec) RowBytes() int { return max(s.Digits, 1) }

// Fragment is the size of a cooperative matrix: FragM x FragN results, and FragK along the contraction axis.
type Fragment struct {
	FragM int `json:"frag_m,omitempty"`
	FragN int `json:"frag_n,omitempty"`
	FragK int `json:"frag_k,omitempty"`
}

func (f Fragment) word() string { return size("fragment", f.FragM, f.FragN, f.FragK) }

// Skinny are the parameters of [VarSkinny], which computes the transposed result: a fragment has FragM columns of the
// result and FragN rows. A workgroup has SubgroupsN subgroups across the columns, SubgroupsM across the rows (0 means
// one), and SubgroupsK along the contraction axis. A subgroup takes TileK elements of the contraction axis per step.
type Skinny struct {
	Launch
	Tile
	SubgroupsM int `json:"subgroups_m,omitempty"`
	SubgroupsN int `json:"subgroups_n,omitempty"`
	Fragment
	SubgroupsK int `json:"subgroups_k,omitempty"`
	Stages     int `json:"stages,omitempty"` // the steps in shared memory; 0 for one
}

// Down is the number of subgroups across the rows.
func (s Skinny) Down() int { return max(s.SubgroupsM, 1) }

// String implements [Schedule].
func (s Skinny) String() string {
	return s.line(s.Tile.word(), size("subgroups", s.SubgroupsN, s.SubgroupsK), above(0, "down", s.SubgroupsM),
		s.Fragment.word(), above(1, "stages", s.Stages))
}

// MatrixTile are the parameters that both variants on cooperative matrices have.
type MatrixTile struct {
	Launch
	Tile
	// Band is the number of tile rows that consecutive workgroups go down before the next column. Workgroups that run
	// at the same time then share more of their reads. 0 or 1 goes along the rows.
	Band int `json:"band,omitempty"`
}

// CoopMat are the parameters of [VarCoopMat]. The subgroups of a workgroup share its tile in a grid of SubgroupsM x
// SubgroupsN.
type CoopMat struct {
	MatrixTile
	SubgroupsM int `json:"subgroups_m,omitempty"`
	SubgroupsN int `json:"subgroups_n,omitempty"`
	Fragment
	// OneStage keeps the tiles of one step in shared memory instead of two. That takes a barrier more per step, but
	// twice as many workgroups fit on a core.
	OneStage bool `json:"one_stage,omitempty"`
}

// String implements [Schedule].
func (s CoopMat) String() string {
	return s.line(s.Tile.word(), size("subgroups", s.SubgroupsM, s.SubgroupsN), s.Fragment.word(),
		flag("one_stage", s.OneStage), above(1, "band", s.Band))
}

// CoopMat2 are the parameters of [VarCoopMat2]: a tile in matrices that a whole workgroup shares.
type CoopMat2 struct {
	MatrixTile
	// PiecesM x PiecesN matrices hold a tile's accumulators, and each is multiplied separately; 0 or 1 means one.
	PiecesM int `json:"pieces_m,omitempty"`
	PiecesN int `json:"pieces_n,omitempty"`
	// Unroll is the number of unrolled steps along the contraction axis; the kernel tells the driver not to unroll the
	// loop itself. 0 leaves unrolling to the driver.
	Unroll int `json:"unroll,omitempty"`

	// HideSteps hides the number of steps from the driver, which would otherwise unroll by 8 and run out of registers.
	// schedule.New derives it.
	HideSteps bool `json:"hide_steps,omitempty"`
}

// Pieces returns the numbers of matrices that hold a tile's sums: down the rows and across the columns.
func (s CoopMat2) Pieces() (down, across int) { return max(s.PiecesM, 1), max(s.PiecesN, 1) }

// String implements [Schedule].
func (s CoopMat2) String() string {
	launch, pieces := s.Launch, ""
	launch.Subgroup = 0 // so that line does not print it a second time
	if down, across := s.Pieces(); down*across > 1 {
		pieces = size("pieces", down, across)
	}
	return launch.line(s.Tile.word(), pieces, above(1, "band", s.Band), above(0, "unroll", s.Unroll),
		above(0, "subgroup", s.Subgroup), flag("hidden", s.HideSteps))
}

// FlashTile are the parameters of [VarFlashTile].
type FlashTile struct {
	Launch
	Tile
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // keys per invocation
	RegisterTile
	Flash
}

// Flash is how an attention is divided among workgroups.
type Flash struct {
	Heads int `json:"heads,omitempty"` // query heads per workgroup: 1, or all that share a key head
	// Splits is the number of parts into which the keys are divided; a second kernel joins the results. 0 means one.
	Splits int `json:"splits,omitempty"`
}

// String implements [Schedule].
func (s FlashTile) String() string {
	return s.line(s.Tile.word(), size("thread", s.ThreadM, s.ThreadN), count("heads", s.Heads),
		flag("paired", s.Paired), flag("steps", s.Steps), above(1, "splits", s.Splits))
}

// FlashVec are the parameters of [VarFlashVec].
type FlashVec struct {
	Launch
	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a key
	TileM       int `json:"tile_m,omitempty"`
	TileN       int `json:"tile_n,omitempty"`
	ThreadM     int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN     int `json:"thread_n,omitempty"` // keys per invocation
	Flash
}

// String implements [Schedule].
func (s FlashVec) String() string {
	return s.line(count("rows", s.TileM), count("heads", s.Heads), count("lanes", s.LanesPerRow),
		count("keys", s.ThreadN), above(1, "splits", s.Splits))
}

// FlashMatrix are the parameters of [VarFlashMatrix] and [VarFlashMatrix2]. SubgroupsN subgroups share the same rows:
// each multiplies an equal part of the contraction axis and sums an equal part of the results. 0 means 1.
type FlashMatrix struct {
	Launch
	TileM      int `json:"tile_m,omitempty"`
	TileN      int `json:"tile_n,omitempty"`
	Stages     int `json:"stages,omitempty"` // tiles of keys and values in shared memory; 0 for one
	SubgroupsN int `json:"subgroups_n,omitempty"`
	Fragment
	Flash
}

// String implements [Schedule].
func (s FlashMatrix) String() string {
	return s.line(size("tile", s.TileM, s.TileN), count("heads", s.Heads), count("fragment", s.FragM),
		above(1, "shared", s.SubgroupsN), above(1, "stages", s.Stages), above(1, "splits", s.Splits))
}

// Recurrent are the parameters of [VarRecurrence].
type Recurrent struct {
	Launch
	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a row of the state
	ThreadM     int `json:"thread_m,omitempty"`      // rows of each of these
	// An invocation loads the operands of TileK steps of the recurrence together. The lanes of a row add up the results
	// of as many steps together.
	TileK int `json:"tile_k,omitempty"`
	// Ahead loads the operands of the next TileK steps before it computes the current ones.
	Ahead bool `json:"ahead,omitempty"`
}

// String implements [Schedule].
func (s Recurrent) String() string {
	return s.line(count("lanes", s.LanesPerRow), count("rows", s.ThreadM), count("times", s.TileK),
		flag("ahead", s.Ahead))
}
