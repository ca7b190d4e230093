package kernel

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Variant names a way of running a kernel family.
type Variant string

// The variants.
const (
	VarMap        Variant = "map"         // one invocation computes Vec neighbours
	VarMapTile    Variant = "map_tile"    // strided operands pass through tiles in shared memory
	VarRowSerial  Variant = "row_serial"  // one invocation folds a whole row
	VarRowGroup   Variant = "row_group"   // LanesPerRow invocations share a row
	VarRowWindows Variant = "row_windows" // one invocation folds Coarsen overlapping windows
	VarMatTile    Variant = "tile"        // matmul with register tiles fed from shared memory
	VarMatDirect  Variant = "direct"      // matmul with register tiles fed from global memory
	VarMatVec     Variant = "matvec"      // subgroups share the contraction; few rows
	VarSkinny     Variant = "skinny"      // skinny GEMM: few rows by blocks on matrix units, a fragment per subgroup
	VarCoopMat    Variant = "coopmat"     // matrix units, a fragment per subgroup (VK_KHR_cooperative_matrix)
	VarCoopMat2   Variant = "coopmat2"    // matrix units, a tile per workgroup (VK_NV_cooperative_matrix2)
	VarScanSerial Variant = "scan_serial" // one invocation scans a whole row
	VarSort       Variant = "sort"        // LanesPerRow invocations sort a row in shared memory
	// top-k: LanesPerRow invocations find the first elements of a row's order, and sort those
	VarSelect    Variant = "select"
	VarScanGroup Variant = "scan_group" // LanesPerRow invocations share a row
	VarGroup     Variant = "group"      // one workgroup per group number scans all elements and collects its own
	VarQuantize  Variant = "quantize"   // LanesPerRow invocations make a block
	VarFlashTile Variant = "flash_tile" // attention from shared memory, register-tiled
	VarFlashVec  Variant = "flash_vec"  // attention of few rows; LanesPerRow invocations share a key
	// VarFlashMatrix computes attention on matrix units of subgroup scope (VK_KHR_cooperative_matrix). VarFlashMatrix2
	// also keeps scores in registers (VK_NV_cooperative_matrix2).
	VarFlashMatrix  Variant = "flash_coopmat"
	VarFlashMatrix2 Variant = "flash_coopmat2"
)

// Decode is the way in which a matvec reads its B.
type Decode string

// The ways.
const (
	DecodeQuads  Decode = ""       // four neighbours at a time, as floats or integers
	DecodeWords  Decode = "words"  // bytes, four 32-bit words at a time
	DecodeStrips Decode = "strips" // the quants of a strip of a block; the scale multiplies their sum
	DecodeWhole  Decode = "whole"  // elements of a block, including the scale
	DecodeLookup Decode = "lookup" // strips, eight quants at a time from a table, or computed for base-3 digits
	DecodePacked Decode = "packed" // quants packed in their bytes, multiplied there, four planes at once
)

// Decodes lists all ways.
var Decodes = []Decode{DecodeQuads, DecodeWords, DecodeStrips, DecodeWhole, DecodeLookup, DecodePacked}

// Schedule says how a kernel runs on a device. Package target chooses it; the generator follows it.
type Schedule struct {
	Variant   Variant `json:"variant"`
	Workgroup int     `json:"workgroup"`          // invocations per workgroup
	Vec       int     `json:"vec"`                // adjacent elements per invocation and load
	Subgroup  int     `json:"subgroup,omitempty"` // subgroup size that the kernel relies on; 0 uses shared memory only

	// Coarsen is the factor of thread coarsening; 0 means 1. For a map, it is the number of points along an outer axis
	// per invocation, which share values that do not depend on that axis. For windows, it is the number of windows per
	// invocation. For matvec, it is the number of passes over columns that a workgroup makes while its rows stay in
	// registers; 0 keeps no rows in registers.
	Coarsen int `json:"coarsen,omitempty"`

	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a row, or a sum
	Cache       int `json:"cache,omitempty"`         // row elements each keeps in registers; 0 re-reads

	// A tile has TileM rows and TileN columns of the result, in steps of TileK along the contraction axis. For
	// attention, TileN counts keys and TileK steps along the contraction axis of Q*K. For matvec, TileK is the
	// approximate number of elements of a block per invocation and step; 0 means quads.
	TileM   int `json:"tile_m,omitempty"`
	TileN   int `json:"tile_n,omitempty"`
	TileK   int `json:"tile_k,omitempty"`
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // columns per invocation
	// Stages is the number of tiles of each operand in shared memory. With 2, one is fetched while the other is
	// multiplied.
	Stages int `json:"stages,omitempty"`
	// Band is the number of tile rows that consecutive workgroups go down before the next column, so that workgroups
	// that run together share more of their reads; 0 or 1 goes along the rows.
	Band int `json:"band,omitempty"`

	// Parameters of single variants. Check makes sure that they are zero in all others.
	MatVec
	RegisterTile
	Fragments
	CoopMat2
	Flash
}

// MatVec is how a matvec reads its operands.
type MatVec struct {
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

// RowBytes is how many bytes an element of a rounded row is.
func (v MatVec) RowBytes() int { return max(v.Digits, 1) }

// RegisterTile is how invocations share a tile without matrix units.
type RegisterTile struct {
	// Paired assigns invocations to the tile in blocks of 2x2, so that two of four neighbors use every vector from
	// shared memory.
	Paired bool `json:"paired,omitempty"`
	// Steps stores operands in shared memory by steps along the contraction axis instead of by rows, and assigns each
	// invocation four adjacent rows and columns.
	Steps bool `json:"steps,omitempty"`
}

// Fragments describes tiles for matrix units. The subgroups of a workgroup share its tile in a grid of SubgroupsM x
// SubgroupsN, in fragments of FragM x FragN results and FragK of the contraction axis. In an attention, SubgroupsN
// subgroups share rows: each multiplies an equal part of the contraction axis and sums an equal part of the results; 0
// means 1.
type Fragments struct {
	SubgroupsM int `json:"subgroups_m,omitempty"`
	SubgroupsN int `json:"subgroups_n,omitempty"`
	FragM      int `json:"frag_m,omitempty"`
	FragN      int `json:"frag_n,omitempty"`
	FragK      int `json:"frag_k,omitempty"`
	// SubgroupsK, for the skinny variant, is the number of subgroups that share the contraction axis, TileK at a time
	// each; SubgroupsN share the columns. A fragment has FragM columns of the result and FragN rows.
	SubgroupsK int `json:"subgroups_k,omitempty"`
}

// CoopMat2 are the options for tiles distributed over a workgroup.
type CoopMat2 struct {
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

// Flash is how attentions are shared out.
type Flash struct {
	Heads int `json:"heads,omitempty"` // query heads of a tile: 1, or all that share a key head
	// number of key runs computed by separate workgroups and then joined by another kernel; 0 for none
	Splits int `json:"splits,omitempty"`
}

// String describes the schedule in one line. Two schedules that a device may run have equal descriptions only if they
// are equal.
func (s Schedule) String() string {
	words := slices.Concat([]string{string(s.Variant), count("wg", s.Workgroup)}, s.ownWords(), s.commonWords())
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// ownWords describes the variant's own parameters; empty words are dropped.
func (s Schedule) ownWords() []string {
	tile := size("tile", s.TileM, s.TileN, s.TileK)
	fragment := size("fragment", s.FragM, s.FragN, s.FragK)
	switch s.Variant {
	case VarMap:
		return []string{count("vec", s.Vec), above(1, "coarsen", s.Coarsen)}
	case VarMapTile:
		return []string{count("vec", s.Vec), size("tile", s.TileM, s.TileN)}
	case VarSort, VarQuantize:
		return []string{count("lanes", s.LanesPerRow)}
	case VarSelect:
		return []string{count("cache", s.Cache)}
	case VarRowSerial:
		return []string{count("vec", s.Vec), count("cache", s.Cache)}
	case VarRowGroup:
		return []string{count("lanes", s.LanesPerRow), count("cache", s.Cache), count("vec", s.Vec)}
	case VarRowWindows:
		return []string{count("windows", s.Coarsen)}
	case VarScanSerial:
		return []string{count("vec", s.Vec)}
	case VarScanGroup:
		return []string{count("lanes", s.LanesPerRow), count("vec", s.Vec)}
	case VarMatTile, VarMatDirect:
		return []string{tile, size("thread", s.ThreadM, s.ThreadN), above(1, "stages", s.Stages)}
	case VarMatVec:
		return []string{size("rows", s.TileM, s.TileN), count("vec", s.Vec), above(0, "run", s.TileK),
			above(0, "ahead", s.Ahead), flag("held", s.Held), flag("subnormals", s.Subnormals),
			flag("tables", s.Tables), above(0, "copies", s.Copies), flag("staged", s.StageRows),
			above(0, "coarsen", s.Coarsen), flag("rounds", s.RoundRows), above(0, "digits", s.Digits),
			above(0, "prefetch", s.Prefetch)}
	case VarSkinny:
		return []string{tile, size("subgroups", s.SubgroupsN, s.SubgroupsK), fragment}
	case VarCoopMat:
		return []string{tile, size("subgroups", s.SubgroupsM, s.SubgroupsN), fragment}
	case VarCoopMat2:
		m, n := s.Pieces()
		if m*n == 1 {
			return []string{tile}
		}
		return []string{tile, size("pieces", m, n)}
	case VarFlashTile:
		return []string{tile, size("thread", s.ThreadM, s.ThreadN), count("heads", s.Heads)}
	case VarFlashMatrix, VarFlashMatrix2:
		return []string{size("tile", s.TileM, s.TileN), count("heads", s.Heads), count("fragment", s.FragM),
			above(1, "shared", s.SubgroupsN), above(1, "stages", s.Stages)}
	case VarFlashVec:
		return []string{count("rows", s.TileM), count("heads", s.Heads), count("lanes", s.LanesPerRow),
			count("keys", s.ThreadN)}
	case VarGroup, VarCustom: // no parameters
	}
	return nil
}

// commonWords describes parameters that several variants share.
func (s Schedule) commonWords() []string {
	words := []string{flag("paired", s.Paired), flag("steps", s.Steps), above(1, "splits", s.Splits),
		above(1, "band", s.Band), above(0, "unroll", s.Unroll), above(0, "subgroup", s.Subgroup)}
	if s.Variant == VarMatVec {
		words = append(words, count("lanes", s.LanesPerRow))
	}
	return append(words, flag(string(s.Decode), s.Decode != DecodeQuads), flag("int_dot", s.IntDot),
		flag("chained", s.Chained), flag("hidden", s.HideSteps))
}

func count(name string, n int) string { return fmt.Sprintf("%s=%d", name, n) }

// above prints a count only if it exceeds the usual value.
func above(usual int, name string, n int) string {
	if n <= usual {
		return ""
	}
	return count(name, n)
}

func size(name string, extents ...int) string {
	return name + "=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(extents), " ", "x"), "[]")
}

func flag(name string, set bool) string {
	if !set {
		return ""
	}
	return name
}

// Pieces returns the numbers of matrices that make up a tile's sums, down and across.
func (s Schedule) Pieces() (down, across int) { return max(s.PiecesM, 1), max(s.PiecesN, 1) }

// Numbers returns the numbers of a schedule, in the order of its fields.
func (s Schedule) Numbers() []int { return numbers(reflect.ValueOf(s)) }

func numbers(v reflect.Value) []int {
	var list []int
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int:
			list = append(list, int(f.Int()))
		case reflect.Struct:
			list = append(list, numbers(f)...)
		}
	}
	return list
}
