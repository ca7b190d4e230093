package llm_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// gollama is the model of examples/gollama.
const gollama = "../../examples/gollama/gollama-q8_0.gguf"

// reference has the results of the model with its original f16 weights.
type reference struct {
	Prompts []struct {
		Prompt string
		Tokens []int64
		Top    [][2]float64 `json:"first_logits_top16"` // token, logit
		Greedy []int64
		Margin []float64 `json:"greedy_margin"` // difference of the largest logit to the next
	}
}

// q8Error bounds the effect of Q8_0 weights on a logit, which is at most 0.16 in these prompts.
const q8Error = 0.2

// TestReference runs the model on the CPU, by whole prompts and step by step,
// and compares logits and greedy tokens with the reference.
func TestReference(t *testing.T) {
	raw, err := os.ReadFile("../../examples/gollama/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(raw, &ref); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	prefill, err := llm.Prefill(cfg, 64)
	if err != nil {
		t.Fatal(err)
	}
	step, err := llm.Step(cfg, 64)
	if err != nil {
		t.Fatal(err)
	}
	whole, steps := load(t, f, prefill), load(t, f, step)
	for _, p := range ref.Prompts {
		t.Run(p.Prompt, func(t *testing.T) {
			first := logits(t, whole, p.Tokens, nil)
			for _, top := range p.Top {
				if got, want := first[int(top[0])], top[1]; !(math.Abs(got-want) <= q8Error) {
					t.Errorf("logit of token %v is %v, want %v", top[0], got, want)
				}
			}
			const more = 8
			text := append(append([]int64{}, p.Tokens...), p.Greedy[:more]...)
			if err := steps.ResetStates(); err != nil {
				t.Fatal(err)
			}
			for i := range len(text) - 1 {
				next := logits(t, steps, text[i:i+1], map[string]int64{"S": int64(i + 1)})
				at := i + 1 - len(p.Tokens)
				switch {
				case at == 0:
					compare(t, "through the cache", next, first, 1e-3)
				case i == len(text)-2:
					compare(t, "at the end", next, logits(t, whole, text[:i+1], nil), 1e-3)
				}
				if at < 0 || p.Margin[at] < 2*q8Error {
					continue
				}
				if got := argmax(next); got != text[i+1] {
					t.Errorf("token %d after the prompt is %d, want %d", at, got, text[i+1])
				}
			}
		})
	}
}

// TestCacheOnDevice compares the original model's logits with a KV cache, token by token and in parts, with those of a
// single pass, on every device.
func TestCacheOnDevice(t *testing.T) {
	folder := os.Getenv("VKC_TESTDATA")
	if folder == "" {
		t.Skip("VKC_TESTDATA names no folder with the model in gollama/")
	}
	f, err := gguf.Open(filepath.Join(folder, "gollama", "gollama-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]int32, 48)
	for i := range tokens {
		tokens[i] = int32(300 + 37*i)
	}
	for _, device := range []string{"cpu", "vulkan"} {
		t.Run(device, func(t *testing.T) {
			dev, err := vkc.OpenDevice(device)
			vktest.Need(t, err)
			defer dev.Close()
			run := func(g *ir.Graph, failed error, most int) (all [][]float64) {
				if failed != nil {
					t.Fatal(failed)
				}
				exe, err := dev.LoadGraph(t.Context(), g, f)
				if err != nil {
					t.Fatal(err)
				}
				defer exe.Close()
				for at := 0; at < len(tokens); at += most {
					o := vkc.RunOptions{}
					if most < len(tokens) {
						o.Symbols = map[string]int64{"S": int64(at + most)}
					}
					res, err := exe.Run(t.Context(), vkc.Tensors{"tokens": data(t, tokens[at:at+most])}, o)
					if err != nil {
						t.Fatal(err)
					}
					v, err := res.Outputs["logits"].Floats()
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, v)
				}
				return all
			}
			g, err := llm.Prefill(cfg, 64)
			whole := run(g, err, len(tokens))[0]
			g, err = llm.Step(cfg, 64)
			compare(t, "token by token", run(g, err, 1)[len(tokens)-1], whole, 1e-3)
			g, err = llm.Steps(cfg, 16, 64)
			compare(t, "in parts", run(g, err, 16)[2], whole, 1e-3)
		})
	}
}

func load(t *testing.T, weights ir.WeightSource, g *ir.Graph) *interp.Program {
	t.Helper()
	p, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func logits(t *testing.T, p *interp.Program, tokens []int64, symbols map[string]int64) []float64 {
	t.Helper()
	in, err := ir.FromInts(ir.I32, tokens, len(tokens))
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), map[string]*ir.Data{"tokens": in}, symbols)
	if err != nil {
		t.Fatal(err)
	}
	v, err := out["logits"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func argmax(v []float64) int64 {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return int64(best)
}
