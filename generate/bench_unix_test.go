//go:build unix

package generate

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

var (
	answersModel     = flag.String("answers-model", "", "the GGUF file of the model that answers, in place of gollama")
	answersPrecision = flag.String("answers-precision", "", "what its products may lose, as vkc takes it")
	answersPlaces    = flag.String("answers-places", "1,4,8,16,16/2048",
		"how many answers it has room for at once, each time it is loaded; and how many positions these share")
)

// BenchmarkAnswers measures the total tokens per second of one answer and of several at once, on the best device: with
// one slot, with as many slots as answers, and with shared pages. An op is 32 tokens of each answer. It chooses prompts
// with answers that do not end earlier.
func BenchmarkAnswers(b *testing.B) {
	needDevice(b)
	path := cmp.Or(*answersModel, gollama)
	if data := os.Getenv("VKC_TESTDATA"); data != "" && *answersModel == "" {
		path = filepath.Join(data, "gollama", "gollama-f16.gguf")
	}
	for _, places := range strings.Split(*answersPlaces, ",") {
		o := Options{Device: "vulkan", Context: 512, Precision: *answersPrecision}
		if _, err := fmt.Sscanf(places+"/0", "%d/%d", &o.Parallel, &o.Positions); err != nil {
			b.Fatalf("-answers-places %s: %v", places, err)
		}
		m := openModel(b, path, o)
		s := Sampling{MaxTokens: 32}
		prompts := goingOn(b, m, m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true}), s)
		for answers := 1; answers <= o.Parallel; answers *= 2 {
			name := fmt.Sprintf("places=%d/positions=%d/answers=%d", o.Parallel, o.Positions, answers)
			b.Run(name, func(b *testing.B) { benchAnswers(b, m, prompts[:answers], s) })
		}
	}
}

// BenchmarkHost says how much time of processors a token takes of a model that computes next to nothing, which is the
// host's work where the device is none of them. An op is up to 240 tokens.
func BenchmarkHost(b *testing.B) {
	needDevice(b)
	path := tinyModel(b)
	for _, places := range []int{1, 8} {
		m := openModel(b, path, Options{Device: "vulkan", Context: 256, Parallel: places})
		for name, s := range map[string]Sampling{
			"likeliest": {}, "sampled": {Temperature: 1, MinP: 0.1}, "ranked": {Temperature: 1, TopK: 20},
		} {
			b.Run(fmt.Sprintf("places=%d/%s", places, name), func(b *testing.B) {
				s.MaxTokens = 240
				var prompts [][]int32
				for i := range places {
					prompts = append(prompts, []int32{1, 5, 9 + int32(i)})
				}
				benchAnswers(b, m, prompts, s)
			})
		}
	}
}

// goingOn returns as many prompts as the model has slots. They begin alike, and their answers reach the maximum length.
func goingOn(b *testing.B, m *Model, begin []int32, s Sampling) (list [][]int32) {
	for last := int32(1000); len(list) < m.slotCount; last++ {
		if int(last) == m.config.Vocab {
			b.Fatalf("answers to %d prompts have %d tokens: want those to %d", len(list), s.MaxTokens, m.slotCount)
		}
		n, prompt := 0, append(slices.Clone(begin), last)
		for _, err := range m.Generate(context.Background(), prompt, s) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n == s.MaxTokens {
			list = append(list, prompt)
		}
	}
	return list
}

// benchAnswers makes a model answer prompts at once. It also reports the tokens per second of the median op, because
// other work on the machine affects the mean.
func benchAnswers(b *testing.B, m *Model, prompts [][]int32, s Sampling) {
	tokens, used := 0, processorTime(b)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		var mu sync.Mutex
		var clients sync.WaitGroup
		for seed, prompt := range prompts {
			clients.Go(func() {
				n, s := 0, s
				s.Seed = uint64(seed)
				for _, err := range m.Generate(context.Background(), prompt, s) {
					if err != nil {
						b.Error(err)
					}
					n++
				}
				mu.Lock()
				defer mu.Unlock()
				tokens += n
			})
		}
		clients.Wait()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	each := float64(tokens) / float64(len(took))
	b.ReportMetric(each/took[len(took)/2].Seconds(), "median-tokens/s")
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric((processorTime(b)-used)/float64(tokens)*1e6, "cpu-us/token")
}

// processorTime is how many seconds of processors this process has used.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
