// What a test has in place of NVIDIA's driver: "cards" whose memory is that of lavapipe, imported by the file descriptor
// that it exports. Copies are made late, one at each look, and what no driver allows ends the test.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REQUIRE(holds) \
    if (!(holds)) fprintf(stderr, "cuda.c:%d: %s\n", __LINE__, #holds), abort()

typedef unsigned long long pointer;
typedef struct context {
    int device, alive, users;
} context;
typedef struct event {
    int recorded, reached; // how often
} event;
typedef struct action {
    void *target;
    const void *source;
    size_t bytes;
    event *record, *wait;
    int times;
} action;
typedef struct stream {
    context *of;
    int first, last;
    action list[64];
} stream;
typedef struct memory {
    char *at, *data;
    size_t size;
} memory;

static context contexts[64];
static stream *streams[256];
static int devices, made;
static _Thread_local context *current;

int cuInit(unsigned flags) { return flags; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }

// Each look at the one device makes it another one, as lavapipe shows but one.
int cuDeviceGet(int *device, int i) { return *device = devices++, i; }

int cuDeviceGetUuid(char *uuid, int device) {
    const char *hex = getenv("VKC_TEST_UUID");
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        if (hex && strlen(hex) == 32) sscanf(hex + 2 * i, "%2x", &byte);
        uuid[i] = (char)byte;
    }
    return device < 0;
}

int cuDeviceCanAccessPeer(int *can, int from, int to) { return *can = from != to, 0; }

int cuDevicePrimaryCtxRetain(context **out, int device) {
    REQUIRE(device < 64 && !contexts[device].alive);
    contexts[device] = (context){device, 1, 0};
    return *out = &contexts[device], 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    REQUIRE(contexts[device].alive && !contexts[device].users);
    return contexts[device].alive = 0;
}

int cuCtxPushCurrent_v2(context *c) {
    REQUIRE(!current && c->alive);
    return current = c, 0;
}

int cuCtxPopCurrent_v2(context **out) {
    REQUIRE(current);
    return *out = current, current = NULL, 0;
}

int cuCtxEnablePeerAccess(context *peer, unsigned flags) {
    REQUIRE(current && peer != current && peer->alive);
    return flags;
}

int cuStreamCreate(stream **out, unsigned flags) {
    REQUIRE(current && made < 256 && flags == 1);
    *out = calloc(1, sizeof **out);
    (*out)->of = current;
    current->users++;
    return streams[made++] = *out, 0;
}

int cuStreamDestroy_v2(stream *s) {
    REQUIRE(s->of->alive && s->first == s->last);
    return s->of->users--, s->of = NULL, 0;
}

int cuEventCreate(event **out, unsigned flags) { return *out = calloc(1, sizeof **out), flags != 2; }
int cuEventDestroy_v2(event *e) { return free(e), 0; }

static int add(stream *s, action a) {
    REQUIRE(s->of == current && s->last - s->first < 64);
    return s->list[s->last++ % 64] = a, 0;
}

int cuEventRecord(event *e, stream *s) { return add(s, (action){.record = e, .times = ++e->recorded}); }

int cuStreamWaitEvent(stream *s, event *e, unsigned flags) {
    return add(s, (action){.wait = e, .times = e->recorded}), flags;
}

int cuMemcpyDtoDAsync_v2(pointer target, pointer source, size_t bytes, stream *s) {
    return add(s, (action){.target = (void *)target, .source = (void *)source, .bytes = bytes});
}

int cuMemcpyPeerAsync(pointer target, context *to, pointer source, context *from, size_t bytes, stream *s) {
    REQUIRE(to->alive && from->alive && from != to);
    return cuMemcpyDtoDAsync_v2(target, source, bytes, s);
}

// Every look has each stream do one thing more, the last stream first.
int cuStreamQuery(stream *asked) {
    for (int i = made - 1; i >= 0; i--) {
        stream *s = streams[i];
        if (!s->of || s->first == s->last) continue;
        action *a = &s->list[s->first % 64];
        if (a->wait && a->wait->reached < a->times) continue;
        if (a->record) a->record->reached = a->times;
        if (a->bytes) memcpy(a->target, a->source, a->bytes);
        s->first++;
    }
    return asked->first == asked->last ? 0 : 600;
}

int cuMemAlloc_v2(pointer *out, size_t bytes) {
    REQUIRE(current);
    return *out = (pointer)malloc(bytes), 0;
}

static memory mapped[64];

int cuMemFree_v2(pointer p) {
    REQUIRE(current);
    for (int i = 0; i < 64; i++)
        if (mapped[i].data == (char *)p) return 0;
    return free((void *)p), 0;
}

typedef struct handle {
    int type;
    union {
        int fd;
        void *others[2];
    };
    unsigned long long size;
} handle;

// The memory that lavapipe exports begins with its size and where its data is.
int cuImportExternalMemory(memory **out, const handle *h) {
    REQUIRE(current && h->type == 1 && h->size);
    size_t head[2];
    if (pread(h->fd, head, sizeof head, 0) != sizeof head || head[1] > 1 << 16) return 999;
    memory *m = mapped;
    while (m->at) m++;
    m->size = h->size + head[1];
    m->at = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
    close(h->fd);
    REQUIRE(m->at != MAP_FAILED);
    m->data = m->at + head[1];
    return *out = m, 0;
}

typedef struct range {
    unsigned long long offset, size;
} range;

int cuExternalMemoryGetMappedBuffer(pointer *out, memory *m, const range *r) {
    REQUIRE(current && r->offset + r->size <= m->size);
    return *out = (pointer)m->data, 0;
}

int cuDestroyExternalMemory(memory *m) {
    munmap(m->at, m->size);
    return memset(m, 0, sizeof *m), 0;
}

int cuGetErrorString(int r, const char **out) { return *out = "an error of the test's driver", r < 0; }
