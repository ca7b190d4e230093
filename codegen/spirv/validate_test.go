package spirv

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestValidate has spirv-val judge modules from elsewhere.
func TestValidate(t *testing.T) {
	tools := realTools(t)
	if !tools.Val.Found() {
		t.Skip("no spirv-val here")
	}
	results, _ := compile(t, tools, shaders(2), Options{Optimize: true})
	good := Module{"good", results[0].SPIRV}
	if err := tools.Validate(context.Background(),
		[]Module{good, {"too", results[1].SPIRV}}); err != nil {
		t.Errorf("modules as they were compiled: %v", err)
	}
	bad := Module{"bad", tinyModule(1)}
	err := tools.Validate(context.Background(), []Module{good, bad})
	if refused := (*CompileError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), `shader "bad"`) ||
		refused.Tool != "spirv-val" {
		t.Errorf("an entry point without a function: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tools.Validate(ctx, []Module{good}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
	err = (&Toolchain{}).Validate(context.Background(), []Module{good})
	if missing := (*MissingToolError)(nil); !errors.As(err, &missing) {
		t.Errorf("without spirv-val: %v", err)
	}
}
