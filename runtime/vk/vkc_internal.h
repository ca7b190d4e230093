// Declarations that the files of the C layer share.

#ifndef VKC_INTERNAL_H
#define VKC_INTERNAL_H

#include "vkc.h"
#include "vulkan_min.h"

// Vulkan's name of the clock that vkc_host_clock reads.
#if defined(_WIN32)
#define VKC_HOST_TIME_DOMAIN VK_TIME_DOMAIN_QUERY_PERFORMANCE_COUNTER_KHR
#else
#define VKC_HOST_TIME_DOMAIN VK_TIME_DOMAIN_CLOCK_MONOTONIC_KHR
#endif

#define VKC_INSTANCE_FUNCTIONS(X) \
    X(vkDestroyInstance) \
    X(vkEnumerateDeviceExtensionProperties) \
    X(vkGetPhysicalDeviceProperties) \
    X(vkGetPhysicalDeviceProperties2) \
    X(vkGetPhysicalDeviceFeatures2) \
    X(vkGetPhysicalDeviceMemoryProperties2) \
    X(vkGetPhysicalDeviceQueueFamilyProperties) \
    X(vkCreateDevice) \
    X(vkGetDeviceProcAddr)

// These functions are NULL if the instance or its driver lacks the extension.
#define VKC_OPTIONAL_INSTANCE_FUNCTIONS(X) \
    X(vkGetPhysicalDeviceCalibrateableTimeDomainsKHR) \
    X(vkGetPhysicalDeviceCalibrateableTimeDomainsEXT) \
    X(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR) \
    X(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV) \
    X(vkCreateDebugUtilsMessengerEXT) \
    X(vkDestroyDebugUtilsMessengerEXT) \
    X(vkSetDebugUtilsObjectNameEXT)

#define VKC_DEVICE_FUNCTIONS(X) \
    X(vkGetDeviceQueue) \
    X(vkDeviceWaitIdle) \
    X(vkCreateBuffer) \
    X(vkGetBufferMemoryRequirements2) \
    X(vkAllocateMemory) \
    X(vkFreeMemory) \
    X(vkMapMemory) \
    X(vkBindBufferMemory) \
    X(vkCreateDescriptorSetLayout) \
    X(vkCreatePipelineLayout) \
    X(vkCreatePipelineCache) \
    X(vkGetPipelineCacheData) \
    X(vkCreateShaderModule) \
    X(vkDestroyShaderModule) \
    X(vkCreateComputePipelines) \
    X(vkCreateDescriptorPool) \
    X(vkDestroyDescriptorPool) \
    X(vkAllocateDescriptorSets) \
    X(vkUpdateDescriptorSets) \
    X(vkCreateQueryPool) \
    X(vkGetQueryPoolResults) \
    X(vkCreateCommandPool) \
    X(vkDestroyCommandPool) \
    X(vkAllocateCommandBuffers) \
    X(vkResetCommandPool) \
    X(vkBeginCommandBuffer) \
    X(vkEndCommandBuffer) \
    X(vkCmdBindPipeline) \
    X(vkCmdBindDescriptorSets) \
    X(vkCmdDispatch) \
    X(vkCmdDispatchIndirect) \
    X(vkCmdPipelineBarrier) \
    X(vkCmdCopyBuffer) \
    X(vkCmdFillBuffer) \
    X(vkCmdWriteTimestamp) \
    X(vkCmdResetQueryPool) \
    X(vkQueueSubmit) \
    X(vkCreateSemaphore) \
    X(vkDestroySemaphore) \
    X(vkDestroyDevice)

// Functions of Vulkan 1.2. For a device of 1.1, the names with KHR of the extension are loaded.
#define VKC_DEVICE_FUNCTIONS_1_2(X) \
    X(vkGetBufferDeviceAddress) \
    X(vkWaitSemaphores) \
    X(vkGetSemaphoreCounterValue)

// These functions are NULL if the device lacks the extension.
#define VKC_OPTIONAL_DEVICE_FUNCTIONS(X) \
    X(vkGetPipelineExecutablePropertiesKHR) \
    X(vkGetPipelineExecutableStatisticsKHR) \
    X(vkGetPipelineExecutableInternalRepresentationsKHR) \
    X(vkGetMemoryHostPointerPropertiesEXT) \
    X(vkGetMemoryFdKHR)

#define VKC_DECLARE(name) PFN_##name name;

struct vkc_instance {
    VkInstance handle;
    uint32_t api;
    VkDebugUtilsMessengerEXT messenger;
    VKC_INSTANCE_FUNCTIONS(VKC_DECLARE)
    VKC_OPTIONAL_INSTANCE_FUNCTIONS(VKC_DECLARE)
};

struct vkc_device {
    vkc_instance *inst;
    VkPhysicalDevice physical;
    VkDevice handle;
    VkQueue queues[VKC_QUEUES];
    uint32_t families[VKC_QUEUES];
    VkSemaphore timelines[VKC_QUEUES];
    int has_address, has_budget, robust;
    PFN_vkGetCalibratedTimestampsKHR calibrate; // NULL if the device cannot read both clocks
    VKC_DEVICE_FUNCTIONS(VKC_DECLARE)
    VKC_DEVICE_FUNCTIONS_1_2(VKC_DECLARE)
    VKC_OPTIONAL_DEVICE_FUNCTIONS(VKC_DECLARE)
};

// Bits of the extensions that this package uses.
enum {
    VKC_EXT_SUBGROUP_SIZE_CONTROL,
    VKC_EXT_INTEGER_DOT_PRODUCT,
    VKC_EXT_SYNCHRONIZATION2,
    VKC_EXT_MAINTENANCE4,
    VKC_EXT_ZERO_INIT_WORKGROUP,
    VKC_EXT_8BIT_STORAGE,
    VKC_EXT_FLOAT16_INT8,
    VKC_EXT_SCALAR_BLOCK_LAYOUT,
    VKC_EXT_SUBGROUP_EXTENDED_TYPES,
    VKC_EXT_TIMELINE_SEMAPHORE,
    VKC_EXT_BUFFER_DEVICE_ADDRESS,
    VKC_EXT_MEMORY_MODEL,
    VKC_EXT_DRIVER_PROPERTIES,
    VKC_EXT_FLOAT_CONTROLS,
    VKC_EXT_ATOMIC_FLOAT,
    VKC_EXT_BFLOAT16,
    VKC_EXT_FLOAT8,
    VKC_EXT_COOPERATIVE_MATRIX,
    VKC_EXT_COOPERATIVE_MATRIX2,
    VKC_EXT_WORKGROUP_EXPLICIT_LAYOUT,
    VKC_EXT_MAXIMAL_RECONVERGENCE,
    VKC_EXT_PUSH_DESCRIPTOR,
    VKC_EXT_PIPELINE_EXECUTABLE,
    VKC_EXT_MEMORY_BUDGET,
    VKC_EXT_CALIBRATED_TIMESTAMPS,
    VKC_EXT_CALIBRATED_TIMESTAMPS_KHR,
    VKC_EXT_EXTERNAL_MEMORY_HOST,
    VKC_EXT_EXTERNAL_MEMORY_FD,
    VKC_EXT_SM_BUILTINS,
    VKC_EXT_SHADER_CORE_AMD,
    VKC_EXT_PORTABILITY_SUBSET,
    VKC_EXT_ROBUSTNESS2,
    VKC_EXT_COUNT
};

// vkc_feature_chain has all feature structures in use. Those that the device knows are linked. It has none of the
// structures with all features of Vulkan 1.1 or 1.2, because a device of Vulkan 1.1 does not know them.
typedef struct vkc_feature_chain {
    uint32_t extensions; // bit set over VKC_EXT_*
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDeviceVariablePointersFeatures pointers;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features small;
    VkPhysicalDeviceScalarBlockLayoutFeatures scalar;
    VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures subgroup_types;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;
    VkPhysicalDeviceBufferDeviceAddressFeatures address;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
    VkPhysicalDeviceSynchronization2Features sync2;
    VkPhysicalDeviceMaintenance4Features maintenance4;
    VkPhysicalDeviceZeroInitializeWorkgroupMemoryFeatures zero_init;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float;
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16;
    VkPhysicalDeviceShaderFloat8FeaturesEXT float8;
    VkPhysicalDeviceRobustness2FeaturesEXT robustness2;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2;
    VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR explicit_layout;
    VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR reconvergence;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable;
} vkc_feature_chain;

#define VKC_HAS(set, bit) (((set) >> (bit)) & 1u)

// vkc_extension_name returns the name of a VKC_EXT_* bit.
const char *vkc_extension_name(int bit);
// vkc_promoted returns the set of extensions that are part of a Vulkan version.
uint32_t vkc_promoted(uint32_t api);
// vkc_query_features links the chain and fills it with the features that the device supports.
VkResult vkc_query_features(vkc_instance *inst, VkPhysicalDevice physical, uint32_t api, vkc_feature_chain *f);
// vkc_keep_used clears all features that this package never uses, because an enabled feature may cost time. It keeps
// robustBufferAccess, which checks every access, for robust devices only.
void vkc_keep_used(vkc_feature_chain *f, int robust);
// vkc_keep_features clears the features of shaders that are not in use.
void vkc_keep_features(vkc_feature_chain *f, const vkc_features *use);
// vkc_host_nanoseconds converts a reading of VKC_HOST_TIME_DOMAIN.
uint64_t vkc_host_nanoseconds(uint64_t ticks);
// vkc_loader_lookup is vkGetInstanceProcAddr.
PFN_vkVoidFunction vkc_loader_lookup(VkInstance instance, const char *name);

#define VKC_HANDLE(type, value) ((type)(uintptr_t)(value))
#define VKC_NUMBER(handle) ((uint64_t)(uintptr_t)(handle))

#endif
