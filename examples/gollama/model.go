package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
)

// graphJSON is the graph of the model in this folder. vkc graph made it.
//
//go:embed graph.json
var graphJSON []byte

// modelFile is the model in this folder.
const modelFile = "gollama-q8_0.gguf"

// maxTokens is the longest prompt, as in graph.json.
const maxTokens = 512

// model is a GGUF file with its graph and its tokenizer.
type model struct {
	file      *gguf.File
	path      string
	config    llm.Config
	graph     *ir.Graph
	tokenizer *tokenizer.Tokenizer
}

// openModel opens the model at path, or the one in this folder if path is empty. The graph of the latter is
// graph.json. The graph of any other model is built from its file.
func openModel(path string) (m *model, err error) {
	here := path == ""
	if here {
		if path, err = findModel(); err != nil {
			return nil, err
		}
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	m = &model{file: f, path: path}
	if err := m.read(here); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// findModel looks for the model in the repository's root and in this folder.
func findModel() (string, error) {
	for _, path := range []string{filepath.Join("examples", "gollama", modelFile), modelFile} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("examples/gollama/%s: %w: run this in the root of the repository, or name a model with -gguf",
		modelFile, fs.ErrNotExist)
}

// read reads the model's settings and tokenizer, and its graph. here means the model in this folder.
func (m *model) read(here bool) (err error) {
	if m.config, err = llm.FromGGUF(m.file); err != nil {
		return err
	}
	if here {
		m.graph, err = ir.ReadJSON("graph.json", graphJSON)
	} else {
		m.graph, err = llm.Prefill(m.config, min(maxTokens, m.config.Context))
	}
	if err != nil {
		return err
	}
	m.tokenizer, err = tokenizer.New(m.file)
	return err
}

func (m *model) close() { m.file.Close() }

// weightType returns the dtype of the matrices.
func (m *model) weightType() ir.DType { return m.config.Types["token_embd.weight"].DType }

// describe returns a line about the model.
func (m *model) describe() string {
	var params int64
	for _, t := range m.config.Types {
		params += t.Shape.MaxElems()
	}
	return fmt.Sprintf("%s: %d layers of width %d, %.1f M parameters, %s (%s)", m.config.Name,
		m.config.Layers, m.config.Width,
		float64(params)/1e6, m.weightType(), m.path)
}

// tolerance is the allowed difference of the 16 largest logits from the logits in reference.json, which come from f16
// weights. It is 0 if unknown. Q8_0 changes a logit by at most 0.16 in these prompts.
func (m *model) tolerance() float64 {
	switch m.weightType() {
	case ir.F16:
		return 2e-2
	case ir.Q8_0:
		return 0.2
	}
	return 0
}
