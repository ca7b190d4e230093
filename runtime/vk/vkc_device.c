// Logical device, memory, layouts, pipelines, descriptor sets and query pools.

#include "vkc_internal.h"

#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <malloc.h>
#endif

static int load_device_functions(vkc_device *dev, uint32_t api) {
    int complete = 1;
#define REQUIRE(name) \
    dev->name = (PFN_##name)dev->inst->vkGetDeviceProcAddr(dev->handle, #name); \
    if (!dev->name) complete = 0;
    VKC_DEVICE_FUNCTIONS(REQUIRE)
#undef REQUIRE
#define LOAD(name) dev->name = (PFN_##name)dev->inst->vkGetDeviceProcAddr(dev->handle, #name);
    VKC_OPTIONAL_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD_1_2(name) \
    dev->name = (PFN_##name)dev->inst->vkGetDeviceProcAddr(dev->handle, \
                                                           api >= VK_API_VERSION_1_2 ? #name : #name "KHR");
    VKC_DEVICE_FUNCTIONS_1_2(LOAD_1_2)
#undef LOAD_1_2
    if (!dev->vkWaitSemaphores || !dev->vkGetSemaphoreCounterValue) complete = 0;
    if (!dev->vkGetBufferDeviceAddress && dev->has_address) complete = 0;
    return complete;
}

static void destroy_timelines(vkc_device *dev) {
    for (int i = 0; i < VKC_QUEUES; i++) dev->vkDestroySemaphore(dev->handle, dev->timelines[i], NULL);
}

static VkResult create_timelines(vkc_device *dev) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult r = VK_SUCCESS;
    for (int i = 0; i < VKC_QUEUES && r == VK_SUCCESS; i++)
        r = dev->vkCreateSemaphore(dev->handle, &info, NULL, &dev->timelines[i]);
    return r;
}

// enabled_extensions lists the extensions in use that the device advertises. It leaves out extensions that are part of
// the Vulkan version: a device accepts their structures without them.
static uint32_t enabled_extensions(uint32_t advertised, uint32_t api, const char *names[VKC_EXT_COUNT]) {
    uint32_t count = 0, core = vkc_promoted(api);
    for (int bit = 0; bit < VKC_EXT_COUNT; bit++) {
        // The probe only queries properties of these extensions, for which a device need not enable them.
        int query_only = bit == VKC_EXT_SM_BUILTINS || bit == VKC_EXT_SHADER_CORE_AMD ||
                         bit == VKC_EXT_PUSH_DESCRIPTOR;
        if (VKC_HAS(advertised & ~core, bit) && !query_only) names[count++] = vkc_extension_name(bit);
    }
    return count;
}

// find_calibration sets dev->calibrate to the function that reads the device's clock and the host's monotonic clock
// together, if the device has it.
static void find_calibration(vkc_device *dev, uint32_t extensions) {
    PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsKHR list = NULL;
    const char *name = NULL;
    if (VKC_HAS(extensions, VKC_EXT_CALIBRATED_TIMESTAMPS_KHR)) {
        list = dev->inst->vkGetPhysicalDeviceCalibrateableTimeDomainsKHR;
        name = "vkGetCalibratedTimestampsKHR";
    } else if (VKC_HAS(extensions, VKC_EXT_CALIBRATED_TIMESTAMPS)) {
        list = dev->inst->vkGetPhysicalDeviceCalibrateableTimeDomainsEXT;
        name = "vkGetCalibratedTimestampsEXT";
    }
    VkTimeDomainKHR domains[16];
    uint32_t count = 16;
    if (!list || list(dev->physical, &count, domains) < 0) return;
    int device = 0, host = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (domains[i] == VK_TIME_DOMAIN_DEVICE_KHR) device = 1;
        if (domains[i] == VKC_HOST_TIME_DOMAIN) host = 1;
    }
    if (device && host)
        dev->calibrate = (PFN_vkGetCalibratedTimestampsKHR)dev->inst->vkGetDeviceProcAddr(dev->handle, name);
}

int32_t vkc_calibrate(vkc_device *dev, uint64_t out[3]) {
    if (!dev->calibrate) return VK_ERROR_FEATURE_NOT_PRESENT;
    VkCalibratedTimestampInfoKHR clocks[2] = {
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_KHR, .timeDomain = VK_TIME_DOMAIN_DEVICE_KHR},
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_KHR, .timeDomain = VKC_HOST_TIME_DOMAIN}};
    VkResult r = dev->calibrate(dev->handle, 2, clocks, out, &out[2]);
    if (r == VK_SUCCESS) out[1] = vkc_host_nanoseconds(out[1]);
    return r;
}

int32_t vkc_device_create(vkc_instance *inst, void *physical, const uint32_t families[VKC_QUEUES], int robust,
                          const vkc_features *use, vkc_device **out) {
    VkPhysicalDeviceProperties properties;
    inst->vkGetPhysicalDeviceProperties(physical, &properties);
    uint32_t api = properties.apiVersion < inst->api ? properties.apiVersion : inst->api;
    if (api < VK_API_VERSION_1_1) return VK_ERROR_INCOMPATIBLE_DRIVER;

    vkc_feature_chain f;
    VkResult r = vkc_query_features(inst, physical, api, &f);
    if (r != VK_SUCCESS) return r;
    vkc_keep_used(&f, robust);
    vkc_keep_features(&f, use);
    if (robust && !f.core.features.robustBufferAccess) return VK_ERROR_FEATURE_NOT_PRESENT;
    if (!f.timeline.timelineSemaphore) return VK_ERROR_FEATURE_NOT_PRESENT;

    const char *names[VKC_EXT_COUNT];
    float priority = 1;
    VkDeviceQueueCreateInfo queues[VKC_QUEUES];
    for (int i = 0; i < VKC_QUEUES; i++)
        queues[i] = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                              .queueFamilyIndex = families[i],
                                              .queueCount = 1,
                                              .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &f.core,
                               .queueCreateInfoCount = families[VKC_COPIES] == families[VKC_KERNELS] ? 1 : VKC_QUEUES,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = enabled_extensions(f.extensions, api, names),
                               .ppEnabledExtensionNames = names};
    vkc_device *dev = calloc(1, sizeof *dev);
    if (!dev) return VK_ERROR_OUT_OF_HOST_MEMORY;
    dev->inst = inst;
    dev->physical = physical;
    memcpy(dev->families, families, sizeof dev->families);
    dev->has_address = f.address.bufferDeviceAddress;
    dev->robust = f.robustness2.robustBufferAccess2 ? 2 : f.core.features.robustBufferAccess ? 1 : 0;
    dev->has_budget = VKC_HAS(f.extensions, VKC_EXT_MEMORY_BUDGET);
    r = inst->vkCreateDevice(physical, &info, NULL, &dev->handle);
    if (r != VK_SUCCESS) {
        free(dev);
        return r;
    }
    r = load_device_functions(dev, api) ? create_timelines(dev) : VK_ERROR_INITIALIZATION_FAILED;
    if (r != VK_SUCCESS) {
        if (dev->vkDestroySemaphore) destroy_timelines(dev);
        if (dev->vkDestroyDevice) dev->vkDestroyDevice(dev->handle, NULL);
        free(dev);
        return r;
    }
    for (int i = 0; i < VKC_QUEUES; i++) dev->vkGetDeviceQueue(dev->handle, families[i], 0, &dev->queues[i]);
    find_calibration(dev, f.extensions);
    *out = dev;
    return VK_SUCCESS;
}

int vkc_device_robust(vkc_device *dev) { return dev->robust; }

void *vkc_device_handle(vkc_device *dev) { return dev->handle; }

void vkc_device_free(vkc_device *dev) {
    destroy_timelines(dev);
    dev->vkDestroyDevice(dev->handle, NULL);
    free(dev);
}

int32_t vkc_wait_idle(vkc_device *dev) { return dev->vkDeviceWaitIdle(dev->handle); }

void vkc_set_name(vkc_device *dev, uint32_t type, uint64_t handle, const char *name) {
    if (!dev->inst->vkSetDebugUtilsObjectNameEXT) return;
    VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                          .objectType = type,
                                          .objectHandle = handle,
                                          .pObjectName = name};
    dev->inst->vkSetDebugUtilsObjectNameEXT(dev->handle, &info);
}

// Buffers and memory.

static VkResult create_buffer(vkc_device *dev, uint64_t size, const void *next, VkBuffer *out) {
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .pNext = next,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT,
                               .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    if (dev->families[VKC_COPIES] != dev->families[VKC_KERNELS]) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = VKC_QUEUES;
        info.pQueueFamilyIndices = dev->families;
    }
    if (dev->has_address) info.usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    return dev->vkCreateBuffer(dev->handle, &info, NULL, out);
}

// buffer_requirements writes the requirements for a buffer's memory, and whether the driver prefers an allocation for
// this buffer alone.
static VkMemoryRequirements buffer_requirements(vkc_device *dev, VkBuffer buffer, uint32_t *dedicated) {
    VkBufferMemoryRequirementsInfo2 ask = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
                                           .buffer = buffer};
    VkMemoryDedicatedRequirements alone = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 answer = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, .pNext = &alone};
    dev->vkGetBufferMemoryRequirements2(dev->handle, &ask, &answer);
    if (dedicated) *dedicated = alone.prefersDedicatedAllocation || alone.requiresDedicatedAllocation;
    return answer.memoryRequirements;
}

int32_t vkc_buffer_create(vkc_device *dev, uint64_t size, uint64_t *out, vkc_requirements *req) {
    VkBuffer buffer;
    VkResult r = create_buffer(dev, size, NULL, &buffer);
    if (r != VK_SUCCESS) return r;

    VkMemoryRequirements memory = buffer_requirements(dev, buffer, &req->dedicated);
    req->size = memory.size;
    req->alignment = memory.alignment;
    req->type_bits = memory.memoryTypeBits;
    *out = VKC_NUMBER(buffer);
    return VK_SUCCESS;
}

int32_t vkc_memory_allocate(vkc_device *dev, uint64_t size, uint32_t type, uint64_t dedicated, int map, uint64_t *out,
                            void **mapped) {
    const void *next = NULL;
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    if (dev->has_address) next = &flags;
    VkMemoryDedicatedAllocateInfo only = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                          .pNext = next,
                                          .buffer = VKC_HANDLE(VkBuffer, dedicated)};
    if (dedicated) next = &only;
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = next,
                                 .allocationSize = size,
                                 .memoryTypeIndex = type};
    VkDeviceMemory memory;
    VkResult r = dev->vkAllocateMemory(dev->handle, &info, NULL, &memory);
    if (r != VK_SUCCESS) return r;
    *mapped = NULL;
    if (map) {
        r = dev->vkMapMemory(dev->handle, memory, 0, VK_WHOLE_SIZE, 0, mapped);
        if (r != VK_SUCCESS) {
            dev->vkFreeMemory(dev->handle, memory, NULL);
            return r;
        }
    }
    *out = VKC_NUMBER(memory);
    return VK_SUCCESS;
}

int32_t vkc_buffer_bind(vkc_device *dev, uint64_t buffer, uint64_t memory, uint64_t offset) {
    return dev->vkBindBufferMemory(dev->handle, VKC_HANDLE(VkBuffer, buffer), VKC_HANDLE(VkDeviceMemory, memory),
                                   offset);
}

uint64_t vkc_buffer_address(vkc_device *dev, uint64_t buffer) {
    if (!dev->has_address) return 0;
    VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                      .buffer = VKC_HANDLE(VkBuffer, buffer)};
    return dev->vkGetBufferDeviceAddress(dev->handle, &info);
}

void *vkc_host_allocate(uint64_t size, uint64_t align) {
#if defined(_WIN32)
    void *memory = _aligned_malloc(size, align);
    if (!memory) return NULL;
#else
    void *memory;
    if (posix_memalign(&memory, align, size)) return NULL;
#endif
    return memset(memory, 0, size);
}

void vkc_host_free(void *memory) {
#if defined(_WIN32)
    _aligned_free(memory);
#else
    free(memory);
#endif
}

// find_memory_type writes the first of a set of memory types that has the properties in want.
static VkResult find_memory_type(vkc_device *dev, uint32_t types, VkMemoryPropertyFlags want, uint32_t *type) {
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    dev->inst->vkGetPhysicalDeviceMemoryProperties2(dev->physical, &memory);
    const VkPhysicalDeviceMemoryProperties *has = &memory.memoryProperties;
    for (*type = 0; *type < has->memoryTypeCount; ++*type)
        if ((types >> *type & 1) && (has->memoryTypes[*type].propertyFlags & want) == want) return VK_SUCCESS;
    return VK_ERROR_FEATURE_NOT_PRESENT;
}

static VkResult import_memory(vkc_device *dev, VkBuffer buffer, void *host, uint64_t size, VkDeviceMemory *out) {
    VkMemoryHostPointerPropertiesEXT properties = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkResult r = dev->vkGetMemoryHostPointerPropertiesEXT(
        dev->handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, host, &properties);
    if (r != VK_SUCCESS) return r;
    // Coherent memory: the host sees the devices' writes without further calls.
    uint32_t type, types = properties.memoryTypeBits & buffer_requirements(dev, buffer, NULL).memoryTypeBits;
    r = find_memory_type(dev, types, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, &type);
    if (r != VK_SUCCESS) return r;
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkImportMemoryHostPointerInfoEXT import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                               .pNext = dev->has_address ? &flags : NULL,
                                               .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
                                               .pHostPointer = host};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &import,
                                 .allocationSize = size,
                                 .memoryTypeIndex = type};
    return dev->vkAllocateMemory(dev->handle, &info, NULL, out);
}

int32_t vkc_buffer_import(vkc_device *dev, void *host, uint64_t size, uint64_t *buffer, uint64_t *memory) {
    if (!dev->vkGetMemoryHostPointerPropertiesEXT) return VK_ERROR_FEATURE_NOT_PRESENT;
    VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                 .handleTypes =
                                                     VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
    VkBuffer made;
    VkResult r = create_buffer(dev, size, &external, &made);
    if (r != VK_SUCCESS) return r;
    VkDeviceMemory imported = 0;
    r = import_memory(dev, made, host, size, &imported);
    if (r == VK_SUCCESS) r = dev->vkBindBufferMemory(dev->handle, made, imported, 0);
    *buffer = VKC_NUMBER(made);
    *memory = VKC_NUMBER(imported);
    return r;
}

// vkc_buffer_export gives the buffer an allocation of its own, as drivers prefer for exported memory.
int32_t vkc_buffer_export(vkc_device *dev, uint64_t size, vkc_export *out) {
    if (!dev->vkGetMemoryFdKHR) return VK_ERROR_FEATURE_NOT_PRESENT;
    VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                 .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkBuffer buffer;
    VkResult r = create_buffer(dev, size, &external, &buffer);
    if (r != VK_SUCCESS) return r;
    out->buffer = VKC_NUMBER(buffer);
    VkMemoryRequirements needs = buffer_requirements(dev, buffer, NULL);
    uint32_t type;
    r = find_memory_type(dev, needs.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &type);
    if (r != VK_SUCCESS) return r;
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryDedicatedAllocateInfo only = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                          .pNext = dev->has_address ? &flags : NULL,
                                          .buffer = buffer};
    VkExportMemoryAllocateInfo export = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                         .pNext = &only,
                                         .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &export,
                                 .allocationSize = needs.size,
                                 .memoryTypeIndex = type};
    VkDeviceMemory memory;
    r = dev->vkAllocateMemory(dev->handle, &info, NULL, &memory);
    if (r != VK_SUCCESS) return r;
    out->memory = VKC_NUMBER(memory);
    out->size = info.allocationSize;
    r = dev->vkBindBufferMemory(dev->handle, buffer, memory, 0);
    if (r != VK_SUCCESS) return r;
    VkMemoryGetFdInfoKHR ask_fd = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                   .memory = memory,
                                   .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    return dev->vkGetMemoryFdKHR(dev->handle, &ask_fd, &out->fd);
}

// Layouts and pipelines.

int32_t vkc_set_layout_create(vkc_device *dev, uint32_t buffers, uint64_t *out) {
    VkDescriptorSetLayoutBinding *bindings = calloc(buffers ? buffers : 1, sizeof *bindings);
    if (!bindings) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < buffers; i++) {
        bindings[i].binding = i;
        bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        bindings[i].descriptorCount = 1;
        bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    }
    VkDescriptorSetLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                            .bindingCount = buffers,
                                            .pBindings = bindings};
    VkDescriptorSetLayout layout;
    VkResult r = dev->vkCreateDescriptorSetLayout(dev->handle, &info, NULL, &layout);
    free(bindings);
    if (r == VK_SUCCESS) *out = VKC_NUMBER(layout);
    return r;
}

int32_t vkc_pipeline_layout_create(vkc_device *dev, uint64_t set_layout, uint64_t *out) {
    VkDescriptorSetLayout set = VKC_HANDLE(VkDescriptorSetLayout, set_layout);
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &set};
    VkPipelineLayout layout;
    VkResult r = dev->vkCreatePipelineLayout(dev->handle, &info, NULL, &layout);
    if (r == VK_SUCCESS) *out = VKC_NUMBER(layout);
    return r;
}

int32_t vkc_pipeline_cache_create(vkc_device *dev, const void *data, uint64_t size, uint64_t *out) {
    void *copy = NULL;
    if (size > 0) {
        copy = malloc(size);
        if (!copy) return VK_ERROR_OUT_OF_HOST_MEMORY;
        memcpy(copy, data, size);
    }
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = size,
                                      .pInitialData = copy};
    VkPipelineCache cache;
    VkResult r = dev->vkCreatePipelineCache(dev->handle, &info, NULL, &cache);
    free(copy);
    if (r == VK_SUCCESS) *out = VKC_NUMBER(cache);
    return r;
}

int32_t vkc_pipeline_cache_data(vkc_device *dev, uint64_t cache, void *data, uint64_t *size) {
    size_t n = *size;
    void *copy = NULL;
    if (data) {
        copy = malloc(n ? n : 1);
        if (!copy) return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    VkResult r = dev->vkGetPipelineCacheData(dev->handle, VKC_HANDLE(VkPipelineCache, cache), &n, copy);
    if (copy && r >= 0) memcpy(data, copy, n);
    free(copy);
    *size = n;
    return r;
}

static VkResult shader_module(vkc_device *dev, const void *code, uint64_t bytes, VkShaderModule *out) {
    uint32_t *copy = malloc(bytes ? bytes : 1);
    if (!copy) return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(copy, code, bytes);
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = bytes,
                                     .pCode = copy};
    VkResult r = dev->vkCreateShaderModule(dev->handle, &info, NULL, out);
    free(copy);
    return r;
}

int32_t vkc_pipeline_create(vkc_device *dev, const vkc_pipeline_info *info, const void *code, uint64_t code_bytes,
                            uint64_t *out) {
    VkShaderModule module;
    VkResult r = shader_module(dev, code, code_bytes, &module);
    if (r != VK_SUCCESS) return r;

    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = info->subgroup_size};
    VkComputePipelineCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = (info->statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0) |
                 (info->representations ? VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR : 0),
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = info->subgroup_size ? &subgroup : NULL,
                  .flags = info->full_subgroups ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = VKC_HANDLE(VkPipelineLayout, info->layout)};
    VkPipeline pipeline = 0;
    r = dev->vkCreateComputePipelines(dev->handle, VKC_HANDLE(VkPipelineCache, info->cache), 1, &create, NULL,
                                      &pipeline);
    dev->vkDestroyShaderModule(dev->handle, module, NULL);
    if (r == VK_SUCCESS) *out = VKC_NUMBER(pipeline);
    return r;
}

// Descriptor sets.

static VkResult allocate_sets(vkc_device *dev, VkDescriptorPool pool, const uint64_t *layouts, uint32_t sets,
                              uint64_t *out) {
    VkDescriptorSetLayout *wanted = calloc(sets, sizeof *wanted);
    VkDescriptorSet *made = calloc(sets, sizeof *made);
    VkResult r = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (wanted && made) {
        for (uint32_t i = 0; i < sets; i++) wanted[i] = VKC_HANDLE(VkDescriptorSetLayout, layouts[i]);
        VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = pool,
                                            .descriptorSetCount = sets,
                                            .pSetLayouts = wanted};
        r = dev->vkAllocateDescriptorSets(dev->handle, &info, made);
        for (uint32_t i = 0; r == VK_SUCCESS && i < sets; i++) out[i] = VKC_NUMBER(made[i]);
    }
    free(wanted);
    free(made);
    return r;
}

int32_t vkc_sets_create(vkc_device *dev, const uint64_t *layouts, uint32_t sets, uint32_t descriptors, uint64_t *pool,
                        uint64_t *out) {
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors ? descriptors : 1};
    VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = sets,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    VkDescriptorPool made;
    VkResult r = dev->vkCreateDescriptorPool(dev->handle, &info, NULL, &made);
    if (r != VK_SUCCESS) return r;
    r = allocate_sets(dev, made, layouts, sets, out);
    if (r != VK_SUCCESS) {
        dev->vkDestroyDescriptorPool(dev->handle, made, NULL);
        return r;
    }
    *pool = VKC_NUMBER(made);
    return VK_SUCCESS;
}

int32_t vkc_sets_update(vkc_device *dev, const uint64_t *words, uint32_t count) {
    if (count == 0) return VK_SUCCESS;
    VkWriteDescriptorSet *writes = calloc(count, sizeof *writes);
    VkDescriptorBufferInfo *buffers = calloc(count, sizeof *buffers);
    if (!writes || !buffers) {
        free(writes);
        free(buffers);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++, words += 5) {
        buffers[i].buffer = VKC_HANDLE(VkBuffer, words[2]);
        buffers[i].offset = words[3];
        buffers[i].range = words[4];
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = VKC_HANDLE(VkDescriptorSet, words[0]);
        writes[i].dstBinding = (uint32_t)words[1];
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &buffers[i];
    }
    dev->vkUpdateDescriptorSets(dev->handle, count, writes, 0, NULL);
    free(writes);
    free(buffers);
    return VK_SUCCESS;
}

// Timestamp queries.

int32_t vkc_query_pool_create(vkc_device *dev, uint32_t count, uint64_t *out) {
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = count};
    VkQueryPool pool;
    VkResult r = dev->vkCreateQueryPool(dev->handle, &info, NULL, &pool);
    if (r == VK_SUCCESS) *out = VKC_NUMBER(pool);
    return r;
}

int32_t vkc_query_results(vkc_device *dev, uint64_t pool, uint32_t first, uint32_t count, uint64_t *out) {
    size_t bytes = (size_t)count * 16;
    uint64_t *copy = calloc(count ? count : 1, 16);
    if (!copy) return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult r = dev->vkGetQueryPoolResults(dev->handle, VKC_HANDLE(VkQueryPool, pool), first, count, bytes, copy, 16,
                                            VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
    if (r >= 0) memcpy(out, copy, bytes);
    free(copy);
    return r;
}
