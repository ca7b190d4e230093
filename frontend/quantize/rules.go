package quantize

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// chooser chooses the types of a model's tensors.
type chooser struct {
	options Options
	rules   []rule
	sites   map[string]*site // nil without a recipe
}

// rule is an exception of the options.
type rule struct {
	matches func(name string) bool
	to      ir.DType
	what    string // completes the error "no tensor …" if the rule matches none
	used    bool   // it matches a tensor
}

// newChooser returns a chooser for the tensors of src. Rules for the embedding and the output matrix come before rules
// for patterns.
func newChooser(src *Source, opt Options) *chooser {
	c := &chooser{options: opt}
	if opt.Recipe != nil {
		c.sites = sites(src, opt.Imatrix != nil)
	}
	outputs := []role{output}
	if factsOf(src).tied {
		outputs = append(outputs, embedding) // it serves as the output matrix, too
	}
	byRole := func(to ir.DType, what string, list ...role) {
		if to != ir.Invalid {
			c.rules = append(c.rules, rule{to: to, what: what,
				matches: func(name string) bool { return slices.Contains(list, roleOf(name)) }})
		}
	}
	byRole(opt.Embedding, "is a token embedding: want token_embd.weight", embedding)
	byRole(opt.Output, "is an output matrix: want output.weight", outputs...)
	for _, r := range opt.Keep {
		c.rules = append(c.rules, rule{to: r.Type, what: fmt.Sprintf("matches the pattern %q", r.Pattern),
			// The pattern is valid.
			matches: func(name string) bool { ok, _ := path.Match(r.Pattern, name); return ok }})
	}
	for _, r := range opt.Search {
		c.rules = append(c.rules, rule{to: r.Type, what: fmt.Sprintf("matches the pattern %q", r.Name),
			matches: r.Name.MatchString})
	}
	return c
}

// want returns the type for a tensor before its shape is considered: the type of the first rule that matches, or
// without such a rule the type by the recipe or the options. named reports whether a rule matches.
func (c *chooser) want(info tensorInfo) (to ir.DType, named bool) {
	to = c.options.Type
	if s := c.sites[info.name]; s != nil {
		to = c.options.Recipe.typeOf(s, info.dims[len(info.dims)-1])
	}
	for i := range c.rules {
		if r := &c.rules[i]; r.matches(info.name) {
			r.used = true
			if !named {
				to, named = r.to, true
			}
		}
	}
	return to, named
}

// choose returns the plan of a tensor. It returns an error if the tensor would be quantized a second time without
// Options.Requantize.
func (c *chooser) choose(info tensorInfo) (Tensor, error) {
	t := Tensor{Name: info.name, Dims: info.dims, From: info.dtype, BytesIn: info.bytes}
	want, named := c.want(info)
	t.decide(want, named)
	if info.dtype.IsBlock() && t.To != info.dtype && !c.options.Requantize {
		return t, fmt.Errorf("it is already %s, and quantizing twice adds errors: start from a model in f16 or f32, "+
			"or allow it (--requantize)", info.dtype)
	}
	n, err := t.To.BytesFor(t.elems())
	if err != nil {
		return t, err
	}
	t.BytesOut = n
	return t, t.weigh(c.options)
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
		t.addNote("the importance matrix does not have it")
	default:
		t.Weighted = true
	}
	return nil
}

// addNote adds a remark for the report, after the earlier ones.
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

// decide sets the type of a tensor and, if it differs from want, the reason. named means that a rule names the tensor;
// then any float type is allowed.
func (t *Tensor) decide(want ir.DType, named bool) {
	switch why := unquantized(t.Name, t.Dims); {
	case !t.From.IsFloat() && !t.From.IsBlock():
		t.To, t.Note = t.From, "no floats: copied"
	case why != "" && named && !want.IsBlock():
		t.To = want
	case why != "" && want.IsBlock():
		t.To, t.Note = ir.F32, why+" stays f32"
	case why != "":
		t.To = ir.F32
	case t.columns()%want.BlockElems() == 0:
		t.To = want
	default:
		t.To, t.Wanted = fallback(want, t.columns()), want
		if !t.To.IsBlock() && (t.From == ir.F16 || t.From == ir.BF16) {
			t.To = t.From // as exact as the source
		}
		t.Note = fmt.Sprintf("rows of %d are not whole blocks of %d: %s instead of %s", t.columns(), want.BlockElems(),
			t.To, want)
	}
}

// fallback returns the type for a tensor with rows that are not whole blocks of format want: as in llama.cpp, the next
// larger format with blocks of 32 elements or, if the rows are not whole blocks of that either, f16.
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

// exempt lists tensors that are not quantized, because they are small and sensitive, or because ggml programs require
// f32. A part is a part of a tensor's name, in GGUF files or in the models that they are converted from.
var exempt = []struct{ part, why string }{
	{"norm", "a norm"},
	{"ffn_gate_inp.", "a router of experts"},
	{"router.weight", "a router of experts"},
	{"position_embd.", "a table that is added"},
	{"token_types.", "a table that is added"},
	{"attn_rel_b.", "a table that is added"},
	{".rel_pos", "a table that is added"},
	{"ssm_conv1d", "a short convolution"},
	{"shortconv.conv.", "a short convolution"},
	{"altup", "a small matrix"},
	{"laurel", "a small matrix"},
	{"per_layer_model_proj", "a small matrix"},
	{"enc.conv1d.", "a convolution of sound"},
	{".patch_embd", "a convolution of pictures"},
	{".patch_merger", "a matrix of pictures"},
}

// exemptTimeMix matches the small matrices of RWKV.
var exemptTimeMix = regexp.MustCompile(`time_mix_([wva][012]|g[12]|decay_w[12]|first|lerp_fused)\.`)

// exemptScan matches the decays of a selective scan and the factors of its input, in GGUF files and before.
var exemptScan = regexp.MustCompile(`\.(ssm_[ad]|a_log|d)$`)

// unquantized returns the reason why a tensor is not quantized, or "" for a matrix.
func unquantized(name string, dims []int) string {
	name = strings.ToLower(name)
	switch {
	case isVector(dims):
		return "a vector"
	case strings.HasSuffix(name, "bias"):
		return "a bias"
	case exemptScan.MatchString(name):
		return "a part of a scan"
	}
	for _, e := range exempt {
		if strings.Contains(name, e.part) {
			return e.why
		}
	}
	if exemptTimeMix.MatchString(name) {
		return "a small matrix"
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

// IsExact reports whether a tensor of floats is f32 in the files that a plan writes, unless a rule names it. These are
// tensors that are not matrices, and matrices that ggml programs read only as f32.
func IsExact(name string, dims []int) bool {
	return unquantized(name, dims) != ""
}
