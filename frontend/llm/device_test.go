package llm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// notOnDevice lists models with layers whose parts other models have too. Kernels run those others.
const notOnDevice = `arcee bailingmoe bailingmoe2 chatglm chatglm-apart codeshell cohere2 command-r deepseek
	deepseek2-v2 dots1 ernie4_5 ernie4_5-moe exaone exaone4 exaone4-small gemma gemma4-moe-apart glm4 gptneox
	gptneox-serial granite granitehybrid-moe granitemoe hunyuan-dense hunyuan-moe internlm2 lfm2moe llama4 minicpm
	minicpm-old minimax-m2 mpt nemotron olmo2 olmo3 olmoe openelm orion phi2 phi3 qwen qwen2moe qwen2vl qwen35moe
	qwen3next-joined qwen3vl qwen3vlmoe seed_oss smollm3 stablelm stablelm-large starcoder xverse`

// TestGoldenOnDevice takes models that make text, token by token, through kernels. It takes a covering set of them:
// each op of a model occurs with each op that it reads in one of the set. TestGolden has all models, and
// VKC_TEST_CASES=all runs all of these.
func TestGoldenOnDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d models: %v", len(paths), err)
	}
	var models []stepModel
	for _, path := range paths {
		m := readGolden(t, path)
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if m.Pooled != nil || slices.Contains(strings.Fields(notOnDevice), name) {
			continue // TestEmbedderOnDevice of package generate has the models with a vector
		}
		f := m.file(t)
		cfg := configOf(t, f)
		models = append(models, stepModel{m, name, f, must(llm.Step(cfg, cfg.Context, llm.KeepWindow(1)))})
	}
	few := pairs.CoverAtCost(models, func(m stepModel) ([]string, float64) {
		return m.readings(), float64(len(m.step.Nodes()))
	})
	t.Logf("%d of %d models", len(few), len(models))
	for _, m := range few {
		t.Run(m.name, func(t *testing.T) { m.runOn(t, dev) })
	}
}

// stepModel is a golden model with the graph of a step.
type stepModel struct {
	goldenModel
	name string
	file *gguf.File
	step *ir.Graph
}

// readings lists the ops of the step with their dtypes, each with the ops that it reads.
func (m stepModel) readings() (keys []string) {
	for _, n := range m.step.Nodes() {
		keys = append(keys, fmt.Sprint(n.Op(), " of ", n.DType()))
		for i, x := range n.Args() {
			keys = append(keys, fmt.Sprint(n.Op(), " reads ", x.Op(), " as argument ", i))
		}
	}
	return keys
}

// runOn compares the logits after each token with the golden ones.
func (m stepModel) runOn(t *testing.T, dev *vkc.Device) {
	program, err := dev.Compile(t.Context(), m.step, vkc.CompileOptions{Weights: m.file})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.Load(t.Context(), program, vkc.LoadOptions{Weights: m.file})
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, exe)
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
}
