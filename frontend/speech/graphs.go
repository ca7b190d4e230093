package speech

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// LogMel returns the graph of a spectrogram: input "samples" f32[Window] at Rate, and output "mel" f32[Mels, Frames].
// The samples are mirrored at both ends. A frame has the power of each frequency under a Hann window, summed to bands
// (see MelFilters), as a logarithm to base 10. Values below the spectrogram's largest value minus 8 become that
// difference. The output is (value + 4) / 4.
func LogMel(c Config) (*ir.Graph, error) {
	if c.Window() <= fft {
		return nil, fmt.Errorf("speech: a window of %d samples: want more than %d, the samples of a frame",
			c.Window(), fft)
	}
	return frontend.Build(c.graphName("log-mel"), func(b *frontend.Builder) {
		samples := b.Input("samples", ir.F32, c.Window())
		at := b.Iota(ir.I32, 0, c.Frames(), fft).MulScalar(hop).Add(b.Iota(ir.I32, 1, c.Frames(), fft))
		at = at.SubScalar(fft / 2)
		last := at.Lit(float64(c.Window() - 1))
		at = last.Sub(last.Sub(at.Abs()).Abs()) // mirrored at both ends
		frames := samples.IndexSelect(0, at.Reshape(c.Frames()*fft)).Reshape(c.Frames(), fft)
		spectrum := frames.Mul(b.Const(hann())).RFFT(1)
		power := spectrum.Sqr().Sum(2)
		mel := power.MatMulT(b.Const(MelFilters(c.Mels), c.Mels, fft/2+1))
		mel = mel.Max(mel.Lit(1e-10)).Log().MulScalar(1 / math.Ln10)
		mel = mel.Max(mel.ReduceMaxKeep(0, 1).SubScalar(8))
		b.Output("mel", mel.AddScalar(4).MulScalar(0.25).T())
	})
}

// hann returns the periodic Hann window of a frame.
func hann() []float32 {
	w := make([]float32, fft)
	for i := range w {
		w[i] = float32(0.5 - float64(0.5*math.Cos(2*math.Pi*float64(i)/fft)))
	}
	return w
}

// Slaney's mel scale is linear up to 1000 Hz, and logarithmic above.
const (
	linearHertz = 200.0 / 3 // per mel below 1000 Hz
	linearMels  = 15        // 1000 Hz
)

// logStep is the logarithm of the ratio of frequencies one mel apart, above 1000 Hz.
var logStep = math.Log(6.4) / 27

// hertz returns the frequency of a mel.
func hertz(mel float64) float64 {
	if mel < linearMels {
		return mel * linearHertz
	}
	return 1000 * math.Exp(float64(logStep*(mel-linearMels)))
}

// MelFilters returns the matrix [mels, 201] that sums the 201 frequencies of a frame to bands. The bands are triangles
// of equal area over Slaney's mel scale from 0 to 8000 Hz, and each begins at the middle of the one before.
func MelFilters(mels int) []float32 {
	top := linearMels + math.Log(Rate/2/1000.0)/logStep // Rate/2 in mels
	edges := make([]float64, mels+2)
	for i := range edges {
		edges[i] = hertz(top * float64(i) / float64(mels+1))
	}
	const bins = fft/2 + 1
	filters := make([]float32, mels*bins)
	for m := range mels {
		low, mid, high := edges[m], edges[m+1], edges[m+2]
		for k := range bins {
			f := float64(k) * Rate / fft
			height := math.Max(0, math.Min((f-low)/(mid-low), (high-f)/(high-mid))) // of the triangle with height 1
			filters[m*bins+k] = float32(height * 2 / (high - low))
		}
	}
	return filters
}

// Option changes the graphs of Listen and Step.
type Option func(*options)

type options struct{ cache ir.DType }

// Cache sets the dtype of the keys and values that the states keep: f32 by default, or another float.
func Cache(t ir.DType) Option { return func(o *options) { o.cache = t } }

// optionsOf applies options to the defaults. It fails if the dtype of the keys and values is no float.
func optionsOf(b *frontend.Builder, list []Option) options {
	o := options{cache: ir.F32}
	for _, set := range list {
		set(&o)
	}
	if !o.cache.IsFloat() {
		b.Fail("speech", fmt.Errorf("KV cache of type %s: want a float", o.cache))
	}
	return o
}

// Listen returns the graph of the encoder: input "mel" f32[Mels, Frames], as LogMel makes it, and output "encoded"
// f32[AudioContext, Width]. Each layer of the decoder makes keys and values of the output. Listen stores the keys and
// values of layer N, counted from 0, in states "cross_k.N" and "cross_v.N", and Step reads them.
func Listen(c Config, list ...Option) (*ir.Graph, error) {
	return frontend.Build(c.graphName("listen"), func(b *frontend.Builder) {
		m, o := newModel(b, c), optionsOf(b, list)
		x := m.encode(b.Input("mel", ir.F32, c.Mels, c.Frames()))
		b.Output("encoded", x)
		for i := range c.Decoders {
			l := m.w.Sub(fmt.Sprintf("dec.blk.%d", i))
			keys, values := m.crossStates(b, i, o.cache)
			b.Update(keys, m.heads(x, l.Sub("cross_attn_k"), c.Heads).Cast(o.cache))
			b.Update(values, m.heads(x, l.Sub("cross_attn_v"), c.Heads).Cast(o.cache))
		}
	})
}

// Step returns the graph of the decoder. It reads the audio from states "cross_k.N" and "cross_v.N", which a run of
// [Listen]'s graph has set. Input "tokens" is i32[T], for a symbol T up to maxTokens, or i32[1] if maxTokens is 1.
// Output "logits" is f32[Vocab], for the next token.
//
// The symbol S, up to Context, is the length of the text including these tokens, and runs pass its value by name. The
// keys and values of earlier tokens are in states "cache_k.N" and "cache_v.N", for layer N of the decoder. Graphs for
// different numbers of tokens have the same states.
func Step(c Config, maxTokens int, list ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > c.Context {
		return nil, fmt.Errorf("speech: %d tokens at once: want 1 to %d, the number of positions", maxTokens, c.Context)
	}
	name := "step"
	if maxTokens > 1 {
		name = "steps"
	}
	return frontend.Build(c.graphName(name), func(b *frontend.Builder) {
		m, o := newModel(b, c), optionsOf(b, list)
		t := ir.D(1)
		if maxTokens > 1 {
			t = b.Sym("T", maxTokens)
		}
		logits := m.decode(b, b.Input("tokens", ir.I32, t), b.Sym("S", c.Context), o.cache)
		b.Output("logits", logits.Reshape(-1))
	})
}

// graphName returns the name of a graph: the model's name and the purpose.
func (c Config) graphName(what string) string {
	if c.Name == "" {
		return what
	}
	return c.Name + " " + what
}
