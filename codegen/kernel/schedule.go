package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Schedule says how a kernel runs on a device. Each variant has a struct for its parameters, which embeds a [Launch],
// and a schedule is one of those structs. Package schedule chooses it; the generator follows it.
type Schedule interface {
	// Config returns the parameters that all variants have.
	Config() Launch
	// String describes the schedule in one line. Two schedules that a device may run have equal descriptions only if
	// they are equal.
	String() string
}

// Launch has the parameters of all variants. It is the whole schedule of [VarGroup] and [VarCustom].
type Launch struct {
	Variant   Variant `json:"variant"`
	Workgroup int     `json:"workgroup"`          // invocations per workgroup
	Vec       int     `json:"vec"`                // adjacent elements per invocation and load
	Subgroup  int     `json:"subgroup,omitempty"` // subgroup size that the kernel relies on; 0 uses shared memory only
}

// Config returns the launch itself, for the structs that embed it.
func (l Launch) Config() Launch { return l }

// String implements [Schedule].
func (l Launch) String() string { return l.line() }

// line describes a schedule by words, of which it drops empty ones.
func (l Launch) line(words ...string) string {
	words = slices.Concat([]string{string(l.Variant), count("wg", l.Workgroup)}, words,
		[]string{above(0, "subgroup", l.Subgroup)})
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// structs decode the parameters of each variant.
var structs = map[Variant]func(text []byte) (Schedule, error){
	VarMap: decode[Points], VarRowWindows: decode[Points], VarMapTile: decode[MapTile],
	VarRowSerial: decode[Row], VarRowGroup: decode[Row], VarSelect: decode[Row],
	VarScanSerial: decode[Lanes], VarScanGroup: decode[Lanes], VarSort: decode[Lanes], VarQuantize: decode[Lanes],
	VarMatTile: decode[MatTile], VarMatDirect: decode[MatDirect], VarMatVec: decode[MatVec], VarSkinny: decode[Skinny],
	VarCoopMat: decode[CoopMat], VarCoopMat2: decode[CoopMat2],
	VarFlashTile: decode[FlashTile], VarFlashVec: decode[FlashVec],
	VarFlashMatrix: decode[FlashMatrix], VarFlashMatrix2: decode[FlashMatrix],
	VarGroup: decode[Launch], VarCustom: decode[Launch],
}

func decode[P Schedule](text []byte) (Schedule, error) {
	var p P
	err := DecodeStrictly(text, &p)
	return p, err
}

// DecodeStrictly decodes JSON that has no other fields than to.
func DecodeStrictly(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// ParseSchedule decodes a schedule from JSON, which is the encoding of its struct. A schedule of an unknown variant is
// its [Launch]: no kernel runs so.
func ParseSchedule(text []byte) (Schedule, error) {
	var l Launch
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	if own, ok := structs[l.Variant]; ok {
		return own(text)
	}
	return l, nil
}

// Numbers returns the numbers of a schedule that are not 0, by their names in JSON.
func Numbers(s Schedule) map[string]float64 {
	fields := map[string]any{}
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	numbers := map[string]float64{}
	for name, v := range fields {
		if n, ok := v.(float64); ok && err == nil {
			numbers[name] = n
		}
	}
	return numbers
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
