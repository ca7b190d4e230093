// Copies from one NVIDIA card to another by CUDA, which uses NVLink if the cards have it. Vulkan cannot copy between
// cards (M-two-cards). CUDA imports memory that Vulkan has allocated. Its copy engines work while kernels run.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vkc.h"

#if defined(__linux__)

#include <dlfcn.h>
#include <unistd.h>

// The functions and types of CUDA's driver API that this file uses.
typedef int CUresult, CUdevice;
typedef void *CUcontext, *CUstream, *CUevent, *CUexternalMemory;
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
    CU_EVENT_DISABLE_TIMING = 2,
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
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned int)) \
    X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned int)) \
    X(cuEventRecord, "cuEventRecord", (CUevent, CUstream)) \
    X(cuEventDestroy, "cuEventDestroy_v2", (CUevent)) \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t)) \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
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

// A peer is a device from which CUDA copies: first to a buffer of CUDA's on the same device, and from there to the
// other devices. Copies straight from imported memory are as slow as copies through host memory (M-two-cards).
typedef struct peer {
    CUdevice device;
    CUcontext context; // NULL until it is retained
    CUstream out;
    CUevent ready;    // when it is in the memory of CUDA's own
    CUstream *others; // by rank, in their contexts
} peer;

struct vkc_peers {
    uint32_t count;
    peer *list;
};

static _Thread_local char problem[256];

static const char *failed(const char *what, CUresult r) {
    const char *text = NULL;
    if (cuGetErrorString) cuGetErrorString(r, &text);
    snprintf(problem, sizeof problem, "%s: %s (CUDA error %d)", what, text ? text : "no text", r);
    return problem;
}

// The library stays loaded, because the driver runs threads of its own.
static const char *load(void) {
    static void *library;
    const char *name = getenv("VKC_CUDA");
    if (!library) library = dlopen(name && *name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
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

// open_from makes the streams and events of copies from a device. The device's context is current.
static const char *open_from(vkc_peers *p, peer *from) {
    CUresult r = cuStreamCreate(&from->out, CU_STREAM_NON_BLOCKING);
    if (r == CUDA_SUCCESS) r = cuEventCreate(&from->ready, CU_EVENT_DISABLE_TIMING);
    if (r != CUDA_SUCCESS) return failed("create stream", r);
    for (uint32_t i = 0; i < p->count; i++) {
        peer *to = &p->list[i];
        if (to->device == from->device) continue;
        int can = 0;
        r = cuDeviceCanAccessPeer(&can, from->device, to->device);
        if (r != CUDA_SUCCESS) return failed("ask for peer access", r);
        if (!can) return "one of the devices does not reach the memory of another";
        r = cuCtxEnablePeerAccess(to->context, 0);
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return failed("enable peer access", r);
    }
    return NULL;
}

// open_to makes the streams of copies to a device. The device's context is current.
static const char *open_to(vkc_peers *p, uint32_t to) {
    for (uint32_t i = 0; i < p->count; i++) {
        CUresult r = cuStreamCreate(&p->list[i].others[to], CU_STREAM_NON_BLOCKING);
        if (r != CUDA_SUCCESS) return failed("create stream", r);
    }
    return NULL;
}

static const char *open_all(vkc_peers *p, const uint8_t (*uuids)[16]) {
    CUresult r = cuInit(0);
    if (r != CUDA_SUCCESS) return failed("initialize", r);
    for (uint32_t i = 0; i < p->count; i++) {
        peer *one = &p->list[i];
        const char *why = find(uuids[i], &one->device);
        if (why) return why;
        one->others = calloc(p->count, sizeof *one->others);
        if (!one->others) return "out of memory";
        r = cuDevicePrimaryCtxRetain(&one->context, one->device);
        if (r != CUDA_SUCCESS) return failed("make context", r);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        r = cuCtxPushCurrent(p->list[i].context);
        if (r != CUDA_SUCCESS) return failed("enter context", r);
        const char *why = open_from(p, &p->list[i]);
        if (!why) why = open_to(p, i);
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
    p->list = calloc(count, sizeof *p->list);
    why = p->list ? open_all(p, uuids) : "out of memory";
    if (why) vkc_peers_close(p);
    else *out = p;
    return why;
}

void vkc_peers_close(vkc_peers *p) {
    for (uint32_t i = 0; p->list && i < p->count; i++) {
        peer *one = &p->list[i];
        for (uint32_t to = 0; one->others && to < p->count; to++)
            if (one->others[to]) cuStreamDestroy(one->others[to]);
        if (one->out) cuStreamDestroy(one->out);
        if (one->ready) cuEventDestroy(one->ready);
        free(one->others);
    }
    // Streams from each device are in the contexts of all.
    for (uint32_t i = 0; p->list && i < p->count; i++)
        if (p->list[i].context) cuDevicePrimaryCtxRelease(p->list[i].device);
    free(p->list);
    free(p);
}

// map imports memory into the current context.
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

const char *vkc_peers_import(vkc_peers *p, uint32_t rank, int fd, uint64_t size, uint64_t most, vkc_imported *out) {
    CUresult r = cuCtxPushCurrent(p->list[rank].context);
    if (r != CUDA_SUCCESS) {
        close(fd);
        return failed("enter context", r);
    }
    CUdeviceptr address = 0, own = 0;
    const char *why = map(fd, size, &out->memory, &address);
    out->address = address;
    if (!why) {
        r = cuMemAlloc(&own, most);
        if (r != CUDA_SUCCESS) why = failed("allocate memory", r);
    }
    out->own = own;
    leave();
    return why;
}

const char *vkc_peers_forget(vkc_peers *p, uint32_t rank, const vkc_imported *m) {
    CUresult r = cuCtxPushCurrent(p->list[rank].context);
    if (r != CUDA_SUCCESS) return failed("enter context", r);
    if (m->own) r = cuMemFree(m->own);
    if (m->memory) {
        CUresult freed = cuMemFree(m->address), gone = cuDestroyExternalMemory(m->memory);
        if (r == CUDA_SUCCESS) r = freed;
        if (r == CUDA_SUCCESS) r = gone;
    }
    leave();
    return r == CUDA_SUCCESS ? NULL : failed("give memory back", r);
}

// take copies to a device from the buffer of CUDA's on another device.
static CUresult take(peer *from, peer *to, CUstream stream, uint64_t source, uint64_t target, uint64_t bytes) {
    CUresult r = cuCtxPushCurrent(to->context);
    if (r != CUDA_SUCCESS) return r;
    r = cuStreamWaitEvent(stream, from->ready, 0);
    if (r == CUDA_SUCCESS) r = cuMemcpyPeerAsync(target, to->context, source, from->context, bytes, stream);
    leave();
    return r;
}

const char *vkc_peers_copy(vkc_peers *p, uint32_t rank, const vkc_imported *list, uint64_t at, uint64_t bytes) {
    peer *from = &p->list[rank];
    CUresult r = cuCtxPushCurrent(from->context);
    if (r != CUDA_SUCCESS) return failed("enter context", r);
    r = cuMemcpyDtoDAsync(list[rank].own, list[rank].address + at, bytes, from->out);
    if (r == CUDA_SUCCESS) r = cuEventRecord(from->ready, from->out);
    leave();
    for (uint32_t i = 0; i < p->count && r == CUDA_SUCCESS; i++)
        if (i != rank) r = take(from, &p->list[i], from->others[i], list[rank].own, list[i].address + at, bytes);
    return r == CUDA_SUCCESS ? NULL : failed("copy", r);
}

const char *vkc_peers_done(vkc_peers *p, int *done) {
    *done = 0;
    for (uint32_t from = 0; from < p->count; from++)
        for (uint32_t to = 0; to < p->count; to++) {
            CUresult r = cuStreamQuery(p->list[from].others[to]);
            if (r == CUDA_ERROR_NOT_READY) return NULL;
            if (r != CUDA_SUCCESS) return failed("wait for a copy", r);
        }
    *done = 1;
    return NULL;
}

#else

const char *vkc_peers_open(const uint8_t (*uuids)[16], uint32_t count, vkc_peers **out) {
    (void)uuids, (void)count, (void)out;
    return "memory is exported to CUDA on Linux alone";
}

// On this system there are no peer copies.
void vkc_peers_close(vkc_peers *peers) { (void)peers; }

const char *vkc_peers_import(vkc_peers *peers, uint32_t rank, int fd, uint64_t size, uint64_t most,
                             vkc_imported *out) {
    (void)peers, (void)rank, (void)fd, (void)size, (void)most, (void)out;
    return "no peers";
}

const char *vkc_peers_forget(vkc_peers *peers, uint32_t rank, const vkc_imported *imported) {
    (void)peers, (void)rank, (void)imported;
    return "no peers";
}

const char *vkc_peers_copy(vkc_peers *peers, uint32_t rank, const vkc_imported *list, uint64_t at, uint64_t bytes) {
    (void)peers, (void)rank, (void)list, (void)at, (void)bytes;
    return "no peers";
}

const char *vkc_peers_done(vkc_peers *peers, int *done) {
    (void)peers, (void)done;
    return "no peers";
}

#endif
