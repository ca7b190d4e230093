package generate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// Embedder is a loaded embedding model: it maps texts of similar meaning to vectors of similar direction. Several
// goroutines may use it.
//
//	e, err := generate.OpenEmbedder(ctx, "model.gguf", generate.Options{})
//	defer e.Close()
//	v, err := e.Embed(ctx, e.Tokenizer().Encode("a text", tokenizer.Options{Whole: true}))
//	v = generate.Unit(v)
type Embedder struct {
	model *Model // without programs
	exe   *vkc.Executable
	onnx  *encoder // nil for a model that vkc builds
}

// IsEmbedder reports whether the file or folder at path is an embedding model: a GGUF file with a pooling in its
// metadata, or a folder with an ONNX model that is no decoder. It returns false for a bundle.
func IsEmbedder(path string) (bool, error) {
	if bundle, err := IsBundle(path); bundle || err != nil {
		return false, err
	}
	if folder.Is(path) {
		decoder, err := IsDecoder(path)
		return !decoder, err
	}
	f, err := vkc.OpenModel(path)
	if err != nil {
		return false, err
	}
	c, err := llm.FromGGUF(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c.Pooling != "", errors.Join(err, f.Close())
}

// OpenEmbedder reads a model and compiles it for a device. Options.Context is the maximum length of a text;
// Options.Cache is ignored.
func OpenEmbedder(ctx context.Context, path string, o Options) (*Embedder, error) {
	o.AdapterScales = false // an embedder has no options for a single text
	if folder.Is(path) {
		return openEncoder(ctx, path, o)
	}
	m, err := prepare(ctx, path, &o)
	if err != nil {
		return nil, err
	}
	e := &Embedder{model: m}
	graph := llm.Embedding
	if e.Ranks() {
		graph = llm.Ranking
	}
	g, err := graph(m.config, m.context)
	if err == nil {
		e.exe, err = m.load(ctx, g, o, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	return e, nil
}

// Close releases the model.
func (e *Embedder) Close() error {
	err := errors.Join(e.exe.Close(), e.model.Close())
	if e.onnx != nil {
		err = errors.Join(err, e.onnx.file.Close())
	}
	return err
}

// Tokenizer returns the model's tokenizer.
func (e *Embedder) Tokenizer() *tokenizer.Tokenizer { return e.model.tok }

// Context returns how many tokens a text may have.
func (e *Embedder) Context() int { return e.model.context }

// Why names the model's device, and the reason for its choice.
func (e *Embedder) Why() string { return e.exe.Why() }

// Embed returns the vector of a text's tokens, including the tokens that begin and end a text. The vector is not
// normalized: see Unit.
func (e *Embedder) Embed(ctx context.Context, tokens []int32) ([]float32, error) {
	if e.Ranks() {
		return nil, errors.New("generate: the model rates pairs of texts and makes no embeddings: use Rank, or " +
			"/v1/rerank of a server")
	}
	return e.run(ctx, tokens, vkc.Tensors{}, "embedding")
}

// run runs the model's program on the tokens of a text. in has the program's other inputs. run returns the elements of
// the output with that name. For an ONNX model it ignores in and output: encoder has its own.
func (e *Embedder) run(ctx context.Context, tokens []int32, in vkc.Tensors, output string) (v []float32, err error) {
	if n := len(tokens); n == 0 || n > e.model.context {
		return nil, fmt.Errorf("generate: the text has %d tokens: want 1 to %d", n, e.model.context)
	}
	if err := e.model.checkTokens(tokens); err != nil {
		return nil, err
	}
	if e.onnx != nil {
		return e.onnx.embed(ctx, e.exe, tokens)
	}
	if in["tokens"], err = vkc.Of(tokens, len(tokens)); err != nil {
		return nil, err
	}
	res, err := e.exe.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	return vkc.Values[float32](res.Outputs[output])
}

// Ranks reports whether the model is a cross-encoder: it rates a document for a query, and makes no embeddings.
func (e *Embedder) Ranks() bool { return e.model.config.Pooling == llm.PoolRank }

// Pair returns the tokens of a query together with a document, for Rank.
func (e *Embedder) Pair(query, document string) []int32 {
	return e.model.tok.EncodePair(query, document)
}

// Rank returns how well a document answers a query: a higher number is better. pair has the tokens of both. Rank
// returns an error for a model that makes embeddings, or that returns several ratings.
func (e *Embedder) Rank(ctx context.Context, pair []int32) (float32, error) {
	if !e.Ranks() {
		return 0, errors.New("generate: the model makes embeddings and does not rate pairs of texts: use Embed, or a " +
			"reranker model")
	}
	in := vkc.Tensors{}
	if e.model.config.RanksSegments() { // the model must know where the query ends
		first, err := vkc.Of([]int32{firstText(pair)})
		if err != nil {
			return 0, err
		}
		in["first"] = first
	}
	scores, err := e.run(ctx, pair, in, "scores")
	if err == nil && len(scores) != 1 {
		err = fmt.Errorf("generate: the model returns %d ratings for a pair: want one", len(scores))
	}
	if err != nil {
		return 0, err
	}
	return scores[0], nil
}

// firstText returns the number of tokens of the first text in a pair, with the special tokens before and after it. The
// token that ends the pair also ends the first text.
func firstText(pair []int32) int32 {
	for i, id := range pair {
		if i > 0 && id == pair[len(pair)-1] {
			return int32(i + 1)
		}
	}
	return int32(len(pair))
}

// Unit scales a vector to length 1, so that the dot product of two vectors is the cosine of their angle. A zero vector
// stays zero.
func Unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(float64(x) * float64(x)) // the conversion prevents a fused multiply-add
	}
	unit := make([]float32, len(v))
	for i, x := range v {
		if sum > 0 {
			unit[i] = float32(float64(x) / math.Sqrt(sum))
		}
	}
	return unit
}
