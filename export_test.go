package vkc

import "github.com/vkc-go/vkc/runtime/vk"

// SetOpenVulkan makes OpenDevice open Vulkan in another way until the function
// that it returns is called.
func SetOpenVulkan(open func() (*vk.Instance, error)) (restore func()) {
	old := openVulkan
	openVulkan = open
	return func() { openVulkan = old }
}
