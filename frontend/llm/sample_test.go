package llm_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
)

// samplerCase has sampling parameters and the expected frequency of each token.
type samplerCase struct {
	params llm.SamplerParams
	topK   int32
	recent []int32
	want   []float64
	biases map[int32]float32
}

// dry is the history of the cases of llm.SampleDry: 0 1 came before, and 2 followed.
var dry = append(slices.Repeat([]int32{-1}, llm.DryHistory-6), 0, 1, 2, 3, 0, 1)

// TestSampler compares frequencies with hand-computed probabilities, for tokens of 1/2, 1/4, 1/8 and 1/8. All cases are
// rows of the same runs. The tokens must be the same on the reference and on a device.
func TestSampler(t *testing.T) {
	logits := make([]float32, 4)
	for i, p := range []float64{0.125, 0.5, 0.25, 0.125} {
		logits[i] = float32(math.Log(p))
	}
	plain := []samplerCase{
		{llm.SamplerParams{}, 0, nil, []float64{0, 1, 0, 0}, nil},
		{llm.SamplerParams{Temperature: 1}, 0, nil, []float64{0.125, 0.5, 0.25, 0.125}, nil},
		{llm.SamplerParams{Temperature: 0.5}, 0, nil, []float64{1 / 22.0, 16 / 22.0, 4 / 22.0, 1 / 22.0}, nil},
		{llm.SamplerParams{Temperature: 1, MinP: 0.3}, 0, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, RepeatPenalty: 2}, 0, []int32{1, 1},
			[]float64{1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}, nil},
		{llm.SamplerParams{RepeatPenalty: 3}, 0, []int32{1}, []float64{0, 0, 1, 0}, nil},
		{llm.SamplerParams{Temperature: 1, PresencePenalty: float32(math.Ln2)}, 0, []int32{1, 1},
			[]float64{1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}, nil},
		{llm.SamplerParams{Temperature: 1, FrequencyPenalty: float32(math.Ln2)}, 0, []int32{2, 1, 1},
			[]float64{1 / 4.0, 1 / 4.0, 1 / 4.0, 1 / 4.0}, nil},
		{llm.SamplerParams{Temperature: 1}, 0, nil, []float64{0, 2 / 3.0, 1 / 6.0, 1 / 6.0},
			map[int32]float32{0: float32(math.Inf(-1)), 2: -math.Ln2}},
		{llm.SamplerParams{RepeatPenalty: 3}, 0, []int32{1}, []float64{1, 0, 0, 0}, map[int32]float32{0: 1}},
	}
	ranked := []samplerCase{
		{llm.SamplerParams{Temperature: 1}, 2, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, TopP: 0.7}, 0, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, TopP: 0.4}, 0, nil, []float64{0, 1, 0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, TopP: 1}, 1, nil, []float64{0, 1, 0, 0}, nil},
	}
	// The entropy is 1.75 ln 2, so the token of 1/4 is the most typical one, and then that of 1/2. The standard
	// deviation of the logits is 0.829 ln 2.
	any := []samplerCase{
		{llm.SamplerParams{Temperature: 1}, 0, nil, []float64{0.125, 0.5, 0.25, 0.125}, nil},
		{llm.SamplerParams{Temperature: 1, Typical: 0.2}, 0, nil, []float64{0, 0, 1, 0}, nil},
		{llm.SamplerParams{Temperature: 1, Typical: 0.3}, 0, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, Sigmas: 1}, 0, nil, []float64{0, 1, 0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, Sigmas: 1.3}, 0, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}, nil},
		{llm.SamplerParams{Temperature: 1, XTCProbability: 1, XTCThreshold: 0.2}, 0, nil,
			[]float64{0.25, 0, 0.5, 0.25}, nil},
		{llm.SamplerParams{Temperature: 1, XTCProbability: 0.5, XTCThreshold: 0.2}, 0, nil,
			[]float64{3 / 16.0, 1 / 4.0, 3 / 8.0, 3 / 16.0}, nil},
		{llm.SamplerParams{Temperature: 1, XTCProbability: 1, XTCThreshold: 0.6}, 0, nil,
			[]float64{0.125, 0.5, 0.25, 0.125}, nil},
		{llm.SamplerParams{Temperature: 1, XTCProbability: 1, XTCThreshold: 0.3}, 2, nil,
			[]float64{0, 0, 1, 0}, nil},
	}
	// A bias makes token 2 the likeliest by 1 - ln 2, which is 0.307, and the penalty has to outweigh that.
	var repeating []samplerCase
	for _, c := range []struct {
		multiplier, base, allowed float32
		want                      int
	}{{0, 2, 1, 2}, {0.2, 2, 1, 1}, {0.2, 2, 2, 2}, {0.4, 2, 2, 1}, {9, 2, 3, 2}, {0.2, 1.5, 1, 2}, {0.2, 1.6, 1, 1}} {
		want := make([]float64, 4)
		want[c.want] = 1
		repeating = append(repeating, samplerCase{llm.SamplerParams{DryMultiplier: c.multiplier, DryBase: c.base,
			DryAllowed: c.allowed}, 0, nil, want, map[int32]float32{2: 1}})
	}
	// The surprises are 1, 2, 3 and 3 bits. By Zipf's law with the exponent 1.046, mu of 2 allows 2.84 tokens, and 1.1
	// allows 1.56. mu after the first run is checked below.
	even := func(version, mu, temperature float32, want ...float64) samplerCase {
		return samplerCase{llm.SamplerParams{Temperature: temperature, Mirostat: version, MirostatTau: mu,
			MirostatEta: 0.5, TopP: 0.1, Sigmas: 0.1}, 1, nil, want, nil}
	}
	surprising := []samplerCase{even(2, 1.5, 1, 0, 1, 0, 0), even(2, 2.5, 1, 0, 2/3.0, 1/3.0, 0),
		even(2, 0.1, 1, 0, 1, 0, 0), even(2, 9, 1, 0.125, 0.5, 0.25, 0.125), even(1, 2, 1, 0, 2/3.0, 1/3.0, 0),
		even(1, 1.1, 1, 0, 1, 0, 0), even(1, 9, 1, 0.125, 0.5, 0.25, 0.125), even(2, 2.5, 0.5, 0, 16/20.0, 4/20.0, 0),
		even(0, 2.5, 1, 0, 1, 0, 0)}
	reference := samplerTokens(t, "cpu", logits, plain, ranked, any, surprising, repeating)
	for i, c := range slices.Concat(plain, ranked, any, surprising, repeating) {
		if c.params.RepeatPenalty == 0 {
			c.params.RepeatPenalty = 1
		}
		got := make([]float64, len(logits))
		for _, id := range reference[i] {
			got[id] += 1 / float64(len(reference[i]))
		}
		for id, want := range c.want {
			if math.Abs(got[id]-want) > 0.03 || want == 0 && got[id] != 0 {
				t.Errorf("%+v, top %d: %v, want %v", c.params, c.topK, got, c.want)
				break
			}
		}
	}
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	for i, got := range samplerTokens(t, "vulkan", logits, plain, ranked, any, surprising, repeating) {
		if !slices.Equal(got, reference[i]) {
			t.Errorf("case %d: the device chooses otherwise than the reference", i)
		}
	}
}

// nextMu is mu after a token, from the frequencies that the case wants. Its first mu is the target.
func (c samplerCase) nextMu(id int32) float64 {
	mu := float64(c.params.MirostatTau)
	if c.params.Mirostat == 0 {
		return mu
	}
	return mu - float64(c.params.MirostatEta)*(-math.Log2(c.want[id])-mu)
}

// samplerTokens draws thousands of tokens for each case, all cases of one kind in the same runs.
func samplerTokens(t *testing.T, device string, logits []float32, kinds ...[]samplerCase) (tokens [][]int32) {
	t.Helper()
	positions := 0
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for kind, cases := range kinds {
		if positions = 4000; kind == int(llm.SampleDry) {
			positions = 4 // with a long history each
		}
		rows := len(cases) * positions
		g, err := llm.Sampler(llm.Config{Vocab: len(logits)}, rows, llm.SamplerKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.LoadGraph(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		var all, params, biases []float32
		var recent, at, topK, biased []int32
		var seeds []int64
		for i, c := range cases {
			if c.params.RepeatPenalty == 0 {
				c.params.RepeatPenalty = 1
			}
			last := append(slices.Repeat([]int32{-1}, llm.RecentTokens-len(c.recent)), c.recent...)
			for position := range positions {
				all, params, recent = append(all, logits...), append(params, c.params.Row()...), append(recent, last...)
				biased = append(biased, slices.Repeat([]int32{-1}, llm.MaxBiases)...)
				biases = append(biases, make([]float32, llm.MaxBiases)...)
				free := len(biased) - llm.MaxBiases
				for id, more := range c.biases {
					biased[free], biases[free] = id, more
					free++
				}
				at, topK, seeds = append(at, int32(position)), append(topK, c.topK), append(seeds, int64(i)<<33-1)
			}
		}
		in := vkc.Tensors{}
		for name, err := range map[string]error{
			"logits": set(in, "logits", all, rows, len(logits)), "params": set(in, "params", params, rows, len(params)/rows),
			"recent": set(in, "recent", recent, rows, llm.RecentTokens), "positions": set(in, "positions", at, rows),
			"seeds": set(in, "seeds", seeds, rows), "biased": set(in, "biased", biased, rows, llm.MaxBiases),
			"biases": set(in, "biases", biases, rows, llm.MaxBiases),
		} {
			if err != nil {
				t.Fatal(name, err)
			}
		}
		if kind > 0 {
			if err := set(in, "top_k", topK, rows); err != nil {
				t.Fatal(err)
			}
		}
		if kind == int(llm.SampleDry) {
			if err := set(in, "history", slices.Repeat(dry, rows), rows, llm.DryHistory); err != nil {
				t.Fatal(err)
			}
		}
		var mu []float32
		if kind >= int(llm.SampleMirostat) {
			for _, c := range cases {
				mu = append(mu, slices.Repeat([]float32{c.params.MirostatTau}, positions)...)
			}
			if err := set(in, "mu", mu, rows); err != nil {
				t.Fatal(err)
			}
		}
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := vkc.Values[int32](res.Outputs["token"])
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, slices.Collect(slices.Chunk(chosen, positions))...)
		if kind == int(llm.SampleMirostat) {
			next, err := vkc.Values[float32](res.Outputs["next_mu"])
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range chosen {
				if c := cases[i/positions]; math.Abs(float64(next[i])-c.nextMu(id)) > 1e-5 {
					t.Fatalf("%+v: mu is %v after token %d, want %v", c.params, next[i], id, c.nextMu(id))
				}
			}
		}
		last, err := vkc.Values[int32](res.Outputs["last"])
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			want := append(slices.Clone(recent[i*llm.RecentTokens+1:(i+1)*llm.RecentTokens]), chosen[i])
			if got := last[i*llm.RecentTokens:][:llm.RecentTokens]; !slices.Equal(got, want) {
				t.Fatalf("the last tokens are %v, want %v", got, want)
			}
		}
	}
	return tokens
}

// TestMasker: forbidden tokens are minus infinity, and the likeliest ones are of the rest, also where the vocabulary is
// no whole number of words. NaN is not hidden.
func TestMasker(t *testing.T) {
	const vocabulary = 34
	nan, none := float32(math.NaN()), float32(math.Inf(-1))
	for _, texts := range []int{1, 3} {
		logits, want := make([]float32, texts*vocabulary), make([]float32, texts*vocabulary)
		for i := range logits {
			logits[i] = float32(i % vocabulary)
		}
		copy(want, logits)
		masks := slices.Repeat([]uint32{math.MaxUint32}, 2*texts)
		masks[0], masks[1] = 1<<3|1<<31, 1<<0
		for i := range vocabulary {
			if i != 3 && i != 31 && i != 32 {
				want[i] = none
			}
		}
		likeliest, top := []int32{32, 33, 0}[:texts], []float32{32, 33, none}[:texts]
		if texts == 3 {
			masks[4], masks[5] = 0, 0
			for i := range vocabulary {
				want[2*vocabulary+i] = none
			}
			logits[vocabulary], want[vocabulary], top[1] = nan, nan, nan
		}
		for _, device := range []string{"cpu", "vulkan"} {
			dev, err := vkc.OpenDevice(device)
			if device == "vulkan" {
				vktest.Need(t, err)
			}
			g, failed := llm.Masker(llm.Config{Vocab: vocabulary}, texts)
			if err = errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			exe, err := dev.LoadGraph(t.Context(), g, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			in, dims := vkc.Tensors{}, []int{texts, vocabulary}
			if texts == 1 {
				dims = dims[1:]
			}
			err = errors.Join(set(in, "masks", masks, texts, 2), set(in, "logits", logits, dims...))
			if err != nil {
				t.Fatal(err)
			}
			res, err := exe.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string][]float32{"logits": want, "top": top} {
				got, err := vkc.Values[float32](res.Outputs[name])
				same := func(a, b float32) bool { return a == b || a != a && b != b }
				if err != nil || !slices.EqualFunc(got, want, same) {
					t.Errorf("%d texts on %s: %s %v, want %v (%v)", texts, device, name, got, want, err)
				}
			}
			got, err := vkc.Values[int32](res.Outputs["likeliest"])
			if texts == 3 {
				got[1] = likeliest[1] // of NaN
			}
			if err != nil || !slices.Equal(got, likeliest) {
				t.Errorf("%d texts on %s: %v, want %v (%v)", texts, device, got, likeliest, err)
			}
		}
	}
}

func set[T float32 | int32 | uint32 | int64](in vkc.Tensors, name string, values []T, dims ...int) (err error) {
	in[name], err = vkc.Of(values, dims...)
	return err
}
