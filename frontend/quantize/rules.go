package quantize

import (
	"fmt"
	"path"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// choose returns the plan of a tensor. It sets used[i] for each rule i of opt.Keep that matches the tensor.
func choose(info tensorInfo, opt Options, used []bool) (Tensor, error) {
	t := Tensor{Name: info.name, Dims: info.dims, From: info.dtype, BytesIn: info.bytes}
	want, named := opt.Type, false
	for i, r := range opt.Keep {
		if ok, _ := path.Match(r.Pattern, info.name); ok { // patterns are valid by now
			used[i] = true
			if !named {
				want, named = r.Type, true
			}
		}
	}
	t.To, t.Note = target(info, want, named)
	if info.dtype.IsBlock() && t.To != info.dtype && !opt.Requantize {
		return t, fmt.Errorf("it is %s already, and quantizing twice adds errors: start from a model of floats, or "+
			"allow it (--requantize)", info.dtype)
	}
	n, err := t.To.BytesFor(t.elems())
	if err != nil {
		return t, err
	}
	t.BytesOut = n
	return t, t.weigh(opt)
}

// weigh decides whether the tensor is quantized with importance weights, and notes why not. Weights of another size
// than the tensor's are an error, because they belong to another model.
func (t *Tensor) weigh(opt Options) error {
	if opt.Imatrix == nil || !t.To.IsBlock() || t.To == t.From {
		return nil
	}
	_, known, err := opt.Imatrix.Row(t.Name, t.columns(), t.matrices(), 0)
	switch {
	case err != nil:
		return err
	case !quant.UsesWeights(t.To):
		t.addNote("%s takes no importance weights", t.To)
	case !known:
		t.addNote("the importance matrix does not know it")
	default:
		t.Weighted = true
	}
	return nil
}

func (t *Tensor) addNote(format string, args ...any) {
	if t.Note != "" {
		t.Note += "; "
	}
	t.Note += fmt.Sprintf(format, args...)
}

// columns returns the length of a row.
func (t *Tensor) columns() int {
	if len(t.Dims) == 0 {
		return 1
	}
	return t.Dims[len(t.Dims)-1]
}

// matrices returns the number of matrices in the tensor: the product of its outer extents.
func (t *Tensor) matrices() int {
	n := 1
	for i := 0; i < len(t.Dims)-2; i++ {
		n *= t.Dims[i]
	}
	return n
}

// target returns the type for a tensor and, if it differs from want, the reason. named means that a rule names the
// tensor; then any float type is allowed.
func target(info tensorInfo, want ir.DType, named bool) (to ir.DType, note string) {
	switch why := unquantized(info); {
	case !info.dtype.IsFloat() && !info.dtype.IsBlock():
		return info.dtype, "no floats: copied"
	case why != "" && named && !want.IsBlock():
		return want, ""
	case why != "" && want.IsBlock():
		return ir.F32, why + " stays f32"
	case why != "":
		return ir.F32, ""
	}
	columns := info.dims[len(info.dims)-1]
	if columns%want.BlockElems() == 0 {
		return want, ""
	}
	to = fallback(want, columns)
	if !to.IsBlock() && (info.dtype == ir.F16 || info.dtype == ir.BF16) {
		to = info.dtype // as exact as the source
	}
	return to, fmt.Sprintf("rows of %d are no whole blocks of %d: %s instead of %s", columns,
		want.BlockElems(), to, want)
}

// fallback returns the type for a tensor with rows of that many columns, if they are not whole blocks of format want:
// as in llama.cpp, the next larger format with blocks of 32, or else f16.
func fallback(want ir.DType, columns int) ir.DType {
	to := ir.IQ4_NL
	if f, ok := ir.BlockFormatOf(want); ok && f.Fallback != ir.Invalid {
		to = f.Fallback
	}
	if columns%to.BlockElems() != 0 {
		return ir.F16
	}
	return to
}

// unquantized returns the reason why a tensor is not quantized, or "" for a matrix: the tensor is small and sensitive,
// or ggml programs require f32. It knows the tensor names of GGUF files and of the models that they are converted from.
func unquantized(info tensorInfo) string {
	name := strings.ToLower(info.name)
	switch {
	case isVector(info.dims):
		return "a vector"
	case strings.Contains(name, "norm"):
		return "a norm"
	case strings.HasSuffix(name, "bias"):
		return "a bias"
	case strings.Contains(name, "ffn_gate_inp.") || strings.HasSuffix(name, "router.weight"):
		return "a router of experts"
	case strings.HasPrefix(name, "position_embd.") || strings.HasPrefix(name, "token_types."):
		return "a table that is added"
	case strings.Contains(name, "ssm_conv1d") || strings.Contains(name, "shortconv.conv."):
		return "a short convolution"
	}
	return ""
}

// isVector reports whether all extents except the innermost are 1.
func isVector(dims []int) bool {
	for i := 0; i < len(dims)-1; i++ {
		if dims[i] != 1 {
			return false
		}
	}
	return true
}
