// Copies from one card of NVIDIA to another by CUDA, which goes over NVLink where there is one. Vulkan has none: it
// shows each card by itself (M-two-cards). Memory that Vulkan has allocated is imported, and copied by engines that
// work while kernels do.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vkc.h"

#if defined(__linux__)

#include <dlfcn.h>
#include <unistd.h>

// The part of CUDA's driver API that is called here, as its documentation has it.
typedef int CUresult, CUdevice;
typedef void *CUcontext, *CUstream, *CUexternalMemory;
typedef unsigned long long CUdeviceptr;
typedef struct {
    char bytes[16];
} CUuuid;
typedef struct {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
    } handle;
    unsigned long long size;
    unsigned int flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
typedef struct {
    unsigned long long offset, size;
    unsigned int flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1,
    CUDA_EXTERNAL_MEMORY_DEDICATED = 1,
    CU_STREAM_NON_BLOCKING = 1,
};

#define CUDA_FUNCTIONS(X) \
    X(cuInit, "cuInit", (unsigned int)) \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *)) \
    X(cuDeviceGet, "cuDeviceGet", (CUdevice *, int)) \
    X(cuDeviceGetUuid, "cuDeviceGetUuid", (CUuuid *, CUdevice)) \
    X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *, CUdevice, CUdevice)) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice)) \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice)) \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext)) \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext *)) \
    X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext, unsigned int)) \
    X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned int)) \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream)) \
    X(cuStreamQuery, "cuStreamQuery", (CUstream)) \
    X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr)) \
    X(cuImportExternalMemory, "cuImportExternalMemory", \
      (CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *)) \
    X(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer", \
      (CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *)) \
    X(cuDestroyExternalMemory, "cuDestroyExternalMemory", (CUexternalMemory)) \
    X(cuGetErrorString, "cuGetErrorString", (CUresult, const char **))

#define DECLARE(name, symbol, arguments) static CUresult(*name) arguments;
CUDA_FUNCTIONS(DECLARE)

struct vkc_peers {
    uint32_t count;
    CUdevice *devices;
    CUcontext *contexts; // NULL until they are retained
    CUstream *streams;   // at from * count + to: in the context of from
};

static _Thread_local char problem[256];

static const char *failed(const char *what, CUresult r) {
    const char *text = NULL;
    if (cuGetErrorString) cuGetErrorString(r, &text);
    snprintf(problem, sizeof problem, "%s: %s (CUDA error %d)", what, text ? text : "no text", r);
    return problem;
}

// The library stays loaded, as the driver has threads of its own.
static const char *load(void) {
    static void *library;
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "libcuda.so.1 cannot be loaded (it comes with NVIDIA's driver)";
#define LOAD(name, symbol, arguments) \
    *(void **)&name = dlsym(library, symbol); \
    if (!name) return "libcuda.so.1 has no " symbol;
    CUDA_FUNCTIONS(LOAD)
    return NULL;
}

static const char *find(const uint8_t uuid[16], CUdevice *out) {
    int count = 0;
    CUresult r = cuDeviceGetCount(&count);
    if (r != CUDA_SUCCESS) return failed("count devices", r);
    for (int i = 0; i < count; i++) {
        CUuuid has;
        if (cuDeviceGet(out, i) == CUDA_SUCCESS && cuDeviceGetUuid(&has, *out) == CUDA_SUCCESS &&
            !memcmp(has.bytes, uuid, 16))
            return NULL;
    }
    return "CUDA does not show the device";
}

static void leave(void) {
    CUcontext left;
    cuCtxPopCurrent(&left);
}

// open_from makes the streams from a device to all others.
static const char *open_from(vkc_peers *p, uint32_t from) {
    for (uint32_t to = 0; to < p->count; to++) {
        int can = 0;
        CUresult r = cuDeviceCanAccessPeer(&can, p->devices[from], p->devices[to]);
        if (r != CUDA_SUCCESS) return failed("ask for peer access", r);
        if (p->devices[to] != p->devices[from]) {
            if (!can) return "one of the devices does not reach the memory of another";
            r = cuCtxEnablePeerAccess(p->contexts[to], 0);
            if (r != CUDA_SUCCESS && r != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
                return failed("enable peer access", r);
        }
        r = cuStreamCreate(&p->streams[from * p->count + to], CU_STREAM_NON_BLOCKING);
        if (r != CUDA_SUCCESS) return failed("create stream", r);
    }
    return NULL;
}

static const char *open_all(vkc_peers *p, const uint8_t (*uuids)[16]) {
    CUresult r = cuInit(0);
    if (r != CUDA_SUCCESS) return failed("initialize", r);
    for (uint32_t i = 0; i < p->count; i++) {
        const char *why = find(uuids[i], &p->devices[i]);
        if (why) return why;
        r = cuDevicePrimaryCtxRetain(&p->contexts[i], p->devices[i]);
        if (r != CUDA_SUCCESS) return failed("make context", r);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        r = cuCtxPushCurrent(p->contexts[i]);
        if (r != CUDA_SUCCESS) return failed("enter context", r);
        const char *why = open_from(p, i);
        leave();
        if (why) return why;
    }
    return NULL;
}

const char *vkc_peers_open(const uint8_t (*uuids)[16], uint32_t count, vkc_peers **out) {
    const char *why = load();
    if (why) return why;
    vkc_peers *p = calloc(1, sizeof *p);
    if (!p) return "out of memory";
    p->count = count;
    p->devices = calloc(count, sizeof *p->devices);
    p->contexts = calloc(count, sizeof *p->contexts);
    p->streams = calloc((size_t)count * count, sizeof *p->streams);
    why = p->devices && p->contexts && p->streams ? open_all(p, uuids) : "out of memory";
    if (why) vkc_peers_close(p);
    else *out = p;
    return why;
}

void vkc_peers_close(vkc_peers *p) {
    for (uint32_t i = 0; p->streams && i < p->count * p->count; i++)
        if (p->streams[i]) cuStreamDestroy(p->streams[i]);
    for (uint32_t i = 0; p->contexts && i < p->count; i++)
        if (p->contexts[i]) cuDevicePrimaryCtxRelease(p->devices[i]);
    free(p->devices);
    free(p->contexts);
    free(p->streams);
    free(p);
}

// map imports in the context that is current.
static const char *map(int fd, uint64_t size, CUexternalMemory *memory, CUdeviceptr *address) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                               .handle.fd = fd,
                                               .size = size,
                                               .flags = CUDA_EXTERNAL_MEMORY_DEDICATED};
    CUresult r = cuImportExternalMemory(memory, &handle);
    if (r != CUDA_SUCCESS) {
        close(fd);
        *memory = NULL;
        return failed("import memory", r);
    }
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = size};
    r = cuExternalMemoryGetMappedBuffer(address, *memory, &buffer);
    if (r == CUDA_SUCCESS) return NULL;
    cuDestroyExternalMemory(*memory);
    *memory = NULL;
    return failed("map imported memory", r);
}

const char *vkc_peers_import(vkc_peers *p, uint32_t rank, int fd, uint64_t size, void **imported,
                             uint64_t *address) {
    CUresult r = cuCtxPushCurrent(p->contexts[rank]);
    if (r != CUDA_SUCCESS) {
        close(fd);
        return failed("enter context", r);
    }
    CUdeviceptr at = 0;
    const char *why = map(fd, size, imported, &at);
    *address = at;
    leave();
    return why;
}

const char *vkc_peers_forget(vkc_peers *p, uint32_t rank, void *imported, uint64_t address) {
    CUresult r = cuCtxPushCurrent(p->contexts[rank]);
    if (r != CUDA_SUCCESS) return failed("enter context", r);
    r = cuMemFree(address);
    CUresult rest = cuDestroyExternalMemory(imported);
    leave();
    if (r != CUDA_SUCCESS || rest != CUDA_SUCCESS) return failed("give imported memory back", r ? r : rest);
    return NULL;
}

const char *vkc_peers_copy(vkc_peers *p, uint32_t from, uint32_t to, uint64_t source, uint64_t target,
                           uint64_t bytes) {
    CUresult r = cuCtxPushCurrent(p->contexts[from]);
    if (r != CUDA_SUCCESS) return failed("enter context", r);
    r = cuMemcpyPeerAsync(target, p->contexts[to], source, p->contexts[from], bytes,
                          p->streams[from * p->count + to]);
    leave();
    return r == CUDA_SUCCESS ? NULL : failed("copy", r);
}

const char *vkc_peers_done(vkc_peers *p, uint32_t from, uint32_t to, int *done) {
    CUresult r = cuStreamQuery(p->streams[from * p->count + to]);
    *done = r == CUDA_SUCCESS;
    return r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY ? NULL : failed("wait for a copy", r);
}

#else

const char *vkc_peers_open(const uint8_t (*uuids)[16], uint32_t count, vkc_peers **out) {
    (void)uuids, (void)count, (void)out;
    return "memory is exported to CUDA on Linux alone";
}

// Nobody has peers here.
void vkc_peers_close(vkc_peers *peers) { (void)peers; }

const char *vkc_peers_import(vkc_peers *peers, uint32_t rank, int fd, uint64_t size, void **imported,
                             uint64_t *address) {
    (void)peers, (void)rank, (void)fd, (void)size, (void)imported, (void)address;
    return "no peers";
}

const char *vkc_peers_forget(vkc_peers *peers, uint32_t rank, void *imported, uint64_t address) {
    (void)peers, (void)rank, (void)imported, (void)address;
    return "no peers";
}

const char *vkc_peers_copy(vkc_peers *peers, uint32_t from, uint32_t to, uint64_t source, uint64_t target,
                           uint64_t bytes) {
    (void)peers, (void)from, (void)to, (void)source, (void)target, (void)bytes;
    return "no peers";
}

const char *vkc_peers_done(vkc_peers *peers, uint32_t from, uint32_t to, int *done) {
    (void)peers, (void)from, (void)to, (void)done;
    return "no peers";
}

#endif
