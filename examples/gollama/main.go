// Gollama runs a trained language model that completes Go source, on the fastest device, and prints the most likely
// next tokens:
//
//	go run ./examples/gollama
//	go run ./examples/gollama -device cpu -prompt "339 2007 308"
//	go run ./examples/gollama -gguf MODEL.gguf
//
// Without -prompt it uses the five prompts of reference.json and compares the logits with those in the file. Another
// program computed these from the original f16 weights. Every result of a device is also compared with vkc's CPU
// reference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
)

// options are the command line.
type options struct {
	device string
	gguf   string // empty for the model in this directory
	prompt string // token ids; empty for the prompts of reference.json
	top    int
	check  bool
}

func main() {
	var o options
	flag.StringVar(&o.device, "device", "auto", "auto, vulkan (the best device), cpu (the reference), an index of "+
		"vkc devices, or part of a name")
	flag.StringVar(&o.gguf, "gguf", "", "another model `file` of the Llama architecture")
	flag.StringVar(&o.prompt, "prompt", "", "the token `ids` of a prompt, without the one that begins a text")
	flag.IntVar(&o.top, "n", 5, "the number of likely tokens to print")
	flag.BoolVar(&o.check, "check", true, "compare with the CPU reference")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gollama:", err)
		os.Exit(1)
	}
}

// session is a model on a device.
type session struct {
	*model
	options
	out     io.Writer
	exe     *vkc.Executable
	checker *check.Checker // nil if there is nothing to check
}

// run completes the prompts of the command line or of the reference, and checks the results.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	m, err := openModel(o.gguf)
	if err != nil {
		return err
	}
	defer m.close()
	prompts, err := m.prompts(o.prompt)
	if err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(o.device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	s := &session{model: m, options: o, out: out}
	fmt.Fprintf(out, "model    %s\n", m.describe())
	if err := s.load(ctx, dev); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.exe.Close()) }()
	fmt.Fprintf(out, "device   %s\n", s.exe.Why())
	if why := dev.Fallback(); why != nil {
		fmt.Fprintf(out, "         %v\n", why)
	}
	if o.check && s.exe.Vulkan() != nil {
		if s.checker, err = check.New(m.graph, m.file); err != nil {
			return err
		}
	}
	for _, p := range prompts {
		if err := s.complete(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// load compiles the model and puts it on the device.
func (s *session) load(ctx context.Context, dev *vkc.Device) error {
	start := time.Now()
	p, err := dev.Compile(ctx, s.graph, vkc.CompileOptions{})
	if err != nil {
		return err
	}
	if s.exe, err = dev.Load(ctx, p, vkc.LoadOptions{Weights: s.file}); err != nil {
		return err
	}
	ready := time.Since(start).Round(time.Millisecond)
	switch {
	case s.exe.Vulkan() == nil:
		fmt.Fprintf(s.out, "program  %d nodes, interpreted; ready after %v\n", len(s.graph.Nodes()), ready)
		return nil
	case p.Stats.CacheHit:
		fmt.Fprintf(s.out, "program  %d kernels (%d shaders) from cache, 0 compiler processes; ready after %v\n",
			p.Stats.Kernels, p.Stats.Shaders, ready)
	default:
		fmt.Fprintf(s.out, "program  %d nodes compiled to %d kernels (%d shaders) in %v, %d compiler processes; "+
			"ready after %v\n", len(s.graph.Nodes()),
			p.Stats.Kernels, p.Stats.Shaders, p.Stats.Elapsed.Round(time.Millisecond), p.Stats.Processes, ready)
	}
	return nil
}

// logits runs the model on a text.
func (s *session) logits(ctx context.Context, tokens []int32) (in, out vkc.Tensors, err error) {
	data, err := vkc.OfType(ir.I32, tokens, len(tokens))
	if err != nil {
		return nil, nil, err
	}
	in = vkc.Tensors{"tokens": data}
	res, err := s.exe.Run(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	return in, res.Outputs, nil
}

// complete runs the model on one prompt and prints the continuation.
func (s *session) complete(ctx context.Context, p prompt) error {
	start := time.Now()
	in, out, err := s.logits(ctx, p.Tokens)
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	logits, err := vkc.Values[float64](out["logits"])
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n%s\n", strings.TrimRight(s.tokenizer.Decode(p.Tokens), "\n"))
	fmt.Fprintf(s.out, "  next            %s\n  time            %v for %d tokens\n", s.likely(logits),
		elapsed.Round(10*time.Microsecond), len(p.Tokens))
	if s.checker != nil {
		if err := s.verify(ctx, in, out); err != nil {
			return err
		}
	}
	if p.Top == nil {
		return nil
	}
	c := compare(logits, p)
	fmt.Fprintf(s.out, "  reference.json  %s\n", c)
	return c.check(s.tolerance())
}

// verify compares the outputs with those of the CPU reference.
func (s *session) verify(ctx context.Context, in, outputs vkc.Tensors) error {
	report, err := s.checker.Check(ctx, s.exe, in, nil, outputs)
	if err != nil {
		return err
	}
	v := report.Values[0]
	fmt.Fprintf(s.out, "  CPU reference   worst difference of %d logits %.2g, allowed %.2g\n", v.Elems,
		v.WorstAbs, v.Allowed)
	return report.Err()
}

// likely lists the most likely tokens with their probabilities.
func (s *session) likely(logits []float64) string {
	var parts []string
	for _, c := range best(logits, s.top) {
		parts = append(parts, fmt.Sprintf("%q %.1f%%", s.tokenizer.Piece(int32(c.token)), 100*c.probability))
	}
	return strings.Join(parts, "  ")
}

// prompts returns the prompt with the given token ids, or the reference's prompts.
func (m *model) prompts(ids string) ([]prompt, error) {
	if ids == "" {
		return references()
	}
	tokens := m.tokenizer.Encode("", tokenizer.Options{Whole: true}) // the tokens at the beginning of a text
	for _, field := range strings.Fields(ids) {
		id, err := strconv.ParseInt(field, 10, 64)
		if err != nil || id < 0 || id >= int64(m.config.Vocab) {
			return nil, fmt.Errorf("-prompt: %q is not a token: want numbers from 0 to %d", field, m.config.Vocab-1)
		}
		tokens = append(tokens, int32(id))
	}
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("-prompt: %d tokens, the graph takes at most %d", len(tokens), maxTokens)
	}
	return []prompt{{Tokens: tokens}}, nil
}
