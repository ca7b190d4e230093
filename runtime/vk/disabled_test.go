package vk_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// capabilities lists SPIR-V capabilities that a shader may declare only if a device feature is enabled (SPIR-V, section
// "Capability"), with their extensions.
var capabilities = []struct {
	features   string // comma-separated; any of them suffices
	capability uint32
	extension  string
	besides    []uint32 // capabilities that it requires
}{
	{"float16", 9, "", nil},
	{"float64", 10, "", nil},
	{"int64", 11, "", nil},
	{"int16", 22, "", nil},
	{"int8", 39, "", nil},
	{"storage16", 4433, "", nil},
	{"pushConstant16", 4435, "", nil},
	{"storage8", 4448, "", nil},
	{"pushConstant8", 4450, "", nil},
	{"memoryModel", memoryModel, "", nil},
	{"memoryModelDeviceScope", 5346, "", []uint32{memoryModel}},
	{"integerDotProduct", 6019, "SPV_KHR_integer_dot_product", nil},
	{"atomicFloat32Add,sharedAtomicFloat32Add", 6033, "SPV_EXT_shader_atomic_float_add", nil},
	{"bfloat16", 5116, "SPV_KHR_bfloat16", nil},
	{"float8", 4212, "SPV_EXT_float8", nil},
	{"cooperativeMatrix", 6022, "SPV_KHR_cooperative_matrix", []uint32{memoryModel}},
}

const memoryModel = 5345 // VulkanMemoryModel

// emptyShader is a compute shader that does nothing and declares capabilities.
func emptyShader(extension string, capabilities ...uint32) []byte {
	var words []uint32
	op := func(code uint32, operands ...uint32) {
		words = append(append(words, uint32(len(operands)+1)<<16|code), operands...)
	}
	text := func(s string) (list []uint32) {
		b := append([]byte(s), make([]byte, 4-len(s)%4)...)
		for len(b) > 0 {
			list, b = append(list, binary.LittleEndian.Uint32(b)), b[4:]
		}
		return list
	}
	model := uint32(1) // GLSL450
	op(17, 1)          // OpCapability Shader
	for _, c := range capabilities {
		op(17, c)
		if c == memoryModel {
			model = 3 // Vulkan
		}
	}
	if extension != "" {
		op(10, text(extension)...) // OpExtension
	}
	op(14, 0, model)                                   // OpMemoryModel Logical
	op(15, append([]uint32{5, 3}, text("main")...)...) // OpEntryPoint GLCompute
	op(16, 3, 17, 1, 1, 1)                             // OpExecutionMode LocalSize 1 1 1
	op(19, 1)                                          // OpTypeVoid
	op(33, 2, 1)                                       // OpTypeFunction
	op(54, 1, 3, 0, 2)                                 // OpFunction
	op(248, 4)                                         // OpLabel
	op(253)                                            // OpReturn
	op(56)                                             // OpFunctionEnd
	code := []byte{}
	for _, w := range append([]uint32{0x07230203, 0x00010500, 0, 5, 0}, words...) {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// TestDisabledFeaturesAreHeard: a feature that the environment turns off is not enabled on the VkDevice either. The
// validation layers say so of a shader that declares its capability, and say nothing of it where the feature is on.
func TestDisabledFeaturesAreHeard(t *testing.T) {
	if !strings.Contains(os.Getenv("VK_INSTANCE_LAYERS"), "VK_LAYER_KHRONOS_validation") {
		t.Skip("run with VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation")
	}
	skipWhereMessagesFail(t)
	clearAfter(t)
	heard := func(t *testing.T, feature string, code []byte) (caps device.Caps, messages string) {
		d := vktest.Device(t, vk.DeviceOptions{})
		if p, err := d.NewPipeline(vk.PipelineDesc{Name: feature, Code: code}); err == nil {
			p.Close()
		} // else it is the driver that refuses it
		messages = fmt.Sprint(vk.ValidationMessages())
		vk.ClearMessages()
		return d.Caps(), messages
	}
	tried := 0
	for _, row := range capabilities {
		t.Run(row.features, func(t *testing.T) {
			t.Setenv(device.DisableEnv, "")
			code := emptyShader(row.extension, slices.Concat(row.besides, []uint32{row.capability})...)
			caps, messages := heard(t, row.features, code)
			first, _, _ := strings.Cut(row.features, ",")
			if !caps.Has(first) {
				t.Skip("the device lacks it")
			}
			if strings.Contains(messages, "VUID-") {
				t.Fatalf("with the feature: %s", messages)
			}
			tried++
			t.Setenv(device.DisableEnv, row.features)
			caps, messages = heard(t, row.features, code)
			if caps.Has(first) || !strings.Contains(messages, "VUID-VkShaderModuleCreateInfo-pCode-08740") {
				t.Errorf("without the feature the device has it: %t; the layers say: %s", caps.Has(first), messages)
			}
		})
	}
	if tried < 5 {
		t.Errorf("%d features were tried, of %d", tried, len(capabilities))
	}
}
