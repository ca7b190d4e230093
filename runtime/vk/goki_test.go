//go:build cgo

package vk

import (
	"testing"

	goki "github.com/goki/vulkan"
)

// TestConstants compares the numbers spelled out in this package with those generated from Vulkan's
// registry.
func TestConstants(t *testing.T) {
	for name, pair := range map[string][2]int64{
		"stage indirect":   {pipelineIndirect, int64(goki.PipelineStageDrawIndirectBit)},
		"stage compute":    {pipelineCompute, int64(goki.PipelineStageComputeShaderBit)},
		"stage transfer":   {pipelineTransfer, int64(goki.PipelineStageTransferBit)},
		"stage host":       {pipelineHost, int64(goki.PipelineStageHostBit)},
		"indirect read":    {accessIndirectRead, int64(goki.AccessIndirectCommandReadBit)},
		"shader read":      {accessShaderRead, int64(goki.AccessShaderReadBit)},
		"shader write":     {accessShaderWrite, int64(goki.AccessShaderWriteBit)},
		"transfer read":    {accessTransferRead, int64(goki.AccessTransferReadBit)},
		"transfer write":   {accessTransferWrite, int64(goki.AccessTransferWriteBit)},
		"host read":        {accessHostRead, int64(goki.AccessHostReadBit)},
		"host write":       {accessHostWrite, int64(goki.AccessHostWriteBit)},
		"device local":     {int64(MemoryDeviceLocal), int64(goki.MemoryPropertyDeviceLocalBit)},
		"host visible":     {int64(MemoryHostVisible), int64(goki.MemoryPropertyHostVisibleBit)},
		"host coherent":    {int64(MemoryHostCoherent), int64(goki.MemoryPropertyHostCoherentBit)},
		"host cached":      {int64(MemoryHostCached), int64(goki.MemoryPropertyHostCachedBit)},
		"queue graphics":   {int64(QueueGraphics), int64(goki.QueueGraphicsBit)},
		"queue compute":    {int64(QueueCompute), int64(goki.QueueComputeBit)},
		"queue transfer":   {int64(QueueTransfer), int64(goki.QueueTransferBit)},
		"buffer":           {int64(objectBuffer), int64(goki.ObjectTypeBuffer)},
		"memory":           {int64(objectMemory), int64(goki.ObjectTypeDeviceMemory)},
		"query pool":       {int64(objectQueryPool), int64(goki.ObjectTypeQueryPool)},
		"pipeline cache":   {int64(objectPipelineCache), int64(goki.ObjectTypePipelineCache)},
		"pipeline layout":  {int64(objectPipelineLayout), int64(goki.ObjectTypePipelineLayout)},
		"pipeline":         {int64(objectPipeline), int64(goki.ObjectTypePipeline)},
		"set layout":       {int64(objectSetLayout), int64(goki.ObjectTypeDescriptorSetLayout)},
		"descriptor pool":  {int64(objectDescriptorPool), int64(goki.ObjectTypeDescriptorPool)},
		"command pool":     {int64(objectCommandPool), int64(goki.ObjectTypeCommandPool)},
		"device lost":      {int64(ErrorDeviceLost), int64(goki.ErrorDeviceLost)},
		"timeout":          {int64(Timeout), int64(goki.Timeout)},
		"incomplete":       {int64(Incomplete), int64(goki.Incomplete)},
		"out of memory":    {int64(ErrorOutOfDeviceMemory), int64(goki.ErrorOutOfDeviceMemory)},
		"incompatible":     {int64(ErrorIncompatibleDriver), int64(goki.ErrorIncompatibleDriver)},
		"compute stage":    {computeStage, int64(goki.ShaderStageComputeBit)},
		"type integrated":  {1, int64(goki.PhysicalDeviceTypeIntegratedGpu)},
		"type discrete":    {2, int64(goki.PhysicalDeviceTypeDiscreteGpu)},
		"type virtual":     {3, int64(goki.PhysicalDeviceTypeVirtualGpu)},
		"type CPU":         {4, int64(goki.PhysicalDeviceTypeCpu)},
		"out of host mem.": {int64(ErrorOutOfHostMemory), int64(goki.ErrorOutOfHostMemory)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %#x here and %#x in Vulkan", name, pair[0], pair[1])
		}
	}
}
