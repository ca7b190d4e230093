package llm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// notOnDevice lists models with layers whose parts other models have too. Kernels run those others.
const notOnDevice = `arcee bailingmoe bailingmoe2 chatglm chatglm-apart codeshell cohere2 command-r deepseek
	deepseek2-v2 dots1 ernie4_5 ernie4_5-moe exaone exaone4 exaone4-small gemma gemma4-moe-apart glm4 gptneox
	gptneox-serial granite granitehybrid-moe granitemoe hunyuan-dense hunyuan-moe internlm2 lfm2moe llama4 minicpm
	minicpm-old minimax-m2 mpt nemotron olmo2 olmo3 olmoe openelm orion phi2 phi3 qwen qwen2moe qwen2vl qwen35moe
	qwen3next-joined qwen3vl qwen3vlmoe seed_oss smollm3 stablelm stablelm-large starcoder xverse`

// TestGoldenOnDevice takes the models that make text, token by token, through kernels.
func TestGoldenOnDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d models: %v", len(paths), err)
	}
	for _, path := range paths {
		m := readGolden(t, path)
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if m.Pooled != nil || slices.Contains(strings.Fields(notOnDevice), name) {
			continue // TestEmbedderOnDevice of package generate has the models with a vector
		}
		t.Run(name, func(t *testing.T) {
			f := m.file(t)
			cfg, err := llm.FromGGUF(f)
			if err != nil {
				t.Fatal(err)
			}
			g, err := llm.Step(cfg, cfg.Context, llm.KeepWindow(1))
			if err != nil {
				t.Fatal(err)
			}
			program, err := dev.Compile(t.Context(), g, vkc.CompileOptions{Weights: f})
			if err != nil {
				t.Fatal(err)
			}
			exe, err := dev.Load(t.Context(), program, vkc.LoadOptions{Weights: f})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := exe.Close(); err != nil {
					t.Error(err)
				}
			})
			for i, id := range m.Tokens {
				in, err := ir.FromInts(ir.I32, []int64{int64(id)}, 1)
				if err != nil {
					t.Fatal(err)
				}
				out, err := exe.Run(t.Context(), vkc.Tensors{"tokens": in},
					vkc.RunOptions{Symbols: map[string]int64{"S": int64(i + 1)}})
				if err != nil {
					t.Fatal(err)
				}
				got, err := out.Outputs["logits"].Floats()
				if err != nil {
					t.Fatal(err)
				}
				compare(t, fmt.Sprintf("step %d", i), got, m.Logits[i], 1e-4)
			}
		})
	}
}
