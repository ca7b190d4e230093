package serve_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// TestSoak makes 32 clients send requests to a real model. Some disconnect, and some send too much data or invalid
// JSON. Every other request gets the same text as without load. Afterwards no request is in progress, and the numbers
// of descriptors and the memory of the host and of the device are the same as after the first half. VKC_TEST_REQUESTS
// sets the number of requests. If it is set, the test uses the device in VKC_DEVICE or the best one, and the reference
// otherwise.
func TestSoak(t *testing.T) {
	requests, device := 64, "cpu"
	if text := os.Getenv("VKC_TEST_REQUESTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 64 || n > 1e6 {
			t.Fatalf("VKC_TEST_REQUESTS is %q: want a number of requests, 64 to 1000000", text)
		}
		requests, device = n, os.Getenv("VKC_DEVICE")
	}
	m, err := generate.Open(t.Context(), gollama, generate.Options{
		Device: device, Context: 32, Parallel: 4, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{MaxBody: 4000})
	prompts := []string{"func main() {\n", "package ", "return ", "if err != nil {\n", "for i := range ", "import (\n"}
	alone := make(map[string]string)
	for _, p := range prompts {
		status, body := post(t, s.URL+"/v1/completions", completion(p, false))
		if status != 200 {
			t.Fatalf("%q: %d %s", p, status, body)
		}
		alone[p] = parse(t, body).Choices[0].Text
	}
	var mu sync.Mutex
	counts := make(map[string]int)
	half := func(seed uint64, most int) usage {
		var wg sync.WaitGroup
		for client := range 32 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(client)))
				for n := range (requests + 63) / 64 { // no fewer than asked for, in two halves
					prompt := prompts[r.IntN(len(prompts))]
					kind := ask(t, s.URL, prompt, alone[prompt], r.IntN(8), n)
					mu.Lock()
					counts[kind]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		use := quiet(t, s.URL, most)
		use.device = m.DeviceBytes()
		return use
	}
	first := half(1, 0)
	later := half(2, first.descriptors)
	if later.heap > first.heap+4<<20 || later.device != first.device {
		t.Errorf("in use are %+v, and %+v after more requests", first, later)
	}
	// What the process has of the system grows by pieces, and parts of it are free.
	if first.resident > 0 && later.resident > first.resident+first.resident/4+32<<20 {
		t.Errorf("%d KiB are resident, and %d after more requests", first.resident>>10, later.resident>>10)
	}
	t.Logf("%s; %v; first half %+v, second half %+v", m.Why(), counts, first, later)
}

// usage is the current resource usage; memory is in bytes.
type usage struct {
	descriptors            int
	heap, resident, device uint64
}

// residentBytes is how much memory of the machine this process has, or 0 where the system does not say.
func residentBytes() (bytes uint64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	if _, rest, ok := strings.Cut(string(text), "VmRSS:"); ok {
		fmt.Sscanf(rest, "%d kB", &bytes)
	}
	return bytes << 10
}

func completion(prompt string, stream bool) string {
	text, err := json.Marshal(map[string]any{"prompt": prompt, "stream": stream, "max_tokens": 6, "temperature": 0})
	if err != nil {
		panic(err) // a string and numbers
	}
	return string(text)
}

// ask sends a request of one of eight kinds, fails the test unless it is answered as it should be, and names its kind.
func ask(t *testing.T, url, prompt, want string, kind, n int) string {
	switch kind {
	case 0:
		if status, _ := post(t, url+"/v1/completions", completion(strings.Repeat("x", 5000), false)); status != 413 {
			t.Errorf("a long request: %d", status)
		}
		return "oversized"
	case 1:
		if status, _ := post(t, url+"/v1/completions", `{"prompt": `+prompt); status != 400 {
			t.Errorf("no JSON: %d", status)
		}
		return "malformed"
	case 2:
		leave(t, url, "func", n)
		return "cancelled"
	}
	stream := kind%2 == 0
	status, body := post(t, url+"/v1/completions", completion(prompt, stream))
	if status != 200 {
		t.Errorf("%q: %d %s", prompt, status, body)
		return "failed"
	}
	text, _, _, done := streamed(t, body)
	if !stream {
		text, done = parse(t, body).Choices[0].Text, true
	}
	if !done || text != want {
		t.Errorf("%q is followed by %q (complete: %v): alone it is %q", prompt, text, done, want)
	}
	return fmt.Sprintf("answered, stream %v", stream)
}

// quiet waits until no request is in progress and, unless most is 0, at most that many descriptors are in use. It
// returns the usage. If this never happens, the test runs into its time limit.
func quiet(t *testing.T, url string, most int) (use usage) {
	for {
		_, text := get(t, url+"/metrics")
		if strings.Contains(text, `vllm:num_requests_running{model_name="model"} 0`) &&
			strings.Contains(text, `vllm:num_requests_waiting{model_name="model"} 0`) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
	for last := -1; ; time.Sleep(20 * time.Millisecond) { // connections close slightly later than clients report
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			break // not Linux: memory alone is looked at
		}
		if use.descriptors = len(files); use.descriptors == last && (most == 0 || use.descriptors <= most) {
			break
		}
		last = use.descriptors
	}
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	use.heap, use.resident = mem.HeapAlloc, residentBytes()
	return use
}
