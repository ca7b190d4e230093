package generate

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
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
	splitContext = flag.Int("split-context", 6144, "positions that each has room for")
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

// leastLoaded returns the n devices with the least load, and adds the new load to them: 1 is a whole model.
func leastLoaded(devices []string, load []float64, n int) string {
	order := make([]int, len(devices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[a], load[b]) })
	taken := slices.Sorted(slices.Values(order[:n]))
	names := make([]string, n)
	for k, i := range taken {
		names[k] = devices[i]
		load[i] += 1 / float64(n)
	}
	return strings.Join(names, ",")
}

// BenchmarkSplits measures the tokens per second that a model reads and generates on one device, and on several with
// each split: `go test ./generate -bench Splits -benchtime 1x -args -split-model FILE`. It loads all splits at once,
// each on the least loaded devices, and runs them in turn with equal prompts. "as-first" is the number of tokens that
// equal the tokens of the first split. With layers all are equal; with tensor parallelism sums are added in another
// order.
func BenchmarkSplits(b *testing.B) {
	if *splitModel == "" {
		b.Skip("-split-model FILE is what to measure")
	}
	prompts, parts := numbersOf(b, *splitPrompts), []int{0}
	if *splitParts != "" {
		parts = numbersOf(b, *splitParts)
	}
	models, why := map[string]*Model{}, map[string][]string{} // why is logged with the first measurement
	ways := strings.Split(*splitWays, ",")
	var all sync.WaitGroup
	opened, errs, took := make([]*Model, len(ways)), make([]error, len(ways)), make([]time.Duration, len(ways))
	devices := strings.Split(*splitDevices, ",")
	load := make([]float64, len(devices))
	for i, way := range ways {
		o, n := Options{Context: *splitContext, Precision: *splitNumbers}, 1
		if way != "one" {
			o.Split = strings.TrimRight(way, "0123456789")
			n = numbersOf(b, way[len(o.Split):])[0]
		}
		if n > len(devices) {
			b.Fatalf("-split-ways %s: there are %d -split-devices", way, len(devices))
		}
		o.Device = leastLoaded(devices, load, n)
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
			why[way] = append(why[way], fmt.Sprintf("%d tokens are expected in %.1f ms", c.rows, c.expected/1e6))
		}
		why[way] = append(why[way], fmt.Sprintf("loaded in %.1f s: %s; prompts: %s", took[i].Seconds(), opened[i].Why(),
			opened[i].prompts[len(opened[i].prompts)-1].exe.Why()))
	}
	if b.Failed() {
		return
	}
	seed := uint64(0)
	for round := range *splitRounds {
		for _, tokens := range prompts {
			for _, part := range parts {
				seed++ // so that nothing of the prompt is known
				var first []int32
				for _, way := range ways {
					name, m := fmt.Sprintf("round=%d/prompt=%d/%s", round, tokens, way), models[way]
					if part > 0 {
						name += fmt.Sprintf("/part=%d", part)
						m.part = part
						for i := range m.prompts {
							m.prompts[i].expected = 0
						}
					}
					b.Run(name, func(b *testing.B) {
						for _, text := range why[way] {
							b.Log(text)
						}
						delete(why, way)
						for b.Loop() {
							answer := benchSplit(b, m, tokens, seed)
							if way == ways[0] {
								first = answer
							}
							b.ReportMetric(float64(agree(first, answer)), "as-first")
						}
					})
				}
			}
		}
	}
}

// agree is how many tokens two answers have in common ahead of the first that differs.
func agree(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// benchSplit measures an answer, until its first token and from there, and returns its tokens.
func benchSplit(b *testing.B, m *Model, tokens int, seed uint64) (answer []int32) {
	prompt := randomPrompt(m, rand.New(rand.NewPCG(uint64(tokens), seed)), tokens)
	begin := time.Now()
	var first time.Duration
	for t, err := range m.Generate(b.Context(), prompt, Sampling{MaxTokens: *splitTokens}) {
		if err != nil {
			b.Fatal(err)
		}
		if answer = append(answer, t.ID); len(answer) == 1 {
			first = time.Since(begin)
		}
	}
	b.ReportMetric(first.Seconds()*1e3, "first-ms")
	b.ReportMetric(float64(len(answer)-1)/(time.Since(begin)-first).Seconds(), "tokens/s")
	return answer
}
