package spirv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// toolEnv makes this test program act as the tool that it names. lockEnv is a directory to lock.
const (
	toolEnv = "TEST_AS_TOOL"
	lockEnv = "TEST_LOCK_DIR"
)

// TestAsTool is the tool of the other tests, and no test.
func TestAsTool(t *testing.T) {
	switch os.Getenv(toolEnv) {
	case "":
		t.Skip("the tool of other tests")
	case "fail":
		fmt.Fprintln(os.Stderr, "no such thing")
		os.Exit(3)
	case "yes":
		for {
			os.Stdout.WriteString(strings.Repeat("y\n", 4096))
		}
	case "start":
		t.Setenv(toolEnv, "lock")
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Run()
	case "lock":
		waitForLock(t, os.Getenv(lockEnv))
		select {}
	}
}

func runAsTool(ctx context.Context, t *testing.T, what string) error {
	t.Helper()
	t.Setenv(toolEnv, what)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = runTool(ctx, Tool{Name: "tool", Path: path},
		command{dir: t.TempDir(), args: []string{"-test.run=^TestAsTool$"}, limits: defaultLimits})
	return err
}

func TestToolFails(t *testing.T) {
	err := runAsTool(t.Context(), t, "fail")
	if exit := (*exitError)(nil); !errors.As(err, &exit) || exit.killed || exit.stopped ||
		!strings.Contains(err.Error(), "no such thing") {
		t.Error(err)
	}
}

func TestToolWritesWithoutEnd(t *testing.T) {
	err := runAsTool(t.Context(), t, "yes")
	if exit := (*exitError)(nil); !errors.As(err, &exit) || !exit.stopped ||
		!strings.Contains(err.Error(), "MiB of messages") {
		t.Error(err)
	}
}

// TestToolWithChild: processes started by a tool end with it.
func TestToolWithChild(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(lockEnv, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for { // wait until the child has the lock
			lock, held, err := lockDir(dir)
			if err != nil || !held {
				break
			}
			lock.Close()
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := runAsTool(ctx, t, "start"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waitForLock(t, dir).Close() // without end if it still runs
}

func waitForLock(t *testing.T, dir string) *os.File {
	for {
		lock, held, err := lockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if held {
			return lock
		}
		time.Sleep(time.Millisecond)
	}
}

// TestAbandonedDirs: the directory of a compilation that was killed is removed, one in use is not.
func TestAbandonedDirs(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMP", temp)
	used, err := makeWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.MkdirTemp(temp, workDirPrefix)
	if err == nil {
		err = os.WriteFile(left+`\shader`, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next, err := makeWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind and still there: %v", err)
	}
	for _, d := range []*workDir{used, next} {
		if _, err := os.Stat(d.path); err != nil {
			t.Errorf("in use: %v", err)
		}
		d.remove()
		if _, err := os.Stat(d.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("removed and still there: %v", err)
		}
	}
}
