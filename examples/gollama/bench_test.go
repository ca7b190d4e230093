package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// BenchmarkForward runs the model on texts of several lengths, and steps of
// generation at the 256th position: on the CPU reference, and on the Vulkan
// device of this machine as compiled for itself and for the generic profile,
// which knows nothing of it.
func BenchmarkForward(b *testing.B) {
	m, err := openModel("")
	if err != nil {
		b.Fatal(err)
	}
	defer m.close()
	b.Run("reference", func(b *testing.B) { benchModel(b, m, "cpu", nil) })
	b.Run("device", func(b *testing.B) { benchModel(b, m, "vulkan", nil) })
	generic, err := device.Profile("generic")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("generic", func(b *testing.B) { benchModel(b, m, "vulkan", &generic) })
}

// benchModel runs the model on a device, compiled for that device or for caps.
func benchModel(b *testing.B, m *model, device string, caps *device.Caps) {
	dev, err := vkc.OpenDevice(device)
	vktest.Need(b, err)
	defer dev.Close()
	load := func(g *ir.Graph) *vkc.Executable {
		p, err := dev.Compile(b.Context(), g, vkc.CompileOptions{})
		if caps != nil {
			p, err = vkc.Compile(b.Context(), g, vkc.CompileOptions{Target: *caps})
		}
		if err != nil {
			b.Fatal(err)
		}
		exe, err := dev.Load(b.Context(), p, vkc.LoadOptions{Weights: m.file})
		if err != nil {
			b.Fatal(err)
		}
		return exe
	}
	step, err := llm.Step(m.config, maxTokens)
	if err != nil {
		b.Fatal(err)
	}
	prompt, generate := load(m.graph), load(step)
	defer prompt.Close()
	defer generate.Close()
	for _, n := range []int{1, 6, 64, maxTokens} {
		b.Run(fmt.Sprintf("tokens=%d", n), func(b *testing.B) { benchTokens(b, m, prompt, n, nil) })
	}
	b.Run("step", func(b *testing.B) { benchTokens(b, m, generate, 1, map[string]int64{"S": 256}) })
}

// benchTokens reports how many tokens, n in a run, go through the model in a
// second, and how long the process computes for a run, which other programs on
// the machine change less.
func benchTokens(b *testing.B, m *model, exe *vkc.Executable, n int, symbols map[string]int64) {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i*7919) % int64(m.config.Vocab)
	}
	tokens, err := ir.FromInts(ir.I32, ids, n)
	if err != nil {
		b.Fatal(err)
	}
	in := map[string]*ir.Data{"tokens": tokens}
	run := func() {
		if _, err := exe.Run(context.Background(), in, vkc.RunOptions{Symbols: symbols}); err != nil {
			b.Fatal(err)
		}
	}
	run() // drivers compile at the first run
	before := processTime()
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric((processTime()-before).Seconds()*1e3/float64(b.N), "cpu-ms/op")
}
