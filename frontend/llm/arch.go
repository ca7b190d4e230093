package llm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// architecture describes a family of models: its metadata keys, its weights, and the construction of its graph. Each
// family has a file of its own.
type architecture struct {
	name string // the value of general.architecture, and the prefix of its keys
	norm norm
	rope rotaryPairs

	// lateHeadNorms means that the norms of queries and keys come after the rotation.
	lateHeadNorms bool

	valueNorms bool // each head of the values is normalized, without weights

	// encoder means that each token attends to all tokens, later ones too. The output of the last layer represents the
	// whole text, and there are no logits.
	encoder bool

	// noAttention means that no layer attends: files have no heads, and no feed-forward layers.
	noAttention bool

	// hybrid means that layers may have 0 heads, 0 heads of keys, or 0 hidden units, and then do not attend, or have no
	// feed-forward layer.
	hybrid bool

	// lastNorm is the weight of the norm before the output, if it is not output_norm.
	lastNorm string

	experts   bool // files may have a mixture of experts for each feed-forward layer
	exactYaRN bool // see frontend.YaRN.Exact

	sections sections // for the tokens of pictures, in models with Config.Sections

	// pictureSeesItself means that each token of a picture attends to all tokens of the same picture, later ones too.
	pictureSeesItself bool

	yarnKeepsMagnitude bool // YaRN does not magnify the rotated elements

	latent bool // attention is latent; see Config.Latent

	ranked Pooling // the vector that a head for PoolRank gets; "" is PoolCLS

	// folder has the spelling in Hugging Face's folders. GGUF's spelling is name, and the names of the weights.
	folder folder

	// read reads the architecture's own keys. It is nil if there are none.
	read func(r *metadata, c *Config)

	// layerWeights lists the weights of a layer. onceWeights lists the weights that the model has once, except the
	// embedding, the last norm and the output; nil for none. FromGGUF refuses a file with other weights.
	layerWeights func(c Config) []weightSpec
	onceWeights  func(c Config) []weightSpec

	// embed changes the embedded tokens before the first layer. Nil changes nothing.
	embed func(m model, x, positions frontend.Tensor) frontend.Tensor

	// perLayer returns what layers read besides the residual stream, made from the tokens and the embedded tokens x;
	// nil if there is nothing. split and join change the residual stream before the first and after the last layer; nil
	// changes nothing.
	perLayer    func(m model, x, tokens frontend.Tensor) frontend.Tensor
	split, join func(m model, x frontend.Tensor) frontend.Tensor

	// layer applies a layer to the residual stream x, [T, Width] unless split changes it.
	layer func(l layer, x frontend.Tensor) frontend.Tensor
}

// architectures is the table of architectures that FromGGUF supports.
var architectures = []architecture{
	arcee,
	bailingMoE,
	bailingMoE2,
	bert,
	bloom,
	chatGLM,
	codeShell,
	cohere2,
	commandR,
	deci,
	deepSeek,
	deepSeek2,
	dots1,
	ernie45,
	ernie45MoE,
	exaone,
	exaone4,
	falcon,
	falconH1,
	gemma,
	gemma2,
	gemma3,
	gemma3n,
	gemma4,
	gemmaEmbedding,
	glm4,
	glm4MoE,
	gpt2,
	gptNeoX,
	gptOSS,
	granite,
	graniteHybrid,
	graniteMoE,
	hunyuanDense,
	hunyuanMoE,
	internLM2,
	jinaBERT,
	lfm2,
	lfm2MoE,
	llama,
	llama4,
	mamba,
	mamba2,
	miniCPM,
	miniMaxM2,
	mistral3,
	modernBERT,
	mpt,
	nemotron,
	nemotronH,
	nomicBERT,
	olmo2,
	olmoE,
	openELM,
	orion,
	phi2,
	phi3,
	phiMoE,
	qwen,
	qwen2,
	qwen2moe,
	qwen2VL,
	qwen3,
	qwen35,
	qwen35MoE,
	qwen3moe,
	qwen3next,
	qwen3VL,
	qwen3VLMoE,
	rwkv7,
	seedOSS,
	smolLM3,
	stableLM,
	starcoder,
	starcoder2,
	xverse,
}

// recurrent lists further architectures with a recurrent state, so that the error of such a file says what it is.
var recurrent = []string{
	"arwkv7", "bamba", "jamba", "kimi-linear", "nemotron_h_moe", "plamo2", "rwkv6", "rwkv6qwen2",
}

// Architectures returns the values of general.architecture that FromGGUF reads, sorted.
func Architectures() []string {
	names := make([]string, len(architectures))
	for i, a := range architectures {
		names[i] = a.name
	}
	slices.Sort(names)
	return names
}

// findArchitecture returns the architecture of a name. An empty name, as in a hand-made Config, means llama.
func findArchitecture(name string) (architecture, error) {
	if name == "" {
		name = llama.name
	}
	for _, a := range architectures {
		if a.name == name {
			return a, nil
		}
	}
	want := strings.Join(Architectures(), ", ")
	if slices.Contains(recurrent, name) {
		return architecture{}, fmt.Errorf("architecture %q, which is recurrent or a hybrid, is not supported: want "+
			"one of %s", name, want)
	}
	return architecture{}, fmt.Errorf("architecture %q is not supported: want one of %s", name, want)
}

// norm is the kind of normalization that an architecture uses.
type norm int

const (
	rmsNorm   norm = iota
	layerNorm      // its weights have biases
)

// rotaryPairs says which elements of a head form the pairs that rotary embeddings rotate.
type rotaryPairs int

const (
	neighbours rotaryPairs = iota // adjacent elements, as in GGUF files of Llama models, with weights in that order
	halves                        // element i and i+RopeDims/2, as in GPT-NeoX and most other models
	notRotary                     // the architecture has no rotary embeddings
)

// weightSpec describes a weight that an architecture needs: its name and shape. For example, the full name of attn_q in
// layer 3 is blk.3.attn_q.weight.
type weightSpec struct {
	name     string
	shape    ir.Shape
	bias     ir.Shape // of NAME.bias, which a file may lack; nil for no bias
	norm     bool     // the weight of a norm: it has a bias if the architecture uses layerNorm
	optional bool     // a file may lack the weight
	onlyBias bool     // there is NAME.bias, which is not optional, and no NAME.weight
	bare     bool     // the full name is NAME
	linear   bool     // the matrix of nn.Linear or nn.MatrixOf, or a stack of experts: it may have an order and scales
}

// weight returns the name of the weight, without the prefix of its layer.
func (p weightSpec) weight() string {
	if p.bare {
		return p.name
	}
	return p.name + ".weight"
}

// vector describes a weight with n elements, such as a norm's.
func vector(name string, n int) weightSpec { return weightSpec{name: name, shape: ir.ShapeOf(n)} }

// matrix describes the weight of an nn.Linear from in to out elements, with an optional bias.
func matrix(name string, out, in int) weightSpec {
	return weightSpec{name: name, shape: ir.ShapeOf(out, in), bias: ir.ShapeOf(out), linear: true}
}

// norms returns the weights of norms of the residual stream.
func (c Config) norms(names ...string) []weightSpec {
	list := make([]weightSpec, len(names))
	for i, name := range names {
		list[i] = vector(name, c.Width)
		list[i].norm = true
	}
	return list
}

// modelWeights lists the weights that a model has once, outside of its layers.
func (a architecture) modelWeights(c Config) []weightSpec {
	out := matrix(output, c.Vocab, c.Width)
	out.optional = true
	list := []weightSpec{{name: tokenTable, shape: out.shape}}
	if !a.encoder {
		list = append(append(list, out), c.norms(a.finalNorm())...)
	}
	if a.onceWeights != nil {
		list = append(list, a.onceWeights(c)...)
	}
	return a.biased(list)
}

// finalNorm returns the name of the norm before the output.
func (a architecture) finalNorm() string { return cmp.Or(a.lastNorm, outputNorm) }

// allLayerWeights lists the weights of each layer, with the biases of norms.
func (a architecture) allLayerWeights(c Config) []weightSpec { return a.biased(a.layerWeights(c)) }

// biased adds biases to the weights of norms, if the architecture uses layerNorm.
func (a architecture) biased(list []weightSpec) []weightSpec {
	for i, p := range list {
		if p.norm && a.norm == layerNorm {
			list[i].bias = p.shape
		}
	}
	return list
}

// projections lists the weights that layer.attention uses.
func (c Config) projections() []weightSpec {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return []weightSpec{matrix("attn_q", q, c.Width), matrix("attn_k", kv, c.Width), matrix("attn_v", kv, c.Width),
		matrix("attn_output", c.Width, q)}
}

// fusedProjections lists the weights that layer.fused and layer.attend use.
func (c Config) fusedProjections() []weightSpec {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return []weightSpec{matrix("attn_qkv", q+2*kv, c.Width), matrix("attn_output", c.Width, q)}
}

// eitherProjections returns the weights of the projections of attention: attn_qkv if the file has it, or else separate
// ones.
func (c Config) eitherProjections() []weightSpec {
	if _, fused := c.Types["blk.0.attn_qkv.weight"]; fused {
		return c.fusedProjections()
	}
	return c.projections()
}

// ownHeadNorms lists the weights of the norms of queries and keys that differ from head to head. A file may lack them.
func (c Config) ownHeadNorms() []weightSpec {
	return optional(weightSpec{name: "attn_q_norm", shape: ir.ShapeOf(c.Heads, c.HeadDim)},
		weightSpec{name: "attn_k_norm", shape: ir.ShapeOf(c.KVHeads, c.HeadDim)})
}

// headNorms lists the weights of the norms of queries and keys that are the same for each head.
func (c Config) headNorms() []weightSpec {
	return []weightSpec{vector("attn_q_norm", c.HeadDim), vector("attn_k_norm", c.HeadDim)}
}

// wholeNorms lists the weights of the norms that apply to the queries and keys of all heads together.
func (c Config) wholeNorms() []weightSpec {
	return []weightSpec{vector("attn_q_norm", c.Heads*c.HeadDim), vector("attn_k_norm", c.KVHeads*c.HeadDim)}
}

// optional marks weights that a file may lack.
func optional(list ...weightSpec) []weightSpec {
	for i := range list {
		list[i].optional = true
	}
	return list
}

// feedForward lists the weights that nn.FeedForward uses.
func (c Config) feedForward() []weightSpec {
	return []weightSpec{matrix("ffn_up", c.FeedForward, c.Width), matrix("ffn_down", c.Width, c.FeedForward)}
}

// gated lists the weights that layer.gated uses, for a SwiGLU layer or for a mixture of experts.
func (c Config) gated() []weightSpec {
	if c.Experts == 0 {
		return []weightSpec{matrix("ffn_gate", c.FeedForward, c.Width), matrix("ffn_up", c.FeedForward, c.Width),
			matrix("ffn_down", c.Width, c.FeedForward)}
	}
	experts := func(name string, out, in int) weightSpec {
		return weightSpec{name: name, shape: ir.ShapeOf(c.Experts, out, in), linear: true}
	}
	list := []weightSpec{matrix("ffn_gate_inp", c.Experts, c.Width), experts("ffn_gate_exps", c.FeedForward, c.Width),
		experts("ffn_up_exps", c.FeedForward, c.Width), experts("ffn_down_exps", c.Width, c.FeedForward)}
	if n := c.SharedFeedForward; n > 0 {
		list = append(list, matrix("ffn_gate_shexp", n, c.Width), matrix("ffn_up_shexp", n, c.Width),
			matrix("ffn_down_shexp", c.Width, n))
	}
	return list
}

// routerBias lists the bias that is added to the experts' scores to choose among them; see nn.Routing. A layer without
// experts has none.
func (c Config) routerBias() []weightSpec {
	if c.Experts == 0 {
		return nil
	}
	return []weightSpec{{name: "exp_probs_b", bias: ir.ShapeOf(c.Experts), onlyBias: true}}
}

// joined lists the weights that layer.gated uses if ffn_up has the rows of gate, then the rows of up.
func (c Config) joined() []weightSpec {
	return []weightSpec{matrix("ffn_up", 2*c.FeedForward, c.Width), matrix("ffn_down", c.Width, c.FeedForward)}
}
