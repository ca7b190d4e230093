package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// metrics are the metrics of GET /metrics, in the text format of Prometheus 0.0.4. They have vLLM's names, so that load
// balancers for vLLM replicas work with this server.
type metrics struct {
	mu                         sync.Mutex
	promptTokens, answerTokens int
	refused                    int            // because too many requests wait
	finished                   map[string]int // requests by the reason for their end
	first, each, mean, whole   histogram
}

// record measures one request for the metrics: its times and tokens.
type record struct {
	m             *metrics
	arrived, last time.Time
	first         time.Time // when the first token came
	tokens        int
}

// refuse counts a request that found the queue full.
func (m *metrics) refuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused++
}

// begin records the arrival of a request.
func (m *metrics) begin() *record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &record{m: m, arrived: time.Now()}
}

// token records one more token of the answer: the time to the first one, or since the one before.
func (r *record) token() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	now := time.Now()
	r.tokens++
	if r.tokens == 1 {
		r.first = now
		r.m.first.add(now.Sub(r.arrived))
	} else {
		r.m.each.add(now.Sub(r.last))
	}
	r.last = now
	r.m.answerTokens++
}

// end records the end of the request: its reason how, its tokens u and its times. err is an error that ended it, or
// nil. An error of the connection counts as abort.
func (r *record) end(how finish, u usage, err error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.promptTokens += u.Prompt
	name := string(how)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errGone):
		name = "abort"
	case err != nil:
		name = "error"
	}
	if r.m.finished == nil {
		r.m.finished = map[string]int{}
	}
	r.m.finished[name]++
	if r.tokens > 1 {
		r.m.mean.add(r.last.Sub(r.first) / time.Duration(r.tokens-1))
	}
	r.m.whole.add(time.Since(r.arrived))
}

// bounds are the upper ends of the histograms' buckets, in seconds.
var bounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// histogram counts durations.
type histogram struct {
	counts []int // by the first bound that is not less; the last element counts values above all bounds
	sum    float64
}

// add counts a duration.
func (h *histogram) add(d time.Duration) {
	if h.counts == nil {
		h.counts = make([]int, len(bounds)+1)
	}
	at, _ := slices.BinarySearch(bounds, d.Seconds())
	h.counts[at]++
	h.sum += d.Seconds()
}

// serveMetrics answers GET /metrics, in the text format of Prometheus.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) error {
	var text strings.Builder
	if s.several != nil {
		writeFamilies(&text, s.several.servers())
	} else {
		s.metrics.write(&text, s.o.Name, s.model)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	io.WriteString(w, text.String())
	return nil
}

// writeFamilies writes the metrics of several models. Prometheus wants the samples of a name together.
func writeFamilies(w io.Writer, servers []*Server) {
	var names []string
	heads, samples := map[string]string{}, map[string]string{}
	for _, s := range servers {
		var text strings.Builder
		s.metrics.write(&text, s.o.Name, s.model)
		name := ""
		for line := range strings.Lines(text.String()) {
			// Each name begins with a line HELP and a line TYPE, and its samples follow.
			rest, isHelp := strings.CutPrefix(line, "# HELP ")
			switch {
			case isHelp:
				name, _, _ = strings.Cut(rest, " ")
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
				heads[name] = line
			case strings.HasPrefix(line, "# TYPE "):
				heads[name] += line
			default:
				samples[name] += line
			}
		}
	}
	for _, name := range names {
		io.WriteString(w, heads[name]+samples[name])
	}
}

// write writes all metrics in the text format of Prometheus. name labels them with the model.
func (m *metrics) write(w io.Writer, name string, of Model) {
	now, prompts := of.Load(), of.Reused()
	m.mu.Lock()
	defer m.mu.Unlock()
	label := fmt.Sprintf("model_name=%s", quoted(name))
	one := func(name, kind, help string, value any) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %[1]s %[3]s\n%[1]s{%[4]s} %[5]v\n", name, help, kind, label, value)
	}
	one("vllm:num_requests_running", "gauge", "Requests with an answer in progress.", now.Running)
	one("vllm:num_requests_waiting", "gauge", "Requests that wait for a place.", now.Waiting)
	one("vllm:kv_cache_usage_perc", "gauge", "Used fraction of the KV cache, 0 to 1.", now.Cache)
	one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens that were looked up in the prefix "+
		"cache.", prompts.Tokens)
	one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens that were found in the prefix cache.", prompts.Known)
	one("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", m.promptTokens)
	one("vllm:generation_tokens_total", "counter", "Tokens of answers.", m.answerTokens)
	one("vkc_device_memory_bytes", "gauge", "Device memory of the model, in bytes.", of.DeviceBytes())
	one("vkc_requests_refused_total", "counter", "Requests refused because too many were waiting.", m.refused)
	fmt.Fprint(w, "# HELP vllm:request_success_total Requests by the reason why they ended.\n",
		"# TYPE vllm:request_success_total counter\n")
	for _, how := range slices.Sorted(maps.Keys(m.finished)) {
		fmt.Fprintf(w, "vllm:request_success_total{finished_reason=%s,%s} %d\n", quoted(how), label, m.finished[how])
	}
	for _, h := range []struct {
		name, help string
		histogram
	}{
		{"time_to_first_token_seconds", "Time from the request to the first token of its answer.", m.first},
		{"time_per_output_token_seconds", "Time between two tokens of an answer.", m.each},
		{"inter_token_latency_seconds", "The same, by vLLM's newer name.", m.each},
		{"request_time_per_output_token_seconds", "Mean time between tokens, per answer.", m.mean},
		{"e2e_request_latency_seconds", "Time from the request to the end of its answer.", m.whole},
	} {
		fmt.Fprintf(w, "# HELP vllm:%s %s\n# TYPE vllm:%[1]s histogram\n", h.name, h.help)
		h.write(w, h.name, label)
	}
}

// write writes the samples of a histogram in the text format of Prometheus. There a bucket counts all durations up to
// its bound, including those of smaller buckets.
func (h *histogram) write(w io.Writer, name, label string) {
	total := 0
	for i := range len(bounds) + 1 {
		if h.counts != nil {
			total += h.counts[i]
		}
		upper := "+Inf"
		if i < len(bounds) {
			upper = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		fmt.Fprintf(w, "vllm:%s_bucket{le=%s,%s} %d\n", name, quoted(upper), label, total)
	}
	fmt.Fprintf(w, "vllm:%s_sum{%s} %g\nvllm:%[1]s_count{%[2]s} %[4]d\n", name, label, h.sum, total)
}

// quoted returns the value of a label as Prometheus's text format quotes it.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
