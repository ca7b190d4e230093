package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

const (
	docsFolder = "../../docs"
	gollama    = "../../examples/gollama/gollama-q8_0.gguf"
)

func stored(t *testing.T) *results {
	t.Helper()
	r, err := readResults(docsFolder)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPage: the page and the plot match the measurements.
func TestPage(t *testing.T) {
	r := stored(t)
	for name, want := range map[string]string{pageFile: page(r), plotFile: plot(r)} {
		got, err := os.ReadFile(filepath.Join(docsFolder, name))
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is stale (%v): go run ./internal/quantreport rewrites it", name, err)
		}
	}
}

// TestPageLeavesNothingOut: both tables have a row for every format, and every
// target has its size and all measures of its loss in the table, reached or not.
func TestPageLeavesNothingOut(t *testing.T) {
	text := page(stored(t))
	section := func(title string) string {
		_, after, ok := strings.Cut(text, "\n## "+title+"\n")
		if !ok {
			t.Fatalf("the page has no section %q", title)
		}
		part, _, _ := strings.Cut(after, "\n## ")
		return part
	}
	for _, title := range []string{"On random numbers", "On a language model"} {
		for _, dt := range ir.DTypes() {
			if _, ok := quant.Supported(dt); ok && strings.Count(section(title), "\n| "+dt.String()+" |") != 1 {
				t.Errorf("%q has no row for %s", title, dt)
			}
		}
	}
	table := section("The targets")
	for _, want := range []struct {
		format     ir.DType
		size, loss string
		weighted   bool
	}{{ir.Q4_0, "7.1x", "2 %", true}, {ir.Q8_0, "3.8x", "0.5 %", false}, {ir.IQ2_XXS, "16x", "5 %", true}} {
		prefix := "| " + want.format.String()
		rows := []string{prefix + " " + want.size + " smaller than f32 | size of the blocks |"}
		for _, measure := range []string{
			"next tokens that are right, relative to f16", "perplexity above f16's",
			"most likely token is another than f16's", "matmul error on normal numbers",
		} {
			rows = append(rows, prefix+" loses under "+want.loss+" | "+measure+" |")
		}
		if want.weighted {
			rows = append(rows, prefix+" loses under "+want.loss+" | next tokens that are right, with an "+
				"importance matrix |")
		}
		for _, row := range rows {
			if strings.Count(table, row) != 1 {
				t.Errorf("the table of targets lacks %q", row)
			}
		}
	}
}

// TestMeasurements repeats the cheap measurements. If a format's error or the text has changed, all measurements must
// be repeated.
func TestMeasurements(t *testing.T) {
	r := stored(t)
	var types []ir.DType
	for _, m := range r.Formats {
		types = append(types, m.Type)
		rmse, matmul, err := normalLoss(m.Type)
		if err != nil {
			t.Fatal(err)
		}
		// Other processors may fuse multiplications into additions in the searches of
		// codebooks and in the sums here.
		if !agree(rmse, m.RMSE) || !agree(matmul, m.Matmul) {
			t.Errorf("%s loses %g, in a product %g; docs/%s has %g, %g: measure again", m.Type, rmse, matmul,
				resultsFile, m.RMSE, m.Matmul)
		}
		if quant.UsesWeights(m.Type) != (m.Weighted != nil) {
			t.Errorf("%s: measured with importance weights: %v", m.Type, m.Weighted != nil)
		}
	}
	var want []ir.DType
	for _, dt := range ir.DTypes() {
		if _, ok := quant.Supported(dt); ok {
			want = append(want, dt)
		}
	}
	if !slices.Equal(types, want) {
		t.Errorf("docs/%s has %v, want %v", resultsFile, types, want)
	}
	_, info, err := heldOutText()
	info.Tokens = r.Text.Tokens
	if err != nil || info != r.Text {
		t.Errorf("docs/%s was measured with %+v, the text is %+v (%v)", resultsFile, r.Text, info, err)
	}
}

// TestPlot: no label covers another or a mark, or leaves its panel.
func TestPlot(t *testing.T) {
	p := &panel{y: 34}
	q := &panel{y: 500}
	for _, m := range stored(t).Formats {
		p.marks = append(p.marks, mark{name: m.Type.String(), bits: bits(m.Type), value: m.RMSE})
		kl := mark{name: m.Type.String(), bits: bits(m.Type), value: m.Model.KL}
		if m.Weighted != nil {
			kl.weighted = m.Weighted.KL
		}
		q.marks = append(q.marks, kl)
	}
	for _, p := range []*panel{p, q} {
		p.spread()
		labels, marks := p.labels(), p.obstacles()
		for i, l := range labels {
			if !p.holds(l) {
				t.Errorf("the label of %s is outside of its panel: %+v", p.marks[i].name, l)
			}
			for j := range labels {
				if j != i && l.overlaps(labels[j]) || l.overlaps(marks[j]) {
					t.Errorf("the label of %s covers %s", p.marks[i].name, p.marks[j].name)
				}
			}
		}
	}
}

// TestScore compares with values worked out by hand: the f16 model gives the tokens
// 3/4 and 1/4, the other 1/2 and 1/2, and token 1 comes; then both give 1/5, 4/5.
func TestScore(t *testing.T) {
	var s score
	ln := math.Log
	base := []float64{ln(3) + 7, 7, 0, ln(4)} // logits are free to have an offset
	logits := []float64{-2, -2, 5, ln(4) + 5}
	s.window(base, logits, []int64{1, 1})
	s.finish(2)
	want := score{
		KL:         (0.75*ln(1.5) + 0.25*ln(0.5)) / 2,
		Perplexity: math.Sqrt(2 * 5. / 4),
		Accuracy:   0.5, // of two equal ones the first counts as most likely
		Agreement:  1,
	}
	for i, pair := range [][2]float64{{s.KL, want.KL}, {s.Perplexity, want.Perplexity}, {s.Accuracy, want.Accuracy},
		{s.Agreement, want.Agreement}} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("score %d of %+v is %g, want %g", i, s, pair[0], pair[1])
		}
	}
}

// TestWatched: every matrix of the model is found, at its activations.
func TestWatched(t *testing.T) {
	f, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := llm.Prefill(cfg, 16)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = withActivations(g); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, o := range g.Outputs() {
		name, _ := strings.CutPrefix(o.Name, sumPrefix)
		found[name] = o.Node.Shape()[1].Static()
	}
	for name, typ := range cfg.Types {
		if len(typ.Shape) == 2 && found[name] != typ.Shape[1].Static() {
			t.Errorf("%s meets %d columns, want %s", name, found[name], typ.Shape)
		}
	}
	if len(found) != 57 {
		t.Errorf("%d matrices, want 57", len(found))
	}
}

// TestSums adds activations up and reads them back as importance weights.
func TestSums(t *testing.T) {
	s := sumsFile{}
	d, err := ir.FromFloats(ir.F32, []float64{1, 2, -3, 4}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.add("w", d); err != nil {
			t.Fatal(err)
		}
	}
	if got := s["w"]; got[0] != 20 || got[1] != 40 {
		t.Errorf("sums %v, want 20 and 40", got)
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{0.00012345: "0.000123", 1.2345: "1.23", 12.345: "12.3",
		1234.5: "1234", 0: "0"} {
		if got := digits(v); got != want {
			t.Errorf("digits(%g) is %s, want %s", v, got, want)
		}
	}
	if got := percent(0.0678); got != "6.78 %" {
		t.Error(got)
	}
	if got := percent(0.98765); got != "98.8 %" {
		t.Error(got)
	}
}
