/* A Vulkan driver (ICD) that hands everything on to another driver, and answers wrongly where the environment says so.

   PROXY_DRIVER       the library of the other driver
   PROXY_NAME         deviceName of its physical devices
   PROXY_TYPE         deviceType, a number of VkPhysicalDeviceType
   PROXY_VERSION      apiVersion, such as 1.0.66
   PROXY_QUEUE_FLAGS  queueFlags of all queue families, a number of VkQueueFlagBits
   PROXY_DEVICES      physical devices at most
   PROXY_FAILS        names of functions that do nothing but return PROXY_RESULT, with commas
   PROXY_RESULT       a number of VkResult

   What is not set, or empty, is answered as the other driver does. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vk_icd.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name);
EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);

/* The instance, for functions that the other driver only gives with one. */
static VkInstance made;

/* A variable, or NULL where it is empty. */
static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void set_number(const char *name, uint32_t *number) {
    const char *value = setting(name);
    if (value) {
        *number = (uint32_t)strtoul(value, NULL, 0);
    }
}

/* A function that the library of the other driver exports. */
static void *exported(const char *name) {
    static void *library;
    const char *path = setting("PROXY_DRIVER");
    if (!library) {
        library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    if (!library) {
        fprintf(stderr, "PROXY_DRIVER: %s\n", path ? dlerror() : "is not set");
        abort();
    }
    return dlsym(library, name);
}

static PFN_vkVoidFunction its(VkInstance instance, const char *name) {
    return ((PFN_vkGetInstanceProcAddr)exported("vk_icdGetInstanceProcAddr"))(instance, name);
}

#define ITS(name) ((PFN_##name)its(made, #name))

static VKAPI_ATTR VkResult VKAPI_CALL fail(void) {
    uint32_t result = (uint32_t)VK_ERROR_UNKNOWN;
    set_number("PROXY_RESULT", &result);
    return (VkResult)result;
}

static int fails(const char *name) {
    const char *list = setting("PROXY_FAILS");
    const size_t length = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += length) {
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

static void change(VkPhysicalDeviceProperties *properties) {
    unsigned major, minor, patch;
    const char *name = setting("PROXY_NAME"), *version = setting("PROXY_VERSION");
    uint32_t type = properties->deviceType;
    if (name) {
        snprintf(properties->deviceName, sizeof properties->deviceName, "%s", name);
    }
    if (version && sscanf(version, "%u.%u.%u", &major, &minor, &patch) == 3) {
        properties->apiVersion = VK_MAKE_API_VERSION(0, major, minor, patch);
    }
    set_number("PROXY_TYPE", &type);
    properties->deviceType = (VkPhysicalDeviceType)type;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *memory,
                                                      VkInstance *instance) {
    VkResult result = ((PFN_vkCreateInstance)its(VK_NULL_HANDLE, "vkCreateInstance"))(info, memory, instance);
    made = result == VK_SUCCESS ? *instance : made;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices) {
    PFN_vkEnumeratePhysicalDevices function = (PFN_vkEnumeratePhysicalDevices)its(instance, "vkEnumeratePhysicalDevices");
    uint32_t found = 0, most = UINT32_MAX;
    VkResult result = function(instance, &found, NULL);
    set_number("PROXY_DEVICES", &most);
    found = found < most ? found : most;
    if (result != VK_SUCCESS || !devices) {
        *count = found;
        return result;
    }
    const uint32_t room = *count;
    *count = found < room ? found : room;
    result = *count ? function(instance, count, devices) : VK_SUCCESS;
    return result == VK_INCOMPLETE && *count == found ? VK_SUCCESS : result;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties) {
    ITS(vkGetPhysicalDeviceProperties)(device, properties);
    change(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties) {
    ITS(vkGetPhysicalDeviceProperties2)(device, properties);
    change(&properties->properties);
}

static VKAPI_ATTR void VKAPI_CALL get_queues(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties *families) {
    ITS(vkGetPhysicalDeviceQueueFamilyProperties)(device, count, families);
    for (uint32_t family = 0; families && family < *count; family++) {
        set_number("PROXY_QUEUE_FLAGS", &families[family].queueFlags);
    }
}

static PFN_vkVoidFunction changed(const char *name);

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char *name) {
    PFN_vkVoidFunction found = ITS(vkGetDeviceProcAddr)(device, name);
    PFN_vkVoidFunction own = changed(name);
    return found && own ? own : found;
}

/* The function in place of the other driver's; NULL for what is its own. */
static PFN_vkVoidFunction changed(const char *name) {
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_function},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
        {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
        {"vkGetPhysicalDeviceProperties2KHR", (PFN_vkVoidFunction)get_properties2},
        {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)get_queues},
    };
    if (fails(name)) {
        return (PFN_vkVoidFunction)fail;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!strcmp(functions[i].name, name)) {
            return functions[i].function;
        }
    }
    return NULL;
}

PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name) {
    PFN_vkVoidFunction own = changed(name);
    return own ? own : its(instance, name);
}

PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name) {
    PFN_GetPhysicalDeviceProcAddr function = (PFN_GetPhysicalDeviceProcAddr)exported("vk_icdGetPhysicalDeviceProcAddr");
    PFN_vkVoidFunction found = function ? function(instance, name) : its(instance, name);
    PFN_vkVoidFunction own = changed(name);
    return found && own ? own : found;
}

VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    return ((PFN_vkNegotiateLoaderICDInterfaceVersion)exported("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}
