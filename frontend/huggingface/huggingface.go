// Package huggingface opens Hugging Face's model folders as GGUF files.
//
//	f, err := huggingface.Open("folder")
//	cfg, err := llm.FromGGUF(f)
//	tok, err := tokenizer.New(f)
//
// A folder has config.json, safetensors files and a tokenizer. Open translates all of them to GGUF's spelling: package
// llm translates the configuration and the names of tensors, and package tokenizer the tokenizer. So a folder is a GGUF
// file that is not written yet, and everything that takes a GGUF file takes the folder.
//
// Most tensors alias the mapped files. Some are made when they are asked for: rows in another order, experts in one
// tensor, numbers with a scale in another tensor. Weight computes such a tensor at each call, unless the tensor of an
// earlier call is still in use.
//
// Folders are untrusted: the sizes of all files are bounded, and names may not leave the folder.
package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// IsFolder reports whether path is a folder.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Open opens a model's folder. Tensors are valid until Close.
func Open(folder string) (*gguf.File, error) {
	f, err := open(folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return f, nil
}

// open opens a folder. Its errors do not name the folder; Open adds the name.
func open(folder string) (_ *gguf.File, err error) {
	config, stored, err := openStored(folder)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stored.file.Close())
		}
	}()
	translation, check, err := translate(folder, config, stored)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(folder)
	if whole, err := filepath.Abs(folder); err == nil {
		name = filepath.Base(whole)
	}
	metadata := append(translation.Metadata, gguf.KV{Key: "general.name", Value: name})
	more, err := readPooling(folder, translation.Architecture)
	if err != nil {
		return nil, err
	}
	metadata = append(metadata, more...)
	if more, err = Tokenizer(folder); err != nil {
		return nil, err
	}
	const alone = false // scales are weights of the model
	made, err := newMade(stored, translation, alone)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Of(append(metadata, more...), made, stored.file.Close)
	if err != nil {
		return nil, err
	}
	return f, check(f)
}

// openStored reads a folder's config.json, and opens its tensors. The caller closes them by s.file.
func openStored(folder string) (config []byte, s *stored, err error) {
	if config, err = read(folder, "config.json", maxConfig); err != nil {
		return nil, nil, err
	}
	if config == nil {
		return nil, nil, errors.New("there is no config.json: want a model's folder, with config.json, " +
			"model.safetensors and tokenizer.json")
	}
	file, err := openTensors(folder)
	if err != nil {
		return nil, nil, err
	}
	if s, err = newStored(file, config); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return config, s, nil
}

// translate translates the language model or speech model of a folder to the names and keys of GGUF files. It also
// returns a function that checks the resulting file.
func translate(folder string, config []byte, s *stored) (_ *llm.Folder,
	check func(f *gguf.File) error, err error) {
	if !speech.IsFolder(config) { // a language model
		translation, err := llm.FromFolder(config, s.linearTypes())
		return translation, func(f *gguf.File) error {
			c, err := llm.FromGGUF(f)
			if err != nil {
				return err
			}
			return translation.Check(c)
		}, err
	}
	files := speech.Folder{Config: config}
	for name, to := range map[string]*[]byte{"preprocessor_config.json": &files.Preprocessor,
		"generation_config.json": &files.Generation} {
		if *to, err = read(folder, name, maxConfig); err != nil {
			return nil, nil, err
		}
	}
	translation, err := files.Translate(s.types())
	return translation, func(f *gguf.File) error {
		_, err := speech.FromGGUF(f)
		return err
	}, err
}

// Limits of the sizes of files, in bytes.
const (
	maxConfig    = 4 << 20
	maxTokenizer = 512 << 20
)

// read returns the contents of a file in the folder, or nil if there is none.
func read(folder, name string, limit int64) ([]byte, error) {
	data, err := inputfile.ReadAtMost(filepath.Join(folder, name), limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && int64(len(data)) > limit:
		err = fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	if name == "config.json" {
		data = quoteInfinities(data) // transformers writes Infinity, which is not JSON
	}
	return data, err
}

// infinity matches a text of JSON, or a number that Python writes and JSON does not have.
var infinity = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity\b|NaN\b`)

// quoteInfinities makes texts of the numbers Infinity, -Infinity and NaN.
func quoteInfinities(data []byte) []byte {
	return infinity.ReplaceAllFunc(data, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return slices.Concat([]byte{'"'}, found, []byte{'"'})
	})
}

// tensorFile is the interface of one safetensors file and of several with an index.
type tensorFile interface {
	Names() []string
	HasWeight(name string) bool
	Weight(name string) (*ir.Data, error)
	Close() error
}

// openTensors opens the folder's safetensors: one file, or several with an index.
func openTensors(folder string) (tensorFile, error) {
	index := filepath.Join(folder, "model.safetensors.index.json")
	if exists(index) {
		return opened(safetensors.OpenIndex(index))
	}
	one := filepath.Join(folder, "model.safetensors")
	if exists(one) {
		return opened(safetensors.Open(one))
	}
	list, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*.safetensors"))
	if err == nil && len(list) == 1 {
		return opened(safetensors.Open(list[0]))
	}
	why := "there is no model.safetensors and no model.safetensors.index.json"
	for _, name := range []string{"pytorch_model.bin", "pytorch_model.bin.index.json"} {
		if exists(filepath.Join(folder, name)) {
			why = "the weights are in " + name + ", which may run programs when it is read"
		}
	}
	for _, pattern := range []string{"*.onnx", filepath.Join("onnx", "*.onnx")} {
		if list, err := filepath.Glob(filepath.Join(escapeGlob(folder), pattern)); err == nil && len(list) > 0 {
			return nil, errors.New("the model is an ONNX graph: only vkc generate, embed, run and compile take it")
		}
	}
	return nil, fmt.Errorf("%s: want safetensors", why)
}

// opened returns a nil interface after an error, not an interface with a nil pointer in it.
func opened[T tensorFile](f T, err error) (tensorFile, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// escapeGlob makes the special characters of patterns stand for themselves.
func escapeGlob(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// Tokenizer translates the files of a folder's tokenizer to the keys of GGUF files: tokenizer.json,
// tokenizer_config.json, special_tokens_map.json, generation_config.json and the chat templates. It returns nil if
// there is no tokenizer.json.
func Tokenizer(folder string) ([]gguf.KV, error) {
	var files tokenizer.Folder
	var err error
	for name, to := range map[string]*[]byte{"tokenizer.json": &files.Tokenizer,
		"tokenizer_config.json": &files.Config, "special_tokens_map.json": &files.Special,
		"generation_config.json": &files.Generation, "chat_template.jinja": &files.Template,
		"chat_template.json": &files.TemplateJSON, "config.json": &files.Model} {
		if *to, err = read(folder, name, maxTokenizer); err != nil {
			return nil, err
		}
	}
	if files.Tokenizer == nil {
		if files.Tokenizer, err = readVocabulary(folder, files.Config); err != nil {
			return nil, err
		}
	}
	if files.Tokenizer == nil { // RWKV's tokenizer World has a file of its own
		if files.World, err = readWorld(folder); err != nil {
			return nil, err
		}
	}
	if files.Tokenizer == nil && files.World == nil {
		if exists(filepath.Join(folder, "tokenizer.model")) {
			return nil, errors.New("the tokenizer is only in tokenizer.model: want tokenizer.json, which " +
				"transformers writes with AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)")
		}
		return nil, nil
	}
	files.Templates = map[string][]byte{}
	list, err := filepath.Glob(filepath.Join(escapeGlob(folder), "additional_chat_templates", "*.jinja"))
	if err != nil {
		return nil, err
	}
	for _, path := range list[:min(len(list), maxTemplates)] {
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		if files.Templates[name], err = read(filepath.Dir(path), filepath.Base(path), maxConfig); err != nil {
			return nil, err
		}
	}
	return files.Metadata()
}

// readWorld returns the vocabulary of RWKV's models, or nil if the folder has none.
func readWorld(folder string) ([]byte, error) {
	list, err := filepath.Glob(filepath.Join(escapeGlob(folder), "rwkv_vocab_*.txt"))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if len(list) > 1 {
		return nil, fmt.Errorf("there are %d vocabularies rwkv_vocab_*.txt: want one", len(list))
	}
	return read(folder, filepath.Base(list[0]), maxTokenizer)
}

// maxTemplates is the number of named chat templates that are read.
const maxTemplates = 64

// readPooling returns the metadata of the pooling by which Sentence Transformers makes one vector of a text, or nil if
// modules.json names none. It returns an error for modules that are not supported.
func readPooling(folder, architecture string) ([]gguf.KV, error) {
	data, err := read(folder, "modules.json", maxConfig)
	if data == nil || err != nil {
		return nil, err
	}
	var modules []struct{ Path, Type string }
	if err := json.Unmarshal(data, &modules); err != nil {
		return nil, fmt.Errorf("modules.json: %w", err)
	}
	var all []gguf.KV
	for _, m := range modules {
		switch kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]; kind {
		case "Transformer", "Normalize":
		case "Pooling":
			number, err := poolingOf(folder, m.Path)
			if err != nil {
				return nil, err
			}
			all = append(all, gguf.KV{Key: architecture + ".pooling_type", Value: number})
		default:
			return nil, fmt.Errorf("modules.json has a module %q, which is not supported: want Transformer, Pooling "+
				"and Normalize", kind)
		}
	}
	return all, nil
}

// poolings lists the settings of Sentence Transformers by GGUF's number of the pooling.
var poolings = []string{"", "pooling_mode_mean_tokens", "pooling_mode_cls_token", "pooling_mode_lasttoken"}

// poolingOf returns GGUF's number of the pooling for which config.json asks, in a folder inside the model's.
func poolingOf(folder, inner string) (uint32, error) {
	if !filepath.IsLocal(inner) {
		return 0, fmt.Errorf("modules.json has the path %q: want a folder inside the model's", inner)
	}
	data, err := read(filepath.Join(folder, inner), "config.json", maxConfig)
	if err != nil {
		return 0, err
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		return 0, fmt.Errorf("%s/config.json: %w", inner, err)
	}
	var on []string
	for key, v := range config {
		if v == true && strings.HasPrefix(key, "pooling_mode_") {
			on = append(on, key)
		}
	}
	slices.Sort(on)
	if len(on) == 1 {
		if number := slices.Index(poolings, on[0]); number > 0 {
			return uint32(number), nil
		}
	}
	return 0, fmt.Errorf("%s/config.json asks for the poolings %q: want one of %s", inner, on,
		strings.Join(poolings[1:], ", "))
}
