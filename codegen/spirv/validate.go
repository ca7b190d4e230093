package spirv

import (
	"context"
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Module is SPIR-V from elsewhere.
type Module struct {
	Name      string // for errors
	SPIRV     []byte
	TargetEnv string // "vulkan1.0" to "vulkan1.3"
}

// Validate runs spirv-val over modules and returns the first refusal, or a
// *MissingToolError where there is no spirv-val.
func (t *Toolchain) Validate(ctx context.Context, modules []Module) error {
	if !t.Val.Found() {
		return &MissingToolError{Tools: []string{"spirv-val"}}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range modules {
		group.Go(func() error {
			_, err := runTool(ctx, t.Val, command{stdin: m.SPIRV, args: []string{"--target-env", m.TargetEnv, "-"},
				limits: t.limits})
			if exit := (*exitError)(nil); errors.As(err, &exit) {
				u := &unit{shader: Shader{Name: m.Name}}
				return failureOf(u, t.Val.Name, exit)
			}
			return err
		})
	}
	return group.Wait()
}
