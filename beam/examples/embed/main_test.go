package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// asProgram has the test binary be the program.
const asProgram = "EMBED_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// embedder writes the small model of the examples as one that makes embeddings.
func embedder(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedder.gguf")
	const gollama = "../../../examples/gollama/gollama-q8_0.gguf"
	if err := gguf.Edit(gollama, path, gguf.KV{Key: "llama.pooling_type", Value: uint32(3)}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKilled kills the program when half of the parts are written, and starts it again. It must continue with the other
// parts, and write the same as an undisturbed run.
func TestKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	texts, dir, model := t.TempDir(), t.TempDir(), embedder(t)
	for i := range 40 {
		text := fmt.Sprintf("func f%d(x int) int { return x*%d }\n", i, i)
		if err := os.WriteFile(filepath.Join(texts, fmt.Sprintf("%02d.txt", i)), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const parts = 6
	command := func(out string, stderr *strings.Builder) *exec.Cmd {
		cmd := exec.Command(exe, "-model", model, "-folder", texts, "-out", out, "-device", "cpu",
			"-parts", fmt.Sprint(parts), "--runner", "prism")
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stderr = stderr
		return cmd
	}
	whole, resumed := filepath.Join(dir, "whole.jsonl"), filepath.Join(dir, "resumed.jsonl")
	var said strings.Builder
	if err := command(whole, &said).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	said.Reset()
	killed := command(resumed, &said)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		done, err := filepath.Glob(resumed + ".parts/*.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		if len(done) >= parts/2 {
			break
		}
		if _, err := os.Stat(resumed); err == nil {
			t.Fatal("it was over before it could be killed")
		}
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	killed.Process.Kill()
	killed.Wait()
	if _, err := os.Stat(resumed); err == nil {
		t.Fatal("it was over before it was killed")
	}
	said.Reset()
	if err := command(resumed, &said).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if strings.Contains(said.String(), "0 of 6 parts were there") || !strings.Contains(said.String(), "were there") {
		t.Errorf("it began again:\n%s", &said)
	}
	want, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(resumed)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(want), "\n"); n != 40 {
		t.Errorf("%d lines for 40 files", n)
	}
	if string(have) != string(want) {
		t.Error("what was written after a restart differs from what is written without one")
	}
}
