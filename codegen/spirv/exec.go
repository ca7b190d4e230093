package spirv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// maxOutput bounds what is kept of a tool's output. The largest optimized
	// shader seen is 0.2 MB.
	maxOutput = 64 << 20
	// killGrace is how long Wait goes on reading the pipes of a killed tool,
	// which a grandchild may hold open.
	killGrace = 2 * time.Second
)

// command is one invocation of a tool.
type command struct {
	// dir is the working directory; empty: that of the tool's own file. It is
	// never the user's, where a tool or its loader might find things to read.
	dir   string
	stdin []byte
	args  []string
}

// output is what a tool wrote.
type output struct{ stdout, stderr []byte }

// text joins both streams: glslc writes its messages to stderr, and
// glslangValidator to stdout.
func (o output) text() string {
	return strings.TrimSpace(string(o.stdout) + "\n" + string(o.stderr))
}

// exitError says that a tool ran and failed. Everything else that runTool
// returns is a failure to run it at all, or the end of ctx.
type exitError struct {
	tool   string
	state  error // how it ended, from os/exec
	output string
}

func (e *exitError) Error() string {
	if e.output == "" {
		return fmt.Sprintf("%s: %v", e.tool, e.state)
	}
	return fmt.Sprintf("%s: %v: %s", e.tool, e.state, firstLine(e.output))
}

// runTool runs a tool to its end. If ctx ends first, the tool and all that it
// started are killed and the error is that of ctx.
func runTool(ctx context.Context, tool Tool, c command) (output, error) {
	cmd := exec.CommandContext(ctx, tool.Path, c.args...)
	cmd.Dir = cmp.Or(c.dir, filepath.Dir(tool.Path))
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	var stdout, stderr limitedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = killGrace
	killGroup(cmd)

	err := cmd.Run()
	out := output{stdout.data, stderr.data}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out, fmt.Errorf("%s: %w", tool.Name, context.Cause(ctx))
	case stdout.overflow || stderr.overflow:
		return out, &exitError{tool.Name, fmt.Errorf("wrote more than %d MiB", maxOutput>>20), ""}
	case errors.As(err, &exit):
		return out, &exitError{tool.Name, exit, out.text()}
	case err != nil && cmd.ProcessState == nil:
		return out, fmt.Errorf("spirv: cannot run %s: %w", tool.Name, err)
	case err != nil: // it ended, but not all of its pipes were served
		return out, &exitError{tool.Name, err, out.text()}
	}
	return out, nil
}

// limitedBuffer keeps at most maxOutput bytes and notes that there were more.
type limitedBuffer struct {
	data     []byte
	overflow bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > maxOutput {
		b.overflow = true
		return 0, errors.New("output limit reached")
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
