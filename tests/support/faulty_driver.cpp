// A Vulkan driver (ICD) that hands everything on to another driver, and lets one call fail.
//
// All functions of native/loader.hpp that have a result are counted. A process says through `faulty_fail`, or by
// variables, which call fails, and how:
//
// FAULTY_DRIVER  the library of the other driver
// FAULTY_CALL    the number of the call, from 1 on; 0 or not set: none
// FAULTY_ONLY    a function: only its calls are counted
// FAULTY_ERROR   the place of the error among those that the function may give; "hang": the call never returns;
//                "timeout": from this call on, no work ever ends for the caller
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <vulkan/vk_icd.h>

#include "loader.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

#define FUNCTIONS(X) NNVK_VULKAN_FUNCTIONS(X) X(vkGetFenceFdKHR)

namespace {

constexpr long kHang = -1, kTimeout = -2;

// The errors of a function beside OUT_OF_HOST_MEMORY and OUT_OF_DEVICE_MEMORY, as vk.xml lists them.
const std::vector<VkResult> kNone;
const struct {
    const char* function;
    std::vector<VkResult> results;
} kOthers[] = {
    {"vkAllocateDescriptorSets", {VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY}},
    {"vkAllocateMemory", {VK_ERROR_INVALID_EXTERNAL_HANDLE, VK_ERROR_TOO_MANY_OBJECTS}},
    {"vkCreateComputePipelines", {VK_ERROR_INVALID_SHADER_NV, VK_PIPELINE_COMPILE_REQUIRED}},
    {"vkCreateDescriptorPool", {VK_ERROR_FRAGMENTATION}},
    {"vkCreateDevice",
     {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT,
      VK_ERROR_TOO_MANY_OBJECTS, VK_ERROR_DEVICE_LOST}},
    {"vkCreateInstance",
     {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_EXTENSION_NOT_PRESENT,
      VK_ERROR_INCOMPATIBLE_DRIVER}},
    {"vkCreateShaderModule", {VK_ERROR_INVALID_SHADER_NV}},
    {"vkDeviceWaitIdle", {VK_ERROR_DEVICE_LOST}},
    {"vkEnumerateDeviceExtensionProperties", {VK_INCOMPLETE, VK_ERROR_LAYER_NOT_PRESENT}},
    {"vkEnumeratePhysicalDevices", {VK_INCOMPLETE, VK_ERROR_INITIALIZATION_FAILED}},
    {"vkGetFenceFdKHR", {VK_ERROR_TOO_MANY_OBJECTS}},
    {"vkGetFenceStatus", {VK_NOT_READY, VK_ERROR_DEVICE_LOST}},
    {"vkGetPipelineCacheData", {VK_INCOMPLETE}},
    {"vkGetQueryPoolResults", {VK_NOT_READY, VK_ERROR_DEVICE_LOST}},
    {"vkMapMemory", {VK_ERROR_MEMORY_MAP_FAILED}},
    {"vkQueueSubmit", {VK_ERROR_DEVICE_LOST}},
    {"vkWaitForFences", {VK_TIMEOUT, VK_ERROR_DEVICE_LOST}},
};

const std::vector<VkResult>& others(const char* function) {
    for (const auto& each : kOthers) {
        if (!std::strcmp(each.function, function)) {
            return each.results;
        }
    }
    return kNone;
}

long errors_of(const char* function) { return 3 + static_cast<long>(others(function).size()); }

VkResult error_of(const char* function, long place) {
    constexpr VkResult kAll[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_UNKNOWN};
    return place < 3 ? kAll[place] : others(function)[place - 3];
}

struct State {
    std::mutex mutex;
    std::vector<const char*> calls;
    long at = 0, how = 0;
    std::string only;
    bool times_out = false;
    VkInstance instance = VK_NULL_HANDLE;

    State() {
        const char* call = std::getenv("FAULTY_CALL");
        const char* error = std::getenv("FAULTY_ERROR");
        at = call ? std::atol(call) : 0;
        only = std::getenv("FAULTY_ONLY") ? std::getenv("FAULTY_ONLY") : "";
        const std::string name = error ? error : "0";
        how = name == "hang" ? kHang : name == "timeout" ? kTimeout : std::atol(name.c_str());
    }
};

State& state() {
    static State& made = *new State; // drivers are called after static objects are gone
    return made;
}

// Counts a call. True: it has the result, and is not handed on.
bool fails(const char* function, VkResult* result) {
    State& now = state();
    std::unique_lock lock(now.mutex);
    const bool counts = now.only.empty() || now.only == function;
    if (counts) {
        now.calls.push_back(function);
    }
    if (counts && static_cast<long>(now.calls.size()) == now.at) {
        if (now.how == kHang) {
            lock.unlock();
            for (;;) {
                pause();
            }
        }
        if (now.how == kTimeout) {
            now.times_out = true;
        } else {
            *result = error_of(function, now.how % errors_of(function));
            return true;
        }
    }
    if (now.times_out && (!std::strcmp(function, "vkWaitForFences") || !std::strcmp(function, "vkGetFenceStatus"))) {
        lock.unlock();
        usleep(1000);
        *result = !std::strcmp(function, "vkWaitForFences") ? VK_TIMEOUT : VK_NOT_READY;
        return true;
    }
    return false;
}

void* exported(const char* name) {
    static void* const library = dlopen(std::getenv("FAULTY_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "FAULTY_DRIVER: %s\n", dlerror());
        std::abort();
    }
    return dlsym(library, name);
}

PFN_vkVoidFunction its(VkInstance instance, const char* name) {
    return reinterpret_cast<PFN_vkGetInstanceProcAddr>(exported("vk_icdGetInstanceProcAddr"))(instance, name);
}

PFN_vkVoidFunction changed(const char* name, PFN_vkVoidFunction found);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
    const auto get = reinterpret_cast<PFN_vkGetDeviceProcAddr>(its(state().instance, "vkGetDeviceProcAddr"));
    return changed(name, get(device, name));
}

// A function of the other driver, and the one in its place.
template <int number, typename Function> struct Replaced;
template <int number, typename Result, typename... Arguments> struct Replaced<number, Result(VKAPI_PTR*)(Arguments...)> {
    static inline const char* name = nullptr;
    static inline Result(VKAPI_PTR* next)(Arguments...) = nullptr;

    static VKAPI_ATTR Result VKAPI_CALL call(Arguments... arguments) {
        VkResult result;
        return fails(name, &result) ? result : next(arguments...);
    }

    static PFN_vkVoidFunction of(const char* function, PFN_vkVoidFunction found) {
        if constexpr (std::is_same_v<Result, VkResult>) {
            name = function;
            next = reinterpret_cast<decltype(next)>(found);
            return reinterpret_cast<PFN_vkVoidFunction>(call);
        }
        return found;
    }
};

// The function in place of the other driver's `found`, or this.
PFN_vkVoidFunction changed(const char* name, PFN_vkVoidFunction found) {
    if (!found) {
        return found;
    }
    if (!std::strcmp(name, "vkGetDeviceProcAddr")) {
        return reinterpret_cast<PFN_vkVoidFunction>(device_function);
    }
#define CHANGE(function)                                                                                              \
    if (!std::strcmp(name, #function)) {                                                                              \
        return Replaced<__COUNTER__, PFN_##function>::of(#function, found);                                             \
    }
    FUNCTIONS(CHANGE)
    return found;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* memory,
                                               VkInstance* instance) {
    VkResult result;
    if (fails("vkCreateInstance", &result)) {
        return result;
    }
    result = reinterpret_cast<PFN_vkCreateInstance>(its(VK_NULL_HANDLE, "vkCreateInstance"))(info, memory, instance);
    state().instance = result == VK_SUCCESS ? *instance : state().instance;
    return result;
}

} // namespace

EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char* name) {
    if (!std::strcmp(name, "vkCreateInstance")) {
        return reinterpret_cast<PFN_vkVoidFunction>(create_instance);
    }
    return changed(name, its(instance, name));
}

EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char* name) {
    const auto get = reinterpret_cast<PFN_GetPhysicalDeviceProcAddr>(exported("vk_icdGetPhysicalDeviceProcAddr"));
    return changed(name, get ? get(instance, name) : its(instance, name));
}

EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t* version) {
    using Negotiate = PFN_vkNegotiateLoaderICDInterfaceVersion;
    return reinterpret_cast<Negotiate>(exported("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}

// Counts calls anew. `at`, `how`: as FAULTY_CALL and FAULTY_ERROR, -1 for "hang" and -2 for "timeout".
EXPORT void faulty_fail(long at, long how) {
    std::lock_guard lock(state().mutex);
    state().calls.clear();
    state().at = at;
    state().how = how;
    state().times_out = false;
}

// The calls since then.
EXPORT long faulty_calls() {
    std::lock_guard lock(state().mutex);
    return static_cast<long>(state().calls.size());
}

EXPORT const char* faulty_name(long call) {
    std::lock_guard lock(state().mutex);
    return state().calls.at(static_cast<size_t>(call - 1));
}

EXPORT long faulty_errors(const char* function) { return errors_of(function); }

EXPORT long faulty_result(const char* function, long place) { return error_of(function, place); }
