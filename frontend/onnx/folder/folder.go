// Package folder opens folders of ONNX models as Transformers.js and onnxruntime-genai have them.
//
//	f, err := folder.Open("folder")
//	model, ports, err := f.Decoder(context, prompt)
//
// A folder has config.json or genai_config.json, tokenizer.json, and the model in the folder itself or in the folder
// onnx inside it. Folders are untrusted: the sizes of all files are bounded, and names may not leave the folder.
package folder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// Folder describes a model: its file, and what its configuration says.
type Folder struct {
	Path  string // the folder
	Model string // the ONNX file
	// Context is the number of positions that the model was trained for, or 0.
	Context int
	// Vocabulary is the number of tokens, or 0.
	Vocabulary int
	// Labels names the results of a classifier, or is nil. Several says that a text may have several labels, so that
	// the probabilities are independent.
	Labels  []string
	Several bool
	// Pooling says how a sentence encoder makes one vector of a text: mean, cls, last or max.
	Pooling string

	names genai // names of a language model's inputs and outputs, as far as the configuration has them
}

// subfolder is the folder, inside the model's folder, in which Transformers.js has ONNX files.
const subfolder = "onnx"

// Is reports whether path is a folder with an ONNX model, or the ONNX file in such a folder. It is false for a folder
// with safetensors, because vkc builds that model itself.
func Is(path string) bool {
	if strings.EqualFold(filepath.Ext(path), ".onnx") {
		return rootOf(path) != ""
	}
	return !has(path, "model.safetensors") && !has(path, "model.safetensors.index.json") && len(models(path)) > 0
}

// rootOf returns the folder with the configuration of a model's file, or "".
func rootOf(path string) string {
	dir := filepath.Dir(path)
	roots := []string{dir}
	if filepath.Base(dir) == subfolder {
		roots = append(roots, filepath.Dir(dir))
	}
	for _, root := range roots {
		if has(root, "config.json") || has(root, "genai_config.json") {
			return root
		}
	}
	return ""
}

func has(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && !info.IsDir()
}

// variants are the suffixes of models' names that say how the weights are rounded, the most precise first.
var variants = []string{"", "_fp16", "_quantized", "_int8", "_uint8", "_q8", "_q4f16", "_q4", "_bnb4"}

// parts are the names of models without a variant, the most useful first: decoder_model_merged can run every step.
var parts = []string{"decoder_model_merged", "model", "decoder_with_past_model", "decoder_model", "text_model",
	"encoder_model"}

// models lists the ONNX models of a folder and of its subfolder. Models with names from parts and variants come in the
// order of these. If there are none, it lists all models.
func models(folder string) (list []string) {
	for _, dir := range []string{folder, filepath.Join(folder, subfolder)} {
		for _, part := range parts {
			for _, v := range variants {
				if name := part + v + ".onnx"; has(dir, name) {
					list = append(list, filepath.Join(dir, name))
				}
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, dir := range []string{folder, filepath.Join(folder, subfolder)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if strings.EqualFold(filepath.Ext(e.Name()), ".onnx") && !e.IsDir() {
				list = append(list, filepath.Join(dir, e.Name()))
			}
		}
	}
	return list
}

// Open reads the configuration of a folder, or of the folder of a model. It does not open the model.
func Open(path string) (*Folder, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// open opens a folder, or the folder of an ONNX file. Its errors do not name the path; Open adds it.
func open(path string) (*Folder, error) {
	f := &Folder{Path: path, Pooling: "mean"}
	if strings.EqualFold(filepath.Ext(path), ".onnx") {
		f.Path, f.Model = rootOf(path), path
	}
	var c config
	var g genaiConfig
	found := false
	for name, to := range map[string]any{"config.json": &c, "genai_config.json": &g} {
		ok, err := f.read(name, to)
		if err != nil {
			return nil, err
		}
		found = found || ok
	}
	if !found {
		return nil, errors.New("there is neither config.json nor genai_config.json: want the folder of a model, with " +
			"one of them, the ONNX file and tokenizer.json")
	}
	f.names = g.Model.Decoder
	if name := f.names.Filename; f.Model == "" && name != "" {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("genai_config.json has the file name %q: want a file inside the folder", name)
		}
		f.Model = filepath.Join(f.Path, name)
	}
	if f.Model == "" {
		list := models(f.Path)
		if len(list) == 0 {
			return nil, fmt.Errorf("there is no ONNX model: want model.onnx, there or in the folder %s", subfolder)
		}
		f.Model = list[0]
	}
	if err := f.configure(c, g); err != nil {
		return nil, err
	}
	return f, f.readPooling()
}

// config is what vkc reads of config.json.
type config struct {
	Context        int               `json:"max_position_embeddings"`
	ContextGPT     int               `json:"n_positions"`
	Vocabulary     int               `json:"vocab_size"`
	Labels         map[string]string `json:"id2label"`
	Problem        string            `json:"problem_type"`
	EncoderDecoder bool              `json:"is_encoder_decoder"`
	Text           struct {
		Context    int `json:"max_position_embeddings"`
		Vocabulary int `json:"vocab_size"`
	} `json:"text_config"`
}

// genaiConfig is what vkc reads of genai_config.json.
type genaiConfig struct {
	Model struct {
		Context    int   `json:"context_length"`
		Vocabulary int   `json:"vocab_size"`
		Decoder    genai `json:"decoder"`
	} `json:"model"`
}

// genai has the names of a decoder's inputs and outputs in genai_config.json, by purpose. In names of keys and values,
// %d stands for the layer.
type genai struct {
	Filename string            `json:"filename"`
	Inputs   map[string]string `json:"inputs"`
	Outputs  map[string]string `json:"outputs"`
}

// Limits of what a folder says.
const (
	maxConfig = 16 << 20 // bytes of a file
	maxLabels = 1 << 20
	maxCount  = 1 << 30
)

// configure sets the sizes and labels of the model from config.json (c) and genai_config.json (g), and checks them.
func (f *Folder) configure(c config, g genaiConfig) error {
	if c.EncoderDecoder {
		return errors.New("the model has an encoder and a decoder (is_encoder_decoder): run each with vkc run")
	}
	f.Context = cmp.Or(g.Model.Context, c.Context, c.ContextGPT, c.Text.Context)
	f.Vocabulary = cmp.Or(g.Model.Vocabulary, c.Vocabulary, c.Text.Vocabulary)
	for name, n := range map[string]int{"positions": f.Context, "tokens": f.Vocabulary} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("the configuration has %d %s: want a number up to %d", n, name, maxCount)
		}
	}
	f.Several = c.Problem == "multi_label_classification"
	if len(c.Labels) > maxLabels {
		return fmt.Errorf("config.json has %d labels: want at most %d", len(c.Labels), maxLabels)
	}
	if len(c.Labels) == 0 {
		return nil
	}
	f.Labels = make([]string, len(c.Labels))
	for _, id := range slices.Sorted(maps.Keys(c.Labels)) {
		n, err := strconv.Atoi(id) // id2label has the numbers as strings
		if err != nil || n < 0 || n >= len(f.Labels) || f.Labels[n] != "" {
			return fmt.Errorf("config.json: id2label has %q for %d labels: want the numbers from 0 on", id,
				len(c.Labels))
		}
		f.Labels[n] = c.Labels[id]
	}
	return nil
}

// poolings has the settings of Sentence Transformers that vkc knows.
var poolings = map[string]string{"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls",
	"pooling_mode_lasttoken": "last", "pooling_mode_max_tokens": "max"}

// readPooling reads 1_Pooling/config.json. Without it the vector is the mean.
func (f *Folder) readPooling() error {
	var c map[string]any
	name := filepath.Join("1_Pooling", "config.json")
	if _, err := f.read(name, &c); err != nil {
		return err
	}
	var modes []string
	for key, v := range c {
		if on, _ := v.(bool); on && strings.HasPrefix(key, "pooling_mode_") {
			modes = append(modes, key)
		}
	}
	if len(modes) == 0 {
		return nil
	}
	f.Pooling = poolings[modes[0]]
	if len(modes) > 1 || f.Pooling == "" {
		slices.Sort(modes)
		return fmt.Errorf("%s asks for %s: want one of %s", name, strings.Join(modes, " and "),
			strings.Join(slices.Sorted(maps.Keys(poolings)), ", "))
	}
	return nil
}

// read reads a JSON file of the folder. ok is false if there is none.
func (f *Folder) read(name string, to any) (ok bool, err error) {
	file, err := inputfile.Open(filepath.Join(f.Path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxConfig)
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// Tokenizer returns the folder's tokenizer in the keys of GGUF files, for package tokenizer.
func (f *Folder) Tokenizer() (*gguf.File, error) {
	kvs, err := huggingface.Tokenizer(f.Path)
	if err == nil && kvs == nil {
		err = errors.New("there is no tokenizer.json")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return gguf.Of(kvs, nothing{}, func() error { return nil })
}

// nothing is a source of no tensors.
type nothing struct{}

func (nothing) Weight(name string) (*ir.Data, error) {
	return nil, fmt.Errorf("there is no weight %q", name)
}
func (nothing) WeightNames() []string { return nil }
func (nothing) WeightType(name string) (ir.DType, []int, error) {
	return ir.Invalid, nil, fmt.Errorf("there is no weight %q", name)
}
