#include "loader.hpp"

#include <mutex>

#include <dlfcn.h>

#include "error.hpp"

namespace nnvk {

#define NNVK_DEFINE(name) PFN_##name name = nullptr;
NNVK_VULKAN_FUNCTIONS(NNVK_DEFINE)
#undef NNVK_DEFINE

namespace {

constexpr const char* kLoader = "libvulkan.so.1";

std::mutex mutex;
void* loader = nullptr;

// dlerror's text is the thread's own, and null where another dl call has been there in between.
std::string last_error() {
    const char* text = dlerror();
    return text ? text : "unknown error";
}

template <typename Function> void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function) {
        throw LoaderError("the Vulkan loader is older than Vulkan 1.1: " + last_error());
    }
}

} // namespace

void load_vulkan() {
    std::lock_guard lock(mutex);
    if (loader) {
        return;
    }
    void* library = dlopen(kLoader, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        throw LoaderError("the Vulkan loader can't be loaded: " + last_error());
    }
#define NNVK_FIND(name) find(library, #name, name);
    NNVK_VULKAN_FUNCTIONS(NNVK_FIND)
#undef NNVK_FIND
    loader = library; // for good: drivers leave threads behind that must not lose their code
}

} // namespace nnvk
