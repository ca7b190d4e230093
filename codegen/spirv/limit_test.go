package spirv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestRunawayTools: a tool that does not end by itself is ended, the error says
// which shader and which limit it was, the other shaders are compiled, and no
// answer is kept.
func TestRunawayTools(t *testing.T) {
	const bad = "BAD" // in the source of one shader
	tests := []struct {
		name, tool, body string
		limit            func(*limits)
		linux            bool // who alone has this limit
		want             string
	}{
		{"endless module", "spirv-opt", "exec yes", nil, false, "wrote more than 64 MiB"},
		{"endless messages", "spirv-opt", "exec yes >&2", nil, false, "wrote more than 1 MiB of messages"},
		{"endless messages of the compiler", "glslc", "exec yes", nil, false, "wrote more than 1 MiB of messages"},
		{"endless messages to a closed pipe", "glslc", "trap '' PIPE; while :; do echo y; done 2>/dev/null", nil, false, "wrote more than 1 MiB of messages"},
		{"endless messages of the validator", "spirv-val", "exec yes", nil, false, "wrote more than 1 MiB of messages"},
		{"computes without end", "spirv-opt", "while :; do :; done", func(l *limits) { l.cpu = time.Second }, true, "used up the 1s of processor time"},
		{"grows without end", "spirv-opt", "exec tail /dev/zero", func(l *limits) { l.memory = 64 << 20 }, true, "needs more than the 64 MiB of memory"},
		{"the compiler grows without end", "glslc", "exec tail /dev/zero", func(l *limits) { l.memory = 64 << 20 }, true, "needs more than the 64 MiB of memory"},
		{"endless output file", "glslc", `for f; do case $f in *.comp) exec cat /dev/zero >"$f.spv";; esac; done`, nil, true, "file size limit exceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.linux && runtime.GOOS != "linux" {
				t.Skip("this system does not limit it")
			}
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			f := newFakes(t)
			// The bad shader is known by its text and, later on, by its module.
			module := filepath.Join(t.TempDir(), "bad.spv")
			if err := os.WriteFile(module, tinyModule(2), 0o600); err != nil {
				t.Fatal(err)
			}
			onBad := map[string]string{tt.tool: tt.body}
			f.set(t, "glslc", `bad=
for f; do case $f in *.comp) m="`+f.module+`"; if grep -q `+bad+` "$f"; then bad=1; m="`+module+`"; fi; cp "$m" "$f.spv";; esac; done
if [ "$bad" ]; then `+cmp.Or(onBad["glslc"], ":")+`; fi`)
			for _, tool := range []string{"spirv-opt", "spirv-val"} {
				f.set(t, tool, `in=$(mktemp); cat >"$in"; cmp -s "$in" "`+module+`" && bad=1
cat "$in"; rm "$in"; if [ "$bad" ]; then `+cmp.Or(onBad[tool], ":")+`; fi`)
			}
			s := shaders(5)
			s[3].Source += "// " + bad + "\n"
			cache := t.TempDir()
			tc := f.find(t, "")
			if tt.limit != nil {
				tt.limit(&tc.limits)
			}
			results, _, err := tc.Compile(t.Context(), s,
				Options{Optimize: true, Validate: true, CacheDir: cache, Jobs: 2})
			found := compileErrors(t, err)
			if len(found) != 1 || found[0].Shader != s[3].Name || found[0].Tool != tt.tool ||
				!strings.Contains(found[0].Message, tt.want) {
				t.Fatalf("it says %v", err)
			}
			for i, r := range results {
				if (r.SPIRV == nil) != (i == 3) {
					t.Errorf("%s: compiled: %t", s[i].Name, r.SPIRV != nil)
				}
			}
			if stats, err := OpenCache(cache).Stats(); err != nil || stats.Entries != 4 {
				t.Errorf("%d cache entries, %v; want 4", stats.Entries, err)
			}
			assertEmpty(t, temp)
		})
	}
}

// TestHungTool: a tool that hangs is killed eventually.
func TestHungTool(t *testing.T) {
	f := newFakes(t)
	f.set(t, "glslc", "exec sleep 100000")
	tc := f.find(t, "")
	tc.limits.wall = time.Millisecond
	_, _, err := tc.Compile(t.Context(), shaders(1), Options{Optimize: true})
	if found := compileErrors(t, err); !strings.Contains(found[0].Message, "had not ended after 1ms and was killed") {
		t.Errorf("it says %v", err)
	}
}

// TestCrashBesideMuchMemory: a tool that crashes has not used the memory that this process has.
func TestCrashBesideMuchMemory(t *testing.T) {
	f := newFakes(t)
	f.set(t, "glslc", "kill -SEGV $$")
	tc := f.find(t, "")
	tc.limits.memory = 64 << 20
	much := bytes.Repeat([]byte{1}, 2*int(tc.limits.memory))
	_, _, err := tc.Compile(t.Context(), shaders(1), Options{})
	if found := compileErrors(t, err); !strings.Contains(found[0].Message, "segmentation fault") {
		t.Errorf("it says %v", err)
	}
	runtime.KeepAlive(much)
}

// TestManyMessages: the first of very many errors of a shader is reported, although the output is truncated.
func TestManyMessages(t *testing.T) {
	f := newFakes(t)
	f.set(t, "glslc", `for f; do case $f in *.comp) exec yes "$f:3: error: 'x' : undeclared identifier";; esac; done`)
	_, _, err := f.find(t, "").Compile(t.Context(), shaders(1), Options{})
	if found := compileErrors(t, err); found[0].Line != 3 || found[0].Message != "'x' : undeclared identifier" {
		t.Errorf("it says %.200q", err)
	}
}

// TestMessagesDoNotReachTheTerminal: tool messages about a hostile source contain no control characters.
func TestMessagesDoNotReachTheTerminal(t *testing.T) {
	f := newFakes(t)
	f.set(t, "glslc", `for f; do case $f in *.comp) printf '%s:3: error: \033[2Jno\a\n' "$f"; exit 1;; esac; done`)
	_, _, err := f.find(t, "").Compile(t.Context(), shaders(1), Options{})
	if found := compileErrors(t, err); strings.ContainsAny(found[0].Message+found[0].Log, "\033\a") {
		t.Errorf("it says %q", err)
	}
}

// TestLimitIsNoAnswer: that a tool met a limit while it was asked for its
// features is not kept as one that it lacks.
func TestLimitIsNoAnswer(t *testing.T) {
	f := newFakes(t)
	dir := t.TempDir()
	f.set(t, "spirv-opt", "exec yes")
	if supports(t, f.find(t, dir), CoopMat) {
		t.Error("supported by a tool that does not end")
	}
	f = fakes{dir: f.dir, log: f.log, module: f.module}
	f.set(t, "spirv-opt", "cat")
	if !supports(t, f.find(t, dir), CoopMat) {
		t.Error("the limit was kept as an answer")
	}
}

// TestCancel hangs each tool, in a grandchild as an installed shell wrapper
// may, and ends the context. With one shader, no other one waits that could
// notice the end in the place of the killed tool.
func TestCancel(t *testing.T) {
	for _, tool := range []string{"glslc", "spirv-opt", "spirv-val"} {
		for _, n := range []int{1, 6} {
			t.Run(fmt.Sprint(tool, n), func(t *testing.T) { testCancel(t, tool, shaders(n)) })
		}
	}
}

func testCancel(t *testing.T, tool string, s []Shader) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	f := newFakes(t)
	held := newPipe(t)
	// Both the tool and its child hold the pipe.
	f.set(t, tool, `exec 3>"`+held.path+`"; echo >&3; sleep 100000 & wait`)
	opt := Options{Optimize: true, Validate: true, CacheDir: t.TempDir()}
	tc := f.find(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		held.waitForWriter(t)
		cancel()
	}()
	results, _, err := tc.Compile(ctx, s, opt)
	if !errors.Is(err, context.Canceled) || results != nil {
		t.Errorf("got %v, %v; want context.Canceled", results, err)
	}
	held.waitForNoWriter(t) // without end if one of them still runs
	<-heard
	assertEmpty(t, temp)
	if good, bad, err := OpenCache(opt.CacheDir).Verify(); good.Entries != 0 || bad != nil || err != nil {
		t.Errorf("cache afterwards: %v, %v, %v", good, bad, err)
	}
}

// TestLimitsOfRealTools: the resource limits suffice for real shaders.
func TestLimitsOfRealTools(t *testing.T) {
	tc := realTools(t)
	tc.limits.memory /= 4
	tc.limits.cpu /= 4
	compile(t, tc, program(t), Options{Optimize: true, Validate: tc.Val.Found()})
}
