package generate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

// BenchmarkAnswers says how many tokens a second all answers together get, of one and of several at once, on the
// best device: in the default place, and in as many places as there are answers. An op is 32 tokens of each.
func BenchmarkAnswers(b *testing.B) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(b, err)
	if err := dev.Close(); err != nil {
		b.Fatal(err)
	}
	path := gollama
	if data := os.Getenv("VKC_TESTDATA"); data != "" {
		path = filepath.Join(data, "gollama", "gollama-f16.gguf")
	}
	for _, places := range []int{1, 4, 8, 16} {
		m := openModel(b, path, Options{Device: "vulkan", Context: 512, Parallel: places})
		for answers := 1; answers <= places; answers *= 2 {
			b.Run(fmt.Sprintf("places=%d/answers=%d", places, answers), func(b *testing.B) {
				benchAnswers(b, m, answers)
			})
		}
	}
}

func benchAnswers(b *testing.B, m *Model, answers int) {
	const most = 32
	prompt := m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true})
	tokens := 0
	for b.Loop() {
		var mu sync.Mutex
		var clients sync.WaitGroup
		for seed := range answers {
			clients.Go(func() {
				n := 0
				prompt := append(prompt, int32(1000+seed))
				for _, err := range m.Generate(context.Background(), prompt, Sampling{MaxTokens: most}) {
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
}
