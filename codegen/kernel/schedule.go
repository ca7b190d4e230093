package kernel

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/internal/strictjson"
)

// Variant names one implementation of a kernel family.
type Variant string

// The variants.
const (
	VarMap        Variant = "map"         // one invocation computes Vec adjacent points
	VarMapTile    Variant = "map_tile"    // strided operands pass through tiles in shared memory
	VarRowSerial  Variant = "row_serial"  // one invocation folds a whole row
	VarRowGroup   Variant = "row_group"   // LanesPerRow invocations share a row
	VarRowWindows Variant = "row_windows" // one invocation folds Coarsen overlapping windows
	VarMatTile    Variant = "tile"        // matmul with register tiles fed from shared memory
	VarMatDirect  Variant = "direct"      // matmul with register tiles fed from global memory
	VarMatVec     Variant = "matvec"      // matmul of few rows: LanesPerRow invocations share a sum
	VarSkinny     Variant = "skinny"      // few rows by blocks on cooperative matrices, one fragment per subgroup
	VarCoopMat    Variant = "coopmat"     // cooperative matrices per subgroup (VK_KHR_cooperative_matrix)
	VarCoopMat2   Variant = "coopmat2"    // cooperative matrices per workgroup (VK_NV_cooperative_matrix2)
	VarScanSerial Variant = "scan_serial" // one invocation scans a whole row
	VarSort       Variant = "sort"        // LanesPerRow invocations sort a row in shared memory
	// top-k: LanesPerRow invocations find the first elements of a row's order and sort them
	VarSelect    Variant = "select"
	VarScanGroup Variant = "scan_group" // LanesPerRow invocations share a row
	VarGroup     Variant = "group"      // one workgroup per group number scans all elements and collects its own
	VarQuantize  Variant = "quantize"   // LanesPerRow invocations encode a block
	// a recurrence: LanesPerRow invocations share a row of the state, and keep it in registers
	VarRecurrence Variant = "recurrence"
	VarFlashTile  Variant = "flash_tile" // attention from shared memory, register-tiled
	VarFlashVec   Variant = "flash_vec"  // attention of few rows; LanesPerRow invocations share a key
	// VarFlashMatrix computes attention on cooperative matrices of subgroup scope (VK_KHR_cooperative_matrix).
	// VarFlashMatrix2 also reduces and converts such matrices (VK_NV_cooperative_matrix2), and so keeps scores in
	// registers.
	VarFlashMatrix  Variant = "flash_coopmat"
	VarFlashMatrix2 Variant = "flash_coopmat2"
)

// Decode says how a matvec reads its operand B.
type Decode string

// The ways. A strip is a part of a block with one scale; see [BlockRun].
const (
	DecodeQuads  Decode = ""       // four adjacent elements at a time, as floats or integers
	DecodeWords  Decode = "words"  // int8 elements, four 32-bit words at a time
	DecodeStrips Decode = "strips" // the quants of a strip; their sum is multiplied by the scale
	DecodeWhole  Decode = "whole"  // elements of a block, each multiplied by its scale
	DecodeLookup Decode = "lookup" // strips, eight quants at a time: from a table, or computed from base-3 digits
	DecodePacked Decode = "packed" // 2-bit quants, multiplied in their bytes without unpacking, four planes at once
)

// Decodes lists all ways.
var Decodes = []Decode{DecodeQuads, DecodeWords, DecodeStrips, DecodeWhole, DecodeLookup, DecodePacked}

// Schedule says how a kernel runs on a device. It is a struct with the parameters of one variant, such as [MatVec],
// which embeds a [Launch]. Package schedule chooses it, and package glsl follows it.
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

// Config returns the launch itself. The structs that embed a Launch get this method from it.
func (l Launch) Config() Launch { return l }

// String implements [Schedule].
func (l Launch) String() string { return l.line() }

// line describes a schedule by the variant, the workgroup size, the given words and the subgroup size. It skips empty
// words.
func (l Launch) line(words ...string) string {
	var b strings.Builder
	b.WriteString(string(l.Variant) + " " + count("wg", l.Workgroup))
	for _, w := range append(words, above(0, "subgroup", l.Subgroup)) {
		if w != "" {
			b.WriteString(" " + w)
		}
	}
	return b.String()
}

// structs has the struct of each variant's parameters.
var structs = map[Variant]Schedule{
	VarMap: Points{}, VarRowWindows: Points{}, VarMapTile: MapTile{},
	VarRowSerial: Row{}, VarRowGroup: Row{}, VarSelect: Row{},
	VarScanSerial: Lanes{}, VarScanGroup: Lanes{}, VarSort: Lanes{}, VarQuantize: Lanes{},
	VarMatTile: MatTile{}, VarMatDirect: MatDirect{}, VarMatVec: MatVec{}, VarSkinny: Skinny{},
	VarCoopMat: CoopMat{}, VarCoopMat2: CoopMat2{},
	VarRecurrence: Recurrent{},
	VarFlashTile:  FlashTile{}, VarFlashVec: FlashVec{}, VarFlashMatrix: FlashMatrix{}, VarFlashMatrix2: FlashMatrix{},
	VarGroup: Launch{}, VarCustom: Launch{},
}

// IsWhole reports whether a schedule is the struct of its variant. It is false for nil and for unknown variants.
func IsWhole(s Schedule) bool {
	if s == nil {
		return false
	}
	own, known := structs[s.Config().Variant]
	return known && reflect.TypeOf(s) == reflect.TypeOf(own)
}

// ParseSchedule decodes a schedule from the JSON encoding of its struct. If the variant is unknown, it returns only the
// [Launch], which no kernel can run.
func ParseSchedule(text []byte) (Schedule, error) {
	var l Launch
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	own := structs[l.Variant]
	if own == nil {
		return l, nil
	}
	s := reflect.New(reflect.TypeOf(own))
	err := strictjson.Decode(text, s.Interface())
	return s.Elem().Interface().(Schedule), err
}

// Numbers returns the numeric parameters of a schedule that are not 0, by their JSON names.
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

// count prints a parameter as a word of a schedule, such as "wg=256".
func count(name string, n int) string { return name + "=" + strconv.Itoa(n) }

// above prints a count if it exceeds the usual value, and "" otherwise.
func above(usual int, name string, n int) string {
	if n <= usual {
		return ""
	}
	return count(name, n)
}

// size prints extents as a word of a schedule, such as "tile=64x64x16".
func size(name string, extents ...int) string {
	text := append([]byte(name), '=')
	for i, n := range extents {
		if i > 0 {
			text = append(text, 'x')
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return string(text)
}

// flag returns name if set, and "" otherwise.
func flag(name string, set bool) string {
	if !set {
		return ""
	}
	return name
}
