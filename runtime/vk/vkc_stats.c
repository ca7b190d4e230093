// The driver's reports on compiled pipelines (VK_KHR_pipeline_executable_properties).

#include "vkc_internal.h"

#include <stdlib.h>
#include <string.h>

// Limits on the numbers that a driver reports, so that a wrong number causes no endless loop.
enum { MAX_EXECUTABLES = 64, MAX_ROWS = 4096 };

// count_executables writes the number of a pipeline's executables. Most drivers have one.
static VkResult count_executables(vkc_device *dev, uint64_t pipeline, uint32_t *count) {
    *count = 0;
    if (!dev->vkGetPipelineExecutablePropertiesKHR || !dev->vkGetPipelineExecutableStatisticsKHR ||
        !dev->vkGetPipelineExecutableInternalRepresentationsKHR)
        return VK_ERROR_FEATURE_NOT_PRESENT;
    VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR,
                              .pipeline = VKC_HANDLE(VkPipeline, pipeline)};
    VkResult r = dev->vkGetPipelineExecutablePropertiesKHR(dev->handle, &info, count, NULL);
    if (*count > MAX_EXECUTABLES) *count = MAX_EXECUTABLES;
    return r;
}

// An add_rows appends the entries of an executable to the malloced list that out points to, and adds their number to
// count.
typedef VkResult add_rows(vkc_device *dev, const VkPipelineExecutableInfoKHR *info, void *out, uint32_t *count);

static VkResult each_executable(vkc_device *dev, uint64_t pipeline, add_rows *add, void *out, uint32_t *count) {
    uint32_t n;
    *count = 0;
    VkResult r = count_executables(dev, pipeline, &n);
    for (uint32_t i = 0; r >= 0 && i < n; i++) {
        VkPipelineExecutableInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                            .pipeline = VKC_HANDLE(VkPipeline, pipeline),
                                            .executableIndex = i};
        r = add(dev, &info, out, count);
    }
    return r < 0 ? r : VK_SUCCESS;
}

// grow makes room in a malloced list for more elements after the first ones, and clears the new elements.
static void *grow(void *list, uint32_t first, uint32_t more, size_t size) {
    char *grown = realloc(list, ((size_t)first + more) * size);
    if (grown) memset(grown + first * size, 0, more * size);
    return grown;
}

static VkResult add_statistics(vkc_device *dev, const VkPipelineExecutableInfoKHR *info, void *out,
                               uint32_t *count) {
    vkc_statistic **list = out;
    uint32_t n = 0;
    VkResult r = dev->vkGetPipelineExecutableStatisticsKHR(dev->handle, info, &n, NULL);
    if (r < 0 || n == 0) return r;
    if (n > MAX_ROWS) n = MAX_ROWS;
    VkPipelineExecutableStatisticKHR *rows = calloc(n, sizeof *rows);
    vkc_statistic *grown = rows ? grow(*list, *count, n, sizeof *grown) : NULL;
    if (!grown) {
        free(rows);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    *list = grown;
    for (uint32_t i = 0; i < n; i++) rows[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    r = dev->vkGetPipelineExecutableStatisticsKHR(dev->handle, info, &n, rows);
    for (uint32_t i = 0; r >= 0 && i < n; i++) {
        vkc_statistic *s = &grown[(*count)++];
        memcpy(s->name, rows[i].name, sizeof s->name);
        s->format = (uint32_t)rows[i].format;
        s->bits = rows[i].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR ? rows[i].value.b32
                                                                                      : rows[i].value.u64;
    }
    free(rows);
    return r;
}

int32_t vkc_pipeline_statistics(vkc_device *dev, uint64_t pipeline, vkc_statistic **out, uint32_t *count) {
    *out = NULL;
    return each_executable(dev, pipeline, add_statistics, out, count);
}

static VkResult add_representations(vkc_device *dev, const VkPipelineExecutableInfoKHR *info, void *out,
                               uint32_t *count) {
    vkc_representation **list = out;
    uint32_t n = 0;
    VkResult r = dev->vkGetPipelineExecutableInternalRepresentationsKHR(dev->handle, info, &n, NULL);
    if (r < 0 || n == 0) return r;
    if (n > MAX_ROWS) n = MAX_ROWS;
    VkPipelineExecutableInternalRepresentationKHR *rows = calloc(n, sizeof *rows);
    vkc_representation *grown = rows ? grow(*list, *count, n, sizeof *grown) : NULL;
    if (!grown) {
        free(rows);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    *list = grown;
    for (uint32_t i = 0; i < n; i++) rows[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    // The first call writes the sizes, and the second one the data.
    r = dev->vkGetPipelineExecutableInternalRepresentationsKHR(dev->handle, info, &n, rows);
    for (uint32_t i = 0; r >= 0 && i < n; i++) {
        rows[i].pData = calloc(1, rows[i].dataSize + 1);
        if (!rows[i].pData) r = VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r >= 0) r = dev->vkGetPipelineExecutableInternalRepresentationsKHR(dev->handle, info, &n, rows);
    for (uint32_t i = 0; i < n; i++) {
        if (r < 0) {
            free(rows[i].pData);
            continue;
        }
        vkc_representation *s = &grown[(*count)++];
        memcpy(s->name, rows[i].name, sizeof s->name);
        s->is_text = rows[i].isText;
        s->size = rows[i].dataSize;
        s->data = rows[i].pData;
    }
    free(rows);
    return r;
}

int32_t vkc_pipeline_representations(vkc_device *dev, uint64_t pipeline, vkc_representation **out, uint32_t *count) {
    *out = NULL;
    return each_executable(dev, pipeline, add_representations, out, count);
}

void vkc_representations_free(vkc_representation *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) free(list[i].data);
    free(list);
}
