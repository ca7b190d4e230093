// Loader, instance and validation messages.

#include "vkc_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

static PFN_vkGetInstanceProcAddr loader_entry;

#if defined(_WIN32)
// On Windows the loader is a part of the system. A search by name alone could find another library in the working
// directory or in the program's folder.
static void *open_entry(void) {
    HMODULE lib = LoadLibraryExA("vulkan-1.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    return lib ? (void *)GetProcAddress(lib, "vkGetInstanceProcAddr") : NULL;
}
#else
// Code that lavapipe compiles calls functions of libm by name, such as fmaxf for a maximum of f16 that is the same for
// a whole subgroup. LLVM looks for them in the global scope. In a program that does not link libm it finds none, and
// the shader calls address 0. So libm is loaded here.
static void open_libm(void) {
#if !defined(__APPLE__)
    dlopen("libm.so.6", RTLD_LAZY | RTLD_GLOBAL); // another C library has these functions in itself
#endif
}

static void *open_entry(void) {
    open_libm();
    static const char *const names[] = {
#if defined(__APPLE__)
        // The folders in which the Vulkan SDK and the two package managers install the loader. The paths are
        // absolute, because a bare name is looked up in the working directory too.
        "/usr/local/lib/libvulkan.1.dylib", "/opt/homebrew/lib/libvulkan.1.dylib", "/opt/local/lib/libvulkan.1.dylib",
        "/usr/local/lib/libMoltenVK.dylib", "/opt/homebrew/lib/libMoltenVK.dylib", "/opt/local/lib/libMoltenVK.dylib",
#else
        "libvulkan.so.1", "libvulkan.so",
#endif
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        void *entry = lib ? dlsym(lib, "vkGetInstanceProcAddr") : NULL;
        if (entry) return entry;
    }
    return NULL;
}
#endif

const char *vkc_load(void) {
    if (loader_entry) return NULL;
    loader_entry = (PFN_vkGetInstanceProcAddr)open_entry();
#if defined(_WIN32)
    return loader_entry ? NULL : "vulkan-1.dll cannot be loaded";
#elif defined(__APPLE__)
    return loader_entry ? NULL : "neither libvulkan.dylib nor libMoltenVK.dylib can be loaded";
#else
    return loader_entry ? NULL : "libvulkan.so.1 cannot be loaded";
#endif
}

void *vkc_loader_entry(void) { return (void *)loader_entry; }

PFN_vkVoidFunction vkc_loader_lookup(VkInstance instance, const char *name) { return loader_entry(instance, name); }

// Messages. A spin lock is enough: messages are rare, and the sections short.

static char message_lock;
static char *messages[VKC_MAX_MESSAGES];
static uint64_t message_count;

static void lock_messages(void) {
    while (__atomic_test_and_set(&message_lock, __ATOMIC_ACQUIRE)) {
    }
}

static void unlock_messages(void) { __atomic_clear(&message_lock, __ATOMIC_RELEASE); }

void vkc_message_inject(const char *text) {
    lock_messages();
    if (message_count < VKC_MAX_MESSAGES) {
        size_t n = strlen(text) + 1;
        char *copy = malloc(n);
        if (copy) memcpy(copy, text, n);
        messages[message_count] = copy;
    }
    message_count++;
    unlock_messages();
}

uint64_t vkc_message_count(void) {
    lock_messages();
    uint64_t n = message_count;
    unlock_messages();
    return n;
}

int64_t vkc_message(uint64_t i, char *buf, uint64_t size) {
    lock_messages();
    int64_t n = -1;
    if (i < message_count && i < VKC_MAX_MESSAGES && size > 0) {
        const char *text = messages[i] ? messages[i] : "(out of memory)";
        n = (int64_t)strlen(text);
        uint64_t copied = (uint64_t)n < size - 1 ? (uint64_t)n : size - 1;
        memcpy(buf, text, copied);
        buf[copied] = 0;
    }
    unlock_messages();
    return n;
}

void vkc_messages_clear(void) {
    lock_messages();
    for (uint64_t i = 0; i < message_count && i < VKC_MAX_MESSAGES; i++) {
        free(messages[i]);
        messages[i] = NULL;
    }
    message_count = 0;
    unlock_messages();
}

static VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                      VkDebugUtilsMessageTypeFlagsEXT types,
                                      const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    (void)severity, (void)types, (void)user;
    const char *id = data->pMessageIdName ? data->pMessageIdName : "no id";
    const char *text = data->pMessage ? data->pMessage : "(no text)";
    size_t size = strlen(id) + strlen(text) + 3;
    char *line = malloc(size);
    if (line) snprintf(line, size, "%s: %s", id, text);
    vkc_message_inject(line ? line : id);
    free(line);
    return VK_FALSE;
}

// Messages of type GENERAL are left out: they are the loader's own, about drivers of other devices.
static VkDebugUtilsMessengerCreateInfoEXT messenger_info(void) {
    VkDebugUtilsMessengerCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    info.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    info.messageType =
        VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    info.pfnUserCallback = on_message;
    return info;
}

// Instance.

static uint32_t loader_version(void) {
    PFN_vkEnumerateInstanceVersion version =
        (PFN_vkEnumerateInstanceVersion)loader_entry(NULL, "vkEnumerateInstanceVersion");
    uint32_t api = VK_API_VERSION_1_0;
    if (!version || version(&api) != VK_SUCCESS) return VK_API_VERSION_1_0;
    return api;
}

// list_instance_extensions returns a malloced list, or NULL and a count of 0.
static VkExtensionProperties *list_instance_extensions(uint32_t *count) {
    PFN_vkEnumerateInstanceExtensionProperties list =
        (PFN_vkEnumerateInstanceExtensionProperties)loader_entry(NULL, "vkEnumerateInstanceExtensionProperties");
    *count = 0;
    if (!list || list(NULL, count, NULL) != VK_SUCCESS || *count == 0) return NULL;
    VkExtensionProperties *all = calloc(*count, sizeof *all);
    if (!all || list(NULL, count, all) < 0) {
        free(all);
        *count = 0;
        return NULL;
    }
    return all;
}

static int has_extension(const VkExtensionProperties *all, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(all[i].extensionName, name)) return 1;
    return 0;
}

static int load_instance_functions(vkc_instance *inst) {
    int complete = 1;
#define LOAD(name) inst->name = (PFN_##name)loader_entry(inst->handle, #name);
#define REQUIRE(name) \
    LOAD(name) \
    if (!inst->name) complete = 0;
    VKC_INSTANCE_FUNCTIONS(REQUIRE)
    VKC_OPTIONAL_INSTANCE_FUNCTIONS(LOAD)
#undef REQUIRE
#undef LOAD
    return complete;
}

int32_t vkc_instance_create(uint32_t newest, vkc_instance **out) {
    uint32_t loader = loader_version();
    if (loader < VK_API_VERSION_1_1) return VK_ERROR_INCOMPATIBLE_DRIVER;

    uint32_t listed;
    VkExtensionProperties *all = list_instance_extensions(&listed);
    int messages_wanted = has_extension(all, listed, "VK_EXT_debug_utils");
    int portability = has_extension(all, listed, "VK_KHR_portability_enumeration");
    free(all);

    const char *enabled[2];
    uint32_t count = 0;
    if (messages_wanted) enabled[count++] = "VK_EXT_debug_utils";
    if (portability) enabled[count++] = "VK_KHR_portability_enumeration";

    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "vkc",
                             .pEngineName = "vkc",
                             // Loaders of 1.1 and newer accept a higher version than their own. A device still
                             // uses its own version.
                             .apiVersion = newest};
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info();
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pNext = messages_wanted ? &messenger : NULL,
                                 .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
                                 .pApplicationInfo = &app,
                                 .enabledExtensionCount = count,
                                 .ppEnabledExtensionNames = enabled};
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)loader_entry(NULL, "vkCreateInstance");
    if (!create) return VK_ERROR_INITIALIZATION_FAILED;
    vkc_instance *inst = calloc(1, sizeof *inst);
    if (!inst) return VK_ERROR_OUT_OF_HOST_MEMORY;
    inst->api = loader < app.apiVersion ? loader : app.apiVersion;
    VkResult r = create(&info, NULL, &inst->handle);
    if (r != VK_SUCCESS) {
        free(inst);
        return r;
    }
    if (!load_instance_functions(inst)) {
        if (inst->vkDestroyInstance) inst->vkDestroyInstance(inst->handle, NULL);
        free(inst);
        return VK_ERROR_INITIALIZATION_FAILED;
    }
    if (messages_wanted && inst->vkCreateDebugUtilsMessengerEXT)
        inst->vkCreateDebugUtilsMessengerEXT(inst->handle, &messenger, NULL, &inst->messenger);
    *out = inst;
    return VK_SUCCESS;
}

void *vkc_instance_handle(vkc_instance *inst) { return inst->handle; }

uint32_t vkc_instance_api(vkc_instance *inst) { return inst->api; }

void vkc_instance_destroy(vkc_instance *inst) {
    if (inst->messenger) inst->vkDestroyDebugUtilsMessengerEXT(inst->handle, inst->messenger, NULL);
    inst->vkDestroyInstance(inst->handle, NULL);
    free(inst);
}
