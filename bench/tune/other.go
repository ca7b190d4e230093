package tune

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/runtime/vk"
)

// fillerSteps is the number of statements of the filler kernel: about 48 bytes of code per statement on NVIDIA, 128
// KiB in total, which fills a core's instruction cache there.
const fillerSteps = 2800

// fillerKernel has long code and runs before each timed dispatch, as other kernels would in a program. Otherwise the
// timed kernel's code would stay in the instruction cache, which can double its speed (M-code-size).
type fillerKernel struct {
	pipeline *vk.Pipeline
	bindings *vk.Bindings
	groups   uint32
}

// fillerSource returns GLSL of long straight-line code that a compiler can neither eliminate nor simplify.
func fillerSource() string {
	var b strings.Builder
	b.WriteString("#version 450\nlayout(local_size_x = 128) in;\n" +
		"layout(set = 0, binding = 0, std430) buffer Words_buffer { uint words[]; };\n" +
		"void main() {\n    uint v = words[0] + gl_GlobalInvocationID.x;\n")
	r := rand.New(rand.NewPCG(1, 2)) // the same code each time
	for range fillerSteps {
		fmt.Fprintf(&b, "    v = v * %#xu ^ v >> %d;\n", r.Uint32()|1, 1+r.IntN(31))
	}
	b.WriteString("    if (v == 0u) {\n        words[1] = v;\n    }\n}\n") // a use of v that hardly ever writes
	return b.String()
}

// openFiller makes the filler kernel, which evicts other code from the device's instruction caches. A CPU device needs
// none.
func (s *harness) openFiller(ctx context.Context) error {
	if s.caps.Type == device.DeviceCPU {
		return nil
	}
	sh := spirv.Shader{Name: "other code", Source: fillerSource(), TargetEnv: "vulkan1.1"}
	results, _, err := s.tools.Compile(ctx, []spirv.Shader{sh}, spirv.Options{CacheDir: s.cache})
	if err != nil {
		return err
	}
	words, err := s.dev.NewBuffer("other words", 256, vk.DeviceMemory)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, words)
	if err := s.dev.Upload(ctx, words, 0, make([]byte, words.Size())); err != nil {
		return err
	}
	o := &fillerKernel{groups: 4 * max(s.caps.Cores, 64)}
	sets := []vk.BindingSet{{Name: "other code", Buffers: []vk.BufferRange{vk.Whole(words)}}}
	o.bindings, err = s.dev.NewBindings(sets)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, o.bindings)
	o.pipeline, err = s.dev.NewPipeline(vk.PipelineDesc{Name: "other code", Code: results[0].SPIRV, Buffers: 1})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, o.pipeline)
	s.filler = o
	return nil
}

// record adds a dispatch of the filler kernel after the previous commands.
func (o *fillerKernel) record(list *vk.CommandList) {
	list.Barrier(vk.StageCompute, vk.StageCompute)
	list.BindPipeline(o.pipeline)
	list.Bind(o.bindings, 0)
	list.Dispatch(o.groups, 1, 1)
}
