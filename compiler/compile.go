package compiler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/generator"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/internal/progcache"
	"github.com/vkc-go/vkc/internal/toolcaps"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime"
)

// Options change how Compile works; the zero value compiles for the generic profile and uses the user's cache.
type Options struct {
	// Target is the device to compile for: the caps of a live device, or a profile from device.Profile. The zero value
	// means the generic profile.
	Target device.Caps
	// Weights, if set, are the weights that the program will be loaded with. Their stored dtypes, such as q4_0, replace
	// the dtypes that the graph declares. Other weights can be loaded only if they have the same dtypes.
	Weights ir.WeightSource
	// Tuning chooses schedules from measurements. A nil or empty Tuning chooses none.
	Tuning device.Tuning
	// OneKernel compiles one kernel of each step for all values of symbols, without alternatives.
	OneKernel bool
	// NoCache disables the cache: the program is always compiled, and not stored.
	NoCache bool
	// Jobs is the number of compiler processes; 0 means one per core.
	Jobs int
	// Validate runs spirv-val over every shader.
	Validate bool
	// Progress, if set, is called as shaders are compiled, with the number done so far. Calls do not overlap.
	Progress func(runtime.Progress)

	// Pricer makes the cost model with which the rules of passes choose; nil means the cost model of the device's
	// schedules. Persistence chooses the runs of consecutive steps that one launch executes (persistent kernels); nil
	// means schedule.Runs. Alternatives chooses the kernels of a step for small values of a symbol; nil means
	// schedule.Alternatives. All three are for tests. Programs compiled with any of them are not cached, but their
	// shaders are.
	Pricer       func(device.Caps) kernel.Pricer
	Persistence  func(*kernel.Program, []*kernel.Kernel, []kernel.Schedule, device.Caps) []schedule.Run
	Alternatives func(*kernel.Kernel, kernel.Schedule, device.Caps, device.Tuning) []schedule.Alternative

	observe func(passes.Event) error // called after every pass, if set
}

// Stats describes the work of one Compile.
type Stats struct {
	CacheHit  bool // the whole program came from the cache
	Kernels   int
	Shaders   int // distinct ones among the kernels
	Processes int // compiler processes started
	Elapsed   time.Duration
	// Fitted is the number of weights that are stored in another dtype than the graph declares.
	Fitted int
	// Without names the device's features that the kernels do not use because the installed GLSL compiler is too old.
	// [spirv.Feature] lists the names.
	Without []string
	// CacheErr is the reason that the program could not be stored in the cache, if so. The program is valid.
	CacheErr error
}

// Add adds the statistics of a part of a program.
func (s *Stats) Add(part Stats) {
	s.CacheHit = s.CacheHit && part.CacheHit
	s.Kernels, s.Shaders = s.Kernels+part.Kernels, s.Shaders+part.Shaders
	s.Processes, s.Elapsed = s.Processes+part.Processes, s.Elapsed+part.Elapsed
	s.Without = slices.Concat(s.Without, part.Without)
	slices.Sort(s.Without)
	s.Without = slices.Compact(s.Without)
	s.CacheErr = errors.Join(s.CacheErr, part.CacheErr)
}

// Compiled is a graph compiled for a device: the contents of its bundle.
type Compiled struct {
	Contents bundle.Contents
	Stats    Stats
}

// FitWeights checks a graph and its weights before it is compiled. It returns the graph with each weight in the dtype
// that the source stores, and the number of weights that g declares with another dtype.
func FitWeights(g *ir.Graph, weights ir.WeightSource) (fit *ir.Graph, changed int, err error) {
	if err := g.Verify(); err != nil {
		return nil, 0, fmt.Errorf("compile: %w", err) // err names the graph
	}
	fit, changed, err = ir.FitWeights(g, weights)
	if err == nil && weights != nil {
		err = ir.CheckWeights(fit, weights)
	}
	return fit, changed, runtime.Explain("compile", g.Name, err)
}

// Compile compiles a graph for a device. If the cache has the program of an equal graph for the same kind of device,
// Compile returns it and starts no compiler process. Graphs that differ only in names are equal.
func Compile(ctx context.Context, g *ir.Graph, opt Options) (_ *Compiled, err error) {
	start := time.Now()
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	g, fitted, err := FitWeights(g, opt.Weights)
	if err != nil {
		return nil, err
	}
	defer func() { err = runtime.Explain("compile", g.Name, err) }()
	defer bailout.Caught(&err)
	c := newCompilation(ctx, g, opt)
	p, ok := c.fromCache()
	if !ok {
		p = c.compile(ctx)
	}
	p.Stats.Kernels, p.Stats.Shaders = len(p.Contents.Program.Steps), len(p.Contents.Program.Shaders)
	p.Stats.Without, p.Stats.Fitted = c.without, fitted
	p.Stats.Elapsed = time.Since(start)
	return p, nil
}

// compilation is the state of one Compile.
type compilation struct {
	g      *ir.Graph
	opt    Options
	caps   device.Caps
	tools  *spirv.Toolchain
	cache  *progcache.Cache
	root   string // directory of the caches; empty without caches
	noRoot error  // the reason that no directory could be found; nil if caches are disabled
	key    string // key of the program in the cache

	without []string // features that the device has and the tools do not support
}

// newCompilation finds the GLSL compiler and the caches, and removes the features from the target that the compiler
// cannot express.
func newCompilation(ctx context.Context, g *ir.Graph, opt Options) *compilation {
	c := &compilation{g: g, opt: opt, caps: opt.Target}
	if c.caps.Name == "" {
		c.caps = bailout.Must(device.Profile("generic"))
	}
	if !opt.NoCache {
		// If there is no cache directory, the compile only takes longer.
		c.root, c.noRoot = cachefile.Root()
	}
	programs := c.root
	if opt.Pricer != nil || opt.Persistence != nil || opt.Alternatives != nil {
		programs = "" // no cache of programs: a key does not contain these functions
	}
	c.cache = progcache.Open(programs)
	c.tools = bailout.Must(spirv.Find(ctx, spirv.FindOptions{CacheDir: c.root}))
	caps, without, err := toolcaps.Expressible(ctx, c.tools, c.caps)
	bailout.Check(err)
	c.caps, c.without = caps, without
	c.key = cacheKey(g, c.caps, c.tools, opt)
	return c
}

// cacheKey returns the hash of everything that a compiled program depends on.
func cacheKey(g *ir.Graph, caps device.Caps, tools *spirv.Toolchain, opt Options) string {
	sum := sha256.New()
	for _, part := range []string{g.HashString(), caps.Fingerprint(), generator.ID(), tools.Fingerprint(),
		fmt.Sprint(opt.Validate, opt.OneKernel, limits(caps).KeepsDecoded(g)), opt.Tuning.Hash()} {
		fmt.Fprintf(sum, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// fromCache returns the cached program of an equal graph, with the names of this graph.
func (c *compilation) fromCache() (*Compiled, bool) {
	f, ok := c.cache.Get(c.key)
	if !ok {
		return nil, false
	}
	prog, err := rebind(f, c.g)
	if err != nil {
		return nil, false
	}
	return &Compiled{
		Contents: bundle.Contents{Meta: f.Meta(), Graph: c.g, Program: prog, SPIRV: f.SPIRV(), GLSL: f.GLSL()},
		Stats:    Stats{CacheHit: true},
	}, true
}

// compile compiles the graph and stores the program in the cache.
func (c *compilation) compile(ctx context.Context) *Compiled {
	low := lower(ctx, c.g, c.caps, c.opt)
	low.Program.GraphHash = c.g.HashString()
	var shaders []spirv.Shader
	for i, src := range low.GLSL {
		if low.SPIRV[i] == nil { // a custom op may bring its own SPIR-V
			shaders = append(shaders, spirv.Shader{Name: low.Program.Shaders[i].Name, Source: src,
				TargetEnv: glsl.TargetEnv(low.Program.Shaders[i].Needs, c.caps.API)})
		}
	}
	bailout.Check(c.validateCustom(ctx, low))
	opt := spirv.Options{Optimize: true, Validate: c.opt.Validate, Jobs: c.opt.Jobs, CacheDir: c.root}
	if report := c.opt.Progress; report != nil {
		opt.Progress = func(done, total int) {
			report(runtime.Progress{Stage: runtime.StageShaders, Done: int64(done), Total: int64(total)})
		}
	}
	results, stats, err := c.tools.Compile(ctx, shaders, opt)
	bailout.Check(explainCustom(err, shaders))
	p := &Compiled{
		Contents: bundle.Contents{Meta: c.meta(), Graph: c.g, Program: low.Program, GLSL: low.GLSL},
		Stats:    Stats{Processes: stats.Processes},
	}
	for _, module := range low.SPIRV {
		if module == nil { // compiled from GLSL: the next result, since results are in the order of shaders
			module = results[0].SPIRV
			results = results[1:]
		}
		p.Contents.SPIRV = append(p.Contents.SPIRV, module)
	}
	// A program that cannot be cached is compiled nevertheless.
	p.Stats.CacheErr = c.noRoot
	if c.noRoot == nil {
		p.Stats.CacheErr = c.cache.Put(c.key, &p.Contents)
	}
	return p
}

// meta returns the program's metadata: the generator, tools and target.
func (c *compilation) meta() bundle.Meta {
	m := bundle.Meta{Version: Version(), Generator: generator.ID(), Tools: c.tools.Fingerprint(), Target: &c.caps,
		OneKernel: c.opt.OneKernel}
	if len(c.opt.Tuning) > 0 {
		m.Tuning = c.opt.Tuning.Hash()
	}
	return m
}

// Estimate returns the expected nanoseconds of a graph's kernels on a device, with all symbols at their maximum. It
// leaves out kernels that exchange values with other devices, because package multi estimates these.
func Estimate(ctx context.Context, g *ir.Graph, caps device.Caps) (float64, error) {
	pricer := schedule.NewPricer(caps)
	s, err := passes.Run(g, passes.Options{Context: ctx, Limits: limits(caps), Pricer: pricer})
	if err != nil {
		return 0, err
	}
	own := slices.DeleteFunc(slices.Clone(s.Kernels), func(k *kernel.Kernel) bool { return mailbox.Follows(k.Ops) })
	e := pricer.Price(kernel.Rewrite{After: own, LastSplit: true})
	if e.Note != "" {
		return 0, errors.New(e.Note)
	}
	return e.After, nil
}
