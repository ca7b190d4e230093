package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// small is a training of seconds.
func small(device string) options {
	return options{device: device, ext: ".go", files: 4, steps: 3, batch: 2, context: 12, layers: 1, rate: 1e-3,
		rule: "adamw", seed: 1, quiet: 1, corpus: "."}
}

func need(t *testing.T, err error) {
	t.Helper()
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) && !vktest.Required() {
		t.Skip(err)
	}
	vktest.Need(t, err)
}

// TestTrain: three steps from random weights give the same bits as two steps and a resumed third one, and all output
// and plots are complete. The losses of the first steps equal the reference's.
func TestTrain(t *testing.T) {
	devtest.OwnCache(t)
	dir := t.TempDir()
	o := small("vulkan")
	o.checkpoint, o.svg = filepath.Join(dir, "whole.safetensors"), filepath.Join(dir, "loss.svg")
	var out strings.Builder
	report, err := run(t.Context(), o, &out)
	need(t, err)
	for _, want := range []string{"kernels a step", "step 3 of 3, loss", "tokens/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	if svg, err := os.ReadFile(o.svg); err != nil || !bytes.Contains(svg, []byte("polyline")) {
		t.Errorf("the drawing: %v", err)
	}
	parts := o
	parts.checkpoint = filepath.Join(dir, "parts.safetensors")
	// The schedule depends on the number of steps, so the first part is ended from outside.
	stopped, err := runUntil(t, parts, 1)
	if err != nil {
		t.Fatal(err)
	}
	resumed, err := run(t.Context(), parts, io.Discard)
	if err != nil || resumed.Resumed != stopped || stopped == o.steps {
		t.Errorf("resumed after %d steps of %d: %v", resumed.Resumed, stopped, err)
	}
	a, errA := os.ReadFile(o.checkpoint)
	b, errB := os.ReadFile(parts.checkpoint)
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the training that was resumed ended with other bits: %v", err)
	}
	parts.seed++
	if _, err := run(t.Context(), parts, io.Discard); err == nil || !strings.Contains(err.Error(), `with -seed "1"`) {
		t.Errorf("another seed went on from there: %v", err)
	}
	onReference := small("reference")
	want, err := run(t.Context(), onReference, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range want.Losses {
		if have := report.Losses[i]; have < x-1e-4*x || have > x+1e-4*x {
			t.Errorf("the loss of step %d is %v, on the reference %v", i+1, have, x)
		}
	}
}

// TestHalf: matmuls in f16 with a scaled loss give about the same losses, and the checkpoint contains the scale.
func TestHalf(t *testing.T) {
	devtest.OwnCache(t)
	o := small("vulkan")
	want, err := run(t.Context(), o, io.Discard)
	need(t, err)
	o.half, o.checkpoint = true, filepath.Join(t.TempDir(), "half.safetensors")
	have, err := run(t.Context(), o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range want.Losses {
		if y := have.Losses[i]; y < x-1e-2*x || y > x+1e-2*x {
			t.Errorf("the loss of step %d is %v, in f32 %v", i+1, y, x)
		}
	}
	f, err := safetensors.Open(o.checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]float64{"scale": 1 << 16, "scale.good": 3, "step": 3} {
		d, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := d.Floats(); err != nil || list[0] != want {
			t.Errorf("state %q is %v (%v), want %v", name, list, err, want)
		}
	}
}

// TestSays: options that train nothing are rejected with the flag's name. The output says when a training is done,
// interrupted or resumed.
func TestSays(t *testing.T) {
	devtest.OwnCache(t)
	none, short := filepath.Join(t.TempDir(), "none"), t.TempDir()
	if err := os.WriteFile(filepath.Join(short, "a.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(o *options){
		"-steps 0: want at least 1":                        func(o *options) { o.steps = 0 },
		"-batch 0: want at least 1":                        func(o *options) { o.batch = 0 },
		"-lora -1: want at least 0":                        func(o *options) { o.lora = -1 },
		"-lora 999: blk.0.attn_q.weight":                   func(o *options) { o.lora = 999 },
		"-layers 99: the model has 8":                      func(o *options) { o.layers = 99 },
		"-rate 0: want more than 0":                        func(o *options) { o.rate = 0 },
		"-rule sdg: want one of adamw, lion":               func(o *options) { o.rule = "sdg" },
		"-adapter x: want -lora too":                       func(o *options) { o.adapter = "x" },
		"-svg: open":                                       func(o *options) { o.svg = filepath.Join(none, "loss.svg") },
		"-corpus: ":                                        func(o *options) { o.corpus = none },
		`no file in . ends in ".none"`:                     func(o *options) { o.ext = ".none" },
		"none: no such file or directory":                  func(o *options) { o.gguf = none },
		"want more than 12, the -context":                  func(o *options) { o.corpus = short },
		"-context: llm: 1000000 positions: want 1 to 1024": func(o *options) { o.context = 1000000 },
	} {
		o := small("cpu")
		change(&o)
		if _, err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	o := small("cpu")
	o.checkpoint, o.svg = filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "loss.svg")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said strings.Builder
	_, err := run(ctx, o, writerFunc(func(line string) {
		said.WriteString(line)
		if strings.HasPrefix(line, "step 1 ") { // the second is on its way then
			cancel()
		}
	}))
	want := "stopped after 2 of 3 steps; the same command goes on from " + o.checkpoint
	if !errors.Is(err, context.Canceled) || !strings.Contains(said.String(), want) {
		t.Errorf("what is stopped says %v after %s", err, said.String())
	}
	if _, err := os.Stat(o.svg); err != nil {
		t.Errorf("what is stopped draws nothing: %v", err)
	}
	for _, want := range []string{"and the training goes on from there", "nothing is left to do"} {
		said.Reset()
		if _, err := run(t.Context(), o, &said); err != nil || !strings.Contains(said.String(), want) {
			t.Errorf("there is no %q in %s: %v", want, said.String(), err)
		}
	}
}

// TestLoRA: only the adapters for quantized weights are trained and saved.
func TestLoRA(t *testing.T) {
	devtest.OwnCache(t)
	o := small("cpu")
	o.lora, o.steps, o.checkpoint = 2, 2, filepath.Join(t.TempDir(), "lora.safetensors")
	o.adapter = filepath.Join(t.TempDir(), "lora.gguf")
	if _, err := run(t.Context(), o, io.Discard); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(o.checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	up, err := f.Weight("blk.0.attn_q.weight.lora_b")
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := up.Floats(); slices.Max(list) == 0 || f.HasWeight("blk.0.attn_q.weight") {
		t.Errorf("the second matrix is %v, and %q are kept", up, f.Names())
	}
	m, err := openModel(o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.file.Close()
	saved, err := lora.Open(o.adapter, m.config)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	if d, err := saved.Weight("blk.0.attn_q.weight.lora_b"); err != nil || !bytes.Equal(d.Bytes, up.Bytes) {
		t.Errorf("the adapter file has other matrices than the checkpoint: %v", err)
	}
	if factor := saved.Graph("", 1).Matrices["blk.0.attn_q.weight"].Factor; factor != adapterFactor {
		t.Errorf("the factor is %v", factor)
	}
	o.adapter = ""
	// What another program would begin with.
	o.export = t.TempDir()
	if _, err := run(t.Context(), o, io.Discard); err != nil {
		t.Fatal(err)
	}
	b, err := safetensors.Open(filepath.Join(o.export, "batches.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if d, err := b.Weight("tokens"); err != nil || d.String() != "i32[2 2 13]" && d.String() != "i32[2,2,13]" {
		t.Errorf("the batches are %v: %v", d, err)
	}
}

// runUntil ends a training once it has told of so many steps, and returns how many it took: the next one is on its way
// then.
func runUntil(t *testing.T, o options, steps int) (int, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := run(ctx, o, writerFunc(func(line string) {
		if strings.HasPrefix(line, "step "+strconv.Itoa(steps)+" ") {
			cancel()
		}
	}))
	if err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	return len(report.Losses), nil
}

type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }
