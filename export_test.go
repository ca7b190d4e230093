package vkc

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/runtime/vk"
)

// SetOpenVulkan makes OpenDevice open Vulkan in another way until the function
// that it returns is called.
func SetOpenVulkan(open func() (*vk.Instance, error)) (restore func()) {
	old := openVulkan
	openVulkan = open
	return func() { openVulkan = old }
}

// SplitOperandsFor makes every device split the operands that caps would, until
// the function that it returns is called.
func SplitOperandsFor(caps target.Caps) (restore func()) {
	splitOperands = func(k *kernel.Kernel, _ target.Caps) []kernel.StoredOperand { return target.SplitOperands(k, caps) }
	return func() { splitOperands = target.SplitOperands }
}
