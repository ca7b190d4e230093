package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/serve"
	"github.com/vkc-go/vkc/serve/reply"
	"github.com/vkc-go/vkc/transcribe"
)

type serveFlags struct {
	model            loadFlags
	models           []string // of --model: files, folders, or folders of these
	limits           serve.Limits
	address, keyFile string
	open             bool
	drain            time.Duration
	serve            serve.Options
	toolForm         string

	parallel, positions, maxBody *int // --parallel, --kv-tokens and --max-body; nil if not given
}

// serveCommand declares the command vkc serve and its flags.
func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve -m MODEL.gguf...",
		Short: "Answer requests to a language model over HTTP, by OpenAI's protocol",
		Long: `Answer requests to a language model over HTTP, by OpenAI's protocol: POST /v1/chat/completions,
/v1/responses and /v1/completions, as a whole or as a stream, and GET /v1/models. An embedding model answers POST
/v1/embeddings, and a Whisper model POST /v1/audio/transcriptions and /v1/audio/translations. There are also /tokenize,
/detokenize, /health, /ready, /metrics for Prometheus, and a chat page at /.

Each device computes up to --parallel answers at once; up to --queue other requests wait. With --device 0,1 each device
has a copy of the model, and the device with the fewest answers takes the next request. --split layers is for a model
that does not fit on one device, and --split tensor answers faster than one device. An answer does not depend on the
other requests, except for rounding. With --deterministic not even its bits do, but each step then takes the time of
--parallel answers.

vkc serve listens on this machine only. To accept requests from other machines, give --listen an address and --key-file
a file with a key. Requests then need the header Authorization: Bearer KEY. After a first Ctrl-C or SIGTERM, vkc serve
answers the requests that it has, and ends; /ready and new requests get 503. After --drain it cuts the unfinished
answers, tells their clients, and ends with exit code 1.`,
		Example: `  vkc serve -m MODEL.gguf
  vkc serve -m MODEL.gguf --listen 0.0.0.0:8080 --key-file KEY --ctx 8192 --kv q8_0`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), &f)
		},
	}
	f.add(a, cmd)
	return cmd
}

// add declares the flags of vkc serve.
func (f *serveFlags) add(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	f.model.registerText(a, flags)
	f.model.registerProjector(flags)
	f.severalModels(flags)
	flags.StringVar(&f.address, "listen", "127.0.0.1:8080", "listen on this `ADDRESS`; port 0 means any free port")
	flags.StringVar(&f.serve.Name, "name", "", "the `NAME` of the model in requests (default the file's name)")
	flags.StringVar(&f.keyFile, "key-file", "", "require requests to have the API key in the first line of this "+
		"`FILE`")
	flags.BoolVar(&f.open, "without-key", false, "accept requests from other machines without a key")
	flags.Var(&optionalInt{&f.parallel}, "parallel",
		"compute up to `N` answers at once, each with a KV cache for --ctx tokens unless --kv-tokens is given "+
			"(default 4, or 1 with speculation)")
	flags.Var(&optionalInt{&f.positions}, "kv-tokens",
		"share a KV cache of `N` tokens among all answers, in pages (default --parallel times --ctx)")
	flags.BoolVar(&f.model.options.Deterministic, "deterministic", false,
		"make the bits of an answer independent of the other requests at the same time")
	// Here --split has another default: each device has the whole model.
	split := flags.Lookup("split")
	f.model.options.Split, split.DefValue = splitNone, splitNone
	split.Usage = "with several devices (--device 0,1): give each device the whole model (none), or as for vkc " +
		"generate"
	flags.IntVar(&f.serve.Queue, "queue", 64, "let at most `N` requests wait; more are refused")
	flags.IntVar(&f.serve.MaxTokens, "max-tokens", 0, "limit answers to `N` tokens; 0 means as many as fit")
	flags.Var(&optionalInt{&f.maxBody}, "max-body", "limit requests to `N` bytes (default 1 MiB, or 32 MiB for a "+
		"model that reads pictures)")
	flags.Int64Var(&f.serve.MaxAudio, "max-audio", 25<<20, "limit requests with sound to `N` bytes")
	flags.StringVar(&f.toolForm, "tool-form", "", "the `FORM` in which the model writes tool calls and reasoning "+
		"(default by its chat template): "+strings.Join(reply.FormNames(), ", "))
	flags.IntVar(&f.serve.ThinkTokens, "think-tokens", 0,
		"limit reasoning to `N` tokens; 0 means no limit")
	flags.BoolVar(&f.serve.StrictFields, "strict-fields", false, "refuse unsupported request fields, instead of "+
		"ignoring them with a Warnings header")
	flags.BoolVar(&f.serve.StrictSchema, "strict-schema", false, "refuse JSON Schemas with keywords that generation "+
		"cannot enforce, instead of checking them after the answer")
	flags.BoolVar(&f.serve.StrictModel, "strict-model", false, "refuse requests that name another model")
	flags.StringArrayVar(&f.serve.Origins, "cors-origin", nil, "allow web pages of this `ORIGIN` to use the server, "+
		"such as https://app.example; '*' allows any page; may be repeated")
	flags.StringArrayVar(&f.serve.Hosts, "allow-host", nil, "without a key: also accept requests to this `HOST`, such "+
		"as host.docker.internal of containers; may be repeated")
	flags.StringVar(&f.serve.Slots, "slot-save-path", "", "let POST /slots/{id} save slots of the KV cache to files "+
		"in this `DIRECTORY`, and restore them")
	flags.DurationVar(&f.serve.Timeout, "timeout", 10*time.Minute, "limit each request to this `TIME`")
	flags.DurationVar(&f.drain, "drain", 30*time.Second, "at the end, wait up to this `TIME` for unfinished answers")
}

// splitNone gives each device a copy of the model. Other splits divide one model among the devices.
const splitNone = "none"

// defaultParallel is the number of answers computed at once. It is small because each answer has its own KV cache.
const defaultParallel = 4

// maxKey is the length of a key, in bytes.
const maxKey = 4096

// check returns an error for wrong flags, and sets the options of the server and the model from the others.
func (f *serveFlags) check() error {
	host, port, err := net.SplitHostPort(f.address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return usagef("--listen: %w; want HOST:PORT", err)
	}
	for _, number := range []struct {
		flag        string
		given, into *int
	}{{"parallel", f.parallel, &f.model.options.Parallel}, {"kv-tokens", f.positions, &f.model.options.Positions}} {
		if number.given == nil {
			continue
		}
		*number.into = *number.given
		if *number.given < 1 {
			return usagef("--%s %d: want at least 1", number.flag, *number.given)
		}
	}
	f.serve.Form = reply.FormNamed(f.toolForm)
	if err := f.checkValues(); err != nil {
		return err
	}
	if f.keyFile != "" {
		var err error
		if f.serve.Key, err = readKey(f.keyFile); err != nil {
			return err
		}
	}
	local := strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
	if !local && f.serve.Key == "" && !f.open {
		return usagef("anyone who reaches %s could send requests: want --key-file FILE, or --without-key", f.address)
	}
	f.serve.AnyHost = f.open
	if f.maxBody != nil {
		f.serve.MaxBody = int64(*f.maxBody)
	}
	return f.checkModels()
}

// checkModels finds the models of -m, and returns an error for flags that are for one model if there are several.
func (f *serveFlags) checkModels() (err error) {
	if f.models, err = modelFiles(f.models); err != nil {
		return err
	}
	// These values of --mmproj name no file.
	namesProjector := !slices.Contains([]string{"", generate.NoProjector, generate.AutoProjector},
		f.model.options.Projector)
	forOneModel := f.serve.Name != "" || len(f.model.adapters) > 0 || f.model.options.Speculation.Draft != "" ||
		namesProjector
	switch {
	case len(f.models) == 1:
		f.model.path = f.models[0]
	case len(f.models) > 1 && forOneModel:
		return usagef("--name, --lora, --draft and --mmproj FILE are for one model, and -m names %d: leave them "+
			"out", len(f.models))
	}
	if f.serve.Name == "" {
		f.serve.Name = modelName(f.model.path)
	}
	return nil
}

// checkValues returns an error if the value of a flag is out of its range.
func (f *serveFlags) checkValues() error {
	switch {
	case f.serve.Queue < 1:
		return usagef("--queue %d: want at least 1", f.serve.Queue)
	case f.serve.MaxTokens < 0:
		return usagef("--max-tokens %d: want at least 1, or 0 for as many as fit", f.serve.MaxTokens)
	case f.maxBody != nil && *f.maxBody < 1:
		return usagef("--max-body %d: want at least 1", *f.maxBody)
	case f.serve.MaxAudio < 1:
		return usagef("--max-audio %d: want at least 1", f.serve.MaxAudio)
	case f.serve.ThinkTokens < 0:
		return usagef("--think-tokens %d: want at least 1, or 0 for no limit", f.serve.ThinkTokens)
	case f.toolForm != "" && f.serve.Form == nil:
		return usagef("--tool-form %s: want one of %s", f.toolForm, strings.Join(reply.FormNames(), ", "))
	case slices.ContainsFunc(f.serve.Origins, func(o string) bool { return !serve.CheckOrigin(o) }):
		return usagef("--cors-origin %s: want '*', or a scheme and a host, such as https://app.example",
			strings.Join(f.serve.Origins, ", "))
	case slices.ContainsFunc(f.serve.Hosts, func(h string) bool { return h == "" || strings.ContainsAny(h, "/:* ") }):
		return usagef("--allow-host %s: want the name of a host, without a port", strings.Join(f.serve.Hosts, ", "))
	case f.serve.Slots != "" && !isDirectory(f.serve.Slots):
		return usagef("--slot-save-path %s: want a directory that exists", f.serve.Slots)
	case f.serve.Timeout <= 0:
		return usagef("--timeout %v: want more than 0", f.serve.Timeout)
	case f.limits.Models < 0:
		return usagef("--models-max %d: want at least 1, or 0 for as many as fit", f.limits.Models)
	case f.limits.Idle < 0:
		return usagef("--models-idle %v: want more than 0, or 0 for never", f.limits.Idle)
	case f.drain < 0:
		return usagef("--drain %v: want 0 or more", f.drain)
	}
	return nil
}

// isDirectory reports whether there is a directory of that name.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readKey returns the key on the first line of a file.
func readKey(path string) (string, error) {
	file, err := inputfile.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxKey+2)) // with the end of the line
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	key := strings.TrimSpace(line)
	if key == "" || len(key) > maxKey {
		return "", fmt.Errorf("%s: the first line is empty or too long: want a key of 1 to %d bytes", path,
			maxKey)
	}
	return key, nil
}

// loadedModel is a language or embedding model that answers requests.
type loadedModel interface {
	Why() string
	Close() error
}

// load loads a language model, or an embedding model if the file is one.
func (f *serveFlags) load(ctx context.Context, a *app) (loaded loadedModel, server *serve.Server, err error) {
	if err := f.model.check("serve"); err != nil {
		return nil, nil, err
	}
	if transcribe.Is(f.model.path) {
		return f.loadSpeech(ctx, a)
	}
	f.model.options.AdapterScales = len(f.model.options.Adapters) > 0
	embeds, err := generate.IsEmbedder(f.model.path)
	if err != nil {
		return nil, nil, err
	}
	copies := strings.Contains(f.model.options.Device, ",") && f.model.options.Split == splitNone
	if f.model.options.Split == splitNone { // a copy on each device has all layers
		f.model.options.Split = generate.SplitLayers
	}
	if embeds && copies {
		return nil, nil, usagef("vkc cannot put copies of an embedding model on several devices (--device %s): name "+
			"one device, or give --split %s", f.model.options.Device, generate.SplitLayers)
	}
	if embeds {
		return f.loadEmbedder(ctx)
	}
	decoder, err := generate.IsDecoder(f.model.path)
	if err != nil {
		return nil, nil, err
	}
	if decoder {
		return f.loadDecoder(ctx, a)
	}
	return f.loadModel(ctx, a, copies)
}

// loadModel loads a GGUF model, a Hugging Face folder or a bundle. copies says that each device gets a copy.
func (f *serveFlags) loadModel(ctx context.Context, a *app, copies bool) (
	loaded loadedModel, server *serve.Server, err error) {
	bundle, err := generate.IsBundle(f.model.path)
	if err != nil {
		return nil, nil, err
	}
	if err := f.model.findProjector(); err != nil {
		return nil, nil, err
	}
	// A bundle has a fixed number of parallel answers.
	if o := &f.model.options; o.Parallel == 0 && o.Speculation.Tokens == 0 && !bundle {
		o.Parallel = defaultParallel
	}
	if copies {
		defer f.model.setCallbacks(a)()
		r, err := generate.OpenReplicas(ctx, f.model.path, f.model.options)
		if err != nil {
			return nil, nil, err
		}
		return r, serve.New(r, f.serve), nil
	}
	m, err := f.model.open(ctx, a, "serve")
	if err != nil {
		return nil, nil, err
	}
	return m, serve.New(m, f.serve), nil
}

// refuseTune returns an error if --tune is given, for a model that does not generate text.
func (f *serveFlags) refuseTune() error {
	if f.model.tune == 0 {
		return nil
	}
	return usagef("--tune %v: vkc serve tunes only models that generate text, and %s is none: leave it out",
		f.model.tune, f.model.path)
}

// loadEmbedder loads an embedding model.
func (f *serveFlags) loadEmbedder(ctx context.Context) (loaded loadedModel, server *serve.Server, err error) {
	if err := f.refuseTune(); err != nil {
		return nil, nil, err
	}
	e, err := generate.OpenEmbedder(ctx, f.model.path, f.model.options)
	if err != nil {
		return nil, nil, err
	}
	return e, serve.NewEmbeddings(e, f.serve), nil
}

// loadDecoder loads a language model that is an ONNX graph.
func (f *serveFlags) loadDecoder(ctx context.Context, a *app) (
	loaded loadedModel, server *serve.Server, err error) {
	if f.model.options.Parallel == 0 {
		f.model.options.Parallel = defaultParallel
	}
	defer f.model.setCallbacks(a)()
	d, err := generate.OpenDecoder(ctx, f.model.path, f.model.options)
	if err != nil {
		return nil, nil, err
	}
	return d, serve.New(d, f.serve), nil
}

// loadSpeech loads a model of speech.
func (f *serveFlags) loadSpeech(ctx context.Context, a *app) (loaded loadedModel, server *serve.Server, err error) {
	if err := f.refuseTune(); err != nil {
		return nil, nil, err
	}
	bar := a.progress("loading")
	defer bar.end()
	m, err := transcribe.Open(ctx, f.model.path, transcribe.Options{Device: f.model.options.Device,
		Precision: f.model.options.Precision, Progress: bar.stage})
	if err != nil {
		return nil, nil, err
	}
	return m, serve.NewTranscriptions(m, f.serve), nil
}

// serve runs vkc serve: it answers requests until a signal, then shuts down in order.
func (a *app) serve(ctx context.Context, f *serveFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	notes := make(notices, 16)
	f.model.options.Fallback = func(why error) { fmt.Fprintln(notes, fallbackLine(why)) } // requests load programs
	// Close the model after all answers have ended. The contexts of their requests end them.
	handler, m, err := f.handler(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(notes, "", 0),
	}
	if one, ok := m.(loadedModel); ok {
		a.note("%s", one.Why())
		a.say("%s at http://%s", f.serve.Name, l.Addr())
	} else {
		a.say("%d models at http://%s", len(f.models), l.Addr())
	}
	if err := a.serveUntilDone(ctx, server, l, notes); err != nil {
		server.Close() // this ends the contexts of requests
		handler.Wait()
		return err
	}
	return a.shutDown(ctx, f, server, handler)
}

// serveUntilDone answers requests and prints the server's notes until ctx ends. If the listener fails before, it
// returns the error.
func (a *app) serveUntilDone(ctx context.Context, server *http.Server, l net.Listener, notes notices) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	for ctx.Err() == nil {
		select {
		case line := <-notes:
			a.say("%s", line)
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
	}
	return nil
}

// shutDown ends the server after the unfinished answers. After --drain it cuts them off and returns an error.
func (a *app) shutDown(ctx context.Context, f *serveFlags, server *http.Server, handler handler) error {
	handler.Drain()
	a.note("ending after the answers to all requests")
	cut := f.await(handler)
	// Only handlers that report the shutdown to clients are still running, and requests that are still arriving.
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if server.Shutdown(shutdownCtx) != nil {
		server.Close() // cancels the contexts of requests
	}
	handler.Wait()
	if cut > 0 {
		err := fmt.Errorf("after --drain %v, this number of unfinished answers was cut off: %d", f.drain, cut)
		return &finalError{err}
	}
	return nil
}

// shutdownGrace is the time for clients to read the end of their responses when the server stops.
const shutdownGrace = 10 * time.Second

// await waits until all requests are answered, at most for the time of --drain. Then it cuts the remaining answers and
// returns their number. The listener stays open meanwhile and tells new requests that the server is shutting down.
func (f *serveFlags) await(handler handler) (cut int) {
	answered := make(chan struct{})
	go func() {
		handler.Wait()
		close(answered)
	}()
	select {
	case <-answered:
		return 0
	case <-time.After(f.drain):
		return handler.Cut()
	}
}

// notices passes lines from goroutines to the one that prints them. If a line comes while the channel is full, it is
// dropped.
type notices chan string

// Write sends a line of a log to the channel. It drops the line if the channel is full.
func (n notices) Write(line []byte) (int, error) {
	select {
	case n <- strings.TrimSpace(string(line)):
	default:
	}
	return len(line), nil
}
