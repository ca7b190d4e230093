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

// A row is a field of the parts, and the field of Vulkan 1.2's structures that it is.
#define PART_FIELDS(X) \
    X(storage16.storageBuffer16BitAccess, v11.storageBuffer16BitAccess) \
    X(storage16.uniformAndStorageBuffer16BitAccess, v11.uniformAndStorageBuffer16BitAccess) \
    X(storage16.storagePushConstant16, v11.storagePushConstant16) \
    X(pointers.variablePointersStorageBuffer, v11.variablePointersStorageBuffer) \
    X(pointers.variablePointers, v11.variablePointers) \
    X(storage8.storageBuffer8BitAccess, v12.storageBuffer8BitAccess) \
    X(storage8.uniformAndStorageBuffer8BitAccess, v12.uniformAndStorageBuffer8BitAccess) \
    X(storage8.storagePushConstant8, v12.storagePushConstant8) \
    X(small.shaderFloat16, v12.shaderFloat16) \
    X(small.shaderInt8, v12.shaderInt8) \
    X(scalar.scalarBlockLayout, v12.scalarBlockLayout) \
    X(subgroup_types.shaderSubgroupExtendedTypes, v12.shaderSubgroupExtendedTypes) \
    X(timeline.timelineSemaphore, v12.timelineSemaphore) \
    X(address.bufferDeviceAddress, v12.bufferDeviceAddress) \
    X(memory_model.vulkanMemoryModel, v12.vulkanMemoryModel) \
    X(memory_model.vulkanMemoryModelDeviceScope, v12.vulkanMemoryModelDeviceScope)

// link_parts puts the parts that a device has at the head of a chain, and returns the new head.
static void *link_parts(vkc_parts *p, uint32_t has, void *head) {
    LINK(head, p->storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    LINK(head, p->pointers, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES);
    if (VKC_HAS(has, VKC_EXT_8BIT_STORAGE))
        LINK(head, p->storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
    if (VKC_HAS(has, VKC_EXT_FLOAT16_INT8))
        LINK(head, p->small, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
    if (VKC_HAS(has, VKC_EXT_SCALAR_BLOCK_LAYOUT))
        LINK(head, p->scalar, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES);
    if (VKC_HAS(has, VKC_EXT_SUBGROUP_EXTENDED_TYPES))
        LINK(head, p->subgroup_types, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES);
    if (VKC_HAS(has, VKC_EXT_TIMELINE_SEMAPHORE))
        LINK(head, p->timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
    if (VKC_HAS(has, VKC_EXT_BUFFER_DEVICE_ADDRESS))
        LINK(head, p->address, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
    if (VKC_HAS(has, VKC_EXT_MEMORY_MODEL))
        LINK(head, p->memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
    return head;
}

VkResult vkc_query_features(vkc_instance *inst, VkPhysicalDevice physical, uint32_t api, vkc_feature_chain *f) {
    memset(f, 0, sizeof *f);
    VkResult r = device_extensions(inst, physical, &f->extensions);
    if (r != VK_SUCCESS) return r;
    uint32_t has = f->extensions | vkc_promoted(api);
    int gathered = api >= VK_API_VERSION_1_2;
    void *head = NULL;
    if (gathered) {
        LINK(head, f->v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
        LINK(head, f->v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    } else {
        head = link_parts(&f->parts, has, head);
    }
#define LINK_IF(bit, structure, type) \
    if (VKC_HAS(has, bit)) LINK(head, structure, type)
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
    if (!gathered) {
#define GATHER(part, field) f->field = f->parts.part;
        PART_FIELDS(GATHER)
#undef GATHER
    }
    return VK_SUCCESS;
}

// keep_parts clears the parts of what v11 and v12 no longer have, and all that those do not tell.
static void keep_parts(vkc_feature_chain *f) {
    f->parts.storage16.storageInputOutput16 = VK_FALSE;
    f->parts.address.bufferDeviceAddressCaptureReplay = f->parts.address.bufferDeviceAddressMultiDevice = VK_FALSE;
    f->parts.memory_model.vulkanMemoryModelAvailabilityVisibilityChains = VK_FALSE;
#define KEEP(part, field) f->parts.part = f->field;
    PART_FIELDS(KEEP)
#undef KEEP
}

void vkc_keep_used(vkc_feature_chain *f, int robust) {
    VkPhysicalDeviceFeatures core = {.robustBufferAccess = robust && f->core.features.robustBufferAccess,
                                     .shaderInt16 = f->core.features.shaderInt16,
                                     .shaderInt64 = f->core.features.shaderInt64,
                                     .shaderFloat64 = f->core.features.shaderFloat64};
    f->core.features = core;

    VkPhysicalDeviceVulkan11Features v11 = {.sType = f->v11.sType, .pNext = f->v11.pNext};
    v11.storageBuffer16BitAccess = f->v11.storageBuffer16BitAccess;
    v11.uniformAndStorageBuffer16BitAccess = f->v11.uniformAndStorageBuffer16BitAccess;
    v11.storagePushConstant16 = f->v11.storagePushConstant16;
    v11.variablePointers = f->v11.variablePointers;
    v11.variablePointersStorageBuffer = f->v11.variablePointersStorageBuffer;
    f->v11 = v11;

    VkPhysicalDeviceVulkan12Features v12 = {.sType = f->v12.sType, .pNext = f->v12.pNext};
    v12.storageBuffer8BitAccess = f->v12.storageBuffer8BitAccess;
    v12.uniformAndStorageBuffer8BitAccess = f->v12.uniformAndStorageBuffer8BitAccess;
    v12.storagePushConstant8 = f->v12.storagePushConstant8;
    v12.shaderFloat16 = f->v12.shaderFloat16;
    v12.shaderInt8 = f->v12.shaderInt8;
    v12.scalarBlockLayout = f->v12.scalarBlockLayout;
    v12.shaderSubgroupExtendedTypes = f->v12.shaderSubgroupExtendedTypes;
    v12.timelineSemaphore = f->v12.timelineSemaphore;
    v12.bufferDeviceAddress = f->v12.bufferDeviceAddress;
    v12.vulkanMemoryModel = f->v12.vulkanMemoryModel;
    v12.vulkanMemoryModelDeviceScope = f->v12.vulkanMemoryModelDeviceScope;
    f->v12 = v12;

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

void vkc_keep_features(vkc_feature_chain *f, const vkc_features *use) {
    if (!use->float64) f->core.features.shaderFloat64 = VK_FALSE;
    if (!use->int16) f->core.features.shaderInt16 = VK_FALSE;
    if (!use->int64) f->core.features.shaderInt64 = VK_FALSE;
    if (!use->float16) f->v12.shaderFloat16 = VK_FALSE;
    if (!use->int8) f->v12.shaderInt8 = VK_FALSE;
    if (!use->storage8) f->v12.storageBuffer8BitAccess = VK_FALSE;
    if (!use->storage8) f->v12.uniformAndStorageBuffer8BitAccess = VK_FALSE;
    if (!use->storage16) f->v11.storageBuffer16BitAccess = VK_FALSE;
    if (!use->storage16) f->v11.uniformAndStorageBuffer16BitAccess = VK_FALSE;
    if (!use->push_constant8) f->v12.storagePushConstant8 = VK_FALSE;
    if (!use->push_constant16) f->v11.storagePushConstant16 = VK_FALSE;
    if (!use->buffer_device_address) f->v12.bufferDeviceAddress = VK_FALSE;
    if (!use->scalar_block_layout) f->v12.scalarBlockLayout = VK_FALSE;
    if (!use->memory_model) f->v12.vulkanMemoryModel = VK_FALSE;
    if (!use->memory_model_device_scope) f->v12.vulkanMemoryModelDeviceScope = VK_FALSE;
    if (!use->subgroup_extended_types) f->v12.shaderSubgroupExtendedTypes = VK_FALSE;
    if (!use->integer_dot_product) f->dot.shaderIntegerDotProduct = VK_FALSE;
    if (!use->atomic_float32_add) f->atomic_float.shaderBufferFloat32AtomicAdd = VK_FALSE;
    if (!use->shared_atomic_float32_add) f->atomic_float.shaderSharedFloat32AtomicAdd = VK_FALSE;
    if (!use->subgroup_size_control) f->subgroup_size.subgroupSizeControl = VK_FALSE;
    if (!use->full_subgroups) f->subgroup_size.computeFullSubgroups = VK_FALSE;
    if (!use->maximal_reconvergence) f->reconvergence.shaderMaximalReconvergence = VK_FALSE;
    if (!use->workgroup_explicit_layout) f->explicit_layout.workgroupMemoryExplicitLayout = VK_FALSE;
    if (!use->zero_init_workgroup) f->zero_init.shaderZeroInitializeWorkgroupMemory = VK_FALSE;
    if (!use->bfloat16) f->bfloat16.shaderBFloat16Type = VK_FALSE;
    if (!use->bfloat16_matrix) f->bfloat16.shaderBFloat16CooperativeMatrix = VK_FALSE;
    if (!use->float8) f->float8.shaderFloat8 = VK_FALSE;
    if (!use->float8_matrix) f->float8.shaderFloat8CooperativeMatrix = VK_FALSE;
    if (!use->cooperative_matrix) f->matrix.cooperativeMatrix = VK_FALSE;
    if (!use->cooperative_matrix) f->matrix.cooperativeMatrixRobustBufferAccess = VK_FALSE;
    if (!use->cooperative_matrix2) {
        f->matrix2.cooperativeMatrixWorkgroupScope = VK_FALSE;
        f->matrix2.cooperativeMatrixFlexibleDimensions = VK_FALSE;
        f->matrix2.cooperativeMatrixReductions = VK_FALSE;
        f->matrix2.cooperativeMatrixConversions = VK_FALSE;
        f->matrix2.cooperativeMatrixPerElementOperations = VK_FALSE;
        f->matrix2.cooperativeMatrixTensorAddressing = VK_FALSE;
        f->matrix2.cooperativeMatrixBlockLoads = VK_FALSE;
    }
    // What needs another one goes with it.
    if (!f->v12.vulkanMemoryModel) f->v12.vulkanMemoryModelDeviceScope = VK_FALSE;
    keep_parts(f);
}

static void report_features(const vkc_feature_chain *f, uint32_t api, vkc_features *out) {
    uint32_t has = f->extensions;
    out->float16 = f->v12.shaderFloat16;
    out->int8 = f->v12.shaderInt8;
    out->int16 = f->core.features.shaderInt16;
    out->int64 = f->core.features.shaderInt64;
    out->float64 = f->core.features.shaderFloat64;
    out->storage8 = f->v12.storageBuffer8BitAccess;
    out->storage16 = f->v11.storageBuffer16BitAccess;
    out->push_constant8 = f->v12.storagePushConstant8;
    out->push_constant16 = f->v11.storagePushConstant16;
    out->buffer_device_address = f->v12.bufferDeviceAddress;
    out->timeline_semaphore = f->v12.timelineSemaphore;
    out->memory_model = f->v12.vulkanMemoryModel;
    out->memory_model_device_scope = f->v12.vulkanMemoryModelDeviceScope;
    out->scalar_block_layout = f->v12.scalarBlockLayout;
    out->subgroup_extended_types = f->v12.shaderSubgroupExtendedTypes;
    out->subgroup_size_control = f->subgroup_size.subgroupSizeControl;
    out->full_subgroups = f->subgroup_size.computeFullSubgroups;
    out->integer_dot_product = f->dot.shaderIntegerDotProduct;
    out->synchronization2 = f->sync2.synchronization2;
    out->maintenance4 = f->maintenance4.maintenance4;
    out->zero_init_workgroup = f->zero_init.shaderZeroInitializeWorkgroupMemory;
    out->atomic_float32_add = f->atomic_float.shaderBufferFloat32AtomicAdd;
    out->shared_atomic_float32_add = f->atomic_float.shaderSharedFloat32AtomicAdd;
    out->bfloat16 = f->bfloat16.shaderBFloat16Type;
    out->bfloat16_matrix = f->bfloat16.shaderBFloat16CooperativeMatrix;
    out->float8 = f->float8.shaderFloat8;
    out->float8_matrix = f->float8.shaderFloat8CooperativeMatrix;
    out->cooperative_matrix = f->matrix.cooperativeMatrix;
    out->cm2_workgroup_scope = f->matrix2.cooperativeMatrixWorkgroupScope;
    out->cm2_flexible_dimensions = f->matrix2.cooperativeMatrixFlexibleDimensions;
    out->cm2_reductions = f->matrix2.cooperativeMatrixReductions;
    out->cm2_conversions = f->matrix2.cooperativeMatrixConversions;
    out->cm2_per_element = f->matrix2.cooperativeMatrixPerElementOperations;
    out->cm2_tensor_addressing = f->matrix2.cooperativeMatrixTensorAddressing;
    out->cm2_block_loads = f->matrix2.cooperativeMatrixBlockLoads;
    // Its shaders are of SPIR-V 1.6.
    out->cooperative_matrix2 = f->matrix.cooperativeMatrix && VKC_HAS(has, VKC_EXT_COOPERATIVE_MATRIX2) &&
                               api >= VK_API_VERSION_1_3;
    out->workgroup_explicit_layout = f->explicit_layout.workgroupMemoryExplicitLayout;
    out->maximal_reconvergence = f->reconvergence.shaderMaximalReconvergence;
    out->push_descriptor = VKC_HAS(has, VKC_EXT_PUSH_DESCRIPTOR);
    out->pipeline_executable_properties = f->executable.pipelineExecutableInfo;
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

// query_property_parts fills the properties in use of Vulkan 1.2's structures for a device of 1.1.
static void query_property_parts(vkc_instance *inst, VkPhysicalDevice physical, uint32_t has,
                                 VkPhysicalDeviceVulkan11Properties *v11, VkPhysicalDeviceVulkan12Properties *v12) {
    VkPhysicalDeviceIDProperties id = {0};
    VkPhysicalDeviceSubgroupProperties subgroup = {0};
    VkPhysicalDeviceMaintenance3Properties sizes = {0};
    VkPhysicalDeviceDriverProperties driver = {0};
    VkPhysicalDeviceFloatControlsProperties floats = {0};
    void *head = NULL;
    LINK(head, id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    LINK(head, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    LINK(head, sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_DRIVER_PROPERTIES))
        LINK(head, driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    if (VKC_HAS(has, VKC_EXT_FLOAT_CONTROLS))
        LINK(head, floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = head};
    inst->vkGetPhysicalDeviceProperties2(physical, &p);
    memcpy(v11->deviceUUID, id.deviceUUID, sizeof v11->deviceUUID);
    memcpy(v11->driverUUID, id.driverUUID, sizeof v11->driverUUID);
    v11->subgroupSize = subgroup.subgroupSize;
    v11->subgroupSupportedStages = subgroup.supportedStages;
    v11->subgroupSupportedOperations = subgroup.supportedOperations;
    v11->maxMemoryAllocationSize = sizes.maxMemoryAllocationSize;
    v12->driverID = driver.driverID;
    memcpy(v12->driverName, driver.driverName, sizeof v12->driverName);
    memcpy(v12->driverInfo, driver.driverInfo, sizeof v12->driverInfo);
    v12->shaderSignedZeroInfNanPreserveFloat16 = floats.shaderSignedZeroInfNanPreserveFloat16;
    v12->shaderSignedZeroInfNanPreserveFloat32 = floats.shaderSignedZeroInfNanPreserveFloat32;
    v12->shaderSignedZeroInfNanPreserveFloat64 = floats.shaderSignedZeroInfNanPreserveFloat64;
    v12->shaderDenormPreserveFloat16 = floats.shaderDenormPreserveFloat16;
    v12->shaderDenormPreserveFloat32 = floats.shaderDenormPreserveFloat32;
}

static void report_properties(vkc_instance *inst, VkPhysicalDevice physical, uint32_t api, uint32_t extensions,
                              vkc_probe *out) {
    uint32_t has = extensions | vkc_promoted(api);
    VkPhysicalDeviceVulkan11Properties v11 = {0};
    VkPhysicalDeviceVulkan12Properties v12 = {0};
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup = {0};
    VkPhysicalDeviceMaintenance4Properties maintenance4 = {0};
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrix = {0};
    VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2 = {0};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {0};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {0};
    VkPhysicalDeviceShaderCorePropertiesAMD amd = {0};
    void *head = NULL;
    if (api >= VK_API_VERSION_1_2) {
        LINK(head, v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
        LINK(head, v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    } else {
        query_property_parts(inst, physical, has, &v11, &v12);
    }
    if (VKC_HAS(has, VKC_EXT_SUBGROUP_SIZE_CONTROL))
        LINK(head, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
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
    memcpy(out->driver_name, v12.driverName, sizeof out->driver_name);
    memcpy(out->driver_info, v12.driverInfo, sizeof out->driver_info);
    memcpy(out->device_uuid, v11.deviceUUID, 16);
    memcpy(out->driver_uuid, v11.driverUUID, 16);
    out->driver_id = v12.driverID;
    out->subgroup_size = v11.subgroupSize;
    out->min_subgroup_size = subgroup.minSubgroupSize ? subgroup.minSubgroupSize : v11.subgroupSize;
    out->max_subgroup_size = subgroup.maxSubgroupSize ? subgroup.maxSubgroupSize : v11.subgroupSize;
    out->subgroup_ops = v11.subgroupSupportedOperations;
    out->subgroup_stages = v11.subgroupSupportedStages;
    out->required_subgroup_size_stages = subgroup.requiredSubgroupSizeStages;
    out->max_allocation = v11.maxMemoryAllocationSize;
    out->max_buffer = maintenance4.maxBufferSize ? maintenance4.maxBufferSize : v11.maxMemoryAllocationSize;
    out->host_pointer_alignment = host.minImportedHostPointerAlignment;
    out->float_controls_f16 = (v12.shaderSignedZeroInfNanPreserveFloat16 ? 1 : 0) | (v12.shaderDenormPreserveFloat16 ? 2 : 0);
    out->float_controls_f32 = (v12.shaderSignedZeroInfNanPreserveFloat32 ? 1 : 0) | (v12.shaderDenormPreserveFloat32 ? 2 : 0);
    out->float_controls_f64 = v12.shaderSignedZeroInfNanPreserveFloat64 ? 1 : 0;
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
