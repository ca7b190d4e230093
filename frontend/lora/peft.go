package lora

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Files of a PEFT folder.
const (
	configFile  = "adapter_config.json"
	tensorsFile = "adapter_model.safetensors"
	maxConfig   = 4 << 20 // bytes
)

// peftPrefix begins the names of tensors.
const peftPrefix = "base_model.model."

// peft is an adapter_config.json.
type peft struct {
	Type       string             `json:"peft_type"`
	Rank       int                `json:"r"`
	Alpha      float64            `json:"lora_alpha"`
	RSLoRA     bool               `json:"use_rslora"`
	Ranks      map[string]int     `json:"rank_pattern"`
	Alphas     map[string]float64 `json:"alpha_pattern"`
	Targets    targets            `json:"target_modules"`
	Excluded   targets            `json:"exclude_modules"`
	Layers     numbers            `json:"layers_to_transform"`
	LayersName names              `json:"layers_pattern"`

	// Settings with which the adapter is more than A and B.
	DoRA        bool            `json:"use_dora"`
	Bias        string          `json:"bias"`
	LoRABias    bool            `json:"lora_bias"`
	Saved       []string        `json:"modules_to_save"`
	Init        json.RawMessage `json:"init_lora_weights"`
	Replication json.RawMessage `json:"layer_replication"`
	Invocation  json.RawMessage `json:"alora_invocation_tokens"`
	Parameters  []string        `json:"target_parameters"`
	Trainable   json.RawMessage `json:"trainable_token_indices"`
}

// targets is a list of names of modules, or one regular expression.
type targets struct {
	names  []string
	expr   *regexp.Regexp
	linear bool // "all-linear"
	set    bool
}

// UnmarshalJSON reads a list of names, a regular expression for whole names, "all-linear" or null.
func (t *targets) UnmarshalJSON(text []byte) error {
	var one string
	switch {
	case string(text) == "null":
		return nil
	case json.Unmarshal(text, &one) != nil:
		t.set = true
		return json.Unmarshal(text, &t.names)
	case one == "all-linear":
		t.linear, t.set = true, true
		return nil
	}
	t.set = true
	var err error
	t.expr, err = regexp.Compile("^(?:" + one + ")$")
	return err
}

// matches reports whether a module is one of the targets.
func (t *targets) matches(module string) bool {
	return t.linear || t.expr != nil && t.expr.MatchString(module) ||
		slices.ContainsFunc(t.names, func(name string) bool { return named(module, name) })
}

// named reports whether a name is the whole name of a module or its end.
func named(module, name string) bool { return module == name || strings.HasSuffix(module, "."+name) }

// numbers is a number or a list.
type numbers []int

// UnmarshalJSON implements json.Unmarshaler.
func (n *numbers) UnmarshalJSON(text []byte) error {
	var one int
	if string(text) != "null" && json.Unmarshal(text, &one) == nil {
		*n = numbers{one}
		return nil
	}
	return json.Unmarshal(text, (*[]int)(n))
}

// names is a name or a list.
type names []string

// UnmarshalJSON reads a list of names, a single name or null. An empty name is no name.
func (n *names) UnmarshalJSON(text []byte) error {
	var one string
	if string(text) != "null" && json.Unmarshal(text, &one) == nil {
		*n = nil
		if one != "" {
			*n = names{one}
		}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(n))
}

// isSet reports whether JSON has a value other than null, false, true and empty ones.
func isSet(text json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", "true", "[]", "{}"}, string(text))
}

// check returns an error for an adapter that does more than to add products of A and B to some matrices.
func (c *peft) check() error {
	var first string
	_ = json.Unmarshal(c.Init, &first) // a text names a method that computes the first A and B
	first = strings.ToLower(first)
	changes := slices.ContainsFunc([]string{"pissa", "olora", "corda", "loftq"}, func(p string) bool {
		return strings.HasPrefix(first, p)
	})
	switch {
	case c.Type != "LORA":
		return fmt.Errorf("peft_type is %q: want LORA", c.Type)
	case c.Rank < 1 || c.Rank > 1<<20:
		return fmt.Errorf("r is %d: want 1 or more", c.Rank)
	case !(math.Abs(c.Alpha) <= maxFactor):
		return fmt.Errorf("lora_alpha is %v: want a number", c.Alpha)
	case c.DoRA:
		return errors.New("use_dora: adapters that scale columns are not supported")
	case c.Bias != "" && c.Bias != "none" || c.LoRABias:
		return errors.New("bias: adapters that change biases are not supported")
	case len(c.Saved) > 0:
		return fmt.Errorf("modules_to_save is %q: adapters that replace whole weights are not supported", c.Saved)
	case changes:
		return fmt.Errorf("init_lora_weights is %q: the adapter needs changed weights of the model; save it with "+
			"path_initial_model_for_weight_conversion, or merge it", first)
	case isSet(c.Replication):
		return errors.New("layer_replication: adapters of repeated layers are not supported")
	case isSet(c.Invocation):
		return errors.New("alora_invocation_tokens: adapters that begin at a token are not supported")
	case len(c.Parameters) > 0:
		return fmt.Errorf("target_parameters is %q: want target_modules alone", c.Parameters)
	case isSet(c.Trainable):
		return errors.New("trainable_token_indices: adapters of single tokens are not supported")
	}
	return nil
}

// adapts reports whether the configuration names a module.
func (c *peft) adapts(module string) bool {
	if c.Targets.set && !c.Targets.matches(module) || c.Excluded.set && c.Excluded.matches(module) {
		return false
	}
	if c.Layers == nil {
		return true
	}
	parts := strings.Split(module, ".")
	for i := 1; i < len(parts)-1; i++ { // NAME.NUMBER.REST
		layer := -1
		if _, err := fmt.Sscanf(parts[i], "%d", &layer); err != nil || fmt.Sprint(layer) != parts[i] {
			continue
		}
		if len(c.LayersName) == 0 || slices.Contains(c.LayersName, parts[i-1]) {
			return slices.Contains(c.Layers, layer)
		}
	}
	return false
}

// byPattern returns the value of the first pattern, in alphabetical order, that matches a module's name or its end
// after a dot. It returns otherwise if none does. Patterns are regular expressions.
func byPattern[T any](patterns map[string]T, module string, otherwise T) (T, error) {
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		re, err := regexp.Compile(`^(?:.*\.)?(?:` + p + `)$`)
		if err != nil {
			return otherwise, err
		}
		if re.MatchString(module) {
			return patterns[p], nil
		}
	}
	return otherwise, nil
}

// factor returns the factor of a module's matrices, which is alpha/rank, or alpha/sqrt(rank) with RSLoRA. It returns an
// error if the rank is not as configured.
func (c *peft) factor(module string, rank int) (float64, error) {
	want, err := byPattern(c.Ranks, module, c.Rank)
	if err == nil && want != rank {
		err = fmt.Errorf("module %q has rank %d: want %d", module, rank, want)
	}
	alpha, failed := byPattern(c.Alphas, module, c.Alpha)
	if !(math.Abs(alpha) <= maxFactor) { // also NaN
		failed = fmt.Errorf("alpha of module %q is %v: want a number", module, alpha)
	}
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	if c.RSLoRA {
		return alpha / math.Sqrt(float64(rank)), nil
	}
	return alpha / float64(rank), nil
}

// openFolder opens an adapter in a PEFT folder.
func openFolder(folder string, cfg llm.Config) (*Adapter, error) {
	config, err := readConfig(filepath.Join(folder, configFile))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, tensorsFile)
	f, err := safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no %s: want the adapter in safetensors (%w)", tensorsFile, err)
	}
	if err != nil {
		return nil, err
	}
	a, err := fromPEFT(config, f, cfg)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a.path, a.close = folder, f.Close
	return a, nil
}

// readConfig reads the configuration of an adapter.
func readConfig(path string) ([]byte, error) {
	text, err := inputfile.ReadAtMost(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s: want a GGUF adapter, or a folder that PEFT has saved (%w)", configFile,
			err)
	}
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("%s is longer than %d bytes", configFile, maxConfig)
	}
	return text, err
}

// fromPEFT reads an adapter from its configuration and tensors.
func fromPEFT(config []byte, f *safetensors.File, cfg llm.Config) (*Adapter, error) {
	var c peft
	err := json.Unmarshal(config, &c)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	modules, err := c.modules(f)
	if err != nil {
		return nil, err
	}
	a := newAdapter()
	types := map[string]ir.Type{} // of the weights that the modules adapt, by the folder's names
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		p := modules[module]
		if len(p.a.Shape) != 2 || len(p.b.Shape) != 2 || p.rank() < 1 {
			return nil, fmt.Errorf("module %q: want lora_A and lora_B, both matrices", module)
		}
		if p.factor, err = c.factor(module, p.rank()); err != nil {
			return nil, fmt.Errorf("%s: %w", configFile, err)
		}
		shape := ir.Shape{p.b.Shape[0], p.a.Shape[1]}
		if strings.Contains(p.a.name, embeddingA) { // lora_embedding_A has a column for each token
			shape = ir.Shape{p.a.Shape[1], p.b.Shape[0]}
			p.a.Shape, p.a.transposed = ir.Shape{p.a.Shape[1], p.a.Shape[0]}, true
		}
		types[module+".weight"] = ir.Type{DType: p.a.DType, Shape: shape}
	}
	origins, err := cfg.Origins(types)
	if err != nil {
		return nil, err
	}
	for _, o := range origins {
		p, err := pairOf(o, modules)
		if err != nil {
			return nil, err
		}
		if err := a.add(p, cfg); err != nil {
			return nil, err
		}
	}
	return a, a.check()
}

// modules returns the names and types of A and B of each module in an adapter's file, by the module's name.
func (c *peft) modules(f *safetensors.File) (map[string]*pair, error) {
	modules := map[string]*pair{}
	for _, t := range f.Tensors() {
		module, part := cutModule(t.Name)
		switch {
		case part == "":
			return nil, fmt.Errorf("tensor %q: want names that begin with %s and end in .lora_A.weight or "+
				".lora_B.weight", t.Name, peftPrefix)
		case !c.adapts(module):
			return nil, fmt.Errorf("tensor %q: %s does not name this module", t.Name, configFile)
		}
		p := modules[module]
		if p == nil {
			p = &pair{}
			modules[module] = p
		}
		*p.half(part) = half{t.Name, ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)},
			tensor{source: f, name: t.Name}}
	}
	return modules, nil
}

// pairOf returns A and B for a weight of the model. o says from which tensors of a folder the weight comes. If GGUF
// files store the weight's rows or columns in another order than folders, B's rows or A's columns get that order.
func pairOf(o llm.Origin, modules map[string]*pair) (pair, error) {
	if o.Stacked && o.Rows != nil {
		return pair{}, fmt.Errorf("the adapter has matrices for %q, and the folder's tensor has some of its rows: "+
			"such adapters of experts are not supported", o.Name)
	}
	if o.Change != nil {
		return pair{}, fmt.Errorf("the adapter has matrices for %q, which GGUF files store with other elements than "+
			"folders: such adapters are not supported", o.Name)
	}
	var all []*pair
	for _, from := range o.From {
		all = append(all, modules[strings.TrimSuffix(from, ".weight")])
	}
	p := *all[0]
	if o.Stacked {
		var err error
		if p, err = joined(all); err != nil {
			return pair{}, fmt.Errorf("the adapter has matrices for %q: %w", o.Name, err)
		}
	}
	p.weight = o.Name
	switch {
	case o.Rows != nil && o.RowAxis == 1:
		p.a.columns = o.Rows(p.a.Shape[1].Static())
		p.a.Shape = ir.Shape{p.a.Shape[0], ir.D(len(p.a.columns))}
	case o.Rows != nil:
		p.b.rows = o.Rows(p.b.Shape[0].Static())
		p.b.Shape = ir.Shape{ir.D(len(p.b.rows)), p.b.Shape[1]}
	}
	return p, nil
}

// joined returns A and B of a stack of matrices. Each pair has A and B of one matrix.
func joined(all []*pair) (pair, error) {
	first, experts := *all[0], ir.Shape{ir.D(len(all))}
	p := pair{a: first.a, b: first.b, factor: first.factor}
	p.a.parts, p.b.parts = nil, nil
	for i, one := range all {
		if !one.a.Shape.Equal(first.a.Shape) || !one.b.Shape.Equal(first.b.Shape) || one.a.DType != first.a.DType ||
			one.b.DType != first.b.DType || one.factor != first.factor {
			return p, fmt.Errorf("expert %d has A and B of another rank, type or factor than expert 0", i)
		}
		p.a.parts, p.b.parts = append(p.a.parts, one.a.tensor), append(p.b.parts, one.b.tensor)
	}
	p.a.Shape, p.b.Shape = slices.Concat(experts, first.a.Shape), slices.Concat(experts, first.b.Shape)
	return p, nil
}

// stacked returns tensors of one type as the elements of a new first axis.
func stacked(parts []tensor) (*ir.Data, error) {
	var out *ir.Data
	for _, t := range parts {
		d, err := t.read()
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = &ir.Data{DType: d.DType, Dims: append([]int{len(parts)}, d.Dims...)}
		}
		if err := mmap.Guard(func() error { out.Bytes = append(out.Bytes, d.Bytes...); return nil }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// transposed returns a matrix with its axes exchanged. Its elements are floats, not blocks.
func transposed(d *ir.Data) (*ir.Data, error) {
	size, rows, columns := d.DType.BlockBytes(), d.Dims[0], d.Dims[1]
	out := &ir.Data{DType: d.DType, Dims: []int{columns, rows}, Bytes: make([]byte, len(d.Bytes))}
	return out, mmap.Guard(func() error {
		for r := range rows {
			for c := range columns {
				copy(out.Bytes[(c*rows+r)*size:][:size], d.Bytes[(r*columns+c)*size:])
			}
		}
		return nil
	})
}

// embeddingA ends the name of A of an embedding.
const embeddingA = ".lora_embedding_A"

// cutModule splits the name of a tensor into the module's name and llm.AdapterA or llm.AdapterB. Some versions of PEFT
// put the adapter's name, default, before the end. part is "" for other tensors.
func cutModule(name string) (module, part string) {
	module, ok := strings.CutPrefix(name, peftPrefix)
	// The name of the adapter is the last part for an embedding, and the part before "weight" for other matrices.
	for suffix, part := range map[string]string{embeddingA: llm.AdapterA, ".lora_embedding_B": llm.AdapterB} {
		if module, has := strings.CutSuffix(strings.TrimSuffix(module, ".default"), suffix); ok && has {
			return module, part
		}
	}
	for suffix, part := range map[string]string{".lora_A.weight": llm.AdapterA, ".lora_B.weight": llm.AdapterB} {
		for _, adapter := range []string{suffix, strings.Replace(suffix, ".weight", ".default.weight", 1)} {
			if module, has := strings.CutSuffix(module, adapter); ok && has {
				return module, part
			}
		}
	}
	return name, ""
}

// pickColumns returns some columns of a matrix.
func pickColumns(d *ir.Data, columns []int) (*ir.Data, error) {
	turned, err := transposed(d)
	if err == nil {
		turned, err = pick(turned, columns)
	}
	if err != nil {
		return nil, err
	}
	return transposed(turned)
}

// pick returns a matrix of the given rows of another, in their order. It returns an error for a row that does not
// exist.
func pick(d *ir.Data, rows []int) (*ir.Data, error) {
	out := &ir.Data{DType: d.DType, Dims: []int{len(rows), d.Dims[1]}}
	size := len(d.Bytes) / max(d.Dims[0], 1)
	out.Bytes = make([]byte, 0, size*len(rows))
	err := mmap.Guard(func() error {
		for _, row := range rows {
			if row < 0 || row >= d.Dims[0] {
				return fmt.Errorf("lora: row %d of %d", row, d.Dims[0])
			}
			out.Bytes = append(out.Bytes, d.Bytes[row*size:(row+1)*size]...)
		}
		return nil
	})
	return out, err
}
