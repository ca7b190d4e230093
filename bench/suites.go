package bench

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
)

// Scale is the size of the cases.
type Scale int

// The scales.
const (
	Full Scale = iota // the sizes of docs/PERFORMANCE.md, for GPUs
	Tiny              // every case in milliseconds on a processor, to see that it works
)

// ScaleFor returns the scale that suits a device.
func ScaleFor(caps device.Caps) Scale {
	if caps.Type == device.DeviceCPU {
		return Tiny
	}
	return Full
}

// of returns the full size, or the tiny one if the scale is Tiny.
func (s Scale) of(full, tiny int) int {
	if s == Tiny {
		return tiny
	}
	return full
}

// suites lists the suites in the order of reports.
var suites = []struct {
	name  string
	cases func(Scale) []Case
}{
	{"matmul", matmulCases},
	{"matvec", matvecCases},
	{"memory", memoryCases},
	{"ops", opsCases},
	{"attention", attentionCases},
	{"transfers", transferCases},
	{"model", modelCases},
}

// Suites returns the names of the suites, in the order of reports.
func Suites() []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

// Cases returns the cases of the named suites, or of all suites without names.
func Cases(scale Scale, names ...string) []Case {
	var all []Case
	for _, s := range suites {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		for _, c := range s.cases(scale) {
			c.Suite = s.name
			all = append(all, c)
		}
	}
	return all
}

// formats are the block formats that matrices are multiplied in.
var formats = []ir.DType{
	ir.Q4_0, ir.Q4_1, ir.Q5_0, ir.Q5_1, ir.Q8_0, ir.Q2_K, ir.Q3_K, ir.Q4_K, ir.Q5_K, ir.Q6_K,
	ir.IQ1_S, ir.IQ1_M, ir.IQ2_XXS, ir.IQ2_XS, ir.IQ2_S, ir.IQ3_XXS, ir.IQ3_S, ir.IQ4_NL, ir.IQ4_XS,
	ir.TQ1_0, ir.TQ2_0, ir.MXFP4,
}

// commonFormats represent all formats in cases where all would take too long.
var commonFormats = []ir.DType{ir.Q8_0, ir.Q4_0, ir.Q4_K}

// name joins the parts of a case's name.
func name(parts ...any) string {
	text := fmt.Sprint(parts[0])
	for _, p := range parts[1:] {
		text += fmt.Sprint("/", p)
	}
	return text
}

// matmulFlops returns the arithmetic operations of a matmul of [m,k] by [k,n].
func matmulFlops(m, n, k int) float64 { return 2 * float64(m) * float64(n) * float64(k) }
