package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// TestRun trains on a device until nine of ten new pictures are right, with weights of q8_0 too.
func TestRun(t *testing.T) {
	devtest.OwnCache(t)
	var out strings.Builder
	right, err := run(t.Context(), "vulkan", 250, "", &out)
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) && !vktest.Required() {
		t.Skip(err)
	}
	vktest.Need(t, err)
	if right[ir.F32] < 0.9 || right[ir.Q8_0] < 0.9 || !strings.Contains(out.String(), "q4_0: ") {
		t.Errorf("%v are right:\n%s", right, out.String())
	}
}
