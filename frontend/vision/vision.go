// Package vision builds the graphs of the vision towers of language models: a tower makes rows of a picture that take
// the place of embedded tokens. It reads a tower and its projector from an mmproj file, in llama.cpp's spelling.
//
//	f, err := gguf.Open("mmproj.gguf")
//	c, err := vision.FromGGUF(f)
//	p, err := vision.Decode(data)           // a PNG, JPEG, GIF, WebP or BMP
//	g, err := c.Fit(p.Width, p.Height, 256) // the grid of patches
//	t, err := c.Tile(p.Width, p.Height, g, 256) // what the tower reads
//	resize, err := c.Resize(p.Width, p.Height, g)
//	tower, err := c.Tower(256)
//
// The graph of Resize makes patches of a picture, and the graph of Tower makes rows of the patches. Each kind of
// projector has a row in the table projectors, and a source file. The package refuses a file with unknown weights,
// because a graph without them would compute something else.
package vision

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Config describes a vision tower and its projector. FromGGUF reads it from a file.
type Config struct {
	Projector string // clip.projector_type

	Layers, Width, Heads, FeedForward int

	ImageSize int // pixels of each side of the picture, if the projector has one size
	PatchSize int // pixels of each side of a patch
	Merge     int // a square of Merge*Merge patches makes one row
	Out       int // elements of a row, without Deepstack

	NormEps    float64
	Activation string // "gelu", "silu" or "quick_gelu"

	// A pixel's level of 0 to 1 becomes (level-Mean)/Deviation, for red, green and blue.
	Mean, Deviation [3]float64

	MinPixels, MaxPixels int // of a resized picture, if the projector has many sizes

	// LongestEdge is the longer side of a resized picture that is divided into squares; 0 for none. Pinpoints lists the
	// sizes [width, height] that a picture may get; see Tile.
	LongestEdge int
	Pinpoints   [][2]int

	// Features lists the layers with outputs that the projector gets, side by side; nil means the last one.
	Features []int

	// In all layers except every FullPeriod-th, patches attend only to their window of Window*Window pixels. FullPeriod
	// 0 means that there are no windows.
	FullPeriod, Window int

	// Deepstack lists the layers with outputs of their own. A row has their elements after its first Out ones. The
	// language model adds them to its residual stream after its first layers.
	Deepstack []int

	// Types has the dtype and shape of each weight, by name.
	Types map[string]ir.Type
}

// projector describes a kind of projector, and the tower that comes with it.
type projector struct {
	name  string // the value of clip.projector_type
	merge int    // Config.Merge of files that do not say

	// manySizes means that a picture keeps its proportions. Its sides are multiples of PatchSize*Merge pixels, with
	// minPixels to maxPixels in all. Otherwise it becomes a square.
	manySizes            bool
	minPixels, maxPixels int

	square Square // how a picture becomes a square
	cubic  bool   // pictures are resized by cubic filters, otherwise by linear ones

	rms    bool // norms are RMS norms
	rotary bool // queries and keys turn by the patch's row and column
	frames bool // the embedding of patches has two kernels, for two frames of a film: a picture is both

	marks Marks

	// tile divides a large picture; nil if the projector does not. whole is the view of all of it.
	tile func(c Config, width, height int, whole View) Tiling

	folder folder // the spelling in Hugging Face's folders

	// weights lists the projector's weights. project makes the rows of the tower's output x [P, Width*Features].
	weights func(c Config) []weightSpec
	project func(t tower, x frontend.Tensor) frontend.Tensor
}

// Marks are the texts around a picture in a prompt, in the vocabulary of the language model.
type Marks struct {
	// Placeholder is the text that chat templates have in a picture's place. Before and After take its place, with the
	// picture between them.
	Placeholder, Before, After string

	// Begin and End are around a picture in a prompt without a placeholder.
	Begin, End string
}

// Marks returns the texts around a picture.
func (c Config) Marks() Marks {
	p, _ := findProjector(c.Projector) // FromGGUF has found it
	return p.marks
}

// Square says how a picture of other proportions becomes a square.
type Square int

// The ways to make a square.
const (
	Stretched Square = iota
	Padded           // by the mean color
)

// projectors is the table of the projectors that FromGGUF supports.
var projectors = []projector{gemma3, idefics3, llava, qwen2VL, qwen25VL, qwen3VL}

// Projectors returns the values of clip.projector_type that FromGGUF reads, sorted.
func Projectors() []string {
	var names []string
	for _, p := range projectors {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// findProjector returns the projector of a name in clip.projector_type.
func findProjector(name string) (projector, error) {
	for _, p := range projectors {
		if p.name == name {
			return p, nil
		}
	}
	return projector{}, fmt.Errorf("projector %q is not supported: want one of %s", name,
		strings.Join(Projectors(), ", "))
}

// weightSpec describes a weight: its name, or with a suffix the name NAME.weight.
type weightSpec struct {
	name     string
	shape    ir.Shape
	bias     ir.Shape // of NAME.bias, which a file may lack; nil for no bias
	optional bool
	bare     bool // the full name is NAME
}

// full returns the weight's name in files. Most names end in ".weight".
func (w weightSpec) full() string {
	if w.bare {
		return w.name
	}
	return w.name + ".weight"
}

// matrix describes the weight of an nn.Linear from in to out elements, and its bias.
func matrix(name string, out, in int) weightSpec {
	return weightSpec{name: name, shape: ir.ShapeOf(out, in), bias: ir.ShapeOf(out)}
}

// norm returns the specification of the weight and the bias of a norm of n elements.
func norm(name string, n int) weightSpec {
	return weightSpec{name: name, shape: ir.ShapeOf(n), bias: ir.ShapeOf(n)}
}

// FromGGUF reads the description of a tower from an mmproj file. It checks that the file has every weight that the
// tower needs, in the right shape.
func FromGGUF(f *gguf.File) (Config, error) {
	r := &metadata{f: f}
	c, err := r.config()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return Config{}, fmt.Errorf("vision: %w", err)
	}
	return c, nil
}

// metadata reads keys, and collects errors.
type metadata struct {
	f   *gguf.File
	err error
}

// config reads the metadata of an mmproj file, and the types of its weights. Errors of single keys are collected, and
// returned at the end.
func (r *metadata) config() (c Config, err error) {
	if arch, err := r.f.String("general.architecture"); err != nil || arch != "clip" {
		return c, errors.Join(fmt.Errorf("general.architecture is %q: want clip, which an mmproj file has", arch), err)
	}
	if has, err := r.f.Bool("clip.has_vision_encoder"); err == nil && !has {
		return c, errors.New("the file has no vision tower: its clip.has_vision_encoder is false")
	}
	for _, key := range []string{"clip.projector_type", "clip.vision.projector_type"} {
		if name, err := r.f.String(key); err == nil && c.Projector == "" {
			c.Projector = name
		}
	}
	p, err := findProjector(c.Projector)
	if err != nil {
		return c, err
	}
	c.Layers, c.Width = r.size("block_count", 0), r.size("embedding_length", 0)
	c.Heads, c.FeedForward = r.size("attention.head_count", 0), r.size("feed_forward_length", 0)
	c.ImageSize, c.PatchSize = r.size("image_size", 0), r.size("patch_size", 0)
	c.NormEps = r.float("attention.layer_norm_epsilon")
	c.Mean, c.Deviation = r.colors("image_mean"), r.colors("image_std")
	c.Merge = r.size("projector.scale_factor", r.size("spatial_merge_size", p.merge))
	c.Activation = r.activation()
	// -1 marks an optional key, because size does not accept a default of 0.
	c.FullPeriod, c.Window = r.size("n_wa_pattern", -1), r.size("window_size", 112)
	c.FullPeriod = max(c.FullPeriod, 0)
	if p.manySizes {
		c.MinPixels, c.MaxPixels = r.size("image_min_pixels", p.minPixels), r.size("image_max_pixels", p.maxPixels)
	}
	if p.tile != nil {
		c.LongestEdge = r.size("preproc_image_size", -1)
		c.LongestEdge = max(c.LongestEdge, 0)
		c.Pinpoints = r.pinpoints(c.ImageSize)
	}
	r.layers(&c)
	c.Types = map[string]ir.Type{}
	for _, t := range r.f.Tensors() {
		c.Types[t.Name] = ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)}
	}
	return c, r.err
}

// layers reads which layers have outputs that the projector or the language model reads.
func (r *metadata) layers(c *Config) {
	if list, err := r.f.Ints("clip.vision.feature_layer"); err == nil {
		for _, i := range list {
			if i < 1 || i > int64(c.Layers) {
				r.fail("feature_layer", fmt.Errorf("is %d: want 1 to %d", i, c.Layers))
			}
			c.Features = append(c.Features, int(i))
		}
	}
	if list, ok := r.f.Lookup("clip.vision.is_deepstack_layers"); ok {
		flags, _ := list.([]bool)
		for i, deep := range flags {
			if deep {
				c.Deepstack = append(c.Deepstack, i)
			}
		}
	}
}

// pinpoints reads the sizes that a picture may get, in pairs of width and height.
func (r *metadata) pinpoints(side int) (sizes [][2]int) {
	list, err := r.f.Ints("clip.vision.image_grid_pinpoints")
	if err != nil {
		return nil
	}
	if len(list)%2 != 0 {
		r.fail("image_grid_pinpoints", fmt.Errorf("has %d numbers: want pairs", len(list)))
		return nil
	}
	for i, n := range list {
		if n < 1 || n > maxSide || n%int64(side) != 0 {
			r.fail("image_grid_pinpoints", fmt.Errorf("has %d: want multiples of %d up to %d", n, side, maxSide))
			return nil
		}
		if i%2 != 0 {
			sizes = append(sizes, [2]int{int(list[i-1]), int(n)})
		}
	}
	return sizes
}

// activation reads the activation of the feed-forward layers.
func (r *metadata) activation() string {
	for key, name := range map[string]string{"clip.use_gelu": "gelu", "clip.use_silu": "silu"} {
		if on, err := r.f.Bool(key); err == nil && on {
			return name
		}
	}
	return "quick_gelu"
}

func (r *metadata) fail(key string, err error) {
	r.err = errors.Join(r.err, fmt.Errorf("metadata %q %w", "clip.vision."+key, err))
}

// Bounds of numbers in a file.
const (
	maxSize    = 1 << 20 // of a width of the model
	maxPatches = 1 << 16 // of a picture
	maxRows    = 4096    // of a picture whose size varies
)

// size reads an integer from 1 to maxPixels. The bound is that large because some sizes count pixels. If the key is
// missing, size returns fallback, but a fallback of 0 makes that an error. After an error, which r.err then has, the
// result is 1.
func (r *metadata) size(key string, fallback int) int {
	n, err := r.f.Int("clip.vision." + key)
	switch {
	case errors.Is(err, gguf.ErrNoKey) && fallback != 0:
		return fallback
	case err != nil:
		r.err = errors.Join(r.err, err)
	case n < 1 || n > maxPixels:
		r.fail(key, fmt.Errorf("is %d: want 1 to %d", n, maxPixels))
	default:
		return int(n)
	}
	return 1
}

// float reads a number from 0 to less than 1. Errors are added to r.err.
func (r *metadata) float(key string) float64 {
	v, err := r.f.Float("clip.vision." + key)
	if err == nil && !(v >= 0 && v < 1) {
		err = fmt.Errorf("metadata %q is %v: want a number of 0 to 1", "clip.vision."+key, v)
	}
	r.err = errors.Join(r.err, err)
	return v
}

// colors reads a number for each of red, green and blue.
func (r *metadata) colors(key string) (c [3]float64) {
	list, err := r.f.Floats("clip.vision." + key)
	if err == nil && len(list) != 3 {
		err = fmt.Errorf("metadata %q has %d numbers: want 3, for red, green and blue", "clip.vision."+key, len(list))
	}
	r.err = errors.Join(r.err, err)
	if err != nil {
		return c
	}
	for i, v := range list {
		c[i] = float64(v)
		if !(math.Abs(c[i]) < 1e3) || key == "image_std" && !(v > 0) {
			r.fail(key, fmt.Errorf("has %v: want small numbers, and deviations above 0", v))
		}
	}
	return c
}

// check returns an error for a tower that vkc cannot compute: with numbers out of range, or without a weight. It also
// sets Out.
func (c *Config) check() error {
	p, err := findProjector(c.Projector)
	if err != nil {
		return err
	}
	block := c.PatchSize * c.Merge
	switch {
	case c.Layers > 1024 || c.Width > maxSize || c.FeedForward > maxSize || c.PatchSize > 1024 || c.Merge > 64:
		return fmt.Errorf("%d layers of %d elements, and %d patches of %d pixels to a side: want a vision tower",
			c.Layers, c.Width, c.Merge, c.PatchSize)
	case c.Width%c.Heads != 0:
		return fmt.Errorf("%d elements in %d heads: want a multiple", c.Width, c.Heads)
	case p.rotary && c.Width/c.Heads%4 != 0:
		return fmt.Errorf("heads of %d elements rotate in two directions: want a multiple of 4", c.Width/c.Heads)
	case !p.manySizes && (c.ImageSize%block != 0 || c.ImageSize > maxSide):
		return fmt.Errorf("pictures of %d pixels to a side, in blocks of %d: want a multiple, up to %d", c.ImageSize,
			block, maxSide)
	case !p.manySizes && c.side()*c.side() > maxPatches:
		return fmt.Errorf("pictures of %d*%[1]d patches: want at most %d in all", c.side(), maxPatches)
	case c.LongestEdge > maxEdge:
		return fmt.Errorf("pictures are resized to %d pixels: want at most %d", c.LongestEdge, maxEdge)
	case p.manySizes && (c.MinPixels > c.MaxPixels || c.MaxPixels < block*block):
		return fmt.Errorf("pictures of %d to %d pixels, in blocks of %[3]d*%[3]d: want room for one", c.MinPixels,
			c.MaxPixels, block)
	}
	for _, i := range c.Deepstack {
		if i >= c.lastLayer() {
			return fmt.Errorf("deepstack layer %d: there are %d layers", i, c.lastLayer())
		}
	}
	if t, ok := c.Types["v.position_embd.weight"]; ok && p.manySizes && len(t.Shape) == 2 {
		if side := tableSide(t); side < 1 || side*side != t.Shape[0].Static() {
			return fmt.Errorf("the table of positions is %s: want a square of places", t.Shape)
		}
	}
	c.Out = c.outputs()
	return c.checkWeights(p)
}

// outputs returns the number of rows of the projector's last matrix, or 0 without one.
func (c *Config) outputs() int {
	for _, name := range []string{"mm.2.weight", "mm.0.weight", "mm.input_projection.weight", "mm.model.fc.weight"} {
		if t, ok := c.Types[name]; ok && len(t.Shape) == 2 {
			if name == "mm.input_projection.weight" { // stored transposed
				return t.Shape[1].Static()
			}
			return t.Shape[0].Static()
		}
	}
	return 0
}

// checkWeights returns an error unless the file has just the weights that the tower needs, with their shapes.
func (c *Config) checkWeights(p projector) error {
	known := map[string]bool{}
	for _, w := range append(c.weights(p), p.weights(*c)...) {
		for name, shape := range map[string]ir.Shape{w.full(): w.shape, w.name + ".bias": w.bias} {
			if shape == nil {
				continue
			}
			known[name] = true
			have, ok := c.Types[name]
			switch isBias := strings.HasSuffix(name, ".bias"); {
			case !ok && (isBias || w.optional):
			case !ok:
				return fmt.Errorf("there is no weight %q, want %s", name, shape)
			case !have.Shape.Equal(shape):
				return fmt.Errorf("weight %q is %s: want %s", name, have.Shape, shape)
			case !have.DType.IsFloat() && !(have.DType.IsBlock() && len(shape) == 2):
				return fmt.Errorf("weight %q is %s: want a float type, or for a matrix a quantized one", name,
					have.DType)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Types)) {
		if !known[name] && !strings.HasPrefix(name, "a.") && !strings.HasPrefix(name, "mm.a.") { // of an audio tower
			return fmt.Errorf("weight %q: vkc does not know this weight in a tower of %d layers for projector %q, and "+
				"its graph would compute something else without it", name, c.Layers, c.Projector)
		}
	}
	return nil
}

// weights returns the weights that the tower needs or may have, without the projector's.
func (c *Config) weights(p projector) []weightSpec {
	kernel := ir.ShapeOf(c.Width, 3, c.PatchSize, c.PatchSize)
	list := []weightSpec{{name: "v.patch_embd", shape: kernel, bias: ir.ShapeOf(c.Width)}}
	if p.frames {
		list = append(list, weightSpec{name: "v.patch_embd.weight.1", shape: kernel, bare: true})
	}
	class := weightSpec{name: "v.class_embd", shape: ir.ShapeOf(c.Width), bare: true, optional: true}
	list = append(list, class)
	if t, ok := c.Types["v.position_embd.weight"]; ok && len(t.Shape) == 2 {
		n := t.Shape[0].Static() // of a table that is interpolated
		if !p.manySizes {
			n = c.side() * c.side()
			if _, ok := c.Types[class.name]; ok {
				n++ // the class has a position too
			}
		}
		list = append(list, weightSpec{name: "v.position_embd", shape: ir.ShapeOf(n, c.Width)})
	}
	for _, name := range []string{"v.pre_ln", "v.post_ln"} {
		w := norm(name, c.Width)
		w.optional = true
		list = append(list, w)
	}
	for i := range c.Layers {
		layer := c.layerWeights(fmt.Sprintf("v.blk.%d.", i))
		for j := range layer {
			layer[j].optional = i >= c.lastLayer() // the projector reads none of these layers
		}
		list = append(list, layer...)
	}
	return list
}

// lastLayer returns the number of layers that the projector needs.
func (c *Config) lastLayer() int {
	if len(c.Features) > 0 {
		return slices.Max(c.Features)
	}
	return c.Layers
}

// layerWeights lists the weights of a layer. blk is the prefix of their names.
func (c *Config) layerWeights(blk string) []weightSpec {
	list := []weightSpec{norm(blk+"ln1", c.Width), norm(blk+"ln2", c.Width),
		matrix(blk+"attn_out", c.Width, c.Width), matrix(blk+"ffn_up", c.FeedForward, c.Width),
		matrix(blk+"ffn_down", c.Width, c.FeedForward)}
	if _, gated := c.Types[blk+"ffn_gate.weight"]; gated {
		list = append(list, matrix(blk+"ffn_gate", c.FeedForward, c.Width))
	}
	if _, fused := c.Types[blk+"attn_qkv.weight"]; fused {
		return append(list, matrix(blk+"attn_qkv", 3*c.Width, c.Width)) // queries, keys and values in one matrix
	}
	return append(list, matrix(blk+"attn_q", c.Width, c.Width), matrix(blk+"attn_k", c.Width, c.Width),
		matrix(blk+"attn_v", c.Width, c.Width))
}

// side returns the number of patches of each side of a square picture.
func (c *Config) side() int { return c.ImageSize / c.PatchSize }

// RowWidth returns the number of elements of a row that the tower makes: Out, and Out for each layer of Deepstack.
func (c Config) RowWidth() int { return c.Out * (1 + len(c.Deepstack)) }

// ManySizes reports whether the number of rows depends on the picture.
func (c Config) ManySizes() bool {
	p, err := findProjector(c.Projector)
	return err == nil && p.manySizes
}

// Rows returns the number of rows that the tower makes of a picture. It is 1, the least, if it depends on the picture.
func (c Config) Rows() int {
	if c.ManySizes() {
		return 1
	}
	return c.side() / c.Merge * (c.side() / c.Merge)
}

// MaxRows bounds the number of rows that the tower makes of a picture.
func (c Config) MaxRows() int {
	if c.ManySizes() {
		return max(min(maxRows, maxPatches/c.Merge/c.Merge), 1)
	}
	return c.Rows()
}

// Grid is the number of rows and columns of a picture's patches. Both are multiples of Config.Merge.
type Grid struct{ Rows, Columns int }

// Merged returns the grid of the rows that the tower makes.
func (c Config) Merged(g Grid) Grid { return Grid{g.Rows / c.Merge, g.Columns / c.Merge} }

// Places returns the row and the column of each patch, in the order of the tower's input: square after square of
// Merge*Merge patches.
func (c Config) Places(g Grid) (rows, columns []int32) {
	for r := 0; r < g.Rows; r += c.Merge {
		for col := 0; col < g.Columns; col += c.Merge {
			for i := range c.Merge * c.Merge {
				rows = append(rows, int32(r+i/c.Merge))
				columns = append(columns, int32(col+i%c.Merge))
			}
		}
	}
	return rows, columns
}

// tower is a Config while a graph is built.
type tower struct {
	Config
	projector
	w             nn.Weights
	rows, columns frontend.Tensor // of each patch
	grid          frontend.Tensor // i32[2]; only with manySizes
}

// Tower returns the graph that computes rows from patches of a picture. Its inputs, for P patches, are:
//
//   - "patches" f32[P, 3*PatchSize*PatchSize], the normalized pixels of each: red ones first, then green and blue
//   - "rows" and "columns" i32[P], the patch's position in the picture, see Places
//   - "grid" i32[2], the numbers of rows and columns, only for projectors with many sizes
//
// Its output is "embeddings" f32[N, RowWidth], for N = P/(Merge*Merge). With many sizes N is a symbol, up to maxRows.
func (c Config) Tower(maxRows int) (*ir.Graph, error) {
	p, err := findProjector(c.Projector)
	if err != nil {
		return nil, fmt.Errorf("vision: %w", err)
	}
	return frontend.Build(c.Projector+" tower", func(b *frontend.Builder) {
		t := tower{Config: c, projector: p, w: nn.NewWeights(b, c.Types)}
		n := ir.D(c.side() * c.side())
		if p.manySizes {
			n = b.Sym("N", maxRows).Times(int64(c.Merge * c.Merge))
		}
		x := b.Input("patches", ir.F32, n, 3*c.PatchSize*c.PatchSize)
		t.rows, t.columns = b.Input("rows", ir.I32, n), b.Input("columns", ir.I32, n)
		if p.manySizes {
			t.grid = b.Input("grid", ir.I32, 2)
		}
		b.Output("embeddings", t.run(x))
	})
}

// run computes the tower for patches x, and returns rows [rows, RowWidth] for the language model. The rows are made
// from the results of one or several layers, which Features names.
func (t tower) run(x frontend.Tensor) frontend.Tensor {
	b := x.Builder()
	x = t.embed(x)
	if t.w.Sub("v.pre_ln").Has("weight") {
		x = t.norm(x, "v.pre_ln")
	}
	features, last := t.Features, t.lastLayer()
	if len(features) == 0 {
		features = []int{last}
	}
	outputs := map[int]frontend.Tensor{} // by the number of layers before
	var deep []frontend.Tensor
	for i := range last {
		x = t.layer(x, i)
		outputs[i+1] = x
		if slices.Contains(t.Deepstack, i) {
			deep = append(deep, t.deepstack(x, i))
		}
	}
	if t.w.Sub("v.post_ln").Has("weight") {
		outputs[last] = t.norm(x, "v.post_ln")
	}
	x = outputs[features[0]]
	for _, i := range features[1:] {
		x = x.Concat(1, outputs[i])
	}
	if t.hasClass() {
		x = x.Slice(0, 1, x.Dim(0)) // the projector does not read the class
	}
	x = t.project(t, x)
	if x.Rank() != 2 {
		b.Fail("vision", fmt.Errorf("projector %q makes %s", t.Projector, x.Shape()))
	}
	for _, more := range deep {
		x = x.Concat(1, more)
	}
	return x
}

// hasClass reports whether there is one more token before the patches.
func (t tower) hasClass() bool { _, ok := t.Types["v.class_embd"]; return ok }

// embed returns the embedded patches, with their learned positions.
func (t tower) embed(pixels frontend.Tensor) frontend.Tensor {
	// A convolution with windows that do not overlap is a matmul of patches.
	kernel := func(name string) frontend.Tensor {
		return pixels.MatMulT(t.w.Get(name).Cast(ir.F32).Reshape(t.Width, -1))
	}
	x := kernel("v.patch_embd.weight")
	if t.frames {
		// The model takes two frames of a video, and a picture is both of them.
		x = x.Add(kernel("v.patch_embd.weight.1"))
	}
	if bias := t.w.Optional("v.patch_embd.bias"); !bias.IsZero() {
		x = x.Add(bias.Cast(ir.F32))
	}
	position := t.w.Sub("v.position_embd")
	first := 0 // the position of the first patch
	if t.hasClass() {
		first = 1
		x = t.w.Get("v.class_embd").Cast(ir.F32).Reshape(1, t.Width).Concat(0, x)
	}
	switch {
	case !position.Has("weight"):
	case t.manySizes:
		x = x.Add(t.interpolated(position))
	default:
		at := t.rows.MulScalar(float64(t.side())).Add(t.columns).AddScalar(float64(first))
		if t.hasClass() {
			at = x.Builder().Const([]int32{0}).Concat(0, at)
		}
		x = x.Add(nn.Embedding(at, position, ir.F32))
	}
	return x
}

// interpolated returns learned positions of a picture of any size. The table is a square of places over the picture,
// corner on corner, and patches between the places interpolate linearly.
func (t tower) interpolated(table nn.Weights) frontend.Tensor {
	side := tableSide(t.Types["v.position_embd.weight"])
	along := func(at frontend.Tensor, axis int) (low, high, share frontend.Tensor) {
		most := t.grid.Slice(0, axis, ir.D(axis+1)).SubScalar(1).Max(at.Lit(1)).Cast(ir.F32)
		// Whole numbers come first, so that an exact position stays exact.
		x := at.MulScalar(float64(side - 1)).Cast(ir.F32).Div(most)
		low = x.Floor()
		return low.Cast(ir.I32), low.AddScalar(1).Min(x.Lit(float64(side - 1))).Cast(ir.I32), x.Sub(low).Unsqueeze(1)
	}
	top, bottom, down := along(t.rows, 0)
	left, right, across := along(t.columns, 1)
	at := func(row, column frontend.Tensor) frontend.Tensor {
		return nn.Embedding(row.MulScalar(float64(side)).Add(column), table, ir.F32)
	}
	mix := func(a, b, share frontend.Tensor) frontend.Tensor { return a.Add(b.Sub(a).Mul(share)) }
	return mix(mix(at(top, left), at(top, right), across), mix(at(bottom, left), at(bottom, right), across), down)
}

// tableSide returns the number of places on each side of a table of positions.
func tableSide(t ir.Type) int { return int(math.Sqrt(float64(t.Shape[0].Static()))) }

// norm normalizes x by the projector's kind of norm.
func (t tower) norm(x frontend.Tensor, name string) frontend.Tensor {
	if t.rms {
		return nn.RMSNorm(x, t.w.Sub(name), t.NormEps)
	}
	return nn.LayerNorm(x, t.w.Sub(name), t.NormEps)
}

// layer applies layer i to x [P, Width].
func (t tower) layer(x frontend.Tensor, i int) frontend.Tensor {
	blk := fmt.Sprintf("v.blk.%d.", i)
	w := t.w.Sub(fmt.Sprintf("v.blk.%d", i))
	h := t.norm(x, blk+"ln1")
	parts := make([]frontend.Tensor, 3) // queries, keys and values
	if w.Sub("attn_qkv").Has("weight") {
		copy(parts, nn.Linear(h, w.Sub("attn_qkv")).Split(1, t.Width, t.Width, t.Width))
	} else {
		for j, name := range []string{"attn_q", "attn_k", "attn_v"} {
			parts[j] = nn.Linear(h, w.Sub(name))
		}
	}
	for j, part := range parts {
		parts[j] = part.Reshape(x.Dim(0), t.Heads, t.Width/t.Heads).SwapAxes(0, 1)
	}
	q, k := parts[0], parts[1]
	if t.rotary {
		q, k = t.rotate(q), t.rotate(k)
	}
	var options []frontend.AttentionOption
	if t.FullPeriod > 0 && (i+1)%t.FullPeriod != 0 {
		// Only every FullPeriod-th layer attends to the whole picture, the others within windows.
		options = append(options, frontend.Mask(t.inWindow()))
	}
	y := q.Attention(k, parts[2], options...).SwapAxes(0, 1).Reshape(x.Dim(0), t.Width)
	x = x.Add(nn.Linear(y, w.Sub("attn_out")))
	return x.Add(t.feedForward(t.norm(x, blk+"ln2"), w))
}

// feedForward computes the feed-forward layer, gated if the file has ffn_gate.
func (t tower) feedForward(x frontend.Tensor, w nn.Weights) frontend.Tensor {
	h := nn.Linear(x, w.Sub("ffn_up"))
	if w.Sub("ffn_gate").Has("weight") {
		h = t.activate(nn.Linear(x, w.Sub("ffn_gate"))).Mul(h)
	} else {
		h = t.activate(h)
	}
	return nn.Linear(h, w.Sub("ffn_down"))
}

// activate applies the tower's activation.
func (t tower) activate(x frontend.Tensor) frontend.Tensor {
	switch t.Activation {
	case "gelu":
		return x.Gelu()
	case "silu":
		return x.Silu()
	}
	return x.Mul(x.MulScalar(1.702).Sigmoid()) // quick GELU
}

// rotate turns half of the pairs of each head by the patch's row, and half by its column.
func (t tower) rotate(x frontend.Tensor) frontend.Tensor {
	// A head has 2*quarter pairs. The first half of them turns by the row, and the second by the column.
	quarter := t.Width / t.Heads / 4
	radians, axes := make([]float64, 2*quarter), make([]int, 2*quarter)
	for i := range radians {
		radians[i] = math.Pow(10000, -float64(i%quarter)/float64(quarter))
		axes[i] = i / quarter
	}
	turns := frontend.RopeTurns(x.Builder().RopeTurns(radians))
	return nn.RopeAxes(x, []frontend.Tensor{t.rows, t.columns}, axes, frontend.RopeHalf(), turns)
}

// inWindow returns for each two patches [1, P, P] whether they are in the same window.
func (t tower) inWindow() frontend.Tensor {
	side := float64(t.Window / t.PatchSize / t.Merge * t.Merge)
	same := func(at frontend.Tensor) frontend.Tensor {
		window := at.Div(at.Lit(max(side, 1)))
		return window.Reshape(1, -1, 1).Eq(window.Reshape(1, 1, -1))
	}
	return same(t.rows).And(same(t.columns))
}

// deepstack makes the elements that a layer of Config.Deepstack adds to the rows, [N, Out], from the layer's output x.
func (t tower) deepstack(x frontend.Tensor, layer int) frontend.Tensor {
	w := t.w.Sub(fmt.Sprintf("v.deepstack.%d", layer))
	h := nn.LayerNorm(t.merged(x), w.Sub("norm"), t.NormEps)
	return nn.Linear(nn.Linear(h, w.Sub("fc1")).GeluErf(), w.Sub("fc2"))
}

// merged joins the patches of each square to one row: [N, Merge*Merge*Width].
func (t tower) merged(x frontend.Tensor) frontend.Tensor {
	return x.Reshape(-1, t.Merge*t.Merge*int(x.Dim(1).Max()))
}
