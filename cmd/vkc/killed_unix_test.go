//go:build linux || darwin

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/devtest"
)

// TestKilledCompile: temporary files of a killed compile are removed by the next one. Those of a running compile are
// not.
func TestKilledCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	devtest.EmptyCache(t)
	temp, tools := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv(spirv.ToolsEnv, tools)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// To write, too: so nothing waits for a writer to come, which one could miss that comes and goes.
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A compiler that hangs, and says so.
	for _, name := range []string{"glslc", "spirv-opt"} {
		text := "#!/bin/sh\nif [ $1 = --version ]; then echo 1.0; exit; fi\necho $$ >'" + pipe +
			"'; exec sleep 100000\n"
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	line := []string{"compile", absolute(t, mlpGraph), "-o", filepath.Join(t.TempDir(), "x.vkb"), "--jobs",
		"1", "--no-cache"}
	cmd := exec.Command(buildPlain(t), line...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		fmt.Fprintln(f, "vkc has ended:", err) // for who waits for the compiler
		ended <- err
	}()
	said, err := bufio.NewReader(f).ReadString('\n') // waits for the compiler
	hung, errPid := strconv.Atoi(strings.TrimSpace(said))
	if err != nil || errPid != nil {
		t.Fatal(err, errPid)
	}
	defer syscall.Kill(hung, syscall.SIGKILL)

	// From now on the compiler fails at once, which is enough to be run.
	for _, name := range []string{"glslc", "spirv-opt"} {
		text := "#!/bin/sh\nif [ $1 = --version ]; then echo 1.0; exit; fi\nexit 1\n"
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, line...)
	before := files(t, temp)
	if len(before) == 0 {
		t.Fatal("the directory of a compile that runs is gone")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if left := files(t, temp); len(left) != len(before) {
		t.Fatalf("a killed compile cleaned up: %v", left)
	}
	run(t, line...)
	if left := files(t, temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
