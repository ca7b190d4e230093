package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/train"
)

// corpus is a list of texts as tokens. Each text begins with the token that begins a text.
type corpus struct {
	folder string
	tokens []int32
}

// hash identifies the content of a corpus.
func (c *corpus) hash() string {
	h := fnv.New64a()
	for _, token := range c.tokens {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(token)))
	}
	return fmt.Sprintf("of %d tokens, %016x", len(c.tokens), h.Sum64())
}

// readCorpus reads the files of a folder in the order of their names.
func readCorpus(t *tokenizer.Tokenizer, o options) (*corpus, error) {
	c := &corpus{folder: o.corpus}
	if c.folder == "" {
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("where is Go's source: %w: name a folder of texts with -corpus", err)
		}
		c.folder = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	files := 0
	err := filepath.WalkDir(c.folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !strings.HasSuffix(path, o.ext):
			return nil
		case o.files > 0 && files == o.files:
			return fs.SkipAll
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if bos, ok := t.BOS(); ok {
			c.tokens = append(c.tokens, bos)
		}
		c.tokens = append(c.tokens, t.Encode(string(text), tokenizer.Options{})...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("-corpus: %w", err)
	}
	if files == 0 {
		return nil, fmt.Errorf("no file in %s ends in %q: see -corpus and -ext", c.folder, o.ext)
	}
	if len(c.tokens) <= o.context {
		return nil, fmt.Errorf("%d tokens in %d files %s of %s: want more than %d, the -context", len(c.tokens), files,
			o.ext, c.folder, o.context)
	}
	return c, nil
}

// batch returns the batch of a step: texts from random positions, determined by seed and step.
func (c *corpus) batch(o options, step int) (*ir.Data, error) {
	rng := rand.New(rand.NewPCG(o.seed, uint64(step)))
	var ids []int32
	for range o.batch {
		at := rng.IntN(len(c.tokens) - o.context)
		ids = append(ids, c.tokens[at:at+o.context+1]...)
	}
	return vkc.Of(ids, o.batch, o.context+1)
}

// batches returns the batches of all steps.
func (c *corpus) batches(o options) train.Batches {
	return func(after int) iter.Seq2[vkc.Tensors, error] {
		return func(yield func(vkc.Tensors, error) bool) {
			for step := after; ; step++ {
				d, err := c.batch(o, step)
				if !yield(vkc.Tensors{"tokens": d}, err) {
					return
				}
			}
		}
	}
}

// export writes the first weights as weights.safetensors and the tokens of all steps, i32[steps, batch, context+1], as
// batches.safetensors.
func export(exe *vkc.Executable, c *corpus, o options) error {
	if err := os.MkdirAll(o.export, 0o755); err != nil {
		return err
	}
	all, err := ir.NewData(ir.I32, o.steps, o.batch, o.context+1)
	if err != nil {
		return err
	}
	all.Bytes = all.Bytes[:0]
	for step := range o.steps {
		d, err := c.batch(o, step)
		if err != nil {
			return err
		}
		all.Bytes = append(all.Bytes, d.Bytes...)
	}
	if err := train.Save(exe, filepath.Join(o.export, "weights.safetensors"), nil, nil); err != nil {
		return err
	}
	return safetensors.WriteFile(filepath.Join(o.export, "batches.safetensors"), nil,
		[]safetensors.Named{{Name: "tokens", Data: all}})
}
