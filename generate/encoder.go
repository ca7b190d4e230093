package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
)

// encoder is an embedding model that is an ONNX graph.
type encoder struct {
	file    *onnx.File
	ports   folder.Ports
	output  string // the name of the output that embeds a text
	whole   bool   // whether output has one vector for the text, not one for each token
	pooling string
}

// openEncoder opens a folder with an ONNX model of texts.
func openEncoder(ctx context.Context, path string, o Options) (_ *Embedder, err error) {
	if err := o.checkONNX(); err != nil {
		return nil, err
	}
	f, err := folder.Open(path)
	if err != nil {
		return nil, err
	}
	e := &Embedder{onnx: &encoder{pooling: f.Pooling}}
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("%s: %w", path, err)
		if e.onnx.file != nil {
			err = errors.Join(err, e.onnx.file.Close())
		}
		if e.model != nil {
			err = errors.Join(err, e.model.Close())
		}
	}()
	if e.model, err = prepareONNX(ctx, f, &o); err != nil {
		return nil, err
	}
	if e.onnx.file, e.onnx.ports, err = f.Build(e.model.context, 0, false); err != nil {
		return nil, err
	}
	if err := e.onnx.chooseOutput(); err != nil {
		return nil, err
	}
	if e.model.config.Vocab == 0 { // no output has logits
		e.model.config.Vocab = e.model.tok.Len()
	}
	e.model.weights = e.onnx.file
	if e.exe, err = e.model.load(ctx, e.onnx.file.Graph, o, nil); err != nil {
		return nil, err
	}
	return e, nil
}

// chooseOutput finds the output to embed a text with: the vector of the whole text, [1, width], or else the first
// output with a vector for each token, [1, T, width].
func (e *encoder) chooseOutput() error {
	for _, o := range e.file.Graph.Outputs() {
		switch rank := o.Node.Rank(); {
		case rank == 2 && (o.Name == "sentence_embedding" || o.Name == "text_embeds" || o.Name == "embeddings"):
			e.output, e.whole = o.Name, true
			return nil
		case rank == 3 && e.output == "":
			e.output = o.Name
		}
	}
	if e.output == "" {
		return errors.New("the model makes no embedding: want an output sentence_embedding [1, width], or one with a " +
			"vector for each token [1, T, width], such as last_hidden_state")
	}
	return nil
}

// embed returns the vector of a text.
func (e *encoder) embed(ctx context.Context, exe *vkc.Executable, tokens []int32) ([]float32, error) {
	in, err := e.ports.Inputs(e.file.Graph, tokens, 0)
	if err != nil {
		return nil, err
	}
	res, err := exe.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	all, err := floats(res.Outputs[e.output])
	if err != nil || e.whole {
		return all, err
	}
	return pooled(all, len(tokens), e.pooling)
}

// pooled makes one vector of the vectors of n tokens, which rows has in order: [n, width]. how is "cls" (the first
// token), "last", "max", or anything else for the mean.
func pooled(rows []float32, n int, how string) ([]float32, error) {
	if n == 0 || len(rows)%n != 0 || len(rows) == 0 {
		return nil, fmt.Errorf("generate: the model returns %d numbers for %d tokens: want a vector for each token",
			len(rows), n)
	}
	width := len(rows) / n
	switch how {
	case "cls":
		return slices.Clone(rows[:width]), nil
	case "last":
		return slices.Clone(rows[len(rows)-width:]), nil
	case "max":
		most := slices.Clone(rows[:width])
		for i, v := range rows[width:] {
			most[i%width] = float32(math.Max(float64(most[i%width]), float64(v)))
		}
		return most, nil
	}
	sums := make([]float64, width)
	for i, v := range rows {
		sums[i%width] += float64(v)
	}
	mean := make([]float32, width)
	for i, v := range sums {
		mean[i] = float32(v / float64(n))
	}
	return mean, nil
}
