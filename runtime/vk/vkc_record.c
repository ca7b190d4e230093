// Recording of flat command lists, submission, and waiting.

#include "vkc_internal.h"

#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <time.h>
#endif

int32_t vkc_commands_create(vkc_device *dev, uint32_t queue, uint64_t *pool, uint64_t *buffer) {
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = dev->families[queue]};
    VkCommandPool p;
    VkResult r = dev->vkCreateCommandPool(dev->handle, &info, NULL, &p);
    if (r != VK_SUCCESS) return r;
    VkCommandBufferAllocateInfo alloc = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                         .commandPool = p,
                                         .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                         .commandBufferCount = 1};
    VkCommandBuffer b;
    r = dev->vkAllocateCommandBuffers(dev->handle, &alloc, &b);
    if (r != VK_SUCCESS) {
        dev->vkDestroyCommandPool(dev->handle, p, NULL);
        return r;
    }
    *pool = VKC_NUMBER(p);
    *buffer = VKC_NUMBER(b);
    return VK_SUCCESS;
}

static void barrier(vkc_device *dev, VkCommandBuffer b, const uint64_t *w) {
    VkMemoryBarrier m = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                         .srcAccessMask = (VkAccessFlags)w[1],
                         .dstAccessMask = (VkAccessFlags)(w[1] >> 32)};
    dev->vkCmdPipelineBarrier(b, (VkPipelineStageFlags)w[0], (VkPipelineStageFlags)(w[0] >> 32), 0, 1, &m, 0, NULL, 0,
                              NULL);
}

// operand_count is the number of operands of an opcode.
static uint32_t operand_count(uint32_t op) {
    switch (op) {
    case VKC_OP_BIND_PIPELINE: return 1;
    case VKC_OP_BIND_SET: return 2;
    case VKC_OP_DISPATCH: return 3;
    case VKC_OP_DISPATCH_INDIRECT: return 2;
    case VKC_OP_BARRIER: return 2;
    case VKC_OP_COPY: return 5;
    case VKC_OP_FILL: return 4;
    case VKC_OP_TIMESTAMP: return 2;
    case VKC_OP_RESET_QUERIES: return 3;
    }
    return UINT32_MAX;
}

static void record_one(vkc_device *dev, VkCommandBuffer b, uint32_t op, const uint64_t *w) {
    switch (op) {
    case VKC_OP_BIND_PIPELINE:
        dev->vkCmdBindPipeline(b, VK_PIPELINE_BIND_POINT_COMPUTE, VKC_HANDLE(VkPipeline, w[0]));
        break;
    case VKC_OP_BIND_SET: {
        VkDescriptorSet set = VKC_HANDLE(VkDescriptorSet, w[1]);
        dev->vkCmdBindDescriptorSets(b, VK_PIPELINE_BIND_POINT_COMPUTE, VKC_HANDLE(VkPipelineLayout, w[0]), 0, 1, &set,
                                     0, NULL);
        break;
    }
    case VKC_OP_DISPATCH:
        dev->vkCmdDispatch(b, (uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2]);
        break;
    case VKC_OP_DISPATCH_INDIRECT:
        dev->vkCmdDispatchIndirect(b, VKC_HANDLE(VkBuffer, w[0]), w[1]);
        break;
    case VKC_OP_BARRIER:
        barrier(dev, b, w);
        break;
    case VKC_OP_COPY: {
        VkBufferCopy region = {w[2], w[3], w[4]};
        dev->vkCmdCopyBuffer(b, VKC_HANDLE(VkBuffer, w[0]), VKC_HANDLE(VkBuffer, w[1]), 1, &region);
        break;
    }
    case VKC_OP_FILL:
        dev->vkCmdFillBuffer(b, VKC_HANDLE(VkBuffer, w[0]), w[1], w[2], (uint32_t)w[3]);
        break;
    case VKC_OP_TIMESTAMP:
        dev->vkCmdWriteTimestamp(b, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, VKC_HANDLE(VkQueryPool, w[0]),
                                 (uint32_t)w[1]);
        break;
    case VKC_OP_RESET_QUERIES:
        dev->vkCmdResetQueryPool(b, VKC_HANDLE(VkQueryPool, w[0]), (uint32_t)w[1], (uint32_t)w[2]);
        break;
    }
}

static VkResult record_words(vkc_device *dev, VkCommandBuffer b, const uint64_t *words, uint64_t count) {
    for (uint64_t i = 0; i < count;) {
        uint32_t op = (uint32_t)words[i];
        uint64_t operands = words[i] >> 32;
        i++;
        if (operands > count - i || operands != operand_count(op)) return VKC_ERROR_BAD_WORDS;
        record_one(dev, b, op, words + i);
        i += operands;
    }
    return VK_SUCCESS;
}

int32_t vkc_record(vkc_device *dev, uint64_t pool, uint64_t buffer, const uint64_t *words, uint64_t count,
                   int one_time) {
    VkResult r = dev->vkResetCommandPool(dev->handle, VKC_HANDLE(VkCommandPool, pool), 0);
    if (r != VK_SUCCESS) return r;
    VkCommandBuffer b = VKC_HANDLE(VkCommandBuffer, buffer);
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = one_time ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
                                                       : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    r = dev->vkBeginCommandBuffer(b, &info);
    if (r != VK_SUCCESS) return r;
    VkResult recorded = record_words(dev, b, words, count);
    r = dev->vkEndCommandBuffer(b);
    return recorded != VK_SUCCESS ? recorded : r;
}

int32_t vkc_submit(vkc_device *dev, uint32_t queue, const uint64_t *buffers, uint32_t count, uint64_t wait,
                   uint64_t signal) {
    VkCommandBuffer few[16], *list = few;
    if (count > 16) list = malloc(count * sizeof *list);
    if (!list) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) list[i] = VKC_HANDLE(VkCommandBuffer, buffers[i]);
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .waitSemaphoreValueCount = wait != 0,
                                              .pWaitSemaphoreValues = &wait,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &signal};
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .waitSemaphoreCount = wait != 0,
                         .pWaitSemaphores = &dev->timelines[queue == VKC_KERNELS ? VKC_COPIES : VKC_KERNELS],
                         .pWaitDstStageMask = &stages,
                         .commandBufferCount = count,
                         .pCommandBuffers = list,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &dev->timelines[queue]};
    VkResult r = dev->vkQueueSubmit(dev->queues[queue], 1, &info, 0);
    if (list != few) free(list);
    return r;
}

int32_t vkc_timeline(vkc_device *dev, uint32_t queue, uint64_t *value) {
    return dev->vkGetSemaphoreCounterValue(dev->handle, dev->timelines[queue], value);
}

#if defined(_WIN32)
uint64_t vkc_host_nanoseconds(uint64_t ticks) {
    LARGE_INTEGER second;
    QueryPerformanceFrequency(&second);
    uint64_t f = (uint64_t)second.QuadPart;
    return ticks / f * 1000000000u + ticks % f * 1000000000u / f;
}

uint64_t vkc_host_clock(void) {
    LARGE_INTEGER ticks;
    QueryPerformanceCounter(&ticks);
    return vkc_host_nanoseconds((uint64_t)ticks.QuadPart);
}
#else
uint64_t vkc_host_nanoseconds(uint64_t ticks) { return ticks; }

uint64_t vkc_host_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif

int32_t vkc_wait(vkc_device *dev, uint32_t queue, uint64_t value, uint64_t timeout_ns, uint64_t spin_ns) {
    uint64_t end = spin_ns ? vkc_host_clock() + spin_ns : 0;
    do {
        uint64_t reached;
        VkResult r = dev->vkGetSemaphoreCounterValue(dev->handle, dev->timelines[queue], &reached);
        if (r != VK_SUCCESS) return r;
        if (reached >= value) return VK_SUCCESS;
    } while (end && vkc_host_clock() < end);
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &dev->timelines[queue],
                                .pValues = &value};
    return dev->vkWaitSemaphores(dev->handle, &info, timeout_ns);
}
