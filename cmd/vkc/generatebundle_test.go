package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/devtest"
)

// TestGenerateBundle: a model's bundle generates the same text as the model's file, without a compiler and a cache.
// Options that it was not compiled for are errors.
func TestGenerateBundle(t *testing.T) {
	needTools(t)
	needDevice(t)
	devtest.OwnCache(t)
	withoutOptimizer(t)
	model, path := twoLayers(t), filepath.Join(t.TempDir(), "m.vkb")
	ok(t, "compile", model, "--generate", "--ctx", "32", "--precision", "exact", "-o", path)
	line := []string{"generate", "-p", "func main() {\n", "--device", "vulkan", "-n", "4", "--precision", "exact", "-m"}
	sampled := []string{"--temp", "1", "--top-k", "40", "--seed", "5"}
	want := ok(t, append(line, model, "--ctx", "32")...).stdout
	random := ok(t, append(append(line, model, "--ctx", "32"), sampled...)...).stdout
	if out := ok(t, "verify", path).stdout; strings.Count(out, "program: equal to the compiled graph's") != 10 {
		t.Errorf("verify prints %q", out)
	}
	noTools(t)
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	if got := ok(t, append(line, path)...).stdout; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ok(t, append(append(line, path), sampled...)...).stdout; got != random {
		t.Errorf("%q, want %q", got, random)
	}
	m, err := generate.Open(t.Context(), path, generate.Options{Device: "vulkan"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, likeliest := range []int{0, 2} {
		if _, err := m.Score(t.Context(), []int32{1, 339}, likeliest); err != nil {
			t.Errorf("scores, and the likeliest %d: %v", likeliest, err)
		}
	}
	signed := append(line, path, "--trusted-keys", filepath.Join(t.TempDir(), "none"))
	fails(t, exitFailure, signed, "none")
	line[4] = "cpu"
	if got := ok(t, append(line, path)...).stdout; got != want {
		t.Errorf("on the processor %q, want %q", got, want)
	}
	line[4] = "vulkan"
	fails(t, exitFailure, append(line, path, "--ctx", "64"), "the bundle has no program")
	fails(t, exitUsage, []string{"compile", path, "--generate", "-o", path + "2"}, "for GGUF models")
	fails(t, exitUsage, []string{"compile", gollama, "--generate", "--step", "-o", path + "2"}, "leave out --step")
	if out := ok(t, "inspect", path).stdout; !strings.Contains(out, "gollama") {
		t.Errorf("inspect prints %q", out)
	}
}
