// Package serve serves a language model to many clients over HTTP, with the text part of OpenAI's protocol.
//
//	m, err := generate.Open(ctx, "model.gguf", generate.Options{})
//	s := serve.New(m, serve.Options{Name: "my-model"})
//	err = http.ListenAndServe("127.0.0.1:8080", s)
//
// The paths are
//
//	POST /v1/chat/completions   an answer to a conversation, complete or streamed
//	POST /v1/completions        the continuation of a text
//	POST /v1/responses          the newer form of chat/completions; nothing is stored
//	POST /v1/embeddings         vectors of texts, by an embedding model: see NewEmbeddings
//	GET  /v1/models             the model, and /v1/models/NAME
//	POST /v1/audio/transcriptions, /v1/audio/translations   the text of sound: see NewTranscriptions
//	POST /v1/rerank             documents in the order of their relevance for a query
//	POST /v1/messages           Anthropic's form of chat/completions
//	POST /completion, /infill   llama.cpp's form of completions, and of filling a gap in a text
//	POST /tokenize, /detokenize the tokens of a text, and the text of tokens
//	POST /apply-template        the prompt of a conversation
//	GET  /props, /slots         llama.cpp's description of the server, and of its slots
//	POST /slots/{id}            saves, restores or erases a slot
//	GET  /lora-adapters         the model's adapters; field lora of a request sets their scales
//	GET  /openapi.json          a description of all paths
//	GET  /health                200 while requests are accepted, 503 after Drain; so is /ready
//	GET  /metrics               metrics for Prometheus, with vLLM's names
//	GET  /                      a page to chat with
//
// response_format constrains answers to a JSON Schema, and grammar to a grammar in llama.cpp's GBNF. Of tools,
// functions are supported, in the forms of package reply. A call that has begun follows the schema of its arguments.
// With tool_choice required, or a name, the model must call one. Reasoning comes as reasoning_content, apart from the
// answer.
//
// Logprobs cover every chosen token, including the token that ends an answer. For a completion with echo they also
// cover the prompt's tokens.
//
// A field with the value null counts as absent. A field that is not supported is refused with status 400 if the answer
// would be of no use without it. Others are passed over, and the header Warnings lists them, unless
// Options.StrictFields is set. Paths work with and without /v1.
//
// # Many clients
//
// As many answers run at once as the model has slots. They begin in the order of their requests. At most Options.Queue
// requests wait, and further ones are refused with status 429. A slow client delays no other: its answer is computed at
// full speed. A client that disconnects, or reads slower than Options.WriteTimeout allows, frees its slot.
//
// # Access
//
// With Options.Key a request must carry the key. Without a key, the server answers only requests that name this machine
// as their host, by a loopback address or localhost, unless Options.AnyHost is set. Options.Hosts allows further hosts.
// Web pages of other sites, open in a browser on this machine, cannot reach the server under their own site's name. If
// they name localhost, only pages of Options.Origins can use the server: see allowOrigin and admit.
package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve/reply"
)

// Model is the served model: a [generate.Model] or a [generate.Decoder].
type Model interface {
	Tokenizer() *tokenizer.Tokenizer
	Context() int  // maximum tokens of a prompt and its answer
	Parallel() int // answers computed at once; Generate queues further ones
	Load() generate.Load
	Reused() generate.Reused
	DeviceBytes() uint64
	Prompt(chat.Context) ([]int32, error)
	Render(chat.Context) (string, error) // the text of a prompt
	ChatTemplate() string                // "" if there is none
	Generate(ctx context.Context, prompt []int32, s generate.Sampling) iter.Seq2[generate.Token, error]
	Score(ctx context.Context, text []int32, likeliest int) ([]generate.Token, error)
}

// Options configures a server. Comments give the default of a zero field.
type Options struct {
	Name         string        // the model's name in requests and answers; "model"
	Key          string        // the key that requests must carry; none
	AnyHost      bool          // requests without a key may name any host
	MaxBody      int64         // bytes of a request; 1 MiB, or 32 MiB if the model reads pictures
	MaxAudio     int64         // bytes of a request with a sound; 25 MiB
	Queue        int           // maximum number of waiting requests; 64
	MaxTokens    int           // maximum tokens of an answer, whatever the request says; as many as fit
	Timeout      time.Duration // maximum time of a request, including waiting; 10 minutes
	WriteTimeout time.Duration // for a client to read available output; 30 seconds
	Form         *reply.Form   // how the model writes calls and reasoning; by its chat template
	ThinkTokens  int           // maximum tokens of reasoning, unless the request says; no limit
	StrictFields bool          // refuse fields that are not supported, instead of passing over them
	StrictModel  bool          // refuse requests that name another model
	StrictSchema bool          // refuse JSON Schemas that no grammar holds as a whole
	Origins      []string      // of pages that may read answers, such as https://app.example; "*" means any
	Hosts        []string      // that requests without a key may name, besides this machine
	Slots        string        // the directory of saved slots; without it, none are saved
}

// Server answers requests. It is an [http.Handler].
type Server struct {
	model       Model
	embedder    Embedder    // nil if the model makes no embeddings
	transcriber Transcriber // nil if the model hears nothing
	o           Options
	mux         *http.ServeMux
	queue       chan struct{} // holds an element for each request that is running or waiting
	embedding   chan struct{} // holds an element while embeddings are computed
	busy        busy
	draining    atomic.Bool
	lifetime    context.Context // parent of the contexts of all answers; Cut ends it
	cut         context.CancelCauseFunc
	metrics     metrics
	grammars    grammars
	several     *Several // the models that this server lists; nil if it has one
	started     time.Time
}

//go:embed page
var page embed.FS

// withDefaults returns options in which unset fields have their defaults for a model.
func (o Options) withDefaults(m Model) Options {
	body := int64(1 << 20)
	if images(m) != nil {
		body = maxBodyWithPictures
	}
	o.Name = cmp.Or(o.Name, "model")
	o.MaxBody = cmp.Or(o.MaxBody, body)
	o.MaxAudio = cmp.Or(o.MaxAudio, 25<<20)
	o.Queue = cmp.Or(o.Queue, 64)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	return o
}

// New returns a server of a model. It does not close the model.
func New(m Model, o Options) *Server {
	o = o.withDefaults(m)
	s := &Server{model: m, o: o, mux: http.NewServeMux(), embedding: make(chan struct{}, 1),
		queue: make(chan struct{}, o.Queue+m.Parallel()), started: time.Now()}
	s.lifetime, s.cut = context.WithCancelCause(context.Background())
	for _, route := range s.routes() {
		for _, path := range route.aliases() {
			s.mux.HandleFunc(route.method+" "+path, s.guarded(route, route.answer))
			// The same path with any other method:
			s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Allow", route.method)
				fail(w, refuse(http.StatusMethodNotAllowed, "", "%s wants %s, and no %s", r.URL.Path, route.method,
					r.Method))
			})
		}
	}
	s.mux.HandleFunc("/health", s.health)
	s.mux.HandleFunc("/ready", s.health) // the server starts only after the model is loaded
	s.handlePage()
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, refuse(http.StatusNotFound, "", "there is no %s here: see the list of paths in the documentation",
			r.URL.Path))
	})
	return s
}

// handlePage adds the paths of the page to chat with: / and the files that the page loads.
func (s *Server) handlePage() {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the directory is embedded in the program
	}
	list, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err)
	}
	s.mux.Handle("/{$}", http.FileServerFS(files))
	for _, file := range list {
		s.mux.Handle("/"+file.Name(), http.FileServerFS(files))
	}
}

// routes lists the paths that clients use. Paths for browsers and load balancers are in New.
func (s *Server) routes() []route {
	return []route{
		{"GET", "/metrics", s.serveMetrics, "Metrics for Prometheus.", nil},
		{"GET", "/v1/models", s.models, "Lists the models.", nil},
		{"GET", "/v1/models/{name}", s.oneModel, "Describes a model.", nil},
		{"POST", "/v1/chat/completions", s.chatCompletions, "Continues a conversation.", request{}},
		{"POST", "/v1/completions", s.completions, "Continues one prompt, or several.", request{}},
		{"POST", "/v1/embeddings", s.embeddings, "Computes vectors of texts.", embeddingsRequest{}},
		{"POST", "/v1/rerank", s.rerank, "Sorts documents by their relevance to a query.", rerankRequest{}},
		{"POST", "/v1/reranking", s.rerank, "The same as /v1/rerank.", rerankRequest{}},
		{"POST", "/v1/audio/transcriptions", s.transcriptions, "Transcribes a sound file.", audioForm{}},
		{"POST", "/v1/audio/translations", s.translations, "Translates the speech in a sound file to English.",
			audioForm{}},
		{"POST", "/v1/responses", s.responses, "Continues a conversation, in OpenAI's newer format " +
			"(Responses).", responsesRequest{}},
		{"POST", "/v1/messages", s.messages, "Continues a conversation, in Anthropic's form.", messagesRequest{}},
		{"POST", "/v1/messages/count_tokens", s.countTokens, "Counts the tokens of a request to /v1/messages.",
			messagesRequest{}},
		{"POST", "/completion", s.completion, "Continues one prompt or several, in llama.cpp's " +
			"format.", plainRequest{}},
		{"POST", "/infill", s.infill, "Generates the text between a prefix and a suffix.", plainRequest{}},
		{"POST", "/apply-template", s.applyTemplate, "Returns the prompt of a conversation.", request{}},
		{"POST", "/tokenize", s.tokenize, "Converts a text to tokens.", tokenizeRequest{}},
		{"POST", "/detokenize", s.detokenize, "Converts tokens to a text.", detokenizeRequest{}},
		{"GET", "/props", s.props, "Describes the server and its model, in llama.cpp's format.", nil},
		{"GET", "/slots", s.slots, "Lists the slots of the KV cache.", nil},
		{"POST", "/slots/{id}", s.changeSlot, "Saves, restores or erases a slot: action=save, restore or erase.",
			slotRequest{}},
		{"GET", "/lora-adapters", s.loraAdapters, "Lists the low-rank adapters.", nil},
		{"GET", "/openapi.json", s.openAPI, "Describes these paths.", nil},
	}
}

// Drain makes the server refuse new requests with status 503. Load balancers see it by /health while the listener is
// open. Running and waiting requests are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// Cut ends the running and waiting answers, and returns their number. Their clients get status 503, or an event in a
// stream.
func (s *Server) Cut() int {
	n := len(s.queue)
	s.cut(refuse(http.StatusServiceUnavailable, "", "the server stopped before the answer was complete"))
	return n
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The connection still has the deadline of the previous answer.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.Timeout + s.o.WriteTimeout))
	s.headers(w)
	if s.allowOrigin(w, r) {
		return
	}
	s.mux.ServeHTTP(w, r)
}

// headers sets the headers that all answers have.
func (s *Server) headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	if s.draining.Load() { // the client's next request is for another server
		h.Set("Connection", "close")
	}
}

// Wait returns when all requests have ended. After that, the model may be closed if the listener is closed.
func (s *Server) Wait() { s.busy.wait() }

// busy counts requests in progress. Unlike with a sync.WaitGroup, more may begin while a goroutine waits.
type busy struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n becomes 0; nil if nothing waits
}

// add changes the number of requests in progress by n.
func (b *busy) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += n
	if b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// wait returns when no request is in progress.
func (b *busy) wait() {
	b.mu.Lock()
	if b.n > 0 && b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// guarded returns a handler that checks a request's access, limits its size for the route, waits for its turn, and
// calls answer.
func (s *Server) guarded(route route, answer func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.busy.add(1)
		defer s.busy.add(-1)
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		// The end of the server ends the request.
		defer context.AfterFunc(s.lifetime, func() { cancel(context.Cause(s.lifetime)) })()
		r = r.WithContext(ctx)
		err := s.admit(r)
		if err == nil {
			limit := s.o.MaxBody
			if route.isForm() {
				limit = s.o.MaxAudio
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			err = s.queued(r, func() error { return answer(w, r) })
			if r.MultipartForm != nil {
				r.MultipartForm.RemoveAll() // an error leaves a temporary file, which the system removes
			}
		}
		if err != nil {
			fail(w, err)
		}
	}
}

// queued calls answer if the queue has a slot for the request, and otherwise refuses it. GET requests need no slot.
func (s *Server) queued(r *http.Request, answer func() error) error {
	if r.Method != http.MethodPost {
		return answer()
	}
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
		return answer()
	default:
		s.metrics.refuse()
		return refuse(http.StatusTooManyRequests, "",
			"%d requests are already waiting: try again later, or start the server with a longer queue", s.o.Queue)
	}
}

// admit refuses requests without access.
func (s *Server) admit(r *http.Request) error {
	if s.o.Key == "" && !s.o.AnyHost && !s.knowsHost(r.Host) {
		return refuse(http.StatusForbidden, "",
			"host %q is not this machine: without a key, the server answers only at localhost, loopback addresses and "+
				"the hosts of --allow-host", r.Host)
	}
	if s.o.Key != "" && !s.hasKey(r) {
		return refuse(http.StatusUnauthorized, "",
			"the key is missing or wrong: want the header Authorization: Bearer KEY, or X-Api-Key: KEY")
	}
	if r.Method != http.MethodPost {
		return nil
	}
	if s.draining.Load() {
		return refuse(http.StatusServiceUnavailable, "", "the server is shutting down and accepts no more requests")
	}
	// Before a page of another site sends JSON, its browser asks the server: see allowOrigin. It sends some other types
	// without asking, and names the page's origin.
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	browserAsks := err == nil && kind == "application/json"
	if origin := r.Header.Get("Origin"); origin != "" && !browserAsks && !s.allowsOrigin(origin) {
		return refuse(http.StatusUnsupportedMediaType, "",
			"the request comes from a web page and has Content-Type %q: want "+
				"application/json", r.Header.Get("Content-Type"))
	}
	return nil
}

// hasKey reports whether a request carries the server's key. It compares hashes in constant time, so that its duration
// says nothing about the key.
func (s *Server) hasKey(r *http.Request) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "" { // Anthropic's clients use another header
		scheme, given = "Bearer", r.Header.Get("X-Api-Key")
	}
	have, want := sha256.Sum256([]byte(strings.TrimLeft(given, " "))), sha256.Sum256([]byte(s.o.Key))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// isLoopback reports whether a host, perhaps with a port, is this machine for sure.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// errGone is the cause of a request that ends because its client does not read.
var errGone = errors.New("the client does not read the answer")

// takeEmbeddingSlot waits until no other embeddings are computed. The returned function ends the exclusion.
func (s *Server) takeEmbeddingSlot(ctx context.Context) (done func(), err error) {
	select {
	case s.embedding <- struct{}{}:
		return func() { <-s.embedding }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// job is a request for text.
type job struct {
	prompts  [][]int32
	sampling generate.Sampling
	stop     []string
	tools    *tools      // nil if no tools may be called
	form     *reply.Form // how the model writes calls and reasoning; nil for plain text
	thinking bool        // the prompt ends inside of the reasoning
	trusted  bool        // a grammar constrains calls
	answers  int         // generated for each prompt, each with its own seed
	wanted   int         // number of answers to return, the most probable ones
	scored   bool        // whether to also return log probabilities of the prompt
	silent   bool        // nothing follows the prompts
	// stopTokens end the answer, and so do the tokens that isEnd reports, unless it is nil.
	stopTokens []int32
	isEnd      func(id int32) bool
	tokens     bool // pieces have their tokens, also without probabilities
	// check tests the content of an answer that ended by itself; nil if its grammar holds all that there is to test.
	check func(content string) error
}

// checked tests the content of a complete answer.
func (j *job) checked(content string) error {
	if j.check == nil {
		return nil
	}
	if err := j.check(content); err != nil {
		return &refusal{http.StatusUnprocessableEntity, "", fmt.Sprintf("the answer does not conform to its schema, "+
			"which a grammar can only enforce in part: %v", err), "schema_violated"}
	}
	return nil
}

// piece is the next parts of an answer, and the tokens chosen since the last piece.
type piece struct {
	parts  []reply.Part
	tokens []generate.Token
}

// listener takes an answer apart, and ends it at a stop word in its content or after its only call.
type listener struct {
	reader *reply.Reader // nil for plain text
	cut    stopper
	single bool // one call ends the answer
	calls  int
}

// listener returns the listener of a choice, which finds stop words. It also finds reasoning and calls if the model has
// a form for them.
func (j *job) listener() *listener {
	l := &listener{cut: stopper{stopWords: j.stop}}
	if j.form == nil {
		return l
	}
	o := reply.Options{Thinking: j.thinking, Trusted: j.trusted}
	if j.tools != nil {
		o.Tools, l.single = j.tools.callable, j.tools.single
	}
	l.reader = reply.NewReader(j.form, o)
	return l
}

// next takes more text. It returns the certain parts, and whether the answer ends there.
func (l *listener) next(text string) (parts []reply.Part, over bool) {
	if l.reader == nil {
		return l.stop([]reply.Part{{Kind: reply.Content, Text: text}})
	}
	parts, over = l.stop(l.reader.Next(text))
	onlyCallEnded := l.single && l.calls > 0 && !l.reader.Calling()
	return parts, over || onlyCallEnded
}

// end returns the rest of the answer.
func (l *listener) end() (parts []reply.Part) {
	over := false
	if l.reader != nil {
		parts, over = l.stop(l.reader.End())
	}
	if rest := l.cut.rest(); rest != "" && !over {
		parts = append(parts, reply.Part{Kind: reply.Content, Text: rest})
	}
	return parts
}

// stop returns the parts of list before a stop word, or before a second call if only one is allowed. over says that it
// found one of these.
func (l *listener) stop(list []reply.Part) (parts []reply.Part, over bool) {
	for _, p := range list {
		if p.Kind == reply.Content {
			p.Text, over = l.cut.next(p.Text)
			if p.Text != "" {
				parts = append(parts, p)
			}
			if over {
				return parts, true
			}
			continue
		}
		// Text that was held back, because it may begin a stop word, belongs before this part.
		if rest := l.cut.rest(); rest != "" {
			parts = append(parts, reply.Part{Kind: reply.Content, Text: rest})
			l.cut.heldBack = ""
		}
		if p.Kind == reply.CallStart {
			l.calls++
			if l.single && l.calls > 1 {
				return parts, true
			}
		}
		parts = append(parts, p)
	}
	return parts, false
}

// finish is the reason that an answer ended, as spelled by the protocol.
type finish string

const (
	finishStop   finish = "stop"   // the model ended it, or it came to a word to stop at
	finishLength finish = "length" // it is as long as it may be
)

// usage counts the tokens of a request.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"` // prompt tokens that were already in the KV cache
	} `json:"prompt_tokens_details"`
	word string // the stop word that ended the answer, or ""
}

// ending is how one answer ended.
type ending struct {
	finish finish
	usage  usage
}

// withTimeout returns a context with the time limit of a request.
func (s *Server) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.o.Timeout, refuse(http.StatusGatewayTimeout, "",
		"the answer took longer than %v, the server's limit", s.o.Timeout))
}

// score returns the tokens of each prompt of a job with their probabilities. The first error ends the work on all
// prompts.
func (s *Server) score(ctx context.Context, j job) ([][]generate.Token, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	list := make([][]generate.Token, len(j.prompts))
	var all sync.WaitGroup
	for i, prompt := range j.prompts {
		all.Go(func() {
			var err error
			if list[i], err = s.model.Score(ctx, prompt, j.sampling.Likeliest); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	return list, context.Cause(ctx) // nil unless a prompt failed or the time ran out
}

// run answers a prompt of a job and passes the text to emit piece by piece. An error of emit ends the answer.
func (s *Server) run(ctx context.Context, j job, prompt []int32, emit func(piece) error) (end finish, u usage,
	err error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	record := s.metrics.begin()
	defer func() { record.end(end, u, err) }()
	if j.silent {
		return finishLength, usage{Prompt: len(prompt), Total: len(prompt)}, nil
	}
	j.sampling.MaxTokens = s.maxTokens(j, prompt)
	u.Prompt, end = len(prompt), finishStop
	j.sampling.Known = func(tokens int) { u.Details.Cached = tokens }
	answer, out := j.listener(), sender{emit: emit}
	for token, err := range s.model.Generate(ctx, prompt, j.sampling) {
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return "", u, err
		}
		if isEnd := j.isEnd != nil && j.isEnd(token.ID); isEnd || slices.Contains(j.stopTokens, token.ID) {
			break
		}
		if !s.model.Tokenizer().IsEnd(token.ID) {
			u.Completion++
			record.token()
		}
		if j.sampling.Logprobs || j.tokens {
			out.tokens = append(out.tokens, token)
		}
		parts, over := answer.next(s.textOf(token, j.form))
		if err := out.send(parts); err != nil {
			return "", u, err
		}
		if over {
			u.Total, u.word = u.Prompt+u.Completion, answer.cut.found
			return finishStop, u, j.checked(out.content.String())
		}
	}
	if u.Completion == j.sampling.MaxTokens || u.Prompt+u.Completion == s.model.Context() {
		end = finishLength
	}
	u.Total = u.Prompt + u.Completion
	if err := out.send(answer.end()); err != nil || end != finishStop {
		return end, u, err
	}
	return end, u, j.checked(out.content.String())
}

// maxTokens returns the largest number of tokens of an answer: the request's, or as many as fit in the context, but not
// more than the server's limit.
func (s *Server) maxTokens(j job, prompt []int32) int {
	most := j.sampling.MaxTokens
	if most == 0 {
		most = max(s.model.Context()-len(prompt), 1) // Generate refuses a prompt that is too long
	}
	if s.o.MaxTokens > 0 {
		most = min(most, s.o.MaxTokens)
	}
	return most
}

// collect runs the only answer of a job, and adds its parts to said.
func (s *Server) collect(ctx context.Context, j job, said *said) (end finish, u usage, err error) {
	return s.run(ctx, j, j.prompts[0], func(p piece) error {
		for _, part := range p.parts {
			said.add(part)
		}
		return nil
	})
}

// textOf returns the text of a token. Special tokens have none, except tokens that a form of calls and reasoning names:
// their text is the name. form may be nil.
func (s *Server) textOf(t generate.Token, form *reply.Form) string {
	tok := s.model.Tokenizer()
	if form != nil && tok.IsSpecial(t.ID) && !tok.IsEnd(t.ID) && form.Names(tok.Token(t.ID)) {
		return t.Text + tok.Token(t.ID)
	}
	return t.Text
}

// sender passes an answer to emit, piece by piece.
type sender struct {
	emit    func(piece) error
	tokens  []generate.Token // since the last piece
	content strings.Builder  // of all pieces
}

// send passes on the next parts, and the tokens since the last piece. It does nothing if there are none.
func (s *sender) send(parts []reply.Part) error {
	for _, p := range parts {
		if p.Kind == reply.Content {
			s.content.WriteString(p.Text)
		}
	}
	if len(parts) == 0 && len(s.tokens) == 0 {
		return nil
	}
	p := piece{parts, s.tokens}
	s.tokens = nil
	return s.emit(p)
}

// runAll runs all answers of a job and passes their text to emit, one piece at a time. Answers run concurrently as far
// as there are slots. An error of emit, or of one answer, ends them all.
func (s *Server) runAll(ctx context.Context, j job, emit func(answer int, p piece) error) (ends []ending, u usage,
	err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ends = make([]ending, len(j.prompts)*j.answers)
	var mu sync.Mutex // guards emit and the results
	var all sync.WaitGroup
	for i := range ends {
		all.Go(func() {
			own, prompt, nth := j, j.prompts[i/j.answers], i%j.answers
			own.sampling.Seed += uint64(nth)
			end, use, failed := s.run(ctx, own, prompt, func(p piece) error {
				mu.Lock()
				defer mu.Unlock()
				return emit(i, p)
			})
			mu.Lock()
			defer mu.Unlock()
			if failed != nil && err == nil {
				err = failed
				fail(failed)
			}
			ends[i] = ending{end, use}
			if nth == 0 { // the answers share the prompt
				u.Prompt += use.Prompt
				u.Details.Cached += use.Details.Cached
			}
			u.Completion += use.Completion
		})
	}
	all.Wait()
	u.Total = u.Prompt + u.Completion
	return ends, u, err
}

// stopper finds stop words in a text that arrives in pieces.
type stopper struct {
	stopWords []string
	heldBack  string // the end of the text, which may begin a stop word
	found     string // the stop word that was found
}

// next takes the next piece of text, and returns the text that the client may get now. It holds back an end that may
// be the beginning of a stop word. If it finds a stop word, it returns the text before that word and true.
func (c *stopper) next(text string) (before string, found bool) {
	c.heldBack += text
	first := -1
	for _, w := range c.stopWords {
		if i := strings.Index(c.heldBack, w); i >= 0 && (first < 0 || i < first) {
			first, c.found = i, w
		}
	}
	if first >= 0 {
		before, c.heldBack = c.heldBack[:first], ""
		return before, true
	}
	keep := 0 // bytes at the end that begin a stop word
	for _, w := range c.stopWords {
		for n := min(len(w)-1, len(c.heldBack)); n > keep; n-- {
			if strings.HasSuffix(c.heldBack, w[:n]) {
				keep = n
			}
		}
	}
	before, c.heldBack = c.heldBack[:len(c.heldBack)-keep], c.heldBack[len(c.heldBack)-keep:]
	return before, false
}

// rest returns the text that was held back, at the end of an answer.
func (c *stopper) rest() string { return c.heldBack }

// newID returns a name for an answer.
func newID(prefix string) string {
	return fmt.Sprintf("%s-%016x%08x", prefix, rand.Uint64(), rand.Uint32())
}
