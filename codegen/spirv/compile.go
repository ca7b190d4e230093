package spirv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/internal/cachefile"
)

// DefaultTargetEnv is the target environment of shaders that name none. For vulkan1.3, glslang would emit LocalSizeId,
// which needs a device feature (maintenance4).
const DefaultTargetEnv = "vulkan1.2"

// targetEnvs lists the target environments that the tools and this package support.
var targetEnvs = []string{"vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3"}

// Shader is a GLSL compute shader.
type Shader struct {
	// Name appears in errors only.
	Name string
	// Source is the whole source, without #include.
	Source string
	// TargetEnv is "vulkan1.0" to "vulkan1.3"; empty means DefaultTargetEnv.
	TargetEnv string
}

// Options controls Compile.
type Options struct {
	// Optimize runs spirv-opt.
	Optimize bool
	// Validate runs spirv-val over the result.
	Validate bool
	// Jobs is the number of processes to run at once; 0 means GOMAXPROCS.
	Jobs int
	// CacheDir is the directory of the cache; empty means none.
	CacheDir string
	// Progress, if set, is called after each distinct shader is done, whether it came from the cache, was compiled or
	// failed. Calls do not overlap.
	Progress func(done, total int)
}

// Result is the result for one shader.
type Result struct {
	// SPIRV is the module: little-endian words. It is nil if the shader failed. Results of equal sources share it; do
	// not write to it.
	SPIRV []byte
	// CacheHit says that the module came from the cache.
	CacheHit bool
}

// Stats counts the work of one Compile.
type Stats struct {
	Shaders   int // number of shaders in the call
	Distinct  int // number of shaders that differ in source or environment
	CacheHits int // number of the distinct shaders that came from the cache
	Failed    int // number of the distinct shaders that failed
	Processes int // number of processes that were started
	// CacheErr is the first error in writing to the cache, such as a full disk. The results are valid anyway.
	CacheErr error
}

// Compile turns shaders into SPIR-V. Result i belongs to shader i.
//
// If tools reject shaders, the error joins a *CompileError for each of them (errors.Join), and the results of the other
// shaders are valid and cached. Any other error, such as a *MissingToolError or the end of ctx, comes without results.
// When ctx ends, running tools are killed and no partial files are left.
func (t *Toolchain) Compile(ctx context.Context, shaders []Shader, opt Options) ([]Result, Stats, error) {
	if opt.Jobs <= 0 {
		opt.Jobs = runtime.GOMAXPROCS(0)
	}
	c := &compilation{tools: t, opt: opt, slots: make(chan struct{}, opt.Jobs)}
	err := c.addUnits(shaders)
	if err == nil {
		err = c.compile(ctx)
	}
	stats := c.stats(len(shaders))
	if err != nil {
		return nil, stats, err
	}
	results, err := c.results(shaders)
	return results, stats, err
}

// compilation is the state of one Compile.
type compilation struct {
	tools *Toolchain
	opt   Options
	dir   string        // temporary; the compiler's working directory
	slots chan struct{} // holds an element for each running process; its capacity is opt.Jobs

	units   []*unit // distinct shaders
	unitOf  []int   // index into units by shader
	started atomic.Int64

	mu       sync.Mutex // guards the fields below, and calls of Progress
	done     int
	cacheErr error
}

// unit is one distinct shader during compilation. Only one goroutine at a time works on it.
type unit struct {
	shader Shader
	number int // index in compilation.units; names the unit's files
	key    cachefile.Key
	module []byte        // the SPIR-V so far; nil if there is none
	hit    bool          // the module came from the cache
	err    *CompileError // non-nil if a tool rejected the shader
}

// reject records that a tool rejected the shader.
func (u *unit) reject(err *CompileError) { u.module, u.err = nil, err }

// addUnits makes a unit of compilation for each distinct shader, and sets unitOf for all shaders. Shaders with equal
// keys share a unit.
func (c *compilation) addUnits(shaders []Shader) error {
	keyOf := c.keyFunc()
	byKey := map[cachefile.Key]int{}
	for _, s := range shaders {
		if s.TargetEnv == "" {
			s.TargetEnv = DefaultTargetEnv
		}
		if !slices.Contains(targetEnvs, s.TargetEnv) {
			return fmt.Errorf("spirv: shader %q: target environment %q, want one of %s",
				s.Name, s.TargetEnv, strings.Join(targetEnvs, ", "))
		}
		key := keyOf(s)
		i, ok := byKey[key]
		if !ok {
			i = len(c.units)
			byKey[key] = i
			c.units = append(c.units, &unit{shader: s, number: i, key: key})
		}
		c.unitOf = append(c.unitOf, i)
	}
	return nil
}

// keyFunc returns the function that maps a shader to its cache key. The key covers every input of the module, and only
// the tools that are used.
func (c *compilation) keyFunc() func(Shader) cachefile.Key {
	id := c.tools.identity()
	var opt, val, passes string
	if c.opt.Optimize {
		opt, passes = id.Opt, passesKey
	}
	if c.opt.Validate {
		val = id.Val
	}
	return func(s Shader) cachefile.Key {
		return cachefile.KeyOf("vkc shader", s.Source, s.TargetEnv, id.Compiler,
			fmt.Sprint(c.opt.Optimize), opt, passes, fmt.Sprint(c.opt.Validate), val)
	}
}

// compile gives every unit a module or an error.
func (c *compilation) compile(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("spirv: %w", context.Cause(ctx))
	}
	c.loadCached()
	var missing []*unit
	for _, u := range c.units {
		if u.hit {
			c.countFinished()
		} else {
			missing = append(missing, u)
		}
	}
	if missing == nil {
		return nil
	}
	if err := c.tools.require(c.opt); err != nil {
		return err
	}
	return c.build(ctx, missing)
}

// loadCached loads the units that are in the cache.
func (c *compilation) loadCached() {
	if c.opt.CacheDir == "" {
		return
	}
	cache := OpenCache(c.opt.CacheDir)
	var g errgroup.Group
	g.SetLimit(c.opt.Jobs)
	for _, u := range c.units {
		g.Go(func() error {
			u.module, u.hit = cache.Get(u.key)
			return nil
		})
	}
	g.Wait() // the functions return no errors
}

// build compiles units with the tools, in batches. Each unit goes to the optimizer as soon as its batch is compiled,
// without waiting for others.
func (c *compilation) build(ctx context.Context, units []*unit) error {
	dir, err := makeWorkDir()
	if err != nil {
		return err
	}
	defer dir.remove()
	c.dir = dir.path

	g, ctx := errgroup.WithContext(ctx)
	for _, batch := range c.batches(units) {
		g.Go(func() error {
			if err := c.compileBatch(ctx, batch); err != nil {
				return err
			}
			for _, u := range batch {
				g.Go(func() error { return c.finish(ctx, u) })
			}
			return nil
		})
	}
	return g.Wait()
}

// finish optimizes and validates a unit's module, if the options say so, and stores it in the cache.
func (c *compilation) finish(ctx context.Context, u *unit) error {
	if u.module != nil && c.opt.Optimize {
		if err := c.optimize(ctx, u); err != nil {
			return err
		}
	}
	if u.module != nil && c.opt.Validate {
		if err := c.validate(ctx, u); err != nil {
			return err
		}
	}
	if u.module != nil && c.opt.CacheDir != "" {
		if err := OpenCache(c.opt.CacheDir).Put(u.key, u.module); err != nil {
			c.noteCacheErr(err)
		}
	}
	c.countFinished()
	return nil
}

// run runs a tool, as soon as fewer than opt.Jobs processes run, and waits for it.
func (c *compilation) run(ctx context.Context, tool Tool, cmd command) (output, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return output{}, fmt.Errorf("%s: %w", tool.Name, context.Cause(ctx))
	}
	defer func() { <-c.slots }()
	c.started.Add(1)
	cmd.limits = c.tools.limits
	return runTool(ctx, tool, cmd)
}

// countFinished counts a finished unit and calls Options.Progress.
func (c *compilation) countFinished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if c.opt.Progress != nil {
		c.opt.Progress(c.done, len(c.units))
	}
}

// noteCacheErr keeps the first error of writing to the cache.
func (c *compilation) noteCacheErr(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cacheErr == nil {
		c.cacheErr = fmt.Errorf("spirv: write to cache: %w", err)
	}
}

// stats returns statistics of the compilation of the given number of shaders.
func (c *compilation) stats(shaders int) Stats {
	s := Stats{
		Shaders: shaders, Distinct: len(c.units),
		Processes: int(c.started.Load()), CacheErr: c.cacheErr,
	}
	for _, u := range c.units {
		if u.hit {
			s.CacheHits++
		}
		if u.err != nil {
			s.Failed++
		}
	}
	return s
}

// results assigns the units' modules to the shaders. If several shaders have the same failing source, each gets an
// error with its own name.
func (c *compilation) results(shaders []Shader) ([]Result, error) {
	results := make([]Result, len(shaders))
	var errs []error
	for i := range shaders {
		u := c.units[c.unitOf[i]]
		results[i] = Result{SPIRV: u.module, CacheHit: u.hit}
		if u.err != nil {
			e := *u.err
			e.Shader = shaders[i].Name
			errs = append(errs, &e)
		}
	}
	return results, errors.Join(errs...)
}
