package spirv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/ceil"
)

const (
	// minBatch is the minimum number of shaders that makes a separate glslc process pay off: it takes 80 ms to start,
	// and 1-3 ms per shader.
	minBatch = 16
	// maxBatch is the maximum number of shaders per process, so that the command line does not become too long.
	maxBatch = 256
)

// batches divides the units into batches, one for each compiler process to start. The units of a batch have the same
// target environment, because that is an option of the process.
func (c *compilation) batches(units []*unit) [][]*unit {
	byEnv := map[string][]*unit{}
	var envs []string // the keys of byEnv, in the order of units
	for _, u := range units {
		if byEnv[u.shader.TargetEnv] == nil {
			envs = append(envs, u.shader.TargetEnv)
		}
		byEnv[u.shader.TargetEnv] = append(byEnv[u.shader.TargetEnv], u)
	}
	var all [][]*unit
	for _, env := range envs {
		all = append(all, distribute(byEnv[env], c.processes(len(byEnv[env])))...)
	}
	return all
}

// processes returns the number of compiler processes to start for n shaders. glslangValidator needs one for each
// shader. Of glslc it is the number that runs at once, but fewer if they would get less than minBatch shaders each,
// and more if they would get over maxBatch.
func (c *compilation) processes(n int) int {
	if !c.tools.GLSLC.Found() {
		return n
	}
	return max(min(ceil.Div(n, minBatch), c.opt.Jobs), ceil.Div(n, maxBatch))
}

// distribute divides the units into n batches of about the same number and length of sources. It takes the longest
// sources first, and puts them into the batches in turn.
func distribute(units []*unit, n int) [][]*unit {
	sorted := slices.Clone(units)
	slices.SortStableFunc(sorted, func(a, b *unit) int {
		return len(b.shader.Source) - len(a.shader.Source)
	})
	list := make([][]*unit, n)
	for i, u := range sorted {
		list[i%n] = append(list[i%n], u)
	}
	return list
}

// compileBatch runs the compiler on one batch, so that each unit gets a module or an error. A unit may get neither,
// because the compiler crashed on another shader, or reported an error under a name set by #line. compileBatch then
// compiles this unit again, alone, so that any error belongs to it.
func (c *compilation) compileBatch(ctx context.Context, batch []*unit) error {
	if err := c.runCompiler(ctx, batch); err != nil {
		return err
	}
	if len(batch) == 1 {
		return nil // runCompiler always gives a single unit a module or an error
	}
	for _, u := range batch {
		if u.module == nil && u.err == nil {
			if err := c.runCompiler(ctx, []*unit{u}); err != nil {
				return err
			}
		}
	}
	return nil
}

// runCompiler writes the sources to files, runs one process, and collects modules and messages. A single unit always
// gets a module or an error.
func (c *compilation) runCompiler(ctx context.Context, batch []*unit) error {
	for _, u := range batch {
		if err := os.WriteFile(filepath.Join(c.dir, u.sourceName()), []byte(u.shader.Source), 0o600); err != nil {
			return fmt.Errorf("spirv: write shader for the compiler: %w", err)
		}
	}
	tool := c.tools.compiler()
	out, err := c.run(ctx, tool, command{dir: c.dir, args: c.compilerArgs(batch)})
	exit := (*exitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	found := parseDiagnostics(out.text())
	for _, u := range batch {
		if err := c.collect(u, tool, found, exit); err != nil {
			return err
		}
		if len(batch) == 1 && u.module == nil && u.err == nil {
			u.reject(unattributed(u, tool, found, exit, out))
		}
	}
	return nil
}

// compilerArgs returns the compiler's arguments for a batch. glslangValidator, the fallback for glslc, compiles one
// shader per call.
func (c *compilation) compilerArgs(batch []*unit) []string {
	env := batch[0].shader.TargetEnv
	if !c.tools.GLSLC.Found() {
		u := batch[0]
		return []string{"-V", "--target-env", env, "-S", "comp", "-o", u.moduleName(), u.sourceName()}
	}
	// -O0: spirv-opt optimizes with better passes. -w: users of generated code cannot act on warnings.
	args := []string{"-c", "-O0", "-w", "--target-env=" + env}
	for _, u := range batch {
		args = append(args, u.sourceName())
	}
	return args
}

// sourceName and moduleName are the names of a unit's files in the working directory. glslc -c derives the module's
// name from the source's.
func (u *unit) sourceName() string { return fmt.Sprintf("%04d.comp", u.number) }
func (u *unit) moduleName() string { return u.sourceName() + ".spv" }

// collect sets the module or the error of one unit from the results of a compiler process: found has its messages about
// all units, and exit is its error, or nil. If there are messages about the unit, collect ignores the module. If there
// is no module either, it sets nothing.
func (c *compilation) collect(u *unit, tool Tool, found []diagnostic, exit *exitError) error {
	module, err := readModule(filepath.Join(c.dir, u.moduleName()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("spirv: read output of %s: %w", tool.Name, err)
	}
	if exit != nil && (exit.killed || exit.stopped) {
		module = nil // it may be truncated
	}
	var own []diagnostic
	for _, d := range found {
		if d.file == u.sourceName() {
			own = append(own, d)
		}
	}
	switch {
	case len(own) > 0:
		u.reject(newCompileError(u, tool.Name, own))
	case CheckModule(module) == nil:
		u.module = module
	case len(module) > 0 && exit == nil:
		u.reject(toolFailure(u, tool.Name, "output is "+CheckModule(module).Error(), ""))
	}
	return nil
}

// readModule reads a module that a compiler wrote. It returns an error for files of more than maxOutput bytes.
func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	module, err := io.ReadAll(io.LimitReader(f, maxOutput+1))
	if len(module) > maxOutput {
		return nil, fmt.Errorf("%s has more than %d MiB", path, maxOutput>>20)
	}
	return module, err
}

// unattributed returns the error for a shader that the compiler rejected without naming it in a message. The shader was
// compiled alone, so everything that the compiler printed is about it.
func unattributed(u *unit, tool Tool, found []diagnostic, exit *exitError, out output) *CompileError {
	if exit != nil && !strings.HasPrefix(exit.state.Error(), "exit status") {
		return failureOf(u, tool.Name, exit) // killed by a signal
	}
	if len(found) > 0 {
		for i := range found {
			if found[i].file != "" && found[i].line > 0 { // a name given by #line
				found[i].message = fmt.Sprintf("%s:%d: %s", found[i].file, found[i].line, found[i].message)
				found[i].line = 0
			}
		}
		return newCompileError(u, tool.Name, found)
	}
	if exit != nil {
		return failureOf(u, tool.Name, exit)
	}
	return toolFailure(u, tool.Name, "no output file, although it reported success", out.text())
}
