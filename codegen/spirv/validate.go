package spirv

import (
	"context"
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/vkc-go/vkc/internal/spv"
)

// Module is a SPIR-V module that this package did not compile.
type Module struct {
	Name  string // for errors
	SPIRV []byte
}

// env returns the oldest target environment that supports the module's SPIR-V version.
func (m Module) env() string {
	switch v := spv.Version(m.SPIRV); {
	case v > 5:
		return "vulkan1.3"
	case v > 3:
		return "vulkan1.2"
	case v > 0:
		return "vulkan1.1"
	}
	return "vulkan1.0"
}

// Validate runs spirv-val on modules and returns the first error. Without spirv-val it returns a *MissingToolError.
func (t *Toolchain) Validate(ctx context.Context, modules []Module) error {
	if !t.Val.Found() {
		return &MissingToolError{Tools: []string{"spirv-val"}}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range modules {
		group.Go(func() error {
			_, err := runTool(ctx, t.Val, command{stdin: m.SPIRV, args: []string{"--target-env", m.env(), "-"},
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
