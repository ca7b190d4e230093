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

// otherSteps is the length of the code that runs before each kernel: about 48 bytes per step on NVIDIA, 128 KiB in
// total, which fills a core's instruction cache there.
const otherSteps = 2800

// other is a kernel with long code that runs before each timed dispatch, as other kernels would in a program. Otherwise
// the timed kernel's code would stay in the instruction cache, which can double its speed (M-code-size).
type other struct {
	pipeline *vk.Pipeline
	binding  *vk.Bindings
	groups   uint32
}

// otherSource returns GLSL of straight-line code that a compiler can neither eliminate nor simplify.
func otherSource() string {
	var b strings.Builder
	b.WriteString("#version 450\nlayout(local_size_x = 128) in;\n" +
		"layout(set = 0, binding = 0, std430) buffer Words_buffer { uint words[]; };\n" +
		"void main() {\n    uint v = words[0] + gl_GlobalInvocationID.x;\n")
	r := rand.New(rand.NewPCG(1, 2))
	for range otherSteps {
		fmt.Fprintf(&b, "    v = v * %#xu ^ v >> %d;\n", r.Uint32()|1, 1+r.IntN(31))
	}
	b.WriteString("    if (v == 0u) {\n        words[1] = v;\n    }\n}\n")
	return b.String()
}

// openOther makes the kernel of long code. A CPU device caches code like data, and needs none.
func (s *stand) openOther(ctx context.Context) error {
	if s.caps.Type == device.DeviceCPU {
		return nil
	}
	sh := spirv.Shader{Name: "other code", Source: otherSource(), TargetEnv: "vulkan1.1"}
	results, _, err := s.tools.Compile(ctx, []spirv.Shader{sh}, spirv.Options{CacheDir: s.cache})
	if err != nil {
		return err
	}
	words, err := s.dev.NewBuffer("other words", 256, vk.DeviceMemory)
	if err != nil {
		return err
	}
	s.made = append(s.made, words)
	if err := s.dev.Upload(ctx, words, 0, make([]byte, words.Size())); err != nil {
		return err
	}
	o := &other{groups: 4 * max(s.caps.Cores, 64)}
	sets := []vk.BindingSet{{Name: "other code", Buffers: []vk.BufferRange{vk.Whole(words)}}}
	o.binding, err = s.dev.NewBindings(sets)
	if err != nil {
		return err
	}
	s.made = append(s.made, o.binding)
	o.pipeline, err = s.dev.NewPipeline(vk.PipelineDesc{Name: "other code", Code: results[0].SPIRV, Buffers: 1})
	if err != nil {
		return err
	}
	s.made = append(s.made, o.pipeline)
	s.other = o
	return nil
}

// record adds a run of the long code after the previous commands.
func (o *other) record(list *vk.CommandList) {
	list.Barrier(vk.StageCompute, vk.StageCompute)
	list.BindPipeline(o.pipeline)
	list.Bind(o.binding, 0)
	list.Dispatch(o.groups, 1, 1)
}
