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
	VarMapTile    Variant = "map_tile"    // operands that lie across come through tiles in shared memory
	VarRowSerial  Variant = "row_serial"  // one invocation folds a whole row
	VarRowGroup   Variant = "row_group"   // LanesPerRow invocations share a row
	VarRowWindows Variant = "row_windows" // one invocation folds Coarsen rows, which are windows that overlap
	VarMatTile    Variant = "tile"        // shared-memory, register-tiled matrix product
	VarMatDirect  Variant = "direct"      // register-tiled matrix product, straight from memory
	VarMatVec     Variant = "matvec"      // subgroups share the contraction; few rows
	VarSkinny     Variant = "skinny"      // skinny GEMM: few rows by blocks on matrix units, a fragment per subgroup
	VarCoopMat    Variant = "coopmat"     // matrix units, a fragment per subgroup (VK_KHR_cooperative_matrix)
	VarCoopMat2   Variant = "coopmat2"    // matrix units, a tile per workgroup (VK_NV_cooperative_matrix2)
	VarScanSerial Variant = "scan_serial" // one invocation goes along a whole row
	VarSort       Variant = "sort"        // LanesPerRow invocations sort a row in shared memory
	// LanesPerRow invocations find the first elements of a row's order, and sort those
	VarSelect    Variant = "select"
	VarScanGroup Variant = "scan_group" // LanesPerRow invocations share a row
	VarGroup     Variant = "group"      // a workgroup per number counts all elements and places its own
	VarQuantize  Variant = "quantize"   // LanesPerRow invocations make a block
	VarFlashTile Variant = "flash_tile" // attention from shared memory, register-tiled
	VarFlashVec  Variant = "flash_vec"  // attention of few rows; LanesPerRow invocations share a key
	// VarFlashMatrix runs attentions on matrix units of subgroup scope
	// (VK_KHR_cooperative_matrix); VarFlashMatrix2 keeps scores in registers
	// besides (VK_NV_cooperative_matrix2).
	VarFlashMatrix  Variant = "flash_coopmat"
	VarFlashMatrix2 Variant = "flash_coopmat2"
)

// Decode names a way of a matvec to read its B.
type Decode string

// The ways.
const (
	DecodeQuads  Decode = ""       // four neighbours at a time, as floats or integers
	DecodeWords  Decode = "words"  // bytes, four words at a time
	DecodeStrips Decode = "strips" // quants of a strip of a block, whose sums are scaled
	DecodeWhole  Decode = "whole"  // elements of a block, scale and all
	DecodeLookup Decode = "lookup" // strips, eight quants at a time from a table, or computed if they are digits
	DecodePacked Decode = "packed" // quants packed in their bytes, multiplied there, four planes at once
)

// Decodes lists all ways.
var Decodes = []Decode{DecodeQuads, DecodeWords, DecodeStrips, DecodeWhole, DecodeLookup, DecodePacked}

// Schedule says how a kernel runs on a device. Which one is best is the
// business of package target; the generator only follows it.
type Schedule struct {
	Variant   Variant `json:"variant"`
	Workgroup int     `json:"workgroup"`          // invocations per workgroup
	Vec       int     `json:"vec"`                // neighbouring elements per invocation and load
	Subgroup  int     `json:"subgroup,omitempty"` // subgroup size relied on; 0 uses shared memory only

	// Coarsen is the factor of thread coarsening: how many points along an outer axis an
	// invocation of a map takes, sharing what does not depend on that; 0 is 1. Of windows, it is how many
	// an invocation folds. Of matvec,
	// it is how many passes a workgroup makes over columns while its rows are resident in
	// registers; 0 keeps nothing there.
	Coarsen int `json:"coarsen,omitempty"`

	LanesPerRow int `json:"lanes_per_row,omitempty"` // invocations that share a row, or a sum
	Cache       int `json:"cache,omitempty"`         // row elements each keeps in registers; 0 re-reads

	// Tiles are TileM rows of the result by TileN columns, in steps of TileK along
	// the contraction; of attentions TileN keys, in steps along the dot axis. Of matvec,
	// TileK is about how many elements of a block an invocation takes at once; 0 takes
	// quads.
	TileM   int `json:"tile_m,omitempty"`
	TileN   int `json:"tile_n,omitempty"`
	TileK   int `json:"tile_k,omitempty"`
	ThreadM int `json:"thread_m,omitempty"` // rows per invocation
	ThreadN int `json:"thread_n,omitempty"` // columns per invocation
	// tiles of each operand in shared memory; with 2, one is fetched while one is multiplied
	Stages int `json:"stages,omitempty"`
	// Band is how many rows of tiles the workgroups go down before they go on to
	// the next column, so that those running together share more of what they
	// read; 0 or 1 goes along the rows.
	Band int `json:"band,omitempty"`

	// What only some variants have. Of the others it is zero, which Check sees to.
	MatVec
	RegisterTile
	Fragments
	CoopMat2
	Flash
}

// MatVec is how a matvec reads its operands.
type MatVec struct {
	// Ahead, over blocks, is how many runs an invocation reads before it
	// multiplies, if more than 1. With Coarsen and RoundRows, 1 says that it asks for
	// its blocks of the first pass before the row is rounded, quants and scales, by
	// what decodes them. That takes an invocation no register that it keeps, but much
	// to do where quants have several planes, and nothing is asked for where they are
	// decoded by lookup or packed, or the format needs no sums of rows (M-resident-rows).
	Ahead int `json:"ahead,omitempty"`
	// Held, with Coarsen and an Ahead of 1, says that what is asked for is read, and stays in registers until it is
	// multiplied: memory is read while the row is rounded, and nothing is asked for twice.
	Held bool `json:"held,omitempty"`
	// Subnormals, over blocks, says that the device keeps subnormal
	// halves: quants become floats that way.
	Subnormals bool `json:"subnormals,omitempty"`
	// Tables, over blocks, says that a workgroup copies codebooks to
	// shared memory first, where invocations that look up different entries wait
	// for one another less than in a cache.
	Tables bool `json:"tables,omitempty"`
	// Copies, with Tables, is how many times each entry stands in shared memory,
	// one beside the other: invocations that read their own hit different banks.
	// Eight elements are then decoded at once where the blocks lie in planes.
	Copies int `json:"copies,omitempty"`
	// StageRows, over blocks, says that rows of A pass through shared
	// memory, from where lanes that take long runs read them as fast as short ones.
	StageRows bool `json:"stage_rows,omitempty"`
	// RoundRows, over blocks, says that rows of floats, which may be
	// rounded to bytes, are as they are read: every workgroup rounds all of a row
	// first, and has it in shared memory, or in registers with Coarsen.
	RoundRows bool `json:"round_rows,omitempty"`
	// Digits, with RoundRows and Coarsen, is how many bytes each element of a rounded row is: signed digits to the
	// base 256, of which three keep about as much as floats do, so that any row may be rounded; 0 is one.
	Digits int `json:"digits,omitempty"`
	// Prefetch is the other way to ask for blocks of the first pass before the row is
	// rounded: a schedule has this or Ahead. Each invocation asks for so many sectors
	// of 32 bytes of the largest plane, in order, whoever needs them, and keeps a word
	// of each in a register until the row is ready. That is the same few loads for
	// every format in planes; K formats gain by it and not by Ahead, q5 by either.
	Prefetch int `json:"prefetch,omitempty"`

	// What follows is settled (target.Settle), not chosen.
	Decode Decode `json:"decode,omitempty"`
	IntDot bool   `json:"int_dot,omitempty"` // strips are multiplied in integers
	// products of floats are added one by one onto sums that go on over scales
	Chained bool `json:"chained,omitempty"`
}

// RowBytes is how many bytes an element of a rounded row is.
func (v MatVec) RowBytes() int { return max(v.Digits, 1) }

// RegisterTile is how invocations share a tile without matrix units.
type RegisterTile struct {
	// Paired puts invocations into the tile in blocks of 2x2, so that
	// every vector from shared memory is for two of four neighbours.
	Paired bool `json:"paired,omitempty"`
	// Steps keeps operands in shared memory step by step along the
	// contraction instead of row by row, and gives invocations rows and columns
	// four side by side.
	Steps bool `json:"steps,omitempty"`
}

// Fragments are what matrix units multiply: the subgroups of a workgroup share its
// tile in a grid of SubgroupsM x SubgroupsN, in fragments of FragM x FragN results
// and FragK of the contraction. Of an attention, SubgroupsN are those that share rows: each
// multiplies as much of the dot axis and sums up as much of the results; 0 is 1.
type Fragments struct {
	SubgroupsM int `json:"subgroups_m,omitempty"`
	SubgroupsN int `json:"subgroups_n,omitempty"`
	FragM      int `json:"frag_m,omitempty"`
	FragN      int `json:"frag_n,omitempty"`
	FragK      int `json:"frag_k,omitempty"`
	// SubgroupsK, of the skinny variant, is how many subgroups share the contraction, TileK
	// at a time each, beside the SubgroupsN that share the columns. Its fragments
	// have FragM columns of the result and FragN rows.
	SubgroupsK int `json:"subgroups_k,omitempty"`
}

// CoopMat2 is how a workgroup goes through a tile of its own.
type CoopMat2 struct {
	// PiecesM x PiecesN are the matrices that a tile's sums are
	// divided into, each multiplied by itself; 0 or 1 is one.
	PiecesM int `json:"pieces_m,omitempty"`
	PiecesN int `json:"pieces_n,omitempty"`
	// Unroll is how many steps along the contraction are written out
	// one after another, in a loop that the driver is told to leave as it is; 0
	// leaves unrolling to the driver.
	Unroll int `json:"unroll,omitempty"`

	// HideSteps hides the number of steps from the compiler, which
	// would unroll them by 8 and run out of registers. It is settled likewise.
	HideSteps bool `json:"hide_steps,omitempty"`
}

// Flash is how attentions are shared out.
type Flash struct {
	Heads int `json:"heads,omitempty"` // query heads of a tile: 1, or all that share a key head
	// runs of keys by workgroups of their own, to be joined by another kernel; 0 for none
	Splits int `json:"splits,omitempty"`
}

// String describes the schedule in one line. Schedules that a device may run read
// alike only if they are the same.
func (s Schedule) String() string {
	words := slices.Concat([]string{string(s.Variant), count("wg", s.Workgroup)}, s.ownWords(), s.commonWords())
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// ownWords are those of the variant; "" says nothing.
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
	case VarGroup, VarCustom: // have no numbers of their own
	}
	return nil
}

// commonWords are those that several variants have.
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

// above is a count that says something only above what is usual.
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

// Pieces returns how many matrices the sums of a tile are divided into, down and
// across.
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
