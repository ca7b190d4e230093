package folder

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// Ports has the names of a model's inputs and outputs by purpose. A name is "" if the model lacks the input. In shapes,
// T is the number of tokens of a run, and P the number of tokens before.
type Ports struct {
	Tokens    string // i64[1, T]
	Mask      string // i64[1, P+T]: 1 for each token
	Positions string // i64[1, T]
	Types     string // i64[1, T]: 0 for each token of the first text
	Output    string // of a language model the logits [1, T, vocabulary], of others the first output
	Past      []Cache
}

// Cache is an input for the cache of earlier tokens, such as their keys, and the output with the cache for the next
// run.
type Cache struct {
	Past, Present string
	First         *ir.Data // what the first run has there: no positions
}

// The symbols in the graph of a model: the number of tokens of a run, and of tokens before.
const (
	TokensSymbol = "T"
	PastSymbol   = "P"
)

// Inputs with a value that is known when the graph is built.
const (
	branchInput = "use_cache_branch"   // of a merged decoder: whether there are earlier tokens
	rowsInput   = "num_logits_to_keep" // how many tokens have logits
)

// reader finds the ports of a model.
type reader struct {
	*Folder
	model   *onnx.Model
	ports   Ports
	dims    map[string]ir.Dim   // by name: replacements for the extents of inputs
	inputs  map[string]*ir.Data // by name: values of inputs that do not depend on the text
	tokens  ir.Dim
	past    ir.Dim
	unknown []string // inputs of no known purpose
}

// Merged reports whether the model is a merged decoder: it has a branch for the first run, and one for later runs.
func (f *Folder) Merged() (bool, error) {
	return f.hasInput(func(name string) bool { return name == branchInput })
}

// IsDecoder reports whether the model has inputs for the cache of earlier tokens.
func (f *Folder) IsDecoder() (bool, error) { return f.hasInput((&reader{Folder: f}).isPast) }

// hasInput reports whether the model has an input with a name for which `is` returns true.
func (f *Folder) hasInput(is func(name string) bool) (bool, error) {
	m, err := onnx.Read(f.Model)
	if err != nil {
		return false, err
	}
	has := slices.ContainsFunc(m.Model.Graph.Inputs, func(in onnx.Value) bool { return is(in.Name) })
	return has, m.Close()
}

// Build builds the graph of a model for one text, and returns it with the names of its ports. A run has up to `tokens`
// tokens, after up to `past` tokens of runs before. later selects the branch of a merged decoder for later runs.
func (f *Folder) Build(tokens, past int, later bool) (graph *onnx.File, ports Ports, err error) {
	m, err := onnx.Read(f.Model)
	if err != nil {
		return nil, Ports{}, err
	}
	r := &reader{Folder: f, model: m.Model, dims: map[string]ir.Dim{}, inputs: map[string]*ir.Data{},
		tokens: ir.Symbol(TokensSymbol, tokens), past: ir.Symbol(PastSymbol, past)}
	err = r.find(later)
	if err := errors.Join(err, m.Close()); err != nil {
		return nil, Ports{}, fmt.Errorf("%s: %w", f.Model, err)
	}
	model, err := onnx.Open(f.Model, onnx.Options{Dims: r.dims, Inputs: r.inputs})
	return model, r.ports, err
}

// find sets r.ports, and fixes the extents of inputs. later selects the branch of a merged decoder for later runs.
func (r *reader) find(later bool) error {
	if err := r.findInputs(later); err != nil {
		return err
	}
	switch outputs := r.model.Graph.Outputs; {
	case len(r.unknown) > 0:
		return fmt.Errorf("the model has inputs %q, which are not made from text: give them one by one with vkc "+
			"run", r.unknown)
	case r.ports.Tokens == "":
		return errors.New("the model has no input input_ids, so it takes no text")
	case len(outputs) == 0:
		return errors.New("the model has no outputs")
	default:
		r.ports.Output = outputs[0].Name
	}
	for _, want := range []string{r.names.Outputs["logits"], "logits"} {
		if r.hasOutput(want) {
			r.ports.Output = want
		}
	}
	return nil
}

// findInputs sets the inputs in r.ports, r.inputs and r.unknown, and fixes the extents of inputs.
func (r *reader) findInputs(later bool) error {
	names := map[string]*string{"input_ids": &r.ports.Tokens, "attention_mask": &r.ports.Mask,
		"position_ids": &r.ports.Positions, "token_type_ids": &r.ports.Types}
	for _, kind := range []string{"input_ids", "attention_mask", "position_ids", "token_type_ids"} {
		if name := r.names.Inputs[kind]; name != "" {
			names[name] = names[kind]
		}
	}
	sum, err := r.past.Sum(r.tokens)
	if err != nil {
		return err
	}
	var masks []onnx.Value
	for _, in := range r.model.Graph.Inputs {
		in.Type = r.model.Shown(in)
		switch to := names[in.Name]; {
		case to == &r.ports.Mask:
			*to = in.Name
			masks = append(masks, in)
		case to != nil:
			*to = in.Name
			r.fix(in, r.tokens)
		case r.isPast(in.Name):
			r.fix(in, r.past)
			if err := r.cache(in); err != nil {
				return err
			}
		case in.Name == branchInput:
			flag := byte(0)
			if later {
				flag = 1
			}
			r.inputs[in.Name] = &ir.Data{DType: ir.Bool, Dims: []int{1}, Bytes: []byte{flag}}
		case in.Name == rowsInput:
			dims := slices.Repeat([]int{1}, len(in.Type.Shape))
			if r.inputs[in.Name], err = ir.FromInts(ir.I64, []int64{1}, dims...); err != nil {
				return err
			}
		case !r.isDefault(in.Name):
			r.unknown = append(r.unknown, in.Name)
		}
	}
	for _, in := range masks { // last, because a mask may share symbols with other inputs, which keep their extents
		r.fix(in, sum)
	}
	return nil
}

// isDefault reports whether an input has a value in the file.
func (r *reader) isDefault(name string) bool {
	return slices.ContainsFunc(r.model.Graph.Initializers, func(t *onnx.Tensor) bool { return t.Name == name })
}

func (r *reader) hasOutput(name string) bool {
	return slices.ContainsFunc(r.model.Graph.Outputs, func(o onnx.Value) bool { return o.Name == name })
}

// isPast reports whether an input has the cache of earlier tokens.
func (r *reader) isPast(name string) bool {
	_, ok := r.layerOf(name)
	return ok || strings.HasPrefix(name, "past")
}

// layerOf returns the output with the next value of an input, if the input's name matches the pattern for keys or
// values in genai_config.json. ok is false if it matches neither.
func (r *reader) layerOf(name string) (present string, ok bool) {
	for _, kind := range []string{"key", "value"} {
		before, after, ok := strings.Cut(r.names.Inputs["past_"+kind+"_names"], "%d")
		if !ok || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) ||
			len(name) <= len(before)+len(after) {
			continue
		}
		layer := name[len(before) : len(name)-len(after)]
		if strings.Trim(layer, "0123456789") == "" {
			return strings.Replace(r.names.Outputs["present_"+kind+"_names"], "%d", layer, 1), true
		}
	}
	return "", false
}

// cache adds an input of keys or values of earlier tokens to r.ports.Past. It returns an error if no output has the
// value for the next run.
func (r *reader) cache(in onnx.Value) error {
	present, _ := r.layerOf(in.Name)
	for _, prefix := range []string{"past_key_values", "past"} {
		if rest, ok := strings.CutPrefix(in.Name, prefix); ok && !r.hasOutput(present) {
			present = "present" + rest
		}
	}
	if rest, ok := strings.CutPrefix(in.Name, "past"); ok && !r.hasOutput(present) {
		present = "present" + rest
	}
	if !r.hasOutput(present) {
		return fmt.Errorf("input %q has no output %q with its value for the next run", in.Name, present)
	}
	dims := make([]int, len(in.Type.Shape))
	for i, d := range in.Type.Shape {
		switch {
		case d.Size >= 0:
			dims[i] = int(min(d.Size, 1<<40))
		case i == 0:
			dims[i] = 1 // one text; an extent of tokens stays 0
		}
	}
	first, err := ir.NewData(in.Type.Elem.DType(), dims...)
	if err != nil {
		return fmt.Errorf("input %q: %w", in.Name, err)
	}
	r.ports.Past = append(r.ports.Past, Cache{in.Name, present, first})
	return nil
}

// fix sets the symbolic extents of an input in r.dims: the first to 1, because a run has one text, and the others to d.
// Extents that are set already stay. A formula counts as a name: some exporters write past + 1 for a mask, although a
// run may have several tokens.
func (r *reader) fix(in onnx.Value, d ir.Dim) {
	for axis, e := range in.Type.Shape {
		name := e.Name
		if _, done := r.dims[name]; e.Size >= 0 || done {
			continue
		}
		r.dims[name] = d
		if axis == 0 {
			r.dims[name] = ir.D(1)
		}
	}
}

// Inputs returns the inputs of a run for tokens after `earlier` tokens of runs before, except the inputs in p.Past. It
// leaves out inputs that the graph lacks, because nothing reads them.
func (p Ports) Inputs(g *ir.Graph, tokens []int32, earlier int) (map[string]*ir.Data, error) {
	in := map[string]*ir.Data{}
	for _, port := range []struct {
		name  string
		count int
		value func(i int) int64
	}{
		{p.Tokens, len(tokens), func(i int) int64 { return int64(tokens[i]) }},
		{p.Positions, len(tokens), func(i int) int64 { return int64(earlier + i) }},
		{p.Types, len(tokens), func(int) int64 { return 0 }},
		{p.Mask, earlier + len(tokens), func(int) int64 { return 1 }},
	} {
		n, ok := g.Named(port.name)
		if !ok || port.name == "" {
			continue
		}
		list := make([]int64, port.count)
		for i := range list {
			list[i] = port.value(i)
		}
		dims := []int{1, len(list)}
		if n.Rank() == 1 {
			dims = dims[1:]
		}
		d, err := ir.FromInts(n.DType(), list, dims...)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", port.name, err)
		}
		in[port.name] = d
	}
	return in, nil
}
