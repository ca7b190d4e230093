package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
)

func TestBuilds(t *testing.T) {
	g, err := frontend.Build("mlp", mlp)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"f32[N,10]", "i32[N]"} {
		if out := g.Outputs()[i]; out.Node.Type().String() != want {
			t.Errorf("output %q is %s, want %s", out.Name, out.Node.Type(), want)
		}
	}
}

// TestRun runs it on the reference and on the best device, which must agree.
func TestRun(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	var results []string
	for _, device := range []string{"cpu", "auto"} {
		var out strings.Builder
		err := run(context.Background(), device, &out)
		if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) && os.Getenv("VKC_REQUIRE_DEVICE") != "1" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("on %s: %v", device, err)
		}
		_, classes, _ := strings.Cut(out.String(), "\n")
		results = append(results, classes)
	}
	if results[0] != results[1] || !strings.HasPrefix(results[0], "images of classes [") {
		t.Errorf("the reference gives %q, the best device %q", results[0], results[1])
	}
}
