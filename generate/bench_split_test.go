package generate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	splitModel   = flag.String("split-model", "", "the GGUF file of the model whose ways over devices are measured")
	splitDevices = flag.String("split-devices", "0,1", "the devices that have it")
	splitPrompts = flag.String("split-prompts", "16,4096", "tokens of the prompts")
	splitWays    = flag.String("split-ways", "one,tensor2,layers2", "ways over so many devices, all loaded at once")
	splitRounds  = flag.Int("split-rounds", 2, "how often all take turns")
	splitNumbers = flag.String("split-precision", "", "what products may lose, as --precision has it")
	splitTokens  = flag.Int("split-tokens", 129, "tokens of an answer")
	splitParts   = flag.String("split-parts", "", "how many tokens of a prompt are read at a time, such as 512,2048")
)

// numbersOf reads a list of numbers.
func numbersOf(b *testing.B, list string) (all []int) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("%q: want a list of numbers such as 512,2048", list)
		}
		all = append(all, n)
	}
	return all
}

// BenchmarkSplits says how many tokens a second a model reads and generates on one device, and in each way over
// several: `go test ./generate -bench Splits -benchtime 1x -args -split-model FILE`. All are loaded at once, and take
// turns.
func BenchmarkSplits(b *testing.B) {
	if *splitModel == "" {
		b.Skip("-split-model FILE is what to measure")
	}
	prompts, parts := numbersOf(b, *splitPrompts), []int{0}
	if *splitParts != "" {
		parts = numbersOf(b, *splitParts)
	}
	models := map[string]*Model{}
	ways := strings.Split(*splitWays, ",")
	var all sync.WaitGroup
	opened, errs, took := make([]*Model, len(ways)), make([]error, len(ways)), make([]time.Duration, len(ways))
	for i, way := range ways {
		o := Options{Device: *splitDevices, Context: 6144, Precision: *splitNumbers}
		n, devices := 1, strings.Split(*splitDevices, ",")
		if way != "one" {
			o.Split = strings.TrimRight(way, "0123456789")
			n = numbersOf(b, way[len(o.Split):])[0]
		}
		if n > len(devices) {
			b.Fatalf("-split-ways %s: there are %d -split-devices", way, len(devices))
		}
		o.Device = strings.Join(devices[:n], ",")
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
		for _, c := range opened[i].prompts {
			b.Logf("%s: %d tokens are expected in %.1f ms", way, c.rows, c.expected/1e6)
		}
		b.Logf("%s, in %.1f s: %s; prompts: %s", way, took[i].Seconds(), opened[i].Why(),
			opened[i].prompts[len(opened[i].prompts)-1].exe.Why())
	}
	if b.Failed() {
		return
	}
	seed := uint64(0)
	for round := range *splitRounds {
		for _, tokens := range prompts {
			for _, way := range ways {
				for _, part := range parts {
					name, m := fmt.Sprintf("round=%d/prompt=%d/%s", round, tokens, way), models[way]
					if part > 0 {
						name += fmt.Sprintf("/part=%d", part)
						m.part = part
						for i := range m.prompts {
							m.prompts[i].expected = 0
						}
					}
					seed++ // so that nothing of the prompt is known
					b.Run(name, func(b *testing.B) {
						for b.Loop() {
							benchSplit(b, m, tokens, seed)
						}
					})
				}
			}
		}
	}
}

// benchSplit measures an answer: until its first token, and from there.
func benchSplit(b *testing.B, m *Model, tokens int, seed uint64) {
	prompt := randomPrompt(m, rand.New(rand.NewPCG(uint64(tokens), seed)), tokens)
	begin, n := time.Now(), 0
	var first time.Duration
	for _, err := range m.Generate(b.Context(), prompt, Sampling{MaxTokens: *splitTokens}) {
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
