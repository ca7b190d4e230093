package vk

import (
	"path/filepath"
	"runtime"
	"slices"
)

// gpuNodes are patterns of the device nodes by which drivers reach GPUs on Linux.
var gpuNodes = []string{"/dev/dri/*", "/dev/nvidia*", "/dev/dxg", "/dev/kgsl*", "/dev/mali*", "/dev/nvhost*",
	"/dev/nvgpu*", "/dev/nvmap", "/dev/pvr*", "/dev/galcore", "/dev/kfd", "/dev/goldfish*"}

// MayHaveGPU reports whether this machine may have a GPU. If it returns false, all Vulkan devices are software. It does
// not load Vulkan, because that takes longer than a small program runs on the processor.
func MayHaveGPU() bool { return runtime.GOOS != "linux" || anyFile(gpuNodes) }

// anyFile reports whether there is a file whose name matches one of the patterns.
func anyFile(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		found, _ := filepath.Glob(p)
		return len(found) > 0
	})
}
