package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/ir"
)

type compileFlags struct {
	output, target, weights, dumpDir string
	sign                             string
	graph                            graphFlags
	noCache, validate, json          bool
	jobs                             int
	projector                        string
	generate                         bool // all programs that generate, chat and serve run
	tuning                           tuningFlags
}

// compileInfo is the output of vkc compile --json.
type compileInfo struct {
	Graph     string      `json:"graph"`
	GraphHash string      `json:"graph_hash"`
	Target    string      `json:"target"`
	Bundle    string      `json:"bundle"`
	Bytes     int64       `json:"bytes"`
	Weights   bool        `json:"weights"` // whether the bundle contains the weights
	Arena     int64       `json:"arena_bytes"`
	Temps     int64       `json:"temp_bytes"` // sum of the sizes of the arena's values, without reuse
	Program   programInfo `json:"program"`
}

// programInfo describes the compilation of a program.
type programInfo struct {
	Kernels   int     `json:"kernels"`
	Shaders   int     `json:"shaders"`
	CacheHit  bool    `json:"cache_hit"`
	Processes int     `json:"compiler_processes"`
	Millis    float64 `json:"compile_ms"`
	// Without lists features that the device has and the installed GLSL tools are too old to compile. Programs run
	// without them, more slowly; vkc doctor explains the fix.
	Without []string `json:"without,omitempty"`
}

// compileCommand declares the command vkc compile and its flags.
func (a *app) compileCommand() *cobra.Command {
	var f compileFlags
	cmd := &cobra.Command{
		Use:   "compile GRAPH|MODEL.gguf|MODEL.onnx -o OUT.vkb",
		Short: "Compile a graph or model to a bundle, one file that runs without a compiler",
		Example: `  vkc compile GRAPH.json -o OUT.vkb
  vkc compile MODEL.gguf -o OUT.vkb --ctx 2048
  vkc compile MODEL.gguf -o OUT.vkb --generate --ctx 4096 --kv q8_0 --texts 4
  vkc compile MODEL.onnx -o OUT.vkb --dim batch=1
  vkc compile GRAPH.json -o OUT.vkb --target nvidia-h100 --weights MODEL.gguf
  vkc compile GRAPH.json -o OUT.vkb --target nvidia-h100 --tuning h100.json
  vkc compile GRAPH.json -o OUT.vkb --dump-dir kernels`,
		Args: exactArgs("GRAPH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.output == "" {
				return usagef("-o OUT.vkb is missing; see vkc compile --help")
			}
			if f.jobs < 0 {
				return usagef("--jobs %d: want at least 1, or 0 for one per core", f.jobs)
			}
			if err := writable("output", f.output); err != nil {
				return err
			}
			for _, in := range []string{args[0], f.weights} {
				if sameFile(in, f.output) {
					return usagef("%s is both the input and the output: name another output", in)
				}
			}
			return a.compile(cmd, args[0], &f)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc compile.
func (f *compileFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the bundle `FILE` to write")
	flags.StringVar(&f.target, "target",
		"", targetHelp()+"; the default is the device here, or "+anyTarget+" if there is none")
	f.tuning.addWithFile(cmd)
	f.graph.add(cmd)
	flags.BoolVar(&f.generate, "generate", false, "with a language model: compile all programs of vkc generate, chat "+
		"and serve, for --ctx tokens, --texts answers at once and a KV cache of type --kv")
	flags.Lookup("precision").Usage = precisionHelp + " (default exact; with --generate " +
		generate.DefaultPrecision + ")"
	flags.Lookup("kv").Usage = "with --generate, --step, --chunk or --texts: store the KV cache in this `TYPE`: f16 " +
		"(the default of --generate, if the target stores it), f32 (the default otherwise), q8_0 or another"
	flags.StringVar(&f.weights, "weights", "", "GGUF or safetensors `FILE` to include in the bundle, unchanged")
	flags.StringVar(&f.projector, "mmproj", generate.NoProjector, "with --generate, include the vision tower in this "+
		"GGUF `FILE`, or auto for the mmproj file next to the model")
	flags.StringVar(&f.sign, "sign", "", "sign the bundle with the private key in `KEY.pem`, which vkc keygen makes")
	flags.StringVar(&f.dumpDir, "dump-dir", "", "write the graph, the program, and each kernel's IR, GLSL and SPIR-V "+
		"into `DIR`")
	flags.BoolVar(&f.validate, "validate", false, "run spirv-val over every shader")
	flags.BoolVar(&f.noCache, "no-cache", false, "ignore the cache and write nothing to it")
	flags.IntVarP(&f.jobs, "jobs", "j", 0, "number of compiler processes at once; 0 means one per core")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// compileModel runs vkc compile --generate: it compiles all programs of a GGUF model into one bundle.
func (a *app) compileModel(ctx context.Context, path string, f *compileFlags) error {
	m := &f.graph.model
	if model, err := isModel(path); err != nil || !model {
		return errors.Join(err, usagef("--generate is for GGUF models, and %s is not one", path))
	}
	if m.step || m.past || m.chunk != 0 || f.weights != "" || f.dumpDir != "" {
		return usagef("--generate compiles all programs of a model and adds its weights: leave out --step, --past, " +
			"--chunk, --weights and --dump-dir")
	}
	if err := m.check(); err != nil {
		return err
	}
	kv, err := parseKV(m.kv)
	if err != nil {
		return err
	}
	o := generate.Options{Context: m.context, Parallel: m.texts, Precision: f.graph.precision, Cache: kv,
		Projector: f.projector}
	signer, err := readSigner(f.sign)
	if err != nil {
		return err
	}
	caps, tuning, err := a.targetCaps(f.target, &f.tuning)
	if err != nil {
		return err
	}
	bar := a.progress("compiling shaders")
	p, err := generate.Bundle(ctx, path, f.output, o, vkc.CompileOptions{Target: caps, Tuning: tuning,
		NoCache: f.noCache, Jobs: f.jobs, Validate: f.validate, Progress: bar.stage}, signer)
	bar.end()
	if err != nil {
		return err
	}
	return a.printCompiled(p.Contents.Graph, p, f)
}

// compile runs vkc compile for a graph or for one program of a model.
func (a *app) compile(cmd *cobra.Command, path string, f *compileFlags) error {
	if f.generate {
		return a.compileModel(cmd.Context(), path, f)
	}
	if f.projector != generate.NoProjector {
		return usagef("--mmproj %s: only --generate makes a bundle with a vision tower", f.projector)
	}
	g, file, err := f.graph.open(path, f.weights)
	if err != nil {
		return err
	}
	f.graph.model.onnx.adviseFlags(a, file)
	var weights ir.WeightSource
	if file != nil {
		defer file.Close()
		weights = file
	}
	signer, err := readSigner(f.sign)
	if err != nil {
		return err
	}
	caps, tuning, err := a.targetCaps(f.target, &f.tuning)
	if err != nil {
		return err
	}
	bar := a.progress("compiling shaders")
	p, err := vkc.Compile(cmd.Context(), g, vkc.CompileOptions{
		Target: caps, Weights: weights, Tuning: tuning, NoCache: f.noCache, Jobs: f.jobs, Validate: f.validate,
		Progress: bar.stage,
	})
	bar.end()
	if err != nil {
		return err
	}
	a.noteCompile(p.Stats)
	if f.dumpDir != "" {
		if err := dumpFiles(cmd.Context(), f.dumpDir, p, tuning); err != nil {
			return err
		}
	}
	p.Contents.Sign = signer
	if err := p.Save(f.output, weights); err != nil {
		return err
	}
	return a.printCompiled(p.Contents.Graph, p, f)
}

// printCompiled prints what a bundle contains: one line, or JSON.
func (a *app) printCompiled(g *ir.Graph, p *vkc.Program, f *compileFlags) error {
	st, err := os.Stat(f.output)
	if err != nil {
		return err
	}
	prog := p.Contents.Program
	if f.json {
		return a.printJSON(compileInfo{
			Graph: g.Name, GraphHash: prog.GraphHash, Target: prog.Target, Bundle: f.output, Bytes: st.Size(),
			Weights: f.weights != "" || f.generate, // --generate always includes them
			Arena:   prog.ArenaBytes, Temps: prog.TempBytes, Program: infoOf(p.Stats),
		})
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s for %s, %s\n", f.output, plural(len(prog.Steps), "kernel"),
		prog.Target, size(st.Size()))
	return err
}

func infoOf(s vkc.CompileStats) programInfo {
	return programInfo{s.Kernels, s.Shaders, s.CacheHit, s.Processes, millis(s.Elapsed), s.Without}
}

// noteCompile prints what compiling cost, and whether weights are decoded or the cache failed.
func (a *app) noteCompile(s vkc.CompileStats) {
	switch {
	case s.CacheHit:
		a.note("program from cache: %s (%s), %d compiler processes", plural(s.Kernels, "kernel"),
			plural(s.Shaders, "shader"), s.Processes)
	default:
		a.note("compiled %s (%s) in %.2f s, %d compiler processes", plural(s.Kernels, "kernel"),
			plural(s.Shaders, "shader"), s.Elapsed.Seconds(), s.Processes)
	}
	if s.Fitted > 0 {
		a.note("weights: the file stores %d in another dtype than the graph declares; kernels decode them as they "+
			"read them", s.Fitted)
	}
	if s.CacheErr != nil {
		a.note("cannot write the program to the cache: %s", oneLine(s.CacheErr))
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// size prints a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d bytes", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
}
