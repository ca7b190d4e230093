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
		info.Heaps = append(info.Heaps, MemoryHeap{Size: uint64(p.heap_size[i]), DeviceLocal: p.heap_flags[i]&1 != 0})
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

// features converts the features in the C probe's result.
func features(p *C.vkc_probe) device.Features {
	f := &p.features
	on := func(b C.uint32_t) bool { return b != 0 }
	// The driver may offer cooperative matrices only in stages other than compute.
	matrix := on(f.cooperative_matrix) && p.matrix_stages&computeStage != 0
	return device.Features{
		Float16: on(f.float16), Float64: on(f.float64), Int8: on(f.int8), Int16: on(f.int16), Int64: on(f.int64),
		Storage8: on(f.storage8), Storage16: on(f.storage16),
		PushConstant8: on(f.push_constant8), PushConstant16: on(f.push_constant16),
		BufferDeviceAddress: on(f.buffer_device_address), ScalarBlockLayout: on(f.scalar_block_layout),
		MemoryModel: on(f.memory_model), MemoryModelDeviceScope: on(f.memory_model_device_scope),
		IntegerDotProduct: on(f.integer_dot_product), AtomicFloat32Add: on(f.atomic_float32_add),
		SharedAtomicFloat32Add: on(f.shared_atomic_float32_add),
		SubgroupSizeControl:    on(f.subgroup_size_control), FullSubgroups: on(f.full_subgroups),
		SubgroupExtendedTypes: on(f.subgroup_extended_types), MaximalReconvergence: on(f.maximal_reconvergence),
		WorkgroupExplicitLayout: on(f.workgroup_explicit_layout), ZeroInitWorkgroup: on(f.zero_init_workgroup),
		BFloat16: on(f.bfloat16), BFloat16Matrix: matrix && on(f.bfloat16_matrix),
		Float8: on(f.float8), Float8Matrix: matrix && on(f.float8_matrix),
		CooperativeMatrix: matrix, CooperativeMatrix2: matrix && on(f.cooperative_matrix2),
		PreserveNaN16: p.float_controls_f16&1 != 0, PreserveNaN32: p.float_controls_f32&1 != 0, PreserveNaN64: p.float_controls_f64&1 != 0,
		PreserveDenorm16: p.float_controls_f16&2 != 0, PreserveDenorm32: p.float_controls_f32&2 != 0,
		Sync2: on(f.synchronization2), Timeline: on(f.timeline_semaphore), Maintenance4: on(f.maintenance4),
		PushDescriptor: on(f.push_descriptor), PipelineExecutableProperties: on(f.pipeline_executable_properties),
		MemoryBudget: on(f.memory_budget), CalibratedTimestamps: on(f.calibrated_timestamps),
		ExternalMemoryHost: on(f.external_memory_host), PortabilitySubset: on(f.portability_subset),
	}
}

// nativeFeatures converts the shader features to enable on a device to C flags. It is the inverse of features.
func nativeFeatures(f *device.Features) C.vkc_features {
	flag := func(on bool) C.uint32_t {
		if on {
			return 1
		}
		return 0
	}
	return C.vkc_features{
		float16:                   flag(f.Float16),
		float64:                   flag(f.Float64),
		int8:                      flag(f.Int8),
		int16:                     flag(f.Int16),
		int64:                     flag(f.Int64),
		storage8:                  flag(f.Storage8),
		storage16:                 flag(f.Storage16),
		push_constant8:            flag(f.PushConstant8),
		push_constant16:           flag(f.PushConstant16),
		buffer_device_address:     flag(f.BufferDeviceAddress),
		scalar_block_layout:       flag(f.ScalarBlockLayout),
		memory_model:              flag(f.MemoryModel),
		memory_model_device_scope: flag(f.MemoryModelDeviceScope),
		integer_dot_product:       flag(f.IntegerDotProduct),
		atomic_float32_add:        flag(f.AtomicFloat32Add),
		shared_atomic_float32_add: flag(f.SharedAtomicFloat32Add),
		subgroup_size_control:     flag(f.SubgroupSizeControl),
		full_subgroups:            flag(f.FullSubgroups),
		subgroup_extended_types:   flag(f.SubgroupExtendedTypes),
		maximal_reconvergence:     flag(f.MaximalReconvergence),
		workgroup_explicit_layout: flag(f.WorkgroupExplicitLayout),
		zero_init_workgroup:       flag(f.ZeroInitWorkgroup),
		bfloat16:                  flag(f.BFloat16),
		bfloat16_matrix:           flag(f.BFloat16Matrix),
		float8:                    flag(f.Float8),
		float8_matrix:             flag(f.Float8Matrix),
		cooperative_matrix:        flag(f.CooperativeMatrix),
		cooperative_matrix2:       flag(f.CooperativeMatrix2),
	}
}

// matrix2 converts the properties of cooperative matrices, version 2.
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
	case 2:
		return device.ScopeWorkgroup
	case 3:
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

func uuid(b [16]C.uint8_t) string {
	return hex.EncodeToString((*[16]byte)(unsafe.Pointer(&b))[:])
}

// goString reads a NUL-terminated string from a fixed-size array. The NUL may be missing.
func goString(text []C.char) string {
	for i, c := range text {
		if c == 0 {
			return C.GoStringN(&text[0], C.int(i))
		}
	}
	return C.GoStringN(&text[0], C.int(len(text)))
}
