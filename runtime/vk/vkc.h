// The C layer under package vk: what github.com/goki/vulkan lacks (newer structures, pNext chains,
// timeline semaphores, the messenger) or cannot do safely or fast enough (slice arguments, which it
// frees from a finalizer that may run during the call, and recording, a microsecond per command).
//
// Conventions. Handles travel as uint64_t. A function that can fail returns a VkResult, 0 being
// success. Nothing given to Vulkan is Go memory: arguments are copied to the C stack or heap first.
// This header names no Vulkan type, so that cgo need not read the Vulkan declarations.

#ifndef VKC_H
#define VKC_H

#include <stdint.h>

typedef struct vkc_instance vkc_instance;
typedef struct vkc_device vkc_device;

// Loader and instance (vkc_instance.c).

// vkc_load opens the system's Vulkan loader once. It returns NULL, or a static message.
const char *vkc_load(void);
// vkc_loader_entry is vkGetInstanceProcAddr of the opened loader.
void *vkc_loader_entry(void);
// vkc_instance_create creates an instance that uses Vulkan up to version newest. This layer knows versions up to 1.3.
int32_t vkc_instance_create(uint32_t newest, vkc_instance **out);
void *vkc_instance_handle(vkc_instance *inst);
// vkc_instance_api is the instance's Vulkan version.
uint32_t vkc_instance_api(vkc_instance *inst);
void vkc_instance_destroy(vkc_instance *inst);

// Validation messages of the whole process, oldest first. At most VKC_MAX_MESSAGES texts are kept;
// vkc_message_count counts all.
#define VKC_MAX_MESSAGES 256
uint64_t vkc_message_count(void);
// vkc_message copies text i into buf, NUL-terminated, and returns its whole length, or -1.
int64_t vkc_message(uint64_t i, char *buf, uint64_t size);
// vkc_message_inject stores a message as a layer would, for tests of the collection itself.
void vkc_message_inject(const char *text);
void vkc_messages_clear(void);

// Probe (vkc_probe.c).

#define VKC_MAX_MATRIX 512

typedef struct vkc_matrix {
    uint32_t m, n, k;
    uint32_t a, b, c, r; // VkComponentTypeKHR
    uint32_t scope;      // VkScopeKHR
    uint32_t saturating;
    uint32_t invocations; // of the workgroup; 0 for subgroup scope
} vkc_matrix;

typedef struct vkc_features {
    uint32_t float16, int8, int16, int64, float64, storage8, storage16, push_constant8, push_constant16;
    uint32_t buffer_device_address, timeline_semaphore, memory_model, memory_model_device_scope;
    uint32_t scalar_block_layout, subgroup_extended_types;
    uint32_t subgroup_size_control, full_subgroups;
    uint32_t integer_dot_product, synchronization2, maintenance4, zero_init_workgroup;
    uint32_t atomic_float32_add, shared_atomic_float32_add;
    uint32_t bfloat16, bfloat16_matrix, float8, float8_matrix;
    uint32_t cooperative_matrix, cooperative_matrix2;
    uint32_t cm2_workgroup_scope, cm2_flexible_dimensions, cm2_reductions, cm2_conversions;
    uint32_t cm2_per_element, cm2_tensor_addressing, cm2_block_loads;
    uint32_t workgroup_explicit_layout, maximal_reconvergence;
    uint32_t push_descriptor, pipeline_executable_properties, memory_budget, calibrated_timestamps;
    uint32_t external_memory_host, portability_subset;
} vkc_features;

typedef struct vkc_probe {
    char name[256], driver_name[256], driver_info[256];
    uint32_t vendor_id, device_id, type, driver_id, driver_version, api_version;
    uint8_t device_uuid[16], driver_uuid[16], pipeline_cache_uuid[16];

    uint32_t subgroup_size, min_subgroup_size, max_subgroup_size;
    uint32_t subgroup_ops, subgroup_stages, required_subgroup_size_stages;
    uint32_t max_shared_memory, max_invocations;
    uint32_t max_workgroup_size[3], max_workgroup_count[3];
    uint32_t max_push_constants, max_storage_buffers;
    uint64_t max_storage_range, storage_alignment, max_allocation, max_buffer;
    uint64_t host_pointer_alignment;
    float timestamp_period;
    uint32_t float_controls_f16, float_controls_f32, float_controls_f64; // bit 0: signed zero, inf, nan preserved; bit 1: denormals preserved
    uint32_t cores, subgroups_per_core;
    uint32_t matrix_stages;
    uint32_t cm2_max_workgroup, cm2_max_dimension, cm2_reserved_shared;

    vkc_features features;

    uint32_t heap_count, type_count, family_count;
    uint64_t heap_size[16];
    uint32_t heap_flags[16];
    uint32_t type_heap[32], type_flags[32];
    uint32_t family_flags[32], family_queues[32], family_timestamp_bits[32];

    uint32_t matrix_count, flexible_count;
    vkc_matrix matrix[VKC_MAX_MATRIX], flexible[VKC_MAX_MATRIX];
} vkc_probe;

int32_t vkc_probe_device(vkc_instance *inst, void *physical, vkc_probe *out);
// vkc_memory_budget writes how many bytes of each heap this process may use and uses now. It
// returns 0 where the device has no VK_EXT_memory_budget.
int vkc_memory_budget(vkc_device *dev, uint64_t budget[16], uint64_t usage[16]);

// Device and objects (vkc_device.c).

// The queues of a device, each with a timeline. If both have the same family, they are the same queue.
enum { VKC_KERNELS, VKC_COPIES, VKC_QUEUES };

// vkc_device_create opens a device. If robust is 1, the driver checks every access to a buffer. The device gets the
// features in use that it supports.
int32_t vkc_device_create(vkc_instance *inst, void *physical, const uint32_t families[VKC_QUEUES], int robust,
                          const vkc_features *use, vkc_device **out);
// vkc_device_robust returns 0 for a device without such checks, 1 with robustBufferAccess, 2 with robustBufferAccess2.
int vkc_device_robust(vkc_device *dev);
void *vkc_device_handle(vkc_device *dev);
// vkc_device_free releases the bookkeeping, after vkDestroyDevice.
void vkc_device_free(vkc_device *dev);
// vkc_set_name names an object (VkObjectType) for validation messages and debuggers.
void vkc_set_name(vkc_device *dev, uint32_t type, uint64_t handle, const char *name);

typedef struct vkc_requirements {
    uint64_t size, alignment;
    uint32_t type_bits, dedicated;
} vkc_requirements;

int32_t vkc_buffer_create(vkc_device *dev, uint64_t size, uint64_t *out, vkc_requirements *req);
// vkc_memory_allocate allocates memory. If dedicated is not 0, only this buffer will use the memory. If map is 1, it
// maps the memory and writes the host's pointer to mapped.
int32_t vkc_memory_allocate(vkc_device *dev, uint64_t size, uint32_t type, uint64_t dedicated, int map,
                            uint64_t *out, void **mapped);
int32_t vkc_buffer_bind(vkc_device *dev, uint64_t buffer, uint64_t memory, uint64_t offset);
uint64_t vkc_buffer_address(vkc_device *dev, uint64_t buffer);
// vkc_host_allocate allocates zeroed host memory at a multiple of align, a power of two, or returns NULL.
void *vkc_host_allocate(uint64_t size, uint64_t align);
void vkc_host_free(void *memory);
// vkc_buffer_import makes a buffer in host memory (VK_EXT_external_memory_host). The memory's address and size are
// multiples of minImportedHostPointerAlignment.
int32_t vkc_buffer_import(vkc_device *dev, void *host, uint64_t size, uint64_t *buffer, uint64_t *memory);

typedef struct vkc_export {
    uint64_t buffer, memory, size; // of the allocation
    int fd;
} vkc_export;

// vkc_buffer_export makes a buffer in device memory, and a file descriptor with which other programs import the memory
// (VK_KHR_external_memory_fd). The caller closes the descriptor. After an error, out has the objects made before it,
// which the caller must destroy.
int32_t vkc_buffer_export(vkc_device *dev, uint64_t size, vkc_export *out);

// Peer copies by CUDA (vkc_cuda.c). vkc_peers_open loads CUDA's driver. Each function returns NULL, or a message about
// the failed call, which stays valid until the thread's next call.

typedef struct vkc_peers vkc_peers;

// vkc_peers_open opens the CUDA devices with these UUIDs. It fails unless they can access one another's memory.
const char *vkc_peers_open(const uint8_t (*uuids)[16], uint32_t count, vkc_peers **out);
void vkc_peers_close(vkc_peers *peers);

typedef struct vkc_imported {
    void *memory;
    uint64_t address, own; // of the imported memory, and of a buffer of CUDA's for one copy
} vkc_imported;

// vkc_peers_import imports a device's memory into CUDA by its file descriptor, which CUDA then owns. A copy has at most
// `most` bytes. After an error, out has the objects made before it.
const char *vkc_peers_import(vkc_peers *peers, uint32_t rank, int fd, uint64_t size, uint64_t most,
                             vkc_imported *out);
const char *vkc_peers_forget(vkc_peers *peers, uint32_t rank, const vkc_imported *imported);
// vkc_peers_copy starts to copy bytes of a device's memory, from offset at on, to the same offset in the memory of all
// other devices. list has the imported memory by rank. No other copy from this device may be in progress.
const char *vkc_peers_copy(vkc_peers *peers, uint32_t rank, const vkc_imported *list, uint64_t at, uint64_t bytes);
// vkc_peers_done writes to done whether all copies have ended.
const char *vkc_peers_done(vkc_peers *peers, int *done);

int32_t vkc_set_layout_create(vkc_device *dev, uint32_t buffers, uint64_t *out);
int32_t vkc_pipeline_layout_create(vkc_device *dev, uint64_t set_layout, uint64_t *out);
int32_t vkc_pipeline_cache_create(vkc_device *dev, const void *data, uint64_t size, uint64_t *out);
// vkc_pipeline_cache_data copies at most *size bytes of the cache to data, and sets *size to the number of copied
// bytes. If data is NULL, it sets *size to the size of the cache.
int32_t vkc_pipeline_cache_data(vkc_device *dev, uint64_t cache, void *data, uint64_t *size);

typedef struct vkc_pipeline_info {
    uint64_t layout, cache;
    uint32_t subgroup_size; // 0: the device's choice
    uint32_t full_subgroups;
    uint32_t statistics, representations; // whether the driver keeps them for vkc_stats.c
} vkc_pipeline_info;

int32_t vkc_pipeline_create(vkc_device *dev, const vkc_pipeline_info *info, const void *code, uint64_t code_bytes,
                            uint64_t *out);

// The driver's statistics and representations of a pipeline (vkc_stats.c), if it was created to keep them.

enum { VKC_STATISTIC_BOOL, VKC_STATISTIC_INT, VKC_STATISTIC_UINT, VKC_STATISTIC_FLOAT };

typedef struct vkc_statistic {
    char name[256];
    uint32_t format;
    uint64_t bits; // of the value
} vkc_statistic;

typedef struct vkc_representation {
    char name[256];
    uint32_t is_text;
    uint64_t size;
    void *data; // malloced
} vkc_representation;

// Both functions write a malloced list with the entries of all executables of the pipeline.
int32_t vkc_pipeline_statistics(vkc_device *dev, uint64_t pipeline, vkc_statistic **out, uint32_t *count);
int32_t vkc_pipeline_representations(vkc_device *dev, uint64_t pipeline, vkc_representation **out, uint32_t *count);
// vkc_representations_free frees such a list and its data.
void vkc_representations_free(vkc_representation *list, uint32_t count);

// vkc_sets_create makes one pool that holds exactly the sets, set i having layout layouts[i].
int32_t vkc_sets_create(vkc_device *dev, const uint64_t *layouts, uint32_t sets, uint32_t descriptors,
                        uint64_t *pool, uint64_t *out);
// vkc_sets_update writes count descriptors of five words each: set, binding, buffer, offset, range.
int32_t vkc_sets_update(vkc_device *dev, const uint64_t *words, uint32_t count);

int32_t vkc_query_pool_create(vkc_device *dev, uint32_t count, uint64_t *out);
// vkc_query_results writes two words per query: the ticks, and 1 if they are there.
int32_t vkc_query_results(vkc_device *dev, uint64_t pool, uint32_t first, uint32_t count, uint64_t *out);

// vkc_calibrate reads two clocks at the same time: the device's in ticks, and the host's monotonic clock in
// nanoseconds. The third number is the largest possible time between the two readings, in nanoseconds. It fails if the
// device cannot.
int32_t vkc_calibrate(vkc_device *dev, uint64_t out[3]);

// Recording and submission (vkc_record.c).

enum {
    VKC_OP_BIND_PIPELINE = 1, // pipeline
    VKC_OP_BIND_SET,          // pipeline layout, set
    VKC_OP_DISPATCH,          // x, y, z
    VKC_OP_DISPATCH_INDIRECT, // buffer, offset
    VKC_OP_BARRIER,           // source stages | destination stages << 32, source access | destination access << 32
    VKC_OP_COPY,              // source, destination, source offset, destination offset, size
    VKC_OP_FILL,              // buffer, offset, size, value
    VKC_OP_TIMESTAMP,         // query pool, index
    VKC_OP_RESET_QUERIES,     // query pool, first, count
};

#define VKC_ERROR_BAD_WORDS (-2000000001)

int32_t vkc_commands_create(vkc_device *dev, uint32_t queue, uint64_t *pool, uint64_t *buffer);
// vkc_record records a command list into a command buffer. A command is one word, opcode | number of operands << 32,
// and then its operands, a word each. If one_time is 1, the buffer is submitted once before it is recorded again;
// otherwise it may be submitted any number of times, and be in flight several times.
int32_t vkc_record(vkc_device *dev, uint64_t pool, uint64_t buffer, const uint64_t *words, uint64_t count,
                   int one_time);
// vkc_submit submits command buffers to a queue. They begin once the timeline of the other queue has reached wait. When
// they have ended, the queue's timeline reaches signal.
int32_t vkc_submit(vkc_device *dev, uint32_t queue, const uint64_t *buffers, uint32_t count, uint64_t wait,
                   uint64_t signal);
// vkc_wait polls for spin_ns nanoseconds, then sleeps, until a queue's timeline reaches value.
// It returns VK_TIMEOUT (2) once timeout_ns have passed.
int32_t vkc_wait(vkc_device *dev, uint32_t queue, uint64_t value, uint64_t timeout_ns, uint64_t spin_ns);
int32_t vkc_timeline(vkc_device *dev, uint32_t queue, uint64_t *value);
// vkc_host_clock is the host's monotonic clock in nanoseconds.
uint64_t vkc_host_clock(void);
int32_t vkc_wait_idle(vkc_device *dev);

#endif
