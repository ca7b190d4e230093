// Command soak sends many requests of all kinds to a vkc serve that it starts, and reports whether the server's memory
// and descriptors stay flat.
//
//	go run ./soak -requests 20000 -clients 64 -model MODEL.gguf ../../bin/vkc serve --device cpu --parallel 8
//
// It adds a chat template to the model, and flags for the address and the model to the command. Each answer must have a
// status that its kind allows, and each greedy answer must be the same every time. Some clients leave in the middle of
// a stream, and some send what is no request. The program fails if a status or an answer is wrong, or if the server
// uses more in the last quarter than in the second one: an eighth more memory, or more descriptors at rest.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vkc-go/vkc/frontend/gguf"
)

const template = "{% if tools %}{{ tools[0].function.name }}{% endif %}" +
	"{% for m in messages %}{{ m.content }}\n{% endfor %}"

func main() {
	log.SetFlags(0)
	requests := flag.Int("requests", 20000, "how many requests to send")
	clients := flag.Int("clients", 64, "how many clients send them")
	model := flag.String("model", "../../examples/gollama/gollama-q8_0.gguf", "the model, a GGUF file")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("soak: name the command that serves, such as ../../bin/vkc serve --device cpu")
	}
	if err := run(*requests, *clients, *model, flag.Args()); err != nil {
		log.Fatal("soak: ", err)
	}
}

// soak is the state of a run.
type soak struct {
	url    string
	client *http.Client

	mu     sync.Mutex
	counts map[string]int
	greedy map[string]string // the answers of greedy requests
	wrong  []string
}

// run starts the command of a server, sends it requests, and prints how many of each kind it answered. It fails if an
// answer is wrong, or if the server uses more memory or descriptors after the last quarter of the requests than after
// the second.
func run(requests, clients int, model string, command []string) (err error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	talker := filepath.Join(dir, "talker.gguf")
	if err := gguf.Edit(model, talker, gguf.KV{Key: "tokenizer.chat_template", Value: template}); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	server := exec.Command(command[0], append(command[1:], "-m", talker, "--listen", address, "--queue",
		fmt.Sprint(2*clients), "--max-body", "20000", "--slot-save-path", dir)...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, server.Process.Signal(syscall.SIGTERM), server.Wait())
	}()
	s := &soak{url: "http://" + address, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients},
		Timeout: 10 * time.Minute}, counts: map[string]int{}, greedy: map[string]string{}}
	if err := s.waitReady(); err != nil {
		return err
	}
	began := time.Now()
	var quarters []usage
	fmt.Println("| requests | s | resident MiB | descriptors at rest |\n|---:|---:|---:|---:|")
	for quarter := range 4 {
		s.askAll(requests/4, clients, uint64(quarter))
		use, err := s.atRest(server.Process.Pid)
		if err != nil {
			return err
		}
		quarters = append(quarters, use)
		fmt.Printf("| %d | %.0f | %.1f | %d |\n", (quarter+1)*(requests/4), time.Since(began).Seconds(),
			float64(use.resident)/(1<<20), use.descriptors)
	}
	fmt.Println("\n| kind and status | requests |\n|---|---:|")
	for _, kind := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Printf("| %s | %d |\n", kind, s.counts[kind])
	}
	for _, text := range s.wrong[:min(len(s.wrong), 20)] {
		fmt.Println(text)
	}
	before, after := quarters[1], quarters[3]
	switch {
	case len(s.wrong) > 0:
		return fmt.Errorf("%d answers were wrong", len(s.wrong))
	// Memory may grow by an eighth, because the garbage collector gives none back at once.
	case after.descriptors > before.descriptors || after.resident > before.resident+before.resident/8:
		return fmt.Errorf("the server uses %+v after the last quarter, and used %+v after the second", after, before)
	}
	return nil
}

// askAll sends that many random requests by concurrent clients, and waits for the answers.
func (s *soak) askAll(requests, clients int, seed uint64) {
	var all sync.WaitGroup
	for client := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		n := requests / clients
		if client < requests%clients {
			n++
		}
		all.Go(func() {
			for range n {
				s.ask(r)
			}
		})
	}
	all.Wait()
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// waitReady waits until the server answers.
func (s *soak) waitReady() error {
	for range 600 {
		if r, err := s.client.Get(s.url + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the server does not answer")
}

// usage is the memory and the number of descriptors of the server's process.
type usage struct {
	resident    uint64 // bytes
	descriptors int
}

// atRest returns the usage of the server when no request is in progress and no client is connected.
func (s *soak) atRest(pid int) (use usage, err error) {
	for {
		r, err := s.client.Get(s.url + "/metrics")
		if err != nil {
			return use, err
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return use, err
		}
		idle := 0
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); value == "0" &&
				(strings.HasPrefix(name, "vllm:num_requests_running") ||
					strings.HasPrefix(name, "vllm:num_requests_waiting")) {
				idle++
			}
		}
		if idle >= 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.client.CloseIdleConnections()
	time.Sleep(time.Second) // the server closes them too
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return use, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return use, err
	}
	if _, rest, ok := strings.Cut(string(text), "VmRSS:"); ok {
		if _, err := fmt.Sscanf(rest, "%d kB", &use.resident); err != nil {
			return use, err
		}
	}
	use.resident <<= 10
	use.descriptors = len(files)
	return use, nil
}

// object is a JSON object.
type object = map[string]any

// kind is a kind of request.
type kind struct {
	name, method, path string
	body               func(r *rand.Rand) any // nil for none; a string is sent as it is
	allowed            []int                  // statuses; nil means 200
	leaves             bool                   // whether the client leaves after the first bytes of the answer
}

var prompts = []string{"func main() {\n", "package ", "return ", "if err != nil {\n", "for i := range ", "import (\n"}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// with returns a body with further fields.
func with(body object, more object) object {
	body = maps.Clone(body)
	maps.Copy(body, more)
	return body
}

// completion returns a greedy completion: its answer is always the same.
func completion(r *rand.Rand) object {
	return object{"prompt": oneOf(r, prompts), "max_tokens": 2 + r.IntN(6), "temperature": 0}
}

func chat(r *rand.Rand) object {
	return object{"messages": []object{{"role": "user", "content": oneOf(r, prompts)}}, "max_tokens": 2 + r.IntN(6),
		"temperature": 0}
}

// sampled adds a sampling of any kind.
func sampled(r *rand.Rand, body object) object {
	return with(body, oneOf(r, []object{{"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "seed": 3},
		{"temperature": 1, "mirostat": 1 + r.IntN(2)}, {"temperature": 1, "typical_p": 0.7, "top_n_sigma": 2},
		{"temperature": 1, "xtc_probability": 0.5}, {"dry_multiplier": 0.8}, {"repetition_penalty": 1.2},
		{"presence_penalty": 0.5, "frequency_penalty": 0.5}, {"logit_bias": object{"5": -100}, "min_tokens": 2},
		{"logprobs": 2}}))
}

var schema = object{"type": "object", "properties": object{"kind": object{"enum": []string{"a", "b"}},
	"line": object{"type": "integer", "minimum": 1, "maximum": 99}}, "required": []string{"kind", "line"},
	"additionalProperties": false}

var tools = []object{{"type": "function", "function": object{"name": "look", "parameters": schema}}}

var kinds = []kind{
	{"completion", "POST", "/v1/completions", func(r *rand.Rand) any { return completion(r) }, nil, false},
	{"completion, stream", "POST", "/v1/completions",
		func(r *rand.Rand) any { return with(completion(r), object{"stream": true}) }, nil, false},
	{"completion, sampled", "POST", "/v1/completions", func(r *rand.Rand) any { return sampled(r, completion(r)) }, nil,
		false},
	{"completion, several", "POST", "/v1/completions", func(r *rand.Rand) any {
		return with(completion(r), object{"n": 2, "best_of": 3, "temperature": 1, "prompt": prompts[:2]})
	}, nil, false},
	{"completion, long prompt", "POST", "/v1/completions", func(r *rand.Rand) any {
		return with(completion(r), object{"prompt": strings.Repeat(oneOf(r, prompts), 5+r.IntN(20))})
	}, nil, false},
	{"completion, echo", "POST", "/v1/completions", func(r *rand.Rand) any {
		return with(completion(r), object{"echo": true, "logprobs": 1, "max_tokens": 0})
	}, nil, false},
	{"chat", "POST", "/v1/chat/completions", func(r *rand.Rand) any { return chat(r) }, nil, false},
	{"chat, stream", "POST", "/v1/chat/completions",
		func(r *rand.Rand) any { return with(chat(r), object{"stream": true}) }, nil, false},
	{"chat, schema", "POST", "/v1/chat/completions", func(r *rand.Rand) any {
		return with(chat(r), object{"max_tokens": 40, "response_format": object{"type": "json_schema",
			"json_schema": object{"name": "x", "schema": schema}}})
	}, nil, false},
	{"chat, tools", "POST", "/v1/chat/completions", func(r *rand.Rand) any {
		return with(chat(r), object{"max_tokens": 60, "tools": tools, "tool_choice": "required"})
	}, nil, false},
	{"chat, grammar", "POST", "/v1/chat/completions", func(r *rand.Rand) any {
		return with(chat(r), object{"grammar": `root ::= [a-z]+ "."`, "stream": true})
	}, nil, false},
	{"responses", "POST", "/v1/responses", func(r *rand.Rand) any {
		return object{"input": oneOf(r, prompts), "max_output_tokens": 4, "stream": r.IntN(2) == 0}
	}, nil, false},
	{"messages", "POST", "/v1/messages", func(r *rand.Rand) any {
		return object{"max_tokens": 4, "stream": r.IntN(2) == 0,
			"messages": []object{{"role": "user", "content": oneOf(r, prompts)}}}
	}, nil, false},
	{"messages, count", "POST", "/v1/messages/count_tokens", func(r *rand.Rand) any {
		return object{"messages": []object{{"role": "user", "content": oneOf(r, prompts)}}}
	}, nil, false},
	{"llama.cpp's completion", "POST", "/completion", func(r *rand.Rand) any {
		return object{"prompt": oneOf(r, prompts), "n_predict": 4, "n_probs": r.IntN(3), "stream": r.IntN(2) == 0}
	}, nil, false},
	{"tokenize", "POST", "/tokenize", func(r *rand.Rand) any { return object{"prompt": oneOf(r, prompts)} }, nil, false},
	{"detokenize", "POST", "/detokenize", func(r *rand.Rand) any { return object{"tokens": []int{5, 6, 7}} }, nil, false},
	{"template", "POST", "/apply-template", func(r *rand.Rand) any { return chat(r) }, nil, false},
	{"slots, save", "POST", "/slots/0?action=save",
		func(r *rand.Rand) any { return object{"filename": "slot"} }, []int{200, 400}, false},
	{"slots, restore", "POST", "/slots/0?action=restore",
		func(r *rand.Rand) any { return object{"filename": "slot"} }, []int{200, 400, 404}, false},
	{"slots", "GET", "/slots", nil, nil, false}, {"props", "GET", "/props", nil, nil, false},
	{"models", "GET", "/v1/models", nil, nil, false}, {"metrics", "GET", "/metrics", nil, nil, false},
	{"page", "GET", "/", nil, nil, false}, {"openapi", "GET", "/openapi.json", nil, nil, false},
	{"no path", "GET", "/v1/nothing", nil, []int{404}, false},
	{"no request", "POST", "/v1/completions", func(r *rand.Rand) any { return `{"prompt": ` }, []int{400}, false},
	{"a wrong field", "POST", "/v1/chat/completions",
		func(r *rand.Rand) any { return with(chat(r), object{"temperature": -1}) }, []int{400}, false},
	{"too long a prompt", "POST", "/v1/completions", func(r *rand.Rand) any {
		return with(completion(r), object{"prompt": strings.Repeat("func ", 3000)})
	}, []int{400}, false},
	{"too large", "POST", "/v1/completions", func(r *rand.Rand) any {
		return with(completion(r), object{"prompt": strings.Repeat("x", 30000)})
	}, []int{413}, false},
	{"no embeddings", "POST", "/v1/embeddings",
		func(r *rand.Rand) any { return object{"input": oneOf(r, prompts)} }, []int{400, 404, 501}, false},
	{"left", "POST", "/v1/completions", func(r *rand.Rand) any {
		return with(completion(r), object{"stream": true, "max_tokens": 200, "ignore_eos": true})
	}, nil, true},
	{"left, grammar", "POST", "/v1/chat/completions", func(r *rand.Rand) any {
		return with(chat(r), object{"stream": true, "max_tokens": 200, "grammar": `root ::= [a-z]*`})
	}, nil, true},
}

// ask sends a request of a random kind and looks at its answer.
func (s *soak) ask(r *rand.Rand) {
	k := oneOf(r, kinds)
	var body []byte
	if k.body != nil {
		switch content := k.body(r).(type) {
		case string:
			body = []byte(content)
		default:
			var err error
			if body, err = json.Marshal(content); err != nil {
				log.Fatal(err) // a fault of this program
			}
		}
	}
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	q, err := http.NewRequestWithContext(ctx, k.method, s.url+k.path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(q)
	if err != nil {
		s.note(k.name+", no answer", fmt.Sprintf("%s: %v", k.name, err))
		return
	}
	defer answer.Body.Close()
	if k.leaves {
		io.ReadFull(answer.Body, make([]byte, 1+r.IntN(400))) // the end may come sooner
		leave()
		s.note(fmt.Sprintf("%s, %d", k.name, answer.StatusCode), "")
		return
	}
	text, err := io.ReadAll(answer.Body)
	wrong := ""
	switch {
	case err != nil:
		wrong = fmt.Sprintf("%s: %v", k.name, err)
	case answer.StatusCode != http.StatusOK && !slices.Contains(k.allowed, answer.StatusCode),
		answer.StatusCode == http.StatusOK && k.allowed != nil && !slices.Contains(k.allowed, http.StatusOK):
		wrong = fmt.Sprintf("%s: status %d for %.200s: %.300s", k.name, answer.StatusCode, body, text)
	case k.name == "completion" || k.name == "chat":
		wrong = s.compare(k.path+string(body), text)
	}
	s.note(fmt.Sprintf("%s, %d", k.name, answer.StatusCode), wrong)
}

// compare checks an answer against the first answer to the same request, because both sample greedily. It describes the
// difference if they differ, or if the answer is not valid.
func (s *soak) compare(request string, text []byte) (wrong string) {
	var answer struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Choices) != 1 {
		return fmt.Sprintf("%s: %.300s", request, text)
	}
	content := answer.Choices[0].Text + answer.Choices[0].Message.Content
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier, ok := s.greedy[request]; ok && earlier != content {
		return fmt.Sprintf("%s: %q, and earlier %q", request, content, earlier)
	}
	s.greedy[request] = content
	return ""
}

// note counts an answer, and what is wrong with it.
func (s *soak) note(what, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[what]++; wrong != "" {
		s.wrong = append(s.wrong, wrong)
	}
}
