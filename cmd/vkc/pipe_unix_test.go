//go:build linux || darwin

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vkc-go/vkc/internal/devtest"
)

// TestNoFile: every command that reads a file rejects a pipe, a device or a directory without waiting. A pipe without a
// writer would block the test.
func TestNoFile(t *testing.T) {
	noTools(t)
	noVulkan(t)
	devtest.EmptyCache(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	weights := mlpWeights(t)
	model := "-m " + gollama + " --device cpu"
	lines := []string{"run FILE", "run " + mlpGraph + " --weights FILE --device cpu --input x=random:1 --symbol T=2",
		"run " + mlpGraph + " --weights " + weights + " --device cpu --input x=FILE", "run FILE.vkb", "run FILE.onnx",
		"run FILE.safetensors", "run FILE --trusted-keys FILE", "compile FILE -o OUT", "compile --generate FILE -o OUT",
		"compile " + mlpGraph + " --weights FILE -o OUT", "compile " + mlpGraph + " --sign FILE -o OUT",
		"compile " + mlpGraph + " -o OUT --tuning FILE", "graph FILE", "graph FILE.onnx", "dump FILE", "inspect FILE",
		"inspect FILE.vkb", "inspect FILE.onnx", "inspect FILE.safetensors.index.json", "quantize FILE --type q8_0 -o OUT",
		"quantize " + gollama + " --requantize --type q8_0 --imatrix FILE -o OUT", "generate -m FILE -p x",
		"generate " + model + " -p x --grammar FILE", "generate " + model + " -p x --json-schema FILE",
		"generate " + model + " -p x --draft-tokens 2 --draft FILE", "chat -m FILE", "serve -m FILE",
		"serve " + model + " --key-file FILE", "embed -m FILE x", "tokenize -m FILE x", "transcribe FILE -m " + gollama,
		"perplexity -m FILE zero_test.go",
		"perplexity " + model + " FILE", "imatrix -m FILE zero_test.go -o OUT", "imatrix " + model + " FILE -o OUT", "bench -m FILE",
		"bench --from FILE", "bench --from x --against FILE", "sign FILE --key FILE", "verify FILE",
	}
	for kind, make := range map[string]func(path string) error{
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, ext := range []string{"", ".vkb", ".onnx", ".safetensors", ".safetensors.index.json"} {
			path := filepath.Join(dir, strings.ReplaceAll(kind, " ", "-")+ext)
			if err := make(path); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, strings.ReplaceAll(kind, " ", "-"))
		for _, line := range lines {
			args := words("vkc " + strings.NewReplacer("FILE", file, "OUT", out).Replace(line))[1:]
			r := run(t, args...)
			if r.code != exitFailure && r.code != exitUsage || !strings.Contains(r.stderr, file) {
				t.Errorf("%s, %s: %+v", kind, line, r)
			}
		}
	}
}

// TestOutputPipe: a pipe that no one reads is no place for output, and does not keep vkc waiting.
func TestOutputPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailure, []string{"graph", mlpGraph, "-o", path}, path)
}

// TestStandardInputInterrupted: a verb that waits for standard input ends when it is interrupted.
func TestStandardInputInterrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() // the test's end is the input's
	saved := os.Stdin
	defer func() { os.Stdin = saved }()
	os.Stdin = r
	for _, line := range []string{"generate -m " + gollama + " -p - --device cpu", "tokenize -m " + gollama,
		"tokenize -m " + gollama + " -"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := runCtx(t, ctx, words("vkc " + line)[1:]...); r.code != exitInterrupted {
			t.Errorf("%s: %+v", line, r)
		}
	}
}
