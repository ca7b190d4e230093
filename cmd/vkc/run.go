package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

type runFlags struct {
	graph                    graphFlags
	trusted                  string
	device, weights, trace   string
	text                     string
	inputs, outputs, symbols []string
	check, profile, measure  bool
	sandbox, clamp           bool
	noCache, json            bool
	top, repeat              int
	tuning                   tuningFlags
	tune                     time.Duration
}

// runCommand declares the command vkc run and its flags.
func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run GRAPH|MODEL.gguf|MODEL.onnx|BUNDLE.vkb",
		Short: "Run a graph, model or bundle, and print or write its outputs",
		Long: `Run a graph, model or bundle, and print or write its outputs. vkc run compiles a graph first, or takes
the program from the cache. It builds the graph of a GGUF or ONNX model, which vkc graph prints.

If a folder has an ONNX model and its tokenizer, --text makes the inputs from a text. If config.json names the classes
of a classifier (id2label), vkc run prints the most likely ones.

An input is a .npy file, numbers, or random numbers: floats from -1 to 1, integers from 0 to 99. Equal seeds give equal
numbers. The sizes of random inputs come from the other inputs, or from --symbol. If the graph uses an input as indices,
such as tokens of a vocabulary, vkc run refuses values out of range unless --clamp is given.

Without a GPU, auto runs on the CPU fast path. If the runs take long (--repeat), it also tries a software Vulkan device
in the background, and switches to it if it is faster and gives the same bits. If a GPU cannot run a graph, auto runs it
on the fast path and prints the reason. With --check, --profile and --trace, which examine kernels, auto is the best
Vulkan device.

With --measure, the last run is repeated as vkc bench repeats its cases, after 250 ms of work without a gap. vkc run
prints two medians: of the kernels alone by the device's clock, and of whole runs with inputs and outputs by the wall
clock. Each run continues from the states of the run before.

With --check, the CPU reference computes the same outputs. The exit code is 1 if the error of an output is above the
tolerance of its ops.`,
		Example: `  vkc run GRAPH.json --weights MODEL.gguf --input tokens=[0,339,2007]
  vkc run MODEL.gguf --input tokens=[0,339,2007]
  vkc run MODEL.onnx --input x=x.npy --output y=y.npy
  vkc run FOLDER --text 'I like it.'
  vkc run GRAPH.json --device cpu --input x=random:1 --symbol T=6 --output y=y.npy
  vkc run BUNDLE.vkb --input x=x.npy --check --profile`,
		Args: exactArgs("GRAPH or BUNDLE.vkb"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0], &f) },
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc run.
func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.device, "device", "d", "auto",
		"auto (the best GPU, or else the CPU), vulkan (the best device), cpu (its fast path), reference, an index of "+
			"vkc devices, or part of a name; a list such as 0,1 cuts the graph into parts, one per device")
	flags.StringVar(&f.weights, "weights", "", "GGUF or safetensors `FILE` with the weights; it replaces the weights "+
		"of a bundle")
	f.graph.add(cmd)
	addTrusted(cmd, &f.trusted)
	flags.StringArrayVarP(&f.inputs, "input", "i", nil,
		"`NAME=VALUE`: FILE.npy, [1,2,3] or random:SEED; once per input")
	flags.StringVar(&f.text, "text", "", "with a folder that has an ONNX model: make the inputs from this `TEXT`")
	flags.StringArrayVarP(&f.outputs, "output", "o", nil, "write output NAME to FILE.npy (`NAME=FILE.npy`); may be "+
		"repeated")
	flags.StringArrayVar(&f.symbols, "symbol", nil,
		"`NAME=N`: the value of a symbol that the inputs do not determine; may be repeated")
	flags.BoolVar(&f.check, "check", false, "compare with the CPU reference; exit code 1 above the tolerance")
	flags.BoolVar(&f.clamp, "clamp", false, "allow indices out of range: ops then take the nearest element")
	flags.BoolVar(&f.sandbox, "sandbox", false, "make the driver keep kernels within their memory (robust buffer "+
		"access), for untrusted bundles; slower")
	flags.BoolVar(&f.profile, "profile", false, "print the time of each kernel, its fraction of the device's limit, "+
		"and the driver's statistics")
	flags.BoolVar(&f.measure, "measure", false, "measure the time of a warm run, by the device's clock and by the "+
		"wall clock")
	flags.StringVar(&f.trace, "trace", "", "write the times of host and device in the last run to `FILE.json`, for "+
		"ui.perfetto.dev")
	flags.IntVar(&f.top, "top", 0,
		"with --profile: only the `N` slowest kernels, slowest first; 0 means all, in program order")
	flags.IntVar(&f.repeat, "repeat", 1,
		"run `N` times, to see times after the warm-up; states continue from run to run")
	flags.BoolVar(&f.noCache, "no-cache", false, "ignore the cache and write nothing to it")
	f.tuning.add(cmd)
	flags.DurationVar(&f.tune, "tune", 0, "first measure schedules of the kernels, as vkc tune does, for this `TIME` "+
		"at most (0 means no time); later runs use the results and continue")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// session is one vkc run: its flags, the open program, and the inputs.
type session struct {
	*app
	flags   *runFlags
	device  *vkc.Device
	program *vkc.Program
	graph   *ir.Graph
	file    vkc.Weights // closed at the end; nil if the weights come from a bundle
	weights ir.WeightSource
	exe     *vkc.Executable
	why     string // why the program ran on its device when it was loaded; auto may change it later
	symbols map[string]int64
	bound   map[string]int64 // the values of all symbols in this run
	inputs  map[string]*ir.Data
	outputs map[string]string // the file to write, by output name
	folder  *folder.Folder    // of an ONNX model, or nil
	given   vkc.Tensors       // the inputs that --text makes
	checker *check.Checker
}

// run runs vkc run: it opens the program, executes it, and reports on the run.
func (a *app) run(ctx context.Context, path string, f *runFlags) (err error) {
	if f.repeat < 1 {
		return usagef("--repeat %d: want at least 1", f.repeat)
	}
	if f.tune < 0 || f.tune > 0 && f.tuning.none {
		return usagef("--tune %v: want a time, at least 0, without --no-tuning", f.tune)
	}
	if f.top < 0 || f.top > 0 && !f.profile {
		return usagef("--top %d: want a number of kernels, at least 0, with --profile", f.top)
	}
	s := &session{app: a, flags: f}
	if s.symbols, err = parseSymbols(f.symbols); err != nil {
		return err
	}
	if s.outputs, err = parsePairs("output", "FILE.npy", f.outputs); err != nil {
		return err
	}
	for name, path := range s.outputs {
		if err := writable("output", path); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	if err := writable("trace", f.trace); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, path); err != nil {
		return err
	}
	return s.execute(ctx)
}

// close closes everything that open opened, in reverse order.
func (s *session) close() error {
	var errs []error
	if s.exe != nil {
		errs = append(errs, s.exe.Close())
	}
	if s.program != nil {
		errs = append(errs, s.program.Close())
	}
	if s.device != nil {
		errs = append(errs, s.device.Close())
	}
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// open reads the program and all files that the user gave, before any slow work, so that mistakes are reported at once.
// Then it opens the device and loads the program.
func (s *session) open(ctx context.Context, path string) (err error) {
	isBundle, err := filefmt.IsBundle(path)
	if err != nil {
		return err
	}
	if isBundle && s.flags.tune > 0 {
		return usagef("--tune: the schedules of a bundle are fixed when it is compiled: tune the graph, and compile it")
	}
	if isBundle {
		err = s.openBundle(ctx, path)
	} else {
		err = s.openGraph(path)
	}
	if err != nil {
		return err
	}
	if err := s.prepare(s.graph); err != nil {
		return err
	}
	if strings.Contains(s.flags.device, ",") {
		return s.openLayers(ctx, s.graph)
	}
	if err := s.openDevice(); err != nil {
		return err
	}
	if s.flags.tune > 0 {
		if err := s.tuneBefore(ctx, s.device, []*ir.Graph{s.graph}, s.bound, s.flags.tune); err != nil {
			return err
		}
	}
	if !isBundle {
		if err := s.compile(ctx, s.graph); err != nil {
			return err
		}
	}
	return s.load(ctx)
}

// openBundle opens a bundle, and the file of --weights, if it is given, instead of the bundle's weights.
func (s *session) openBundle(ctx context.Context, path string) (err error) {
	if err = s.flags.graph.forBundle(); err != nil {
		return err
	}
	if s.program, err = vkc.OpenBundle(path); err != nil {
		return err
	}
	if err = s.trust(ctx, s.program, s.flags.trusted); err != nil {
		return err
	}
	s.graph, s.weights = s.program.Contents.Graph, s.program.Contents.Weights
	if s.flags.weights != "" {
		if s.file, err = vkc.OpenWeights(s.flags.weights); err != nil {
			return err
		}
		s.weights = s.file
	}
	return nil
}

// openDevice opens the device of --device, and prints which one it is or why the CPU replaces it.
func (s *session) openDevice() (err error) {
	open := vkc.OpenDevice
	if s.flags.sandbox {
		open = vkc.OpenSandbox
	}
	var missing error
	if len(s.flags.aboutKernels()) > 0 {
		s.device, missing, err = openForMeasuringBy(open, s.flags.device)
	} else {
		s.device, err = open(s.flags.device)
	}
	if err != nil {
		return err
	}
	s.noteDevice(cmp.Or(s.device.Fallback(), missing))
	if s.flags.sandbox && !s.device.IsCPU() {
		s.note("sandbox: %s", vk.Of(s.device).Robustness())
	}
	return nil
}

// openGraph sets the session's graph, and its weights if the file has some. path is a file with a graph or a model, or
// the folder of a model. For --text, openGraph makes the inputs too.
func (s *session) openGraph(path string) (err error) {
	if s.flags.trusted != "" {
		return usagef("--trusted-keys is for bundles, and %s is a graph", path)
	}
	if folder.Is(path) {
		if s.folder, err = folder.Open(path); err != nil {
			return err
		}
	}
	if s.flags.text != "" {
		s.graph, s.file, err = s.buildForText(path)
	} else {
		s.graph, s.file, err = s.buildForInputs(path)
	}
	if err != nil {
		return err
	}
	if s.file != nil { // otherwise weights stays nil
		s.weights = s.file
	}
	s.flags.graph.model.onnx.adviseFlags(s.app, s.file)
	return nil
}

// buildForInputs reads the graph, or builds the graph of a model. An ONNX model may need the extents and values of the
// inputs for that. Inputs that became constants are removed from the flags.
func (s *session) buildForInputs(path string) (g *ir.Graph, weights vkc.Weights, err error) {
	o := &s.flags.graph.model.onnx
	o.example = s.flags.inputs
	g, w, err := s.flags.graph.open(path, s.flags.weights)
	if o.fitted {
		s.note("the model cannot be built for inputs of every size, so it was built for these")
		s.flags.inputs = slices.DeleteFunc(s.flags.inputs, func(flag string) bool {
			name, _, _ := strings.Cut(flag, "=")
			return slices.Contains(o.fixed, name)
		})
	}
	return g, w, err
}

// buildForText builds the graph of a folder's ONNX model for the tokens of --text, and makes the inputs.
func (s *session) buildForText(path string) (g *ir.Graph, _ vkc.Weights, err error) {
	if s.folder == nil || len(s.flags.inputs) > 0 || s.flags.weights != "" || s.flags.graph.model.onnx.given() {
		return nil, nil, usagef("--text is for a folder with an ONNX model and a tokenizer, and goes without " +
			"--input, --weights, --dim, --bound and --constant")
	}
	file, err := s.folder.Tokenizer()
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.New(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens := tok.Encode(s.flags.text, tokenizer.Options{Whole: true})
	model, ports, err := s.folder.Build(len(tokens), 0, false)
	if err != nil {
		return nil, nil, err
	}
	if s.given, err = ports.Inputs(model.Graph, tokens, 0); err == nil {
		g, err = vkc.WithPrecision(model.Graph, cmp.Or(s.flags.graph.precision, vkc.Exact))
	}
	if err != nil {
		return nil, nil, errors.Join(err, model.Close())
	}
	return g, model, nil
}

// prepare reads the inputs, and checks the flags and the inputs against the graph's signature.
func (s *session) prepare(g *ir.Graph) (err error) {
	sig := runtime.SignatureOf(g)
	for name := range s.outputs {
		if !hasPort(sig.Outputs(), name) {
			return usagef("--output: there is no output %q; the program has %s", name, portNames(sig.Outputs()))
		}
	}
	if err := checkSymbols(sig, s.symbols, 0); err != nil {
		return err
	}
	s.inputs = s.given // of --text
	if s.inputs == nil {
		if s.inputs, err = readInputs(g, s.flags.inputs, s.symbols); err != nil {
			return err
		}
	}
	if s.bound, err = sig.Bind(s.inputs, runtime.RunOptions{Symbols: s.symbols}); err != nil {
		return usagef("%w", err)
	}
	if !s.flags.clamp {
		if err := ir.CheckIndices(g, s.inputs, s.bound); err != nil {
			return usagef("%w; --clamp takes the nearest valid index", err)
		}
	}
	if leaves := g.Leaves(ir.OpWeight); len(leaves) > 0 && s.weights == nil {
		return usagef("the graph has %s, %q the first: pass the model's file with --weights FILE",
			plural(len(leaves), "weight"), leaves[0].Name())
	}
	if s.flags.check {
		s.checker, err = check.New(g, s.weights)
	}
	return err
}

// noteFallback prints why the CPU replaces a GPU that "auto" could not use, and reports whether it does.
func (a *app) noteFallback(why error) bool {
	if why != nil {
		a.say("%s", fallbackLine(why))
	}
	return why != nil
}

// fallbackLine says that the CPU replaces a GPU.
func fallbackLine(why error) string {
	return "this runs on the CPU fast path, slower than a GPU: " + oneLine(why)
}

// noteDevice prints which device runs the program. fallback is the reason that the CPU replaces a Vulkan device.
func (s *session) noteDevice(fallback error) {
	if s.noteFallback(fallback) {
		return
	}
	s.note("device %s", s.device.Why())
	if !s.flags.tuning.none {
		s.noteTuning(s.device)
	}
}

// compile compiles graph g for the session's device.
func (s *session) compile(ctx context.Context, g *ir.Graph) (err error) {
	bar := s.progress("compiling shaders")
	defer bar.end()
	_, tuning, err := s.flags.tuning.choose(s.device.Caps(), nil)
	if err != nil {
		return err
	}
	s.program, err = s.device.Compile(ctx, g, vkc.CompileOptions{
		Weights: s.weights, Tuning: tuning, NoCache: s.flags.noCache, Progress: bar.stage,
	})
	if err != nil {
		return err
	}
	bar.end()
	if s.program.Contents.Program != nil { // programs for the processor have none
		s.noteCompile(s.program.Stats)
	}
	return nil
}

// aboutKernels lists the given flags that concern kernels. The CPU fast path has no kernels.
func (f *runFlags) aboutKernels() (flags []string) {
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--check", f.check}, {"--profile", f.profile}, {"--trace", f.trace != ""}} {
		if flag.given {
			flags = append(flags, flag.name)
		}
	}
	return flags
}

// load loads the program on the device. If the program does not run on the opened device itself, load prints where it
// runs.
func (s *session) load(ctx context.Context) (err error) {
	bar := s.progress("loading")
	defer bar.end()
	s.exe, err = s.device.Load(ctx, s.program, vkc.LoadOptions{Weights: s.weights, Progress: bar.stage,
		Statistics: s.flags.profile})
	if err != nil {
		return err
	}
	bar.end()
	s.why = s.exe.Why()
	switch {
	case (s.flags.profile || s.flags.trace != "") && s.exe.Vulkan() == nil:
		s.note("%s has no kernels: vkc measures only the time of the whole run", s.exe.Device())
	case s.exe.Why() == s.device.Why(): // the device is known already
	case s.noteFallback(s.exe.Fallback()):
	default:
		s.note("runs on %s", s.why)
	}
	return nil
}

// execute runs the program as often as --repeat says, checks each run for --check, and reports on the last one.
func (s *session) execute(ctx context.Context) error {
	var res *runtime.Result
	var report *check.Report
	var elapsed time.Duration
	for i := range s.flags.repeat {
		var err error
		start := time.Now()
		last := i == s.flags.repeat-1
		res, err = s.exe.Run(ctx, s.inputs,
			vkc.RunOptions{Symbols: s.symbols, Profile: (s.flags.profile || s.flags.trace != "") && last})
		if err != nil {
			return err
		}
		elapsed = time.Since(start)
		if s.checker != nil {
			if report, err = s.checker.Check(ctx, s.exe, s.inputs, s.symbols, res.Outputs); err != nil {
				return err
			}
			if !report.OK() { // report the first run that is wrong
				break
			}
		}
	}
	if why := s.exe.Why(); why != s.why { // it has moved to another device
		s.note("runs on %s", why)
	}
	if err := s.graph.OutputInfo().Trim(res.Outputs); err != nil {
		return err
	}
	if err := s.store(res); err != nil {
		return err
	}
	if err := s.writeTrace(res.Profile); err != nil {
		return err
	}
	var measured *measureInfo
	if s.flags.measure {
		var err error
		if measured, err = s.measure(ctx); err != nil {
			return err
		}
	}
	if !s.flags.profile {
		res.Profile = nil // it was measured for the trace only
	}
	if err := s.print(res, report, measured, elapsed); err != nil {
		return err
	}
	if report != nil {
		return report.Err()
	}
	return nil
}

// measure times repeated runs with the session's inputs, after runs for warm-up, by the wall clock and, on a GPU, by
// the device's clock.
func (s *session) measure(ctx context.Context) (*measureInfo, error) {
	info := &measureInfo{}
	if v := s.exe.Vulkan(); v != nil {
		t, err := bench.Measure(ctx, vk.Of(s.device), v, bench.Options{})
		if err != nil {
			return nil, fmt.Errorf("measure by the device's clock: %w", err)
		}
		device := spanOf(t)
		info.Device = &device
	}
	wall, err := bench.MeasureWall(bench.Options{}, func() error {
		_, err := s.exe.Run(ctx, s.inputs, vkc.RunOptions{Symbols: s.symbols})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("measure by the wall clock: %w", err)
	}
	info.Wall = spanOf(wall)
	return info, nil
}

// writeTrace writes the profile as a trace, if --trace is given. There is no profile if the run failed its check before
// the last run.
func (s *session) writeTrace(p *runtime.Profile) error {
	if s.flags.trace == "" || p == nil {
		return nil
	}
	return writeTraceFile(s.flags.trace, runtime.Trace{Name: s.exe.Device(), Profile: p})
}

// store writes the outputs of --output to their files.
func (s *session) store(res *runtime.Result) error {
	for _, o := range s.exe.Outputs() {
		path, ok := s.outputs[o.Name]
		if !ok {
			continue
		}
		held, err := npy.Held(res.Outputs[o.Name])
		if err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
		if err := npy.WriteFile(path, held); err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
	}
	return nil
}

// parsePairs parses the values of a repeated flag, each of the form NAME=VALUE. value describes VALUE in error
// messages.
func parsePairs(flag, value string, list []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, p := range list {
		name, v, ok := strings.Cut(p, "=")
		if !ok || name == "" || v == "" {
			return nil, usagef("--%s %q: want NAME=%s", flag, p, value)
		}
		if _, twice := pairs[name]; twice {
			return nil, usagef("--%s %q: %s is given twice", flag, p, name)
		}
		pairs[name] = v
	}
	return pairs, nil
}
