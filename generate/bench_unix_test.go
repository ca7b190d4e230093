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

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

var (
	answersModel     = flag.String("answers-model", "", "the GGUF file of the model that answers, in place of gollama")
	answersPrecision = flag.String("answers-precision", "", "what its products may lose, as vkc takes it")
	answersPlaces    = flag.String("answers-places", "1,4,8,16,16/2048",
		"how many answers it has room for at once, each time it is loaded; and how many positions these share")
)

// BenchmarkAnswers says how many tokens a second all answers together get, of one and of several at once, on the best
// device: in the default place, in as many places as there are answers, and where these share pages. An op is 32
// tokens of each.
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
		prompt := append(m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true}), 1000)
		for answers := 1; answers <= o.Parallel; answers *= 2 {
			name := fmt.Sprintf("places=%d/positions=%d/answers=%d", o.Parallel, o.Positions, answers)
			b.Run(name, func(b *testing.B) { benchAnswers(b, m, answers, prompt, Sampling{MaxTokens: 32}) })
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
				benchAnswers(b, m, places, []int32{1, 5, 9}, s)
			})
		}
	}
}

// benchAnswers has a model answer so many at once, whose prompts end with other tokens.
func benchAnswers(b *testing.B, m *Model, answers int, prompt []int32, s Sampling) {
	tokens, used := 0, processorTime(b)
	for b.Loop() {
		var mu sync.Mutex
		var clients sync.WaitGroup
		for seed := range answers {
			clients.Go(func() {
				n, s, prompt := 0, s, slices.Clone(prompt)
				prompt[len(prompt)-1] += int32(seed)
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
	}
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
