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
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
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

// TestTrain: three steps from random weights, and two that are resumed for a third, come to the same bits, and what
// they print and draw is there. The losses of the first steps are those of the reference.
func TestTrain(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
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
	stopped, err := runUntil(t, parts, 2)
	if err != nil {
		t.Fatal(err)
	}
	resumed, err := run(t.Context(), parts, io.Discard)
	if err != nil || resumed.Resumed != stopped || stopped < 2 {
		t.Errorf("resumed after %d steps of %d: %v", resumed.Resumed, stopped, err)
	}
	a, errA := os.ReadFile(o.checkpoint)
	b, errB := os.ReadFile(parts.checkpoint)
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the training that was resumed ended with other bits: %v", err)
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

// TestLoRA: adapters beside quantized weights are trained, and only they are kept.
func TestLoRA(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	o := small("cpu")
	o.lora, o.steps, o.checkpoint = 2, 2, filepath.Join(t.TempDir(), "lora.safetensors")
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

// runUntil ends a training once it has told of so many steps, and returns how many it took.
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
