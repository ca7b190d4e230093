package kernel

// Points are the parameters of [VarMap] and [VarRowWindows].
type Points struct {
	Launch
	// Coarsen is the factor of thread coarsening; 0 means 1. A map computes that many points along an outer axis per
	// invocation, which share values that do not depend on that axis. Windows are counted per invocation.
	Coarsen int `json:"coarsen,omitempty"`
}

// String implements [Schedule].
func (s Points) String() string {
	if s.Variant == VarRowWindows {
		return s.line(count("windows", s.Coarsen))
	}
	return s.line(count("vec", s.Vec), above(1, "coarsen", s.Coarsen))
}

// MapTile are the parameters of [VarMapTile]: a tile in shared memory.
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
	Cache       int `json:"cache,omitempty"`         // row elements each keeps in registers; 0 re-reads
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

// Tile has TileM rows and TileN columns of the result, in steps of TileK along the contraction axis. For matvec, TileK
// is the approximate number of elements of a block per invocation and step; 0 means quads. For attention, TileN counts
// keys and TileK steps along the contraction axis of Q*K.
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

// RegisterTile is how invocations share a tile without matrix units.
type RegisterTile struct {
	// Paired assigns invocations to the tile in blocks of 2x2, so that two of four neighbors use every vector from
	// shared memory.
	Paired bool `json:"paired,omitempty"`
	// Steps stores operands in shared memory by steps along the contraction axis instead of by rows, and assigns each
	// invocation four adjacent rows and columns.
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

// MatVec are the parameters of [VarMatVec].
type MatVec struct {
	Launch
	// Coarsen is the number of passes over columns that a workgroup makes while its rows stay in registers; 0 keeps no
	// rows in registers.
	Coarsen     int `json:"coarsen,omitempty"`
	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a sum
	Tile
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // columns per invocation

	// Ahead, over blocks, is the number of runs that an invocation loads before it multiplies, if more than 1. With
	// Coarsen and RoundRows, 1 prefetches the first pass's blocks, quants and scales, through the decoding code before
	// the row is quantized. It keeps no registers. It is costly for quants in several planes. It does nothing for
	// formats decoded by lookup or packed arithmetic, or without row sums (M-resident-rows).
	Ahead int `json:"ahead,omitempty"`
	// Held, with Coarsen and an Ahead of 1, keeps the prefetched blocks in registers until they are multiplied: loads
	// overlap with the quantization of the row, and no block is loaded twice.
	Held bool `json:"held,omitempty"`
	// Subnormals, over blocks, says that the device preserves subnormal halves, which converts quants to floats
	// cheaply.
	Subnormals bool `json:"subnormals,omitempty"`
	// Tables, over blocks, copies codebooks to shared memory first. There, lookups of different entries conflict less
	// than in a cache.
	Tables bool `json:"tables,omitempty"`
	// Copies, with Tables, is the number of adjacent copies of each entry in shared memory. Invocations read different
	// copies and so hit different banks. Blocks in planes are then decoded eight elements at once.
	Copies int `json:"copies,omitempty"`
	// StageRows, over blocks, stages rows of A in shared memory, so that lanes with long runs read them as fast as
	// lanes with short ones.
	StageRows bool `json:"stage_rows,omitempty"`
	// RoundRows, over blocks, quantizes rows of floats in the kernel: every workgroup quantizes a whole row to int8
	// first, and keeps it in shared memory, or in registers with Coarsen.
	RoundRows bool `json:"round_rows,omitempty"`
	// Digits, with RoundRows and Coarsen, is the number of bytes per element of a quantized row: signed base-256
	// digits. Three digits keep about as much precision as a float, so any row may be quantized that way. 0 means 1.
	Digits int `json:"digits,omitempty"`
	// Prefetch, as an alternative to Ahead, prefetches blocks of the first pass before the row is quantized. Each
	// invocation loads that many 32-byte sectors of the largest plane, in order, and keeps a word of each in a register
	// until the row is ready. It is the same few loads for every format in planes. K formats gain by it and not by
	// Ahead, q5 by either.
	Prefetch int `json:"prefetch,omitempty"`

	// schedule.New derives the fields below.
	Decode Decode `json:"decode,omitempty"`
	IntDot bool   `json:"int_dot,omitempty"` // strips are multiplied in integers
	// products of floats are added one by one to a running sum that spans scales
	Chained bool `json:"chained,omitempty"`
}

// String implements [Schedule].
func (s MatVec) String() string {
	launch := s.Launch
	launch.Subgroup = 0 // printed between the words
	return launch.line(size("rows", s.TileM, s.TileN), count("vec", s.Vec), above(0, "run", s.TileK),
		above(0, "ahead", s.Ahead), flag("held", s.Held), flag("subnormals", s.Subnormals), flag("tables", s.Tables),
		above(0, "copies", s.Copies), flag("staged", s.StageRows), above(0, "coarsen", s.Coarsen),
		flag("rounds", s.RoundRows), above(0, "digits", s.Digits), above(0, "prefetch", s.Prefetch),
		above(0, "subgroup", s.Subgroup), count("lanes", s.LanesPerRow),
		flag(string(s.Decode), s.Decode != DecodeQuads), flag("int_dot", s.IntDot), flag("chained", s.Chained))
}

// RowBytes is how many bytes an element of a rounded row is.
func (s MatVec) RowBytes() int { return max(s.Digits, 1) }

// Fragment is the size of a fragment for matrix units: FragM x FragN results and FragK of the contraction axis.
type Fragment struct {
	FragM int `json:"frag_m,omitempty"`
	FragN int `json:"frag_n,omitempty"`
	FragK int `json:"frag_k,omitempty"`
}

func (f Fragment) word() string { return size("fragment", f.FragM, f.FragN, f.FragK) }

// Skinny are the parameters of [VarSkinny]. SubgroupsN subgroups share the columns, and SubgroupsK the contraction
// axis, TileK at a time each. A fragment has FragM columns of the result and FragN rows.
type Skinny struct {
	Launch
	Tile
	SubgroupsN int `json:"subgroups_n,omitempty"`
	Fragment
	SubgroupsK int `json:"subgroups_k,omitempty"`
}

// String implements [Schedule].
func (s Skinny) String() string {
	return s.line(s.Tile.word(), size("subgroups", s.SubgroupsN, s.SubgroupsK), s.Fragment.word())
}

// MatrixTile are the parameters that both variants on matrix units have.
type MatrixTile struct {
	Launch
	Tile
	// Band is the number of tile rows that consecutive workgroups go down before the next column, so that workgroups
	// that run together share more of their reads; 0 or 1 goes along the rows.
	Band int `json:"band,omitempty"`
}

// CoopMat are the parameters of [VarCoopMat]. The subgroups of a workgroup share its tile in a grid of SubgroupsM x
// SubgroupsN.
type CoopMat struct {
	MatrixTile
	SubgroupsM int `json:"subgroups_m,omitempty"`
	SubgroupsN int `json:"subgroups_n,omitempty"`
	Fragment
}

// String implements [Schedule].
func (s CoopMat) String() string {
	return s.line(s.Tile.word(), size("subgroups", s.SubgroupsM, s.SubgroupsN), s.Fragment.word(),
		above(1, "band", s.Band))
}

// CoopMat2 are the parameters of [VarCoopMat2]: a tile that is distributed over a workgroup.
type CoopMat2 struct {
	MatrixTile
	// PiecesM x PiecesN matrices hold a tile's accumulators, each multiplied separately; 0 or 1 means one.
	PiecesM int `json:"pieces_m,omitempty"`
	PiecesN int `json:"pieces_n,omitempty"`
	// Unroll is the number of unrolled steps along the contraction axis, in a loop that the driver is told not to
	// unroll; 0 leaves unrolling to the driver.
	Unroll int `json:"unroll,omitempty"`

	// HideSteps hides the number of steps from the driver, which would otherwise unroll by 8 and run out of registers.
	// schedule.New derives it.
	HideSteps bool `json:"hide_steps,omitempty"`
}

// Pieces returns the numbers of matrices that make up a tile's sums, down and across.
func (s CoopMat2) Pieces() (down, across int) { return max(s.PiecesM, 1), max(s.PiecesN, 1) }

// String implements [Schedule].
func (s CoopMat2) String() string {
	launch, pieces := s.Launch, ""
	launch.Subgroup = 0 // printed between the words
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

// Flash is how attentions are shared out.
type Flash struct {
	Heads int `json:"heads,omitempty"` // query heads of a tile: 1, or all that share a key head
	// number of key runs computed by separate workgroups and then joined by another kernel; 0 for none
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

// FlashMatrix are the parameters of [VarFlashMatrix] and [VarFlashMatrix2]. SubgroupsN subgroups share rows: each
// multiplies an equal part of the contraction axis and sums an equal part of the results; 0 means 1.
type FlashMatrix struct {
	Launch
	TileM      int `json:"tile_m,omitempty"`
	TileN      int `json:"tile_n,omitempty"`
	Stages     int `json:"stages,omitempty"` // tiles of keys and values in shared memory
	SubgroupsN int `json:"subgroups_n,omitempty"`
	Fragment
	Flash
}

// String implements [Schedule].
func (s FlashMatrix) String() string {
	return s.line(size("tile", s.TileM, s.TileN), count("heads", s.Heads), count("fragment", s.FragM),
		above(1, "shared", s.SubgroupsN), above(1, "stages", s.Stages), above(1, "splits", s.Splits))
}
