package spirv

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/vkc-go/vkc/internal/spv"
	"golang.org/x/sync/errgroup"
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

// Opcodes of SPIR-V instructions.
const (
	opCapability = 17
	opTypeInt    = 21
	opTypeFloat  = 22
	opTypeVector = 23
	opTypeArray  = 28
	opTypeStruct = 30
	opConstTrue  = 41 // the first opcode of constants
	opSpecConst  = 52 // the last opcode of constants
)

// CheckModule returns an error if module is not a complete SPIR-V module. It does not check the instructions; spirv-val
// does.
func CheckModule(module []byte) error { return spv.Check(module) }

// smallConstants reports whether a valid module has 8- or 16-bit constants, or composites of them, although its
// capabilities allow only loads, stores and conversions of these types. spirv-val and drivers reject such constants.
func smallConstants(module []byte) bool {
	// capability has the number of the capability (Int8, Int16 or Float16) for full arithmetic, by the type's opcode
	// and width.
	capability := map[[2]uint32]uint32{{opTypeInt, 8}: 39, {opTypeInt, 16}: 22, {opTypeFloat, 16}: 9}
	has := map[uint32]bool{}     // declared capabilities
	limited := map[uint32]bool{} // ids of types without full arithmetic
	found := false
	spv.Instructions(module, func(op uint32, a []uint32) {
		switch {
		case op == opCapability && len(a) >= 1:
			has[a[0]] = true
		case (op == opTypeInt || op == opTypeFloat) && len(a) >= 2:
			needs, small := capability[[2]uint32{op, a[1]}]
			limited[a[0]] = small && !has[needs]
		case (op == opTypeVector || op == opTypeArray) && len(a) >= 2:
			limited[a[0]] = limited[a[1]]
		case op == opTypeStruct && len(a) >= 1:
			limited[a[0]] = slices.ContainsFunc(a[1:], func(member uint32) bool { return limited[member] })
		case op >= opConstTrue && op <= opSpecConst && len(a) >= 1 && limited[a[0]]:
			found = true
		}
	})
	return found
}
