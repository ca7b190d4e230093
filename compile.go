package vkc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/generator"
	"github.com/vkc-go/vkc/internal/progcache"
	"github.com/vkc-go/vkc/internal/toolcaps"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// CompileOptions change how Compile works; the zero value compiles for the
// generic profile and uses the user's cache.
type CompileOptions struct {
	// Target is the device to compile for: that of a live device, or a profile
	// by target.Profile. The zero value is the generic profile.
	Target target.Caps
	// Weights, if set, are those that the program will be loaded with: what they are
	// stored as, such as q4_0, takes the place of the dtypes that the graph declares
	// for them. Loading other weights than these needs the same dtypes.
	Weights ir.WeightSource
	// Tuning chooses schedules by what vkc tune measured: [target.ProfileTuning] has
	// that of a profile, and vkc tune --json prints that of a device. Where it is
	// nil, [Device.Compile] takes that of its device and [Compile] takes none; one
	// that is empty but not nil is none in both.
	Tuning target.Tuning
	// Beside is a program of the same device that this one is to share weights or states with (LoadOptions.Share). It
	// matters where the device is several: then both are cut at the same places.
	Beside *Program
	// NoCache compiles anew and keeps nothing.
	NoCache bool
	// Jobs is the number of compiler processes; 0 means one per core.
	Jobs int
	// Validate runs spirv-val over every shader.
	Validate bool
	// Progress, if set, is told how many of the shaders are compiled, by one call
	// at a time.
	Progress func(Progress)
}

// CompileStats says what a Compile did.
type CompileStats struct {
	CacheHit  bool // the whole program came from the cache
	Kernels   int
	Shaders   int // distinct ones among the kernels
	Processes int // compiler processes started
	Elapsed   time.Duration
	// Fitted is how many weights are stored in another dtype than the graph declares.
	Fitted int
	// Without names what the device has and the GLSL compiler at hand is too old
	// to express, as [spirv.Feature]: the kernels do without.
	Without []string
	// CacheErr is why the program could not be kept for next time, if so. The
	// program is good none the less.
	CacheErr error
}

// add counts what compiling a part of a program did.
func (s *CompileStats) add(part CompileStats) {
	s.CacheHit = s.CacheHit && part.CacheHit
	s.Kernels, s.Shaders = s.Kernels+part.Kernels, s.Shaders+part.Shaders
	s.Processes, s.Elapsed = s.Processes+part.Processes, s.Elapsed+part.Elapsed
	s.Without = slices.Concat(s.Without, part.Without)
	slices.Sort(s.Without)
	s.Without = slices.Compact(s.Without)
	s.CacheErr = errors.Join(s.CacheErr, part.CacheErr)
}

// Program is a compiled graph, ready to load on a device or write to a bundle.
// One for the CPU fast path, which interprets the graph, has no kernels.
type Program struct {
	// Contents is what a bundle of the program holds. Contents.Weights is set
	// if the program was opened from a bundle with weights; Contents.Program is
	// nil if it is for the CPU fast path.
	Contents bundle.Contents
	Stats    CompileStats

	file    *bundle.File // that Contents aliases; nil for a program just compiled
	refused error        // why the device that it was compiled for does not run it
	shards  []shard      // where it was compiled for devices that share each op; Contents then has the graph alone
	layers  []layer      // where it was compiled for several devices; Contents then has the graph alone
}

// HasKernelsOf reports whether the program has the code of all kernels of another one, on each of their devices.
func (p *Program) HasKernelsOf(other *Program) bool {
	own := p.kernels()
	for code := range other.kernels() {
		if !own[code] {
			return false
		}
	}
	return true
}

// kernels is the code of all kernels, each on its device.
func (p *Program) kernels() map[deviceCode]bool {
	all := map[deviceCode]bool{}
	if p == nil {
		return all
	}
	devices := []*Program{p}
	if p.layers != nil || p.shards != nil {
		devices, _ = p.Parts() // of what was compiled they are there
	}
	for i, one := range devices {
		for _, code := range one.Contents.SPIRV {
			all[deviceCode{i, string(code)}] = true
		}
	}
	return all
}

// deviceCode is the code of a kernel on one of a program's devices.
type deviceCode struct {
	device int
	code   string
}

// Close closes the bundle that the program was opened from, if it was. The
// bundle's weights must not be used afterwards.
func (p *Program) Close() error {
	if p == nil || p.file == nil {
		return nil
	}
	return p.file.Close()
}

// Save writes the program to a bundle file, which appears whole or not at all.
// With weights, the bundle holds them too and runs by itself.
func (p *Program) Save(path string, weights ir.WeightSource) error {
	if p == nil || p.Contents.Graph == nil {
		return errors.New("save: there is no program: Compile and OpenBundle make one, unless they return an error")
	}
	if p.layers != nil || p.shards != nil {
		return errors.New("save: the program was compiled for several devices, and a bundle is for one: compile the " +
			"graph for one")
	}
	if p.Contents.Program == nil {
		return errors.New("save: the program was made for the CPU fast path and has no kernels: compile the graph " +
			"for a device")
	}
	c := p.Contents
	c.Weights = weights
	return bundle.Write(path, &c)
}

// fitWeights checks a graph and the weights that are given for it, before anything is compiled. The graph's weights
// get the dtypes that they are stored in; it counts those.
func fitWeights(g *ir.Graph, opt CompileOptions) (fit *ir.Graph, changed int, err error) {
	if err = g.Verify(); err == nil {
		fit, changed, err = ir.FitWeights(g, opt.Weights)
	}
	if err == nil && opt.Weights != nil {
		err = ir.CheckWeights(fit, opt.Weights)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("compile: %w", err)
	}
	return fit, changed, nil
}

// Compile compiles a graph for a device. The same graph compiled again for
// the same kind of device comes from the cache, whatever its names are, and
// starts no compiler process.
func Compile(ctx context.Context, g *ir.Graph, opt CompileOptions) (*Program, error) {
	start := time.Now()
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	g, fitted, err := fitWeights(g, opt)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(ctx, g, opt)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	p, ok := c.fromCache()
	if !ok {
		if p, err = c.compile(ctx); err != nil {
			return nil, fmt.Errorf("compile %s: %w", ir.Titled("graph", g.Name), err)
		}
	}
	p.Stats.Kernels, p.Stats.Shaders = len(p.Contents.Program.Steps), len(p.Contents.Program.Shaders)
	p.Stats.Without, p.Stats.Fitted = c.without, fitted
	p.Stats.Elapsed = time.Since(start)
	return p, nil
}

// compiler is the state of one Compile.
type compiler struct {
	g      *ir.Graph
	opt    CompileOptions
	caps   target.Caps
	tools  *spirv.Toolchain
	cache  *progcache.Cache
	root   string // of the caches; empty for none
	noRoot error  // why there are none, where they are not just off
	key    string

	without []string // that the device has and the tools do not know
}

func newCompiler(ctx context.Context, g *ir.Graph, opt CompileOptions) (*compiler, error) {
	c := &compiler{g: g, opt: opt, caps: opt.Target}
	if c.caps.Name == "" {
		var err error
		if c.caps, err = target.Profile("generic"); err != nil {
			return nil, err
		}
	}
	if !opt.NoCache {
		// Without a cache directory every compile is a cold one, nothing worse.
		c.root, c.noRoot = cachefile.Root()
	}
	c.cache = progcache.Open(c.root)
	var err error
	if c.tools, err = spirv.Find(ctx, spirv.FindOptions{CacheDir: c.root}); err != nil {
		return nil, err
	}
	if c.caps, c.without, err = toolcaps.Expressible(ctx, c.tools, c.caps); err != nil {
		return nil, err
	}
	c.key = cacheKey(g, c.caps, c.tools, opt)
	return c, nil
}

// cacheKey names everything that a compiled program depends on.
func cacheKey(g *ir.Graph, caps target.Caps, tools *spirv.Toolchain, opt CompileOptions) string {
	sum := sha256.New()
	for _, part := range []string{g.HashString(), caps.Fingerprint(), generator.ID(), tools.Fingerprint(),
		fmt.Sprint(opt.Validate), opt.Tuning.Hash()} {
		fmt.Fprintf(sum, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// fromCache returns the kept program of an equal graph, under this graph's
// names.
func (c *compiler) fromCache() (*Program, bool) {
	f, ok := c.cache.Get(c.key)
	if !ok {
		return nil, false
	}
	prog, err := rebind(f, c.g)
	if err != nil {
		return nil, false
	}
	return &Program{
		Contents: bundle.Contents{Meta: f.Meta(), Graph: c.g, Program: prog, SPIRV: f.SPIRV(), GLSL: f.GLSL()},
		Stats:    CompileStats{CacheHit: true},
	}, true
}

func (c *compiler) compile(ctx context.Context) (*Program, error) {
	low, err := Lower(ctx, c.g, c.caps, c.opt.Tuning)
	if err != nil {
		return nil, err
	}
	low.Program.GraphHash = c.g.HashString()
	var shaders []spirv.Shader
	for i, src := range low.GLSL {
		if low.SPIRV[i] == nil {
			shaders = append(shaders, spirv.Shader{Name: low.Program.Shaders[i].Name, Source: src,
				TargetEnv: glsl.TargetEnv(low.Program.Shaders[i].Needs, c.caps.API)})
		}
	}
	if err := c.validateCustom(ctx, low); err != nil {
		return nil, err
	}
	opt := spirv.Options{Optimize: true, Validate: c.opt.Validate, Jobs: c.opt.Jobs, CacheDir: c.root}
	if report := c.opt.Progress; report != nil {
		opt.Progress = func(done, total int) {
			report(Progress{Stage: runtime.StageShaders, Done: int64(done), Total: int64(total)})
		}
	}
	results, stats, err := c.tools.Compile(ctx, shaders, opt)
	if err != nil {
		return nil, explainCustom(err, shaders)
	}
	p := &Program{
		Contents: bundle.Contents{Meta: c.meta(), Graph: c.g, Program: low.Program, GLSL: low.GLSL},
		Stats:    CompileStats{Processes: stats.Processes},
	}
	for _, module := range low.SPIRV {
		if module == nil {
			module, results = results[0].SPIRV, results[1:]
		}
		p.Contents.SPIRV = append(p.Contents.SPIRV, module)
	}
	if p.Stats.CacheErr = c.noRoot; c.noRoot == nil {
		p.Stats.CacheErr = c.cache.Put(c.key, &p.Contents)
	}
	return p, nil
}

// meta says what the program is made by and for.
func (c *compiler) meta() bundle.Meta {
	m := bundle.Meta{Version: Version(), Generator: generator.ID(), Tools: c.tools.Fingerprint(), Target: &c.caps}
	if len(c.opt.Tuning) > 0 {
		m.Tuning = c.opt.Tuning.Hash()
	}
	return m
}

// Lowered is a graph taken as far as GLSL: what `vkc dump` prints.
type Lowered struct {
	*passes.State
	Schedules []kernel.Schedule // by kernel
	Reasons   []string          // why each schedule was chosen
	GLSL      []string          // by shader
	shaders   []*glsl.Shader    // by shader
	SPIRV     [][]byte          // by shader; nil but for those that custom ops bring compiled
}

// pricer is what passes ask about a device, but for tests of those that answer otherwise.
var pricer = func(caps target.Caps) passes.Pricer { return target.NewPricer(caps) }

// persistence proposes persistent kernels, but for tests that have others.
var persistence = target.Runs

// Lower takes a graph through the passes, chooses schedules for a device and
// generates GLSL. tuning has schedules that won by measurement, and may be nil.
// It needs neither device nor compiler.
func Lower(ctx context.Context, g *ir.Graph, caps target.Caps, tuning target.Tuning) (*Lowered, error) {
	s, err := passes.Run(g, passes.Options{
		Context: ctx,
		Limits:  passes.Limits{Bindings: target.Bindings(caps), Weigh: glsl.Weigh},
		Pricer:  pricer(caps),
	})
	if err != nil {
		return nil, err
	}
	low := &Lowered{State: s}
	s.Program.Target = caps.Name
	if err := refuseMissing(s.Kernels, caps); err != nil {
		return nil, err
	}
	if err := refuseLarge(s); err != nil {
		return nil, err
	}
	var symbols []string
	for _, sym := range s.Program.Symbols {
		symbols = append(symbols, sym.Name)
	}
	made := map[kernel.Identity]choice{}
	for i, k := range s.Kernels {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id := k.Identity()
		c, ok := made[id]
		if !ok {
			if c, err = low.shade(k, fmt.Sprintf("k%d_%s", i, k.Name), caps, tuning, symbols); err != nil {
				return nil, fmt.Errorf("kernel %d (%s): %w", i, k.Name, err)
			}
			made[id] = c
		}
		low.Schedules, low.Reasons = append(low.Schedules, c.schedule), append(low.Reasons, c.reason)
		st := &s.Program.Steps[i]
		st.Grid, st.Schedule, st.Shader = c.grid, c.text, c.shader
		for j, b := range k.Bindings {
			st.Binds[j].Address = target.ByAddress(k, b, caps)
		}
	}
	if err := low.join(persistence(s.Program, s.Kernels, low.Schedules, caps)); err != nil {
		return nil, err
	}
	if err := s.Program.Check(); err != nil {
		return nil, fmt.Errorf("the compiled program does not hold together, which is a bug in vkc: %w", err)
	}
	return low, nil
}

// choice is what has been decided for a kernel, and for all of its identity.
type choice struct {
	schedule     kernel.Schedule
	text, reason string
	grid         kernel.Grid
	shader       int
}

// shade chooses the schedule of a kernel and adds its shader under a name.
func (low *Lowered) shade(k *kernel.Kernel, name string, caps target.Caps, tuning target.Tuning,
	symbols []string) (choice, error) {
	sched, why, tuned, err := target.SelectTuned(k, caps, tuning)
	if err != nil {
		return choice{}, err
	}
	sh, err := glsl.Emit(k, sched, caps, symbols)
	if err != nil {
		return choice{}, err
	}
	c := choice{schedule: sched, text: sched.String(), reason: why, grid: sh.Grid}
	if tuned {
		c.text += ", " + why
	}
	c.shader = low.add(name, sh, len(k.Bindings))
	return c, nil
}

// add adds a shader under a name, and returns its number.
func (low *Lowered) add(name string, sh *glsl.Shader, bindings int) int {
	low.shaders = append(low.shaders, sh)
	low.GLSL, low.SPIRV = append(low.GLSL, sh.Source), append(low.SPIRV, sh.SPIRV)
	hash := sha256.Sum256([]byte(sh.Source))
	low.Program.Shaders = append(low.Program.Shaders, kernel.Shader{
		Name: name, Bindings: bindings, Workgroup: sh.Workgroup, SubgroupSize: sh.SubgroupSize,
		Needs: sh.Needs, SharedBytes: sh.SharedBytes, GLSLHash: hex.EncodeToString(hash[:]),
	})
	return len(low.GLSL) - 1
}

// refuseMissing names everything that the kernels need and the device lacks,
// all at once.
func refuseMissing(kernels []*kernel.Kernel, caps target.Caps) error {
	var missing []string
	for _, k := range kernels {
		for _, m := range target.Missing(k, caps) {
			line := fmt.Sprintf("%s (for %s)", m,
				strings.Join(slices.Compact(slices.Sorted(slices.Values(k.Ops))), ", "))
			if !slices.Contains(missing, line) {
				missing = append(missing, line)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &UnsupportedError{Device: caps.Name, Missing: missing}
}

// refuseLarge refuses kernels whose positions 32 bits do not hold, by the names
// of their ops and tensors.
func refuseLarge(s *passes.State) error {
	for i, k := range s.Kernels {
		var large *kernel.RangeError
		if !errors.As(k.CheckRange(), &large) {
			continue
		}
		tensor := ""
		if large.Bind >= 0 {
			b := s.Program.Buffers[s.Program.Steps[i].Binds[large.Bind].Buffer]
			tensor = fmt.Sprintf(" (%s %q, %s)", b.Kind, ir.Printable(b.Name), ir.Type{DType: b.DType, Shape: b.Shape})
		}
		return fmt.Errorf("%s%s: %w; split the tensor, or give symbols smaller bounds; the CPU fast path has no "+
			"such limit (--device cpu)",
			strings.Join(slices.Compact(slices.Sorted(slices.Values(k.Ops))), ", "), tensor, large)
	}
	return nil
}

// refuses reports whether an error is the device's or the machine's to have, and no mistake of the graph: the CPU
// reference may run what it refuses.
func refuses(err error) bool {
	var (
		unsupported *UnsupportedError
		large       *kernel.RangeError
		tools       *spirv.MissingToolError
		memory      *vk.OutOfMemoryError
	)
	return errors.As(err, &unsupported) || errors.As(err, &large) || errors.As(err, &tools) || errors.As(err, &memory)
}

// UnsupportedError lists what a graph needs that a device does not have.
type UnsupportedError struct {
	Device  string
	Missing []string
}

// Error names the device and every gap.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s cannot run this graph: %s; choose another device, or the CPU fast path with --device cpu",
		e.Device, e.lacks())
}

func (e *UnsupportedError) lacks() string { return "it lacks " + strings.Join(e.Missing, "; ") }

// whyRefused is why a device does not run a graph, where another runs it already.
func whyRefused(err error) string {
	if unsupported := (*UnsupportedError)(nil); errors.As(err, &unsupported) {
		return unsupported.lacks()
	}
	return err.Error()
}

// rebind returns the cached program under the names of g, a graph of the same
// hash as the one it was compiled from.
func rebind(f *bundle.File, g *ir.Graph) (*kernel.Program, error) {
	old, err := f.Graph()
	if err != nil {
		return nil, err
	}
	a, b := old.Interface(), g.Interface()
	if len(a.Inputs) != len(b.Inputs) || len(a.States) != len(b.States) || len(a.Weights) != len(b.Weights) ||
		len(a.Outputs) != len(b.Outputs) || len(a.Symbols) != len(b.Symbols) {
		return nil, errors.New("the cached program has another interface")
	}
	names := renaming{symbols: pairs(a.Symbols, b.Symbols), weights: pairNodes(a.Weights, b.Weights)}
	p := *f.Program()
	p.Name = g.Name
	p.Symbols = slices.Clone(p.Symbols)
	for i := range p.Symbols {
		p.Symbols[i].Name = names.symbol(p.Symbols[i].Name)
	}
	p.Buffers = slices.Clone(p.Buffers)
	for i := range p.Buffers {
		names.buffer(&p.Buffers[i])
	}
	p.Inputs = names.ports(p.Inputs, pairNodes(a.Inputs, b.Inputs))
	p.States = names.ports(p.States, pairNodes(a.States, b.States))
	p.Outputs = names.ports(p.Outputs, pairs(a.Outputs, b.Outputs))
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		names.grid(&p.Steps[i].Grid)
	}
	p.Extents = names.shape(p.Extents)
	p.Regions = slices.Clone(p.Regions)
	for i := range p.Regions {
		p.Regions[i].Trips = names.dim(p.Regions[i].Trips)
	}
	return &p, p.Check()
}

// renaming maps the names of one graph to those of another.
type renaming struct{ symbols, weights map[string]string }

func pairs(from, to []string) map[string]string {
	m := map[string]string{}
	for i := range from {
		m[from[i]] = to[i]
	}
	return m
}

func pairNodes(from, to []*ir.Node) map[string]string {
	m := map[string]string{}
	for i := range from {
		m[from[i].Name()] = to[i].Name()
	}
	return m
}

func (r renaming) symbol(s string) string { return r.dim(ir.Dim{Sym: s}).Sym }

func (r renaming) dim(d ir.Dim) ir.Dim {
	return d.Rename(func(symbol string) string {
		if t, ok := r.symbols[symbol]; ok {
			return t
		}
		return symbol
	})
}

func (r renaming) shape(s ir.Shape) ir.Shape {
	out := slices.Clone(s)
	for i := range out {
		out[i] = r.dim(out[i])
	}
	return out
}

func (r renaming) buffer(b *kernel.Buffer) {
	b.Shape = r.shape(b.Shape)
	b.Segments = slices.Clone(b.Segments)
	for i := range b.Segments {
		if s := &b.Segments[i]; s.Weight != "" {
			s.Weight = r.weights[s.Weight]
			if i == 0 && len(b.Segments) == 1 {
				b.Name = s.Weight
			}
		}
	}
}

func (r renaming) ports(ports []kernel.Port, names map[string]string) []kernel.Port {
	out := slices.Clone(ports)
	for i := range out {
		out[i].Name = names[out[i].Name]
		out[i].Shape = r.shape(out[i].Shape)
	}
	return out
}

func (r renaming) grid(g *kernel.Grid) {
	for i := range g {
		g[i] = slices.Clone(g[i])
		for j := range g[i] {
			g[i][j].Extent = r.dim(g[i][j].Extent)
		}
	}
}
