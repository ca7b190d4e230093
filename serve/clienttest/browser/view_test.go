package browser

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/internal/view"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// resnet is a graph of the shape of ResNet-50 (He et al. 2015).
func resnet(b *frontend.Builder) {
	n := 0
	conv := func(x frontend.Tensor, out, size, stride int) frontend.Tensor {
		n++
		w := b.Weight(fmt.Sprintf("conv%d.weight", n), ir.F32, out, x.Dim(1), size, size)
		return x.Conv(w, frontend.Stride(stride, stride), frontend.Padding(size/2, size/2),
			frontend.Bias(b.Weight(fmt.Sprintf("conv%d.bias", n), ir.F32, out)))
	}
	x := conv(b.Input("image", ir.F32, 1, 3, 224, 224), 64, 7, 2).Relu()
	x = x.MaxPool([]int{3, 3}, frontend.Stride(2, 2), frontend.Padding(1, 1))
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for i := range blocks {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			short := x
			if i == 0 {
				short = conv(x, 4*width, 1, stride)
			}
			y := conv(conv(conv(x, width, 1, 1).Relu(), width, 3, stride).Relu(), 4*width, 1, 1)
			x = y.Add(short).Relu()
		}
	}
	b.Output("classes", x.Mean(2, 3).MatMulT(b.Weight("classes", ir.F32, 1000, 2048)))
}

// training is a training step of a language model.
func training(cfg llm.Config) func(*frontend.Builder) {
	return func(b *frontend.Builder) {
		all := b.Input("tokens", ir.I32, 2, 65)
		var list []frontend.Tensor
		weight := func(name string, t ir.Type) frontend.Tensor {
			p := b.StateFrom(ir.InitialNormal(0, 0.02, uint64(len(list))), name, ir.F32, t.Shape)
			list = append(list, p)
			return p
		}
		loss := llm.Loss(b, cfg, all.Slice(1, 0, ir.D(64)), all.Slice(1, 1, ir.D(65)), llm.TrainOptions{Weights: weight})
		b.Output("loss", loss)
		step := optim.StepsTaken(b, "step", frontend.Tensor{})
		optim.Train(optim.NewAdamW(1e-3), list, frontend.Grad(loss, list...), step)
	}
}

// long is a graph of that many nodes without a repeated block.
func long(nodes int) func(*frontend.Builder) {
	return func(b *frontend.Builder) {
		x := []frontend.Tensor{b.Input("x", ir.F32, 64)}
		for i := range nodes - 1 {
			last, other := x[len(x)-1], x[max(0, len(x)-2-i*i%7)]
			if i*i%11 < 5 {
				last = last.Mul(other)
			} else {
				last = last.Add(other).MulScalar(float64(i))
			}
			x = append(x, last)
		}
		b.Output("y", x[len(x)-1])
	}
}

// shown serves the page of a graph, with two runs, and returns its address.
func shown(t *testing.T, g *ir.Graph) string {
	t.Helper()
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r, err := view.Collect(t.Context(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		p := &runtime.Profile{Began: time.Unix(9, 0), Wall: time.Millisecond,
			Host: []runtime.HostSpan{{Name: "upload", Nanos: 9000}, {Name: "wait", Start: 10000, Nanos: 90000}}}
		for k, at := range r.Kernels {
			p.Kernels = append(p.Kernels, runtime.KernelTime{Name: at.Name, Ops: at.Ops, Schedule: at.Schedule,
				Start: int64(k) * 2000, Nanos: int64(1000 + 500*i)})
		}
		var b bytes.Buffer
		if err := runtime.WriteTrace(&b, runtime.Trace{Name: "GPU", Profile: p}); err != nil {
			t.Fatal(err)
		}
		runs, err := view.ReadRuns(&b, fmt.Sprintf("%c.json", 'A'+i))
		if err != nil {
			t.Fatal(err)
		}
		r.Runs = append(r.Runs, runs...)
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d kernels: collected in %v, a page of %d KiB", len(g.Nodes()), len(r.Kernels),
		time.Since(start).Round(time.Millisecond), len(page)>>10)
	handler, path := view.Handler(page)
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	if answer, err := http.Get(s.URL); err != nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("without the token: %v, %v", answer, err)
	}
	return s.URL + path
}

// press presses a key in the page of vkc view.
func press(key string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(document.activeElement || document.body).dispatchEvent(new KeyboardEvent("keydown",
			{key: %q, bubbles: true, cancelable: true}))`, key))
}

// click clicks on an element of the page of vkc view.
func click(id string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("$(%q).click()", id))
}

// scheme has the page see that the user prefers light or dark colors.
func scheme(value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
		return err
	})
}

const ready = `document.documentElement.dataset.ready`

// TestView uses the page of vkc view for graphs of different shapes.
func TestView(t *testing.T) {
	model, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	cfg, err := llm.FromGGUF(model)
	if err != nil {
		t.Fatal(err)
	}
	prefill, err := llm.Prefill(cfg, 512)
	if err != nil {
		t.Fatal(err)
	}
	build := func(name string, f func(*frontend.Builder)) *ir.Graph {
		g, err := frontend.Build(name, f)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	ctx := browser(t)
	for _, tt := range []struct {
		graph *ir.Graph
		folds int // at least this many blocks
	}{
		{prefill, 1},
		{build("resnet50", resnet), 3},
		{build("training", training(cfg)), 2},
		{build("long", long(5000)), 0},
	} {
		t.Run(tt.graph.Name, func(t *testing.T) {
			do(t, ctx, chromedp.Navigate(shown(t, tt.graph)), until(ready))
			t.Logf("shown after %s ms", value[string](t, ctx, ready))
			if n := value[int](t, ctx, `current.groups.length`); n < tt.folds {
				t.Errorf("%d repeated blocks, want at least %d", n, tt.folds)
			}
			folded := value[int](t, ctx, `current.items.length`)
			// Each node is shown once, and each block after what it reads.
			do(t, ctx, click("unfold"))
			if n := value[int](t, ctx, `current.items.length`); tt.folds > 0 && n <= folded {
				t.Errorf("%d items unfolded, %d folded", n, folded)
			}
			t.Logf("all %d items laid out in %.0f ms", value[int](t, ctx, `current.items.length`),
				value[float64](t, ctx, `(() => { const t = performance.now(); current.build(); return performance.now() - t; })()`))
			if up := value[int](t, ctx, `current.edges.filter(e => current.items[e.from].y >= current.items[e.to].y).length`); up > 0 {
				t.Errorf("%d edges go up", up)
			}
			do(t, ctx, click("fold"))
			if n := value[int](t, ctx, `current.items.length`); n != folded {
				t.Errorf("%d items folded again, want %d", n, folded)
			}
			// All passes, each before, after and both.
			do(t, ctx, chromedp.Evaluate[chromedp.Void](`for (let p = -1; p < R.passes.length; p++)
				for (const side of ["before", "after", "both"]) go({pass: p, side})`))
			// All kernels have GLSL; the runs are compared.
			do(t, ctx, press("2"), until(`!$("kernels").hidden`))
			if n := value[int](t, ctx, `document.querySelectorAll("#glsl tr").length`); n < 10 {
				t.Errorf("%d lines of GLSL", n)
			}
			do(t, ctx, press("3"), until(`!$("memory").hidden && $("buffers").textContent`))
			do(t, ctx, press("4"), until(`!$("time").hidden`))
			if n := value[int](t, ctx, `lanes.rows.length`); n != 4 {
				t.Errorf("%d lanes of two runs, want 4", n)
			}
			if s := value[string](t, ctx, `$("spans").querySelector("th:last-child").textContent`); s != "B / A" {
				t.Errorf("the last column is %q", s)
			}
		})
	}
}

// TestViewKeys: search, keys and links of the page, at the widths of a desk and of a phone, light and dark.
func TestViewKeys(t *testing.T) {
	g, err := frontend.Build("resnet50", resnet)
	if err != nil {
		t.Fatal(err)
	}
	ctx := browser(t)
	do(t, ctx, chromedp.Navigate(shown(t, g)), until(ready))
	is := func(what, expression string) {
		t.Helper()
		if !value[bool](t, ctx, "Boolean("+expression+")") {
			t.Errorf("%s: not %s", what, expression)
		}
	}
	is("at first", `state.pass === -1 && $("passes").querySelector("[aria-selected=true]").dataset.pass === "-1"`)
	do(t, ctx, press("]"), press("]"))
	is("two passes on", `state.pass === 1 && location.hash === "#graph/1/after"`)
	do(t, ctx, press("b"))
	is("both", `state.side === "both" && !$("canvas-before").hidden && !$("canvas-after").hidden`)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`history.back()`), until(`state.side === "after"`))

	// A node in a folded block is found, and its block unfolds. Its kernel is one key away.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`go({pass: R.passes.findIndex(p => p.after === lastOps), side: "after"})`),
		press("/"), until(`document.activeElement === $("search")`),
		chromedp.Evaluate[chromedp.Void](`$("search").value = "conv40.weight";
			$("search").dispatchEvent(new Event("input"))`), until(`matches.length`))
	is("a match", `R.strings[current.nodes[matches[0]].n] === "conv40.weight"`)
	before := value[int](t, ctx, `current.items.length`)
	do(t, ctx, press("Enter"), until(`current.view.selected === matches[0]`))
	if n := value[int](t, ctx, `current.items.length`); n < before {
		t.Errorf("%d items, %d before", n, before)
	}
	do(t, ctx, press("Escape"), press("ArrowDown"), press("ArrowUp"))
	is("a selection", `current.items[current.selectedItem]`)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](
		`current.select(current.nodes.findIndex(n => n.n && R.strings[n.n] === "conv40.bias")); current.step("ArrowDown");
		current.select(R.kernels.find(k => k.stored).stored[0])`), press("Enter"))
	is("the kernel of a node", `state.tab === "kernels" && R.kernels[state.kernel].stored.includes(R.kernels.find(k => k.stored).stored[0])`)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".chip")].pop().click()`))
	is("lines of an op", `document.querySelectorAll("#glsl tr.lit").length > 0`)
	do(t, ctx, press("?"), until(`$("help").open`), press("Escape"),
		chromedp.Evaluate[chromedp.Void](`$("help").close()`))

	for _, dark := range []string{"light", "dark"} {
		for _, width := range []int64{1300, 390} {
			for _, tab := range []string{"1", "2", "3", "4"} {
				do(t, ctx, chromedp.EmulateViewport(width, 800), scheme(dark), press(tab))
				is(fmt.Sprintf("%s, %d wide, view %s", dark, width, tab),
					`document.documentElement.scrollWidth <= innerWidth`)
				is(fmt.Sprintf("%s, %d wide, view %s", dark, width, tab),
					`[...document.querySelectorAll("section:not([hidden]) canvas:not([hidden])")].every(c => c.clientHeight > 100)`)
				if *screenshot == "" {
					continue
				}
				picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(fmt.Sprintf("%s-%s-%d-%s.png", *screenshot, dark, width, tab), picture, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
