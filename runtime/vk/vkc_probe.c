// What a device can do.

#include "vkc_internal.h"

#include <stdlib.h>
#include <string.h>

// An extension, and the Vulkan version that made it part of the core (0: none did).
static const struct {
    const char *name;
    uint32_t core;
} known_extensions[VKC_EXT_COUNT] = {
    [VKC_EXT_SUBGROUP_SIZE_CONTROL] = {"VK_EXT_subgroup_size_control", VK_API_VERSION_1_3},
    [VKC_EXT_INTEGER_DOT_PRODUCT] = {"VK_KHR_shader_integer_dot_product", VK_API_VERSION_1_3},
    [VKC_EXT_SYNCHRONIZATION2] = {"VK_KHR_synchronization2", VK_API_VERSION_1_3},
    [VKC_EXT_MAINTENANCE4] = {"VK_KHR_maintenance4", VK_API_VERSION_1_3},
    [VKC_EXT_ZERO_INIT_WORKGROUP] = {"VK_KHR_zero_initialize_workgroup_memory", VK_API_VERSION_1_3},
    [VKC_EXT_8BIT_STORAGE] = {"VK_KHR_8bit_storage", VK_API_VERSION_1_2},
    [VKC_EXT_FLOAT16_INT8] = {"VK_KHR_shader_float16_int8", VK_API_VERSION_1_2},
    [VKC_EXT_SCALAR_BLOCK_LAYOUT] = {"VK_EXT_scalar_block_layout", VK_API_VERSION_1_2},
    [VKC_EXT_SUBGROUP_EXTENDED_TYPES] = {"VK_KHR_shader_subgroup_extended_types", VK_API_VERSION_1_2},
    [VKC_EXT_TIMELINE_SEMAPHORE] = {"VK_KHR_timeline_semaphore", VK_API_VERSION_1_2},
    [VKC_EXT_BUFFER_DEVICE_ADDRESS] = {"VK_KHR_buffer_device_address", VK_API_VERSION_1_2},
    [VKC_EXT_MEMORY_MODEL] = {"VK_KHR_vulkan_memory_model", VK_API_VERSION_1_2},
    [VKC_EXT_DRIVER_PROPERTIES] = {"VK_KHR_driver_properties", VK_API_VERSION_1_2},
    [VKC_EXT_FLOAT_CONTROLS] = {"VK_KHR_shader_float_controls", VK_API_VERSION_1_2},
    [VKC_EXT_ATOMIC_FLOAT] = {"VK_EXT_shader_atomic_float", 0},
    [VKC_EXT_BFLOAT16] = {"VK_KHR_shader_bfloat16", 0},
    [VKC_EXT_FLOAT8] = {"VK_EXT_shader_float8", 0},
    [VKC_EXT_COOPERATIVE_MATRIX] = {"VK_KHR_cooperative_matrix", 0},
    [VKC_EXT_COOPERATIVE_MATRIX2] = {"VK_NV_cooperative_matrix2", 0},
    [VKC_EXT_WORKGROUP_EXPLICIT_LAYOUT] = {"VK_KHR_workgroup_memory_explicit_layout", 0},
    [VKC_EXT_MAXIMAL_RECONVERGENCE] = {"VK_KHR_shader_maximal_reconvergence", 0},
    [VKC_EXT_PUSH_DESCRIPTOR] = {"VK_KHR_push_descriptor", 0},
    [VKC_EXT_PIPELINE_EXECUTABLE] = {"VK_KHR_pipeline_executable_properties", 0},
    [VKC_EXT_MEMORY_BUDGET] = {"VK_EXT_memory_budget", 0},
    [VKC_EXT_CALIBRATED_TIMESTAMPS] = {"VK_EXT_calibrated_timestamps", 0},
    [VKC_EXT_CALIBRATED_TIMESTAMPS_KHR] = {"VK_KHR_calibrated_timestamps", 0},
    [VKC_EXT_EXTERNAL_MEMORY_HOST] = {"VK_EXT_external_memory_host", 0},
    [VKC_EXT_EXTERNAL_MEMORY_FD] = {"VK_KHR_external_memory_fd", 0},
    [VKC_EXT_SM_BUILTINS] = {"VK_NV_shader_sm_builtins", 0},
    [VKC_EXT_SHADER_CORE_AMD] = {"VK_AMD_shader_core_properties", 0},
    [VKC_EXT_PORTABILITY_SUBSET] = {"VK_KHR_portability_subset", 0},
    [VKC_EXT_ROBUSTNESS2] = {"VK_EXT_robustness2", 0},
};

const char *vkc_extension_name(int bit) { return known_extensions[bit].name; }

uint32_t vkc_promoted(uint32_t api) {
    uint32_t set = 0;
    for (int bit = 0; bit < VKC_EXT_COUNT; bit++)
        if (known_extensions[bit].core && api >= known_extensions[bit].core) set |= 1u << bit;
    return set;
}

// device_extensions is the set of known extensions the device advertises.
static VkResult device_extensions(vkc_instance *inst, VkPhysicalDevice physical, uint32_t *set) {
    uint32_t count = 0;
    *set = 0;
    VkResult r = inst->vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    if (r != VK_SUCCESS || count == 0) return r;
    VkExtensionProperties *all = calloc(count, sizeof *all);
    if (!all) return VK_ERROR_OUT_OF_HOST_MEMORY;
    r = inst->vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        for (int bit = 0; bit < VKC_EXT_COUNT; bit++)
            if (!strcmp(all[i].extensionName, known_extensions[bit].name)) *set |= 1u << bit;
    free(all);
    return r < 0 ? r : VK_SUCCESS;
}

// LINK puts a structure at the head of a chain.
#define LINK(head, structure, type) ((structure).sType = (type), (structure).pNext = (head), (head) = &(structure))

VkResult vkc_query_features(vkc_instance *inst, VkPhysicalDevice physical, uint32_t api, vkc_feature_chain *f) {
    memset(f, 0, sizeof *f);
    VkResult r = device_extensions(inst, physical, &f->extensions);
    if (r != VK_SUCCESS) return r;
    uint32_t has = f->extensions | vkc_promoted(api);
    void *head = NULL;
#define LINK_IF(bit, structure, type) \
    if (VKC_HAS(has, bit)) LINK(head, structure, type)
    LINK(head, f->storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    LINK(head, f->pointers, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES);
    LINK_IF(VKC_EXT_8BIT_STORAGE, f->storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
    LINK_IF(VKC_EXT_FLOAT16_INT8, f->small, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
    LINK_IF(VKC_EXT_SCALAR_BLOCK_LAYOUT, f->scalar, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES);
    LINK_IF(VKC_EXT_SUBGROUP_EXTENDED_TYPES, f->subgroup_types,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES);
    LINK_IF(VKC_EXT_TIMELINE_SEMAPHORE, f->timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
    LINK_IF(VKC_EXT_BUFFER_DEVICE_ADDRESS, f->address,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
    LINK_IF(VKC_EXT_MEMORY_MODEL, f->memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
    LINK_IF(VKC_EXT_SUBGROUP_SIZE_CONTROL, f->subgroup_size,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    LINK_IF(VKC_EXT_INTEGER_DOT_PRODUCT, f->dot,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    LINK_IF(VKC_EXT_SYNCHRONIZATION2, f->sync2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES);
    LINK_IF(VKC_EXT_MAINTENANCE4, f->maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES);
    LINK_IF(VKC_EXT_ZERO_INIT_WORKGROUP, f->zero_init,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ZERO_INITIALIZE_WORKGROUP_MEMORY_FEATURES);
    LINK_IF(VKC_EXT_ATOMIC_FLOAT, f->atomic_float,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
    LINK_IF(VKC_EXT_BFLOAT16, f->bfloat16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
    LINK_IF(VKC_EXT_FLOAT8, f->float8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT8_FEATURES_EXT);
    LINK_IF(VKC_EXT_ROBUSTNESS2, f->robustness2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT);
    LINK_IF(VKC_EXT_COOPERATIVE_MATRIX, f->matrix,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    LINK_IF(VKC_EXT_COOPERATIVE_MATRIX2, f->matrix2,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
    LINK_IF(VKC_EXT_WORKGROUP_EXPLICIT_LAYOUT, f->explicit_layout,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR);
    LINK_IF(VKC_EXT_MAXIMAL_RECONVERGENCE, f->reconvergence,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR);
    LINK_IF(VKC_EXT_PIPELINE_EXECUTABLE, f->executable,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
#undef LINK_IF
    f->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->core.pNext = head;
    inst->vkGetPhysicalDeviceFeatures2(physical, &f->core);
    return VK_SUCCESS;
}

void vkc_keep_used(vkc_feature_chain *f, int robust) {
    VkPhysicalDeviceFeatures core = {.robustBufferAccess = robust && f->core.features.robustBufferAccess,
                                     .shaderInt16 = f->core.features.shaderInt16,
                                     .shaderInt64 = f->core.features.shaderInt64,
                                     .shaderFloat64 = f->core.features.shaderFloat64};
    f->core.features = core;

    f->storage16.storageInputOutput16 = VK_FALSE;
    f->address.bufferDeviceAddressCaptureReplay = f->address.bufferDeviceAddressMultiDevice = VK_FALSE;
    f->memory_model.vulkanMemoryModelAvailabilityVisibilityChains = VK_FALSE;
    f->robustness2.robustBufferAccess2 = robust && f->robustness2.robustBufferAccess2;
    f->robustness2.robustImageAccess2 = f->robustness2.nullDescriptor = VK_FALSE;
    f->matrix.cooperativeMatrixRobustBufferAccess = robust && f->matrix.cooperativeMatrixRobustBufferAccess;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics = {.sType = f->atomic_float.sType,
                                                            .pNext = f->atomic_float.pNext};
    atomics.shaderBufferFloat32Atomics = f->atomic_float.shaderBufferFloat32Atomics;
    atomics.shaderBufferFloat32AtomicAdd = f->atomic_float.shaderBufferFloat32AtomicAdd;
    atomics.shaderSharedFloat32Atomics = f->atomic_float.shaderSharedFloat32Atomics;
    atomics.shaderSharedFloat32AtomicAdd = f->atomic_float.shaderSharedFloat32AtomicAdd;
    f->atomic_float = atomics;
}

// Each row is a feature of shaders: its field in vkc_features, and its field in a structure of the chain.
#define SHADER_FEATURES(X) \
    X(float16, small.shaderFloat16) \
    X(int8, small.shaderInt8) \
    X(int16, core.features.shaderInt16) \
    X(int64, core.features.shaderInt64) \
    X(float64, core.features.shaderFloat64) \
    X(storage8, storage8.storageBuffer8BitAccess) \
    X(storage16, storage16.storageBuffer16BitAccess) \
    X(push_constant8, storage8.storagePushConstant8) \
    X(push_constant16, storage16.storagePushConstant16) \
    X(buffer_device_address, address.bufferDeviceAddress) \
    X(memory_model, memory_model.vulkanMemoryModel) \
    X(memory_model_device_scope, memory_model.vulkanMemoryModelDeviceScope) \
    X(scalar_block_layout, scalar.scalarBlockLayout) \
    X(subgroup_extended_types, subgroup_types.shaderSubgroupExtendedTypes) \
    X(subgroup_size_control, subgroup_size.subgroupSizeControl) \
    X(full_subgroups, subgroup_size.computeFullSubgroups) \
    X(integer_dot_product, dot.shaderIntegerDotProduct) \
    X(zero_init_workgroup, zero_init.shaderZeroInitializeWorkgroupMemory) \
    X(atomic_float32_add, atomic_float.shaderBufferFloat32AtomicAdd) \
    X(shared_atomic_float32_add, atomic_float.shaderSharedFloat32AtomicAdd) \
    X(bfloat16, bfloat16.shaderBFloat16Type) \
    X(bfloat16_matrix, bfloat16.shaderBFloat16CooperativeMatrix) \
    X(float8, float8.shaderFloat8) \
    X(float8_matrix, float8.shaderFloat8CooperativeMatrix) \
    X(cooperative_matrix, matrix.cooperativeMatrix) \
    X(workgroup_explicit_layout, explicit_layout.workgroupMemoryExplicitLayout) \
    X(maximal_reconvergence, reconvergence.shaderMaximalReconvergence)

// Each row is a feature of VK_NV_cooperative_matrix2. A device is opened with all of them that it supports, or with
// none.
#define MATRIX2_FEATURES(X) \
    X(cm2_workgroup_scope, matrix2.cooperativeMatrixWorkgroupScope) \
    X(cm2_flexible_dimensions, matrix2.cooperativeMatrixFlexibleDimensions) \
    X(cm2_reductions, matrix2.cooperativeMatrixReductions) \
    X(cm2_conversions, matrix2.cooperativeMatrixConversions) \
    X(cm2_per_element, matrix2.cooperativeMatrixPerElementOperations) \
    X(cm2_tensor_addressing, matrix2.cooperativeMatrixTensorAddressing) \
    X(cm2_block_loads, matrix2.cooperativeMatrixBlockLoads)

void vkc_keep_features(vkc_feature_chain *f, const vkc_features *use) {
#define KEEP(name, field) \
    if (!use->name) f->field = VK_FALSE;
#define KEEP_MATRIX2(name, field) \
    if (!use->cooperative_matrix2) f->field = VK_FALSE;
    SHADER_FEATURES(KEEP)
    MATRIX2_FEATURES(KEEP_MATRIX2)
#undef KEEP_MATRIX2
#undef KEEP
    // A feature that requires another one is disabled with it.
    if (!use->storage8) f->storage8.uniformAndStorageBuffer8BitAccess = VK_FALSE;
    if (!use->storage16) f->storage16.uniformAndStorageBuffer16BitAccess = VK_FALSE;
    if (!use->cooperative_matrix) f->matrix.cooperativeMatrixRobustBufferAccess = VK_FALSE;
    if (!f->memory_model.vulkanMemoryModel) f->memory_model.vulkanMemoryModelDeviceScope = VK_FALSE;
}

static void report_features(const vkc_feature_chain *f, uint32_t api, vkc_features *out) {
    uint32_t has = f->extensions;
#define REPORT(name, field) out->name = f->field;
    SHADER_FEATURES(REPORT)
    MATRIX2_FEATURES(REPORT)
#undef REPORT
    out->timeline_semaphore = f->timeline.timelineSemaphore;
    out->synchronization2 = f->sync2.synchronization2;
    out->maintenance4 = f->maintenance4.maintenance4;
    out->pipeline_executable_properties = f->executable.pipelineExecutableInfo;
    // Shaders with these matrices need SPIR-V 1.6, and so Vulkan 1.3.
    out->cooperative_matrix2 = f->matrix.cooperativeMatrix && VKC_HAS(has, VKC_EXT_COOPERATIVE_MATRIX2) &&
                               api >= VK_API_VERSION_1_3;
    out->push_descriptor = VKC_HAS(has, VKC_EXT_PUSH_DESCRIPTOR);
    out->memory_budget = VKC_HAS(has, VKC_EXT_MEMORY_BUDGET);
    out->calibrated_timestamps =
        VKC_HAS(has, VKC_EXT_CALIBRATED_TIMESTAMPS) || VKC_HAS(has, VKC_EXT_CALIBRATED_TIMESTAMPS_KHR);
    out->external_memory_host = VKC_HAS(has, VKC_EXT_EXTERNAL_MEMORY_HOST);
    out->portability_subset = VKC_HAS(has, VKC_EXT_PORTABILITY_SUBSET);
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void report_limits(const VkPhysicalDeviceProperties *p, vkc_probe *out) {
    const VkPhysicalDeviceLimits *l = &p->limits;
    memcpy(out->name, p->deviceName, sizeof out->name);
    memcpy(out->pipeline_cache_uuid, p->pipelineCacheUUID, 16);
    out->vendor_id = p->vendorID;
    out->device_id = p->deviceID;
    out->type = p->deviceType;
    out->driver_version = p->driverVersion;
    out->api_version = p->apiVersion;
    out->max_shared_memory = l->maxComputeSharedMemorySize;
    out->max_invocations = l->maxComputeWorkGroupInvocations;
    memcpy(out->max_workgroup_size, l->maxComputeWorkGroupSize, sizeof out->max_workgroup_size);
    memcpy(out->max_workgroup_count, l->maxComputeWorkGroupCount, sizeof out->max_workgroup_count);
    out->max_push_constants = l->maxPushConstantsSize;
    out->max_storage_buffers =
        min_u32(l->maxPerStageDescriptorStorageBuffers, l->maxDescriptorSetStorageBuffers);
    out->max_storage_range = l->maxStorageBufferRange;
    out->storage_alignment = l->minStorageBufferOffsetAlignment;
    out->timestamp_period = l->timestampPeriod;
}

static void report_properties(vkc_instance *inst, VkPhysicalDevice physical, uint32_t api, uint32_t extensions,
                              vkc_probe *out) {
    uint32_t has = extensions | vkc_promoted(api);
    VkPhysicalDeviceIDProperties id = {0};
    VkPhysicalDeviceSubgroupProperties subgroup = {0};
    VkPhysicalDeviceMaintenance3Properties sizes = {0};
    VkPhysicalDeviceDriverProperties driver = {0};
    VkPhysicalDeviceFloatControlsProperties floats = {0};
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes = {0};
    VkPhysicalDeviceMaintenance4Properties maintenance4 = {0};
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrix = {0};
    VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2 = {0};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {0};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {0};
    VkPhysicalDeviceShaderCorePropertiesAMD amd = {0};
    void *head = NULL;
    LINK(head, id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    LINK(head, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    LINK(head, sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_DRIVER_PROPERTIES))
        LINK(head, driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_FLOAT_CONTROLS))
        LINK(head, floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_SUBGROUP_SIZE_CONTROL))
        LINK(head, subgroup_sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_MAINTENANCE4))
        LINK(head, maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_COOPERATIVE_MATRIX))
        LINK(head, matrix, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
    if (VKC_HAS(has, VKC_EXT_COOPERATIVE_MATRIX2))
        LINK(head, matrix2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
    if (VKC_HAS(has, VKC_EXT_EXTERNAL_MEMORY_HOST))
        LINK(head, host, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
    if (VKC_HAS(has, VKC_EXT_SM_BUILTINS))
        LINK(head, sm, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    if (VKC_HAS(has, VKC_EXT_SHADER_CORE_AMD))
        LINK(head, amd, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = head};
    inst->vkGetPhysicalDeviceProperties2(physical, &p);

    report_limits(&p.properties, out);
    memcpy(out->driver_name, driver.driverName, sizeof out->driver_name);
    memcpy(out->driver_info, driver.driverInfo, sizeof out->driver_info);
    memcpy(out->device_uuid, id.deviceUUID, 16);
    memcpy(out->driver_uuid, id.driverUUID, 16);
    out->driver_id = driver.driverID;
    out->subgroup_size = subgroup.subgroupSize;
    out->min_subgroup_size = subgroup_sizes.minSubgroupSize ? subgroup_sizes.minSubgroupSize : subgroup.subgroupSize;
    out->max_subgroup_size = subgroup_sizes.maxSubgroupSize ? subgroup_sizes.maxSubgroupSize : subgroup.subgroupSize;
    out->subgroup_ops = subgroup.supportedOperations;
    out->subgroup_stages = subgroup.supportedStages;
    out->required_subgroup_size_stages = subgroup_sizes.requiredSubgroupSizeStages;
    out->max_allocation = sizes.maxMemoryAllocationSize;
    out->max_buffer = maintenance4.maxBufferSize ? maintenance4.maxBufferSize : sizes.maxMemoryAllocationSize;
    out->host_pointer_alignment = host.minImportedHostPointerAlignment;
    out->float_controls_f16 = (floats.shaderSignedZeroInfNanPreserveFloat16 ? 1 : 0) |
                              (floats.shaderDenormPreserveFloat16 ? 2 : 0);
    out->float_controls_f32 = (floats.shaderSignedZeroInfNanPreserveFloat32 ? 1 : 0) |
                              (floats.shaderDenormPreserveFloat32 ? 2 : 0);
    out->float_controls_f64 = floats.shaderSignedZeroInfNanPreserveFloat64 ? 1 : 0;
    out->cores = sm.shaderSMCount;
    out->subgroups_per_core = sm.shaderWarpsPerSM;
    if (amd.shaderEngineCount) {
        out->cores = amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
        out->subgroups_per_core = amd.simdPerComputeUnit * amd.wavefrontsPerSimd;
    }
    out->matrix_stages = matrix.cooperativeMatrixSupportedStages;
    out->cm2_max_workgroup = matrix2.cooperativeMatrixWorkgroupScopeMaxWorkgroupSize;
    out->cm2_max_dimension = matrix2.cooperativeMatrixFlexibleDimensionsMaxDimension;
    out->cm2_reserved_shared = matrix2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
}

static void report_memory(vkc_instance *inst, VkPhysicalDevice physical, vkc_probe *out) {
    VkPhysicalDeviceMemoryProperties2 m = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    inst->vkGetPhysicalDeviceMemoryProperties2(physical, &m);
    out->heap_count = m.memoryProperties.memoryHeapCount;
    out->type_count = m.memoryProperties.memoryTypeCount;
    for (uint32_t i = 0; i < out->heap_count; i++) {
        out->heap_size[i] = m.memoryProperties.memoryHeaps[i].size;
        out->heap_flags[i] = m.memoryProperties.memoryHeaps[i].flags;
    }
    for (uint32_t i = 0; i < out->type_count; i++) {
        out->type_heap[i] = m.memoryProperties.memoryTypes[i].heapIndex;
        out->type_flags[i] = m.memoryProperties.memoryTypes[i].propertyFlags;
    }
}

static void report_families(vkc_instance *inst, VkPhysicalDevice physical, vkc_probe *out) {
    VkQueueFamilyProperties families[32];
    out->family_count = 32;
    inst->vkGetPhysicalDeviceQueueFamilyProperties(physical, &out->family_count, families);
    for (uint32_t i = 0; i < out->family_count; i++) {
        out->family_flags[i] = families[i].queueFlags;
        out->family_queues[i] = families[i].queueCount;
        out->family_timestamp_bits[i] = families[i].timestampValidBits;
    }
}

static VkResult report_matrix_shapes(vkc_instance *inst, VkPhysicalDevice physical, vkc_probe *out) {
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR get = inst->vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR;
    if (!get || !out->features.cooperative_matrix) return VK_SUCCESS;
    uint32_t count = 0;
    VkResult r = get(physical, &count, NULL);
    if (r != VK_SUCCESS || count == 0) return r;
    VkCooperativeMatrixPropertiesKHR *all = calloc(count, sizeof *all);
    if (!all) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    r = get(physical, &count, all);
    if (r >= 0) out->matrix_count = min_u32(count, VKC_MAX_MATRIX);
    for (uint32_t i = 0; i < out->matrix_count; i++) {
        vkc_matrix m = {all[i].MSize,      all[i].NSize, all[i].KSize,
                        all[i].AType,      all[i].BType, all[i].CType,
                        all[i].ResultType, all[i].scope, all[i].saturatingAccumulation,
                        0};
        out->matrix[i] = m;
    }
    free(all);
    return r < 0 ? r : VK_SUCCESS;
}

static VkResult report_flexible_shapes(vkc_instance *inst, VkPhysicalDevice physical, vkc_probe *out) {
    PFN_vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV get =
        inst->vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV;
    if (!get || !out->features.cooperative_matrix2) return VK_SUCCESS;
    uint32_t count = 0;
    VkResult r = get(physical, &count, NULL);
    if (r != VK_SUCCESS || count == 0) return r;
    VkCooperativeMatrixFlexibleDimensionsPropertiesNV *all = calloc(count, sizeof *all);
    if (!all) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV;
    r = get(physical, &count, all);
    if (r >= 0) out->flexible_count = min_u32(count, VKC_MAX_MATRIX);
    for (uint32_t i = 0; i < out->flexible_count; i++) {
        vkc_matrix m = {all[i].MGranularity, all[i].NGranularity, all[i].KGranularity,
                        all[i].AType,        all[i].BType,        all[i].CType,
                        all[i].ResultType,   all[i].scope,        all[i].saturatingAccumulation,
                        all[i].workgroupInvocations};
        out->flexible[i] = m;
    }
    free(all);
    return r < 0 ? r : VK_SUCCESS;
}

int32_t vkc_probe_device(vkc_instance *inst, void *physical, vkc_probe *out) {
    memset(out, 0, sizeof *out);
    VkPhysicalDeviceProperties plain;
    inst->vkGetPhysicalDeviceProperties(physical, &plain);
    uint32_t api = plain.apiVersion < inst->api ? plain.apiVersion : inst->api;
    report_memory(inst, physical, out);
    report_families(inst, physical, out);
    if (api < VK_API_VERSION_1_1) { // no structures to ask; the caller turns it down
        report_limits(&plain, out);
        return VK_SUCCESS;
    }
    vkc_feature_chain f;
    VkResult r = vkc_query_features(inst, physical, api, &f);
    if (r != VK_SUCCESS) return r;
    report_features(&f, api, &out->features);
    report_properties(inst, physical, api, f.extensions, out);
    r = report_matrix_shapes(inst, physical, out);
    if (r == VK_SUCCESS) r = report_flexible_shapes(inst, physical, out);
    return r;
}

int vkc_memory_budget(vkc_device *dev, uint64_t budget[16], uint64_t usage[16]) {
    if (!dev->has_budget) return 0;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT b = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                           .pNext = &b};
    dev->inst->vkGetPhysicalDeviceMemoryProperties2(dev->physical, &m);
    for (int i = 0; i < 16; i++) {
        budget[i] = b.heapBudget[i];
        usage[i] = b.heapUsage[i];
    }
    return 1;
}
