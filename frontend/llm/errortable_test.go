package llm_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

var errorTable = flag.String("error-table", "", "devices, such as 'cpu vulkan': print the errors of "+
	"all golden models there")

// TestErrorTable prints a table of the golden models: the family's file and its lines, and for each device the largest
// error of the logits in one pass, token by token, and in a batch of two texts. It is for people, who ask by a flag.
// An error is the difference divided by 1 plus the magnitude. TestGolden and TestGoldenOnDevice are the tests.
func TestErrorTable(t *testing.T) {
	devices := strings.Fields(*errorTable)
	if len(devices) == 0 {
		t.Skip("only with -error-table DEVICES")
	}
	paths := must(filepath.Glob(filepath.Join(goldenDir, "*.json")))
	for _, path := range paths {
		m := readGolden(t, path)
		if m.Pooled != nil {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			f := m.file(t)
			cfg := configOf(t, f)
			file, lines := fileOf(t, cfg.Architecture)
			line := fmt.Sprintf("| %s | %s, %d |", name, file, lines)
			for _, device := range devices {
				one, steps, batch := m.errorsOn(t, device, f, cfg)
				line += fmt.Sprintf(" %.0e %.0e %.0e |", one, steps, batch)
				if worst := max(one, steps, batch); !(worst < 1e-3) {
					t.Errorf("on %s: an error of %v", device, worst)
				}
			}
			fmt.Println(line)
		})
	}
}

// errorsOn returns the largest errors of a model on a device: in one pass, token by token, and in a batch.
func (m goldenModel) errorsOn(t *testing.T, device string, f *gguf.File, cfg llm.Config) (one, steps, batch float64) {
	t.Helper()
	worst := func(to *float64, got, want []float64) {
		for i, w := range want {
			*to = max(*to, math.Abs(got[i]-w)/(1+math.Abs(w)))
		}
	}
	dev, err := vkc.OpenDevice(device)
	vktest.Need(t, err)
	defer dev.Close()
	run := func(g *ir.Graph, tokens []int32, symbols map[string]int64, exe **vkc.Executable) []float64 {
		if *exe == nil {
			*exe = must(dev.LoadGraph(t.Context(), g, f))
		}
		out := must((*exe).Run(t.Context(), vkc.Tensors{"tokens": data(t, tokens)}, vkc.RunOptions{Symbols: symbols}))
		return must(out.Outputs["logits"].Floats())
	}
	var whole, step *vkc.Executable
	all := run(logitsOfAll(cfg, len(m.Tokens)), m.Tokens, nil, &whole)
	g := must(llm.Step(cfg, cfg.Context))
	b := openBatched(t, device, f, 2)
	for i, want := range m.Logits {
		worst(&one, all[i*len(want):], want)
		worst(&steps, run(g, m.Tokens[i:i+1], map[string]int64{"S": int64(i + 1)}, &step), want)
		at := int32(i)
		for _, got := range b.run(t, row{m.Tokens[i], 0, at}, row{m.Tokens[i], 1, at}) {
			worst(&batch, got, want)
		}
	}
	must(0, whole.Close())
	must(0, step.Close())
	return one, steps, batch
}

// fileOf returns the file of a family, and its number of lines.
func fileOf(t *testing.T, architecture string) (file string, lines int) {
	t.Helper()
	name := regexp.MustCompile(`name:\s+"` + regexp.QuoteMeta(architecture) + `"`)
	for _, path := range must(filepath.Glob("*.go")) {
		if text := string(must(os.ReadFile(path))); !strings.HasSuffix(path, "_test.go") && name.MatchString(text) {
			return path, strings.Count(text, "\n")
		}
	}
	t.Errorf("no file names %q", architecture)
	return "", 0
}
