package spirv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// maxOutput bounds a tool's module in bytes. The largest optimized shader so far has 0.2 MB.
	maxOutput = 64 << 20
	// maxMessages bounds a tool's messages in bytes. A compiler that finds a thousand errors in a shader writes 0.1 MB.
	maxMessages = 1 << 20
	// killGrace is how long Wait goes on reading the pipes of a tool that has ended, because its children may keep them
	// open. On a busy machine, reading may take seconds.
	killGrace = 10 * time.Second
)

// limits bounds one run of a tool. The kernel enforces processor time and memory, on Linux and Windows only (see
// group.limit). With a limit on processor time, not wall time, a tool can do the same work on a busy machine as on an
// idle one.
type limits struct {
	memory int64         // bytes of address space; on Windows, of memory
	cpu    time.Duration // of one process, in whole seconds
	wall   time.Duration // for tools that hang
}

// defaultLimits are far more than shaders need. With this package's passes, spirv-opt takes 0.4 s and 60 MB for the
// largest matmul tile.
var defaultLimits = limits{memory: 2 << 30, cpu: time.Minute, wall: 10 * time.Minute}

// command is one invocation of a tool.
type command struct {
	// dir is the working directory; empty means the directory of the tool. It is never the user's working directory,
	// because a tool or its loader might read files there.
	dir   string
	stdin []byte
	args  []string
	// module says that standard output is a module, not messages.
	module bool
	limits limits
}

// output is the output of a tool.
type output struct{ stdout, stderr []byte }

// text joins both streams. glslc writes its messages to stderr, and glslangValidator to stdout.
func (o output) text() string {
	return strings.TrimSpace(string(o.stdout) + "\n" + string(o.stderr))
}

// exitError says that a tool ran and failed. Any other error of runTool means that the tool did not run, or that ctx
// ended.
type exitError struct {
	tool    string
	state   error // the exit status, from os/exec, or the exceeded limit
	output  string
	stopped bool // it exceeded a limit, so its input may be valid
	killed  bool // by runTool or by someone else; files that it wrote may be truncated
}

// Error gives the tool, its exit state, and the first line of its output.
func (e *exitError) Error() string {
	if e.output == "" {
		return fmt.Sprintf("%s: %v", e.tool, e.state)
	}
	return fmt.Sprintf("%s: %v: %s", e.tool, e.state, firstLine(e.output))
}

// limitError says which limit a tool exceeded; text goes on after the tool's name, as in "needs more than ...".
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

// tooLarge is the end of messages about a shader that exceeds a tool's limits. It says what the user can do.
const tooLarge = "; the shader is too large: split the chain of ops or the custom op that it comes from"

// hugePages lets the malloc of the GNU C library use huge pages, unless the user has tuned it. A GLSL compiler fills
// 40 MB with tables when it starts, and then it takes a quarter less processor time for that.
const hugePages = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"

// newToolCommand returns the command that runs a tool, and the buffers of its output. When a buffer is full, it calls
// stop, which must end ctx.
func newToolCommand(ctx context.Context, stop context.CancelCauseFunc, tool Tool, c command) (cmd *exec.Cmd,
	stdout, stderr *limitedBuffer) {
	limited := func(most int, what string) *limitedBuffer {
		return &limitedBuffer{max: most, full: func() {
			stop(&limitError{fmt.Sprintf("wrote more than %d MiB%s", most>>20, what)})
		}}
	}
	stdout, stderr = limited(maxMessages, " of messages"), limited(maxMessages, " of messages")
	if c.module { // it may be larger than messages
		stdout = limited(maxOutput, tooLarge)
	}
	cmd = exec.CommandContext(ctx, tool.Path, c.args...)
	cmd.Dir = cmp.Or(c.dir, filepath.Dir(tool.Path))
	// The user's GLIBC_TUNABLES, if set, overrides hugePages. LC_ALL=C gives messages in English.
	cmd.Env = append(append([]string{hugePages}, os.Environ()...), "LC_ALL=C")
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = killGrace
	return cmd, stdout, stderr
}

// runTool runs a tool until it ends. If ctx ends first, runTool kills the tool and all of its children and returns the
// error of ctx. It also kills a tool that exceeds a limit; then the error is an *exitError.
func runTool(ctx context.Context, tool Tool, c command) (output, error) {
	own, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd, stdout, stderr := newToolCommand(own, stop, tool, c)
	group, err := newGroup(cmd)
	if err != nil {
		return output{}, fmt.Errorf("spirv: cannot run %s: %w", tool.Name, err)
	}
	defer group.close()

	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return output{}, fmt.Errorf("%s: %w", tool.Name, context.Cause(ctx))
		}
		return output{}, fmt.Errorf("spirv: cannot run %s: %w", tool.Name, err)
	}
	// The timer starts after the tool has started, so a tool that fails to start reports that failure.
	late := time.AfterFunc(c.limits.wall, func() {
		stop(&limitError{fmt.Sprintf("had not ended after %v and was killed%s", c.limits.wall, tooLarge)})
	})
	defer late.Stop()
	if err := group.limit(c.limits); err != nil {
		cmd.Cancel()
		cmd.Wait()
		return output{}, fmt.Errorf("spirv: limit the memory and time of %s: %w", tool.Name, err)
	}
	err = cmd.Wait()
	out := output{stdout.data, stderr.data}
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return out, fmt.Errorf("%s: %w", tool.Name, context.Cause(ctx))
	}
	cmd.Cancel() // kill children that the tool has left running
	said := out.text()
	if c.module {
		said = string(out.stderr)
	}
	e := &exitError{tool: tool.Name, state: err, output: said, killed: died(cmd.ProcessState)}
	if exceeded := group.exceeded(context.Cause(own), said, c.limits); exceeded != nil {
		e.state, e.stopped = exceeded, true
	}
	return out, e
}

// exceeded returns the limit of l that a tool exceeded, or nil. cause is the limitError for which runTool killed the
// tool, if it did. The kernel may have killed the tool for its processor time. If an allocation fails, only the tool
// itself knows, so exceeded looks for that in the tool's messages, said.
func (g *group) exceeded(cause error, said string, l limits) *limitError {
	if limit := (*limitError)(nil); errors.As(cause, &limit) {
		return limit
	}
	if g.outOfTime(l) {
		return &limitError{fmt.Sprintf("used up the %v of processor time that it may take%s", l.cpu, tooLarge)}
	}
	used, known := g.maxMemory()
	diedLarge := died(g.cmd.ProcessState) && used >= l.memory/2 // probably for lack of memory
	if known && (noMemory.MatchString(said) || diedLarge) {
		return &limitError{fmt.Sprintf("needs more than the %d MiB of memory that it may take%s",
			l.memory>>20, tooLarge)}
	}
	return nil
}

// noMemory matches the messages of programs about a failed allocation.
var noMemory = regexp.MustCompile(`(?i)bad_alloc|out of (memory|space)|memory exhausted|cannot allocate memory`)

// limitedBuffer is a writer that keeps at most max bytes. It calls full if more are written.
type limitedBuffer struct {
	data []byte
	max  int
	full func()
}

// Write appends p, up to max bytes in all. If p does not fit, it calls full and returns io.ErrShortWrite.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.max - len(b.data); len(p) > room {
		b.data = append(b.data, p[:room]...)
		b.full()
		return room, io.ErrShortWrite
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
