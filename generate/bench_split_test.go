package generate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	splitModel   = flag.String("split-model", "", "the GGUF file of the model whose ways over devices are measured")
	splitDevices = flag.String("split-devices", "0,1", "the devices that have it")
	splitPrompts = flag.String("split-prompts", "16,4096", "tokens of the prompts")
	splitWays    = flag.String("split-ways", "one,tensor,layers", "the ways, which are loaded at once")
	splitRounds  = flag.Int("split-rounds", 2, "how often all take turns")
)

// BenchmarkSplits says how many tokens a second a model reads and generates on one device, and in each way over
// several: `go test ./generate -bench Splits -benchtime 1x -args -split-model FILE`. All are loaded at once, and take
// turns.
func BenchmarkSplits(b *testing.B) {
	if *splitModel == "" {
		b.Skip("-split-model FILE is what to measure")
	}
	var prompts []int
	for _, text := range strings.Split(*splitPrompts, ",") {
		n := 0
		if _, err := fmt.Sscan(text, &n); err != nil {
			b.Fatalf("-split-prompts %s: %v", *splitPrompts, err)
		}
		prompts = append(prompts, n)
	}
	first, _, _ := strings.Cut(*splitDevices, ",")
	models := map[string]*Model{}
	ways := strings.Split(*splitWays, ",")
	var all sync.WaitGroup
	opened, errs, took := make([]*Model, len(ways)), make([]error, len(ways)), make([]time.Duration, len(ways))
	for i, way := range ways {
		o := Options{Device: *splitDevices, Split: way, Context: 6144}
		if way == "one" {
			o.Device, o.Split = first, ""
		}
		all.Go(func() {
			begin := time.Now()
			opened[i], errs[i] = Open(b.Context(), *splitModel, o)
			took[i] = time.Since(begin)
		})
	}
	all.Wait()
	for i, way := range ways {
		if errs[i] != nil {
			b.Error(errs[i])
			continue
		}
		b.Cleanup(func() {
			if err := opened[i].Close(); err != nil {
				b.Error(err)
			}
		})
		models[way] = opened[i]
		b.Logf("%s, in %.1f s: %s", way, took[i].Seconds(), models[way].Why())
	}
	if b.Failed() {
		return
	}
	for round := range *splitRounds {
		for _, tokens := range prompts {
			for _, way := range ways {
				b.Run(fmt.Sprintf("round=%d/prompt=%d/%s", round, tokens, way), func(b *testing.B) {
					for b.Loop() {
						benchSplit(b, models[way], tokens)
					}
				})
			}
		}
	}
}

// benchSplit measures an answer: until its first token, and from there.
func benchSplit(b *testing.B, m *Model, tokens int) {
	prompt := randomPrompt(m, rand.New(rand.NewPCG(uint64(tokens), 3)), tokens)
	begin, n := time.Now(), 0
	var first time.Duration
	for _, err := range m.Generate(b.Context(), prompt, Sampling{MaxTokens: 129}) {
		if err != nil {
			b.Fatal(err)
		}
		if n++; n == 1 {
			first = time.Since(begin)
		}
	}
	b.ReportMetric(first.Seconds()*1e3, "first-ms")
	b.ReportMetric(float64(n-1)/(time.Since(begin)-first).Seconds(), "tokens/s")
}
