package llm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// TestGoldenOnDevice takes models that together have every part of a layer, token by
// token, through kernels: with VKC_TEST_GOLDENS=all all that make text.
func TestGoldenOnDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	names := []string{"falcon-large", "gemma2", "gemma3", "gpt-oss", "gpt2", "phi3-long"}
	if os.Getenv("VKC_TEST_GOLDENS") == "all" {
		paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
		if err != nil || len(paths) < len(names) {
			t.Fatalf("%d models: %v", len(paths), err)
		}
		names = nil
		for _, path := range paths {
			names = append(names, strings.TrimSuffix(filepath.Base(path), ".json"))
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			m := readGolden(t, filepath.Join(goldenDir, name+".json"))
			if m.Pooled != nil {
				t.Skip("it makes embeddings: TestEmbedderOnDevice of package generate has those")
			}
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
