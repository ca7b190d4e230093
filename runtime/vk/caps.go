//go:build cgo

package vk

// #include "vkc.h"
import "C"

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unsafe"

	"github.com/vkc-go/vkc/codegen/device"
)

// deviceInfo converts the result of the C probe to Go.
func deviceInfo(p *C.vkc_probe) DeviceInfo {
	info := DeviceInfo{}
	for i := range p.heap_count {
		const deviceLocal = 1 // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
		info.Heaps = append(info.Heaps, MemoryHeap{Size: uint64(p.heap_size[i]),
			DeviceLocal: p.heap_flags[i]&deviceLocal != 0})
	}
	for i := range p.type_count {
		info.MemoryTypes = append(info.MemoryTypes,
			MemoryType{Heap: int(p.type_heap[i]), Flags: MemoryFlags(p.type_flags[i])})
	}
	for i := range p.family_count {
		info.QueueFamilies = append(info.QueueFamilies, QueueFamily{Flags: QueueFlags(p.family_flags[i]),
			Queues: int(p.family_queues[i]), TimestampBits: uint32(p.family_timestamp_bits[i])})
	}
	info.Caps = caps(p)
	info.Caps.UnifiedMemory = unifiedMemory(info.Caps.Type, info.Heaps, info.MemoryTypes)
	for _, h := range info.Heaps {
		if h.DeviceLocal {
			info.Caps.DeviceMemory = max(info.Caps.DeviceMemory, h.Size)
		}
	}
	if family, ok := info.family(); ok {
		info.Caps.TimestampBits = info.QueueFamilies[family].TimestampBits
	}
	info.Problem = problem(&info)
	return info
}

const computeStage = 0x20 // VK_SHADER_STAGE_COMPUTE_BIT

// caps converts the capabilities in the C probe's result.
func caps(p *C.vkc_probe) device.Caps {
	c := device.Caps{
		// The device name of driver NVK ends in a space.
		Name: strings.TrimSpace(goString(p.name[:])), VendorID: uint32(p.vendor_id), DeviceID: uint32(p.device_id),
		Type:     deviceType(uint32(p._type)),
		DriverID: uint32(p.driver_id), DriverName: goString(p.driver_name[:]), DriverInfo: goString(p.driver_info[:]),
		DriverVersion: uint32(p.driver_version), API: device.APIVersion(p.api_version),

		SubgroupSize: uint32(p.subgroup_size), MinSubgroupSize: uint32(p.min_subgroup_size),
		MaxSubgroupSize:      uint32(p.max_subgroup_size),
		RequiredSubgroupSize: p.features.subgroup_size_control != 0 && p.required_subgroup_size_stages&computeStage != 0,
		MaxSharedMemory:      uint32(p.max_shared_memory), MaxInvocations: uint32(p.max_invocations),
		MaxWorkgroupSize: triple(p.max_workgroup_size), MaxWorkgroupCount: triple(p.max_workgroup_count),
		MaxPushConstants: uint32(p.max_push_constants), MaxStorageBuffers: uint32(p.max_storage_buffers),
		MaxStorageRange: uint64(p.max_storage_range), StorageAlignment: uint64(p.storage_alignment),
		MaxAllocation: uint64(p.max_allocation), MaxBuffer: uint64(p.max_buffer),
		HostPointerAlignment: uint64(p.host_pointer_alignment), TimestampPeriod: float32(p.timestamp_period),
		Cores: uint32(p.cores), SubgroupsPerCore: uint32(p.subgroups_per_core),

		Features:   features(p),
		DeviceUUID: uuid(p.device_uuid), DriverUUID: uuid(p.driver_uuid), PipelineCacheUUID: uuid(p.pipeline_cache_uuid),
	}
	if p.subgroup_stages&computeStage != 0 {
		c.SubgroupOps = device.SubgroupOps(p.subgroup_ops)
	}
	if c.Features.CooperativeMatrix {
		c.Matrices = matrixShapes(p.matrix[:p.matrix_count])
	}
	if c.Features.CooperativeMatrix2 {
		c.Matrix2 = matrix2(p)
	}
	return c
}

// featureFlag pairs a feature with its flag in C.
type featureFlag struct {
	on   *bool
	flag *C.uint32_t
}

// featureFlags pairs the fields of f with the fields of c. The C probe reports features in c, and C enables features
// from c. When it enables features, it ignores flags that do not concern shaders.
func featureFlags(f *device.Features, c *C.vkc_features) []featureFlag {
	return []featureFlag{
		{&f.Float16, &c.float16}, {&f.Float64, &c.float64}, {&f.BFloat16, &c.bfloat16}, {&f.Float8, &c.float8},
		{&f.Int8, &c.int8}, {&f.Int16, &c.int16}, {&f.Int64, &c.int64},
		{&f.Storage8, &c.storage8}, {&f.Storage16, &c.storage16},
		{&f.PushConstant8, &c.push_constant8}, {&f.PushConstant16, &c.push_constant16},
		{&f.BufferDeviceAddress, &c.buffer_device_address}, {&f.ScalarBlockLayout, &c.scalar_block_layout},
		{&f.MemoryModel, &c.memory_model}, {&f.MemoryModelDeviceScope, &c.memory_model_device_scope},
		{&f.IntegerDotProduct, &c.integer_dot_product}, {&f.AtomicFloat32Add, &c.atomic_float32_add},
		{&f.SharedAtomicFloat32Add, &c.shared_atomic_float32_add},
		{&f.SubgroupSizeControl, &c.subgroup_size_control}, {&f.FullSubgroups, &c.full_subgroups},
		{&f.SubgroupExtendedTypes, &c.subgroup_extended_types}, {&f.MaximalReconvergence, &c.maximal_reconvergence},
		{&f.WorkgroupExplicitLayout, &c.workgroup_explicit_layout}, {&f.ZeroInitWorkgroup, &c.zero_init_workgroup},
		{&f.BFloat16Matrix, &c.bfloat16_matrix}, {&f.Float8Matrix, &c.float8_matrix},
		{&f.CooperativeMatrix, &c.cooperative_matrix}, {&f.CooperativeMatrix2, &c.cooperative_matrix2},
		{&f.Sync2, &c.synchronization2}, {&f.Timeline, &c.timeline_semaphore}, {&f.Maintenance4, &c.maintenance4},
		{&f.PushDescriptor, &c.push_descriptor},
		{&f.PipelineExecutableProperties, &c.pipeline_executable_properties},
		{&f.MemoryBudget, &c.memory_budget}, {&f.CalibratedTimestamps, &c.calibrated_timestamps},
		{&f.ExternalMemoryHost, &c.external_memory_host}, {&f.PortabilitySubset, &c.portability_subset},
	}
}

// features converts the features in the C probe's result.
func features(p *C.vkc_probe) (f device.Features) {
	for _, x := range featureFlags(&f, &p.features) {
		*x.on = *x.flag != 0
	}
	if !f.CooperativeMatrix || p.matrix_stages&computeStage == 0 { // the driver may offer them only in other stages
		f.CooperativeMatrix, f.CooperativeMatrix2, f.BFloat16Matrix, f.Float8Matrix = false, false, false, false
	}
	// Bit 0 is for NaN and infinity, bit 1 for denormals.
	f.PreserveNaN16, f.PreserveDenorm16 = p.float_controls_f16&1 != 0, p.float_controls_f16&2 != 0
	f.PreserveNaN32, f.PreserveDenorm32 = p.float_controls_f32&1 != 0, p.float_controls_f32&2 != 0
	f.PreserveNaN64 = p.float_controls_f64&1 != 0
	return f
}

// nativeFeatures converts the shader features to enable on a device to the C flags from which features reads them.
func nativeFeatures(f device.Features) (c C.vkc_features) {
	for _, x := range featureFlags(&f, &c) {
		if *x.on {
			*x.flag = 1
		}
	}
	return c
}

// matrix2 converts the properties of cooperative matrices, version 2 (VK_NV_cooperative_matrix2).
func matrix2(p *C.vkc_probe) *device.Matrix2 {
	f := &p.features
	return &device.Matrix2{
		WorkgroupScope: f.cm2_workgroup_scope != 0, FlexibleDimensions: f.cm2_flexible_dimensions != 0,
		Reductions: f.cm2_reductions != 0, Conversions: f.cm2_conversions != 0, PerElement: f.cm2_per_element != 0,
		TensorAddressing: f.cm2_tensor_addressing != 0, BlockLoads: f.cm2_block_loads != 0,
		MaxWorkgroup: uint32(p.cm2_max_workgroup), MaxDimension: uint32(p.cm2_max_dimension),
		ReservedShared: uint32(p.cm2_reserved_shared),
		Dims:           matrixShapes(p.flexible[:p.flexible_count]),
	}
}

// matrixShapes converts a list of matrix shapes.
func matrixShapes(list []C.vkc_matrix) []device.MatrixShape {
	var shapes []device.MatrixShape
	for i := range list {
		m := &list[i]
		shapes = append(shapes, device.MatrixShape{
			M: uint32(m.m), N: uint32(m.n), K: uint32(m.k),
			A: component(uint32(m.a)), B: component(uint32(m.b)), C: component(uint32(m.c)), R: component(uint32(m.r)),
			Scope: scope(uint32(m.scope)), Saturating: m.saturating != 0, Invocations: uint32(m.invocations),
		})
	}
	return shapes
}

// components maps VkComponentTypeKHR to its name here.
var components = map[uint32]device.Component{
	0: "f16", 1: "f32", 2: "f64", 3: "i8", 4: "i16", 5: "i32", 6: "i64", 7: "u8", 8: "u16", 9: "u32", 10: "u64",
	1000141000: "bf16", 1000491002: "f8e4m3", 1000491003: "f8e5m2",
}

// component converts a VkComponentTypeKHR.
func component(c uint32) device.Component {
	if name, ok := components[c]; ok {
		return name
	}
	return device.Component(fmt.Sprintf("component-%d", c))
}

// scope converts a VkScopeKHR.
func scope(s uint32) device.Scope {
	switch s {
	case 2: // VK_SCOPE_WORKGROUP_KHR
		return device.ScopeWorkgroup
	case 3: // VK_SCOPE_SUBGROUP_KHR
		return device.ScopeSubgroup
	}
	return device.Scope(fmt.Sprintf("scope-%d", s))
}

// deviceType converts a VkPhysicalDeviceType.
func deviceType(t uint32) device.DeviceType {
	switch t {
	case 1:
		return device.DeviceIntegrated
	case 2:
		return device.DeviceDiscrete
	case 3:
		return device.DeviceVirtual
	case 4:
		return device.DeviceCPU
	}
	return device.DeviceOther
}

func triple(v [3]C.uint32_t) [3]uint32 { return [3]uint32{uint32(v[0]), uint32(v[1]), uint32(v[2])} }

func uuid(b [16]C.uint8_t) string { return hex.EncodeToString((*[16]byte)(unsafe.Pointer(&b))[:]) }

// goString reads a NUL-terminated string from a fixed-size array. The NUL may be missing.
func goString(text []C.char) string {
	for i, c := range text {
		if c == 0 {
			return C.GoStringN(&text[0], C.int(i))
		}
	}
	return C.GoStringN(&text[0], C.int(len(text)))
}
