package vision

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/texttable"
	"github.com/vkc-go/vkc/ir"
)

// folder says how Hugging Face's folders spell a tower.
type folder struct {
	// classes lists the values of "architectures" in config.json, separated by spaces. A projector without classes has
	// no folders.
	classes string

	// weights has a line for each weight: the name in mmproj files, the folder's, and a change. N stands for the number
	// of a layer, and D for the layers of Config.Deepstack, which the folder numbers from 0. The first line tells the
	// prefix of all names.
	weights string

	// keys has a line for each size: the key in mmproj files, and the key of vision_config.
	keys string

	// set sets further metadata.
	set func(c *folderConfig)
}

// folderKeys are the sizes that most towers share.
const folderKeys = `
embedding_length     hidden_size
feed_forward_length  intermediate_size
block_count          num_hidden_layers depth
attention.head_count num_attention_heads num_heads
patch_size           patch_size
image_size           image_size
`

// Changes in the lines of folder.weights.
const (
	firstFrame  = "first-frame"
	secondFrame = "second-frame"
	plusOne     = "plus-one"
	parameter   = "parameter" // the folder's name has no suffix .weight
)

// folderConfig is the translation of a folder's configuration.
type folderConfig struct {
	top, vision, preprocessor map[string]any
	set                       map[string]any // metadata, without clip.vision.
	deepstack                 []int
	err                       error
}

// HasFolder reports whether config.json describes a model with a vision tower that FromFolder translates.
func HasFolder(config []byte) bool {
	c, _, err := readFolder(config, nil)
	return err == nil && c != nil
}

// FromFolder translates the vision tower of a Hugging Face folder to the spelling of mmproj files. config and
// preprocessor are the folder's config.json and preprocessor_config.json, which may be nil. tensors has the types of
// the folder's tensors.
func FromFolder(config, preprocessor []byte, tensors map[string]ir.Type) (*llm.Folder, error) {
	c, p, err := readFolder(config, preprocessor)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("config.json: the model has no vision tower that vkc supports: want one of %s",
			strings.Join(folderClasses(), ", "))
	}
	keys := texttable.ByFirst(folderKeys)
	maps.Copy(keys, texttable.ByFirst(p.folder.keys))
	for key, names := range keys {
		for _, name := range names[0] {
			if c.vision[name] != nil {
				c.set[key] = uint32(c.number(c.vision, name))
				break
			}
		}
	}
	c.set["attention.layer_norm_epsilon"] = float32(1e-6) // the default of the folders' classes
	if c.vision["layer_norm_eps"] != nil {
		c.set["attention.layer_norm_epsilon"] = float32(c.number(c.vision, "layer_norm_eps"))
	}
	p.folder.set(c)
	for _, key := range []string{"image_mean", "image_std"} {
		if list := c.floats(c.preprocessor[key]); list != nil {
			c.set[key] = list
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	f := &llm.Folder{Architecture: "clip", Metadata: []gguf.KV{{Key: "general.architecture", Value: "clip"},
		{Key: "clip.projector_type", Value: p.name}, {Key: "clip.has_vision_encoder", Value: true}}}
	for _, key := range slices.Sorted(maps.Keys(c.set)) {
		name := "clip.vision." + key
		if strings.HasPrefix(key, "use_") {
			name = "clip." + key
		}
		f.Metadata = append(f.Metadata, gguf.KV{Key: name, Value: c.set[key]})
	}
	layers, _ := c.set["block_count"].(uint32)
	// The number comes from a file, and the next step makes rows for each layer.
	if layers > 1024 {
		return nil, fmt.Errorf("config.json: %d layers in vision_config: want a vision tower", layers)
	}
	f.Weights = c.weights(p, int(layers), tensors)
	return f, nil
}

// readFolder parses the files of a folder, and finds the projector of its class. It returns nil if vkc supports no
// vision tower of that class.
func readFolder(config, preprocessor []byte) (c *folderConfig, p projector, err error) {
	c = &folderConfig{set: map[string]any{}}
	for name, file := range map[string]struct {
		data []byte
		into *map[string]any
	}{"config.json": {config, &c.top}, "preprocessor_config.json": {preprocessor, &c.preprocessor}} {
		if file.data == nil {
			continue
		}
		d := json.NewDecoder(strings.NewReader(string(file.data)))
		d.UseNumber() // keeps large integers exact
		if err := d.Decode(file.into); err != nil {
			return nil, projector{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	c.vision, _ = c.top["vision_config"].(map[string]any)
	list, _ := c.top["architectures"].([]any)
	for _, p := range projectors {
		for _, class := range list {
			name, ok := class.(string)
			if ok && c.vision != nil && slices.Contains(strings.Fields(p.folder.classes), name) {
				return c, p, nil
			}
		}
	}
	return nil, projector{}, nil
}

// folderClasses lists the model classes of Hugging Face folders that vkc can read, in alphabetical order.
func folderClasses() (list []string) {
	for _, p := range projectors {
		list = append(list, strings.Fields(p.folder.classes)...)
	}
	slices.Sort(list)
	return list
}

// number returns the number at a key. It records an error unless the number is 0 to maxPixels.
func (c *folderConfig) number(in map[string]any, key string) float64 {
	n, _ := in[key].(json.Number)
	v, err := n.Float64()
	if err != nil || !(v >= 0 && v <= maxPixels) {
		c.fail("%q of config.json is %.40s: want a number of 0 to %d", key, fmt.Sprint(in[key]), maxPixels)
		return 0
	}
	return v
}

// floats converts a JSON list of numbers. It returns nil if the value is no list, or if an element is no number.
func (c *folderConfig) floats(value any) (all []float32) {
	list, _ := value.([]any)
	for _, one := range list {
		n, _ := one.(json.Number)
		v, err := n.Float64()
		if err != nil {
			return nil
		}
		all = append(all, float32(v))
	}
	return all
}

// integers returns the numbers of a list in vision_config.
func (c *folderConfig) integers(key string) (all []int) {
	for _, v := range c.floats(c.vision[key]) {
		all = append(all, int(v))
	}
	return all
}

func (c *folderConfig) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("config.json: "+format, args...)
	}
}

// want refuses another value of a key in vision_config.
func (c *folderConfig) want(key, value string) {
	if have, ok := c.vision[key].(string); ok && have != value {
		c.fail("%q of vision_config is %q: want %q", key, have, value)
	}
}

// pixels sets the bounds of a resized picture, if the folder has them.
func (c *folderConfig) pixels() {
	size, _ := c.preprocessor["size"].(map[string]any)
	for key, names := range map[string][2]string{"image_min_pixels": {"min_pixels", "shortest_edge"},
		"image_max_pixels": {"max_pixels", "longest_edge"}} {
		if c.preprocessor[names[0]] != nil {
			c.set[key] = uint32(c.number(c.preprocessor, names[0]))
		} else if size[names[1]] != nil {
			c.set[key] = uint32(c.number(size, names[1]))
		}
	}
}

// weights returns for each weight of the tower the tensors of the folder that it is made from. A row of the projector's
// table has vkc's name, the folder's name, and a change. N in a name stands for the number of a layer. D stands for an
// entry of deepstack: for the entry's index in the folder's name, and for the entry, a layer, in vkc's name.
func (c *folderConfig) weights(p projector, layers int, tensors map[string]ir.Type) (all []llm.Origin) {
	prefix, found := "", false
	for line := range strings.Lines(p.folder.weights) {
		fields := append(strings.Fields(line), "", "", "") // absent fields are empty
		ours, theirs, change := fields[0], fields[1], fields[2]
		if ours == "" {
			continue
		}
		if !found {
			prefix, found = prefixOf(theirs, tensors), true
		}
		times := 1
		if strings.Contains(ours, "N") {
			times = layers
		} else if strings.Contains(ours, "D") {
			times = len(c.deepstack)
		}
		for i := range times {
			number, own := strconv.Itoa(i), strconv.Itoa(i)
			if len(c.deepstack) > i {
				own = strconv.Itoa(c.deepstack[i])
			}
			from := prefix + strings.ReplaceAll(strings.ReplaceAll(theirs, "N", number), "D", number)
			name := strings.ReplaceAll(strings.ReplaceAll(ours, "N", number), "D", own)
			all = append(all, origins(name, from, change, tensors)...)
		}
	}
	return all
}

// prefixOf returns the prefix of a folder's tensor names: the text before the given name.
func prefixOf(name string, tensors map[string]ir.Type) string {
	for _, have := range slices.Sorted(maps.Keys(tensors)) {
		before, ok := strings.CutSuffix(have, name+".weight")
		if ok && (before == "" || strings.HasSuffix(before, ".")) {
			return before
		}
	}
	return ""
}

// origins returns how a weight of the tower and its bias are made from the folder's tensors, if the folder has them.
// change names what differs, such as one frame of a kernel for two.
func origins(name, from, change string, tensors map[string]ir.Type) (list []llm.Origin) {
	for _, suffix := range []string{".weight", ".bias"} {
		o := llm.Origin{Name: name + suffix, From: []string{from + suffix}}
		switch {
		case change == parameter:
			o.From[0] = from
		case change == plusOne && suffix == ".weight":
			o.Change = func(_ int, v float64) float64 { return v + 1 }
		}
		if (change == firstFrame || change == secondFrame) && suffix == ".weight" {
			frame := 0
			if change == secondFrame {
				o.Name, frame = name, 1
			}
			// Kernels are [out, 3, frames, height, width].
			o.Rows, o.RowAxis = func(int) []int { return []int{frame} }, 2
			if dims, err := tensors[o.From[0]].Shape.Eval(nil); err == nil && len(dims) > 2 {
				o.Dims = slices.Delete(dims, 2, 3)
			}
		} else if change == secondFrame {
			continue // the bias is the first frame's
		}
		if _, ok := tensors[o.From[0]]; ok && (change != parameter || suffix == ".weight") {
			list = append(list, o)
		}
	}
	return list
}

// merge returns the side, in patches, of the squares that the projector makes one row each of. rows is the number of
// rows of a picture of image_size pixels to a side.
func (c *folderConfig) merge(rows float64) int {
	image, _ := c.set["image_size"].(uint32)
	patch, _ := c.set["patch_size"].(uint32)
	if image == 0 || patch == 0 || rows < 1 {
		return 1
	}
	return max(int(float64(image/patch)/math.Sqrt(rows)), 1)
}
