package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// handler is a server of one model or several.
type handler interface {
	http.Handler
	Drain()
	Wait()
	Cut() int
}

// severalModels lets --model be given several times, and declares the flags for several models.
func (f *serveFlags) severalModels(flags *pflag.FlagSet) {
	list := pflag.NewFlagSet("", pflag.ContinueOnError)
	list.StringArrayVar(&f.models, "model", nil, "")
	model := flags.Lookup("model")
	model.Value, model.DefValue = list.Lookup("model").Value, "[]"
	model.Usage += "; may be repeated, or a folder of models: vkc serve loads each when a request names it"
	flags.IntVar(&f.limits.Models, "models-max", 0, "with several models: keep at most `N` loaded, and unload the one "+
		"that was idle longest; 0 means as many as fit")
	flags.DurationVar(&f.limits.Idle, "models-idle", 0, "with several models: unload a model without requests for "+
		"this `TIME`; 0 means never")
}

// partOfModel matches the files of a model in parts, with the number of the part.
var partOfModel = regexp.MustCompile(`-(\d{5})-of-\d{5}\.gguf$`)

// modelFiles replaces folders of models in a list by the models.
func modelFiles(list []string) (files []string, err error) {
	for _, path := range list {
		entries, err := os.ReadDir(path)
		if len(list) > 1 && errors.Is(err, fs.ErrNotExist) { // or only a request would find that out
			return nil, fmt.Errorf("model %s: %w", path, err)
		}
		if err != nil || isModelFolder(path) { // a file, or an error that opening it explains
			files = append(files, path)
			continue
		}
		found := false
		for _, e := range entries {
			one := filepath.Join(path, e.Name())
			if !e.IsDir() && isModelFile(e.Name()) || isModelFolder(one) {
				files, found = append(files, one), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s: the folder has no models: want files .gguf, .vkb or ggml-NAME.bin, or folders "+
				"with config.json", path)
		}
	}
	var names []string // requests name models, so the names must differ
	for _, path := range files {
		if slices.Contains(names, modelName(path)) {
			return nil, usagef("-m %s: another model has the name %s too: want files with different names", path,
				modelName(path))
		}
		names = append(names, modelName(path))
	}
	return files, nil
}

// isModelFile reports whether a file is a model, by its name: a GGUF file, a bundle, or a file of whisper.cpp. For a
// model in several GGUF files it is true for the first one only, and for a vision tower it is false.
func isModelFile(name string) bool {
	switch filepath.Ext(name) {
	case ".gguf":
		part := partOfModel.FindStringSubmatch(name)
		return (part == nil || part[1] == "00001") && !generate.IsProjector(name)
	case ".vkb":
		return !generate.IsProjector(name)
	case ".bin":
		return strings.HasPrefix(name, "ggml-") && !generate.IsProjector(name)
	}
	return false
}

// isModelFolder reports whether a folder is a model of Hugging Face or of onnxruntime-genai.
func isModelFolder(path string) bool {
	return slices.ContainsFunc([]string{"config.json", "genai_config.json"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(path, name))
		return err == nil
	})
}

// modelEnds are the ends of names of model files.
var modelEnds = []string{".gguf", ".vkb", ".bin", ".onnx"}

// modelName returns the name of a model in requests: the name of its file or folder.
func modelName(path string) string {
	name := filepath.Base(path)
	for _, end := range modelEnds {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// handler returns a server of the models, and closes them by the second result. A single model is loaded at once. Of
// several, each is loaded at its first request.
func (f *serveFlags) handler(ctx context.Context, a *app) (h handler, closer io.Closer, err error) {
	if len(f.models) < 2 {
		m, s, err := f.load(ctx, a)
		return s, m, err
	}
	f.model.path = f.models[0]
	if err := f.model.check("serve"); err != nil {
		return nil, nil, err
	}
	var one sync.Mutex // a terminal shows the progress of one model
	var sources []serve.Source
	for _, path := range f.models {
		sources = append(sources, serve.Source{Name: modelName(path),
			Open: func(ctx context.Context, o serve.Options) (*serve.Server, io.Closer, error) {
				one.Lock()
				defer one.Unlock()
				own := *f
				own.model.path, own.serve = path, o
				m, s, err := own.load(ctx, a)
				return s, m, err
			}})
	}
	s := serve.NewSeveral(sources, f.serve, f.limits)
	return s, s, nil
}
