// The seam between this module and Kompute's own allocation.
//
// kp::Tensor makes its buffer and memory itself: it doesn't check either result, takes the first memory type that
// fits (on a discrete GPU the uncached one, slow to read back), gives its eStorage tensors no transfer usage, and
// its eDevice tensors a staging copy of the same size. Kompute is therefore built with vulkan.hpp's dynamic
// dispatcher, in which vkCreateBuffer and vkAllocateMemory hand over what Buffer has made and checked beforehand.
// Likewise every kp::Algorithm compiles a pipeline from an empty pipeline cache of its own; here it uses the device's
// cache, or is handed a pipeline that exists already (native/pipeline.hpp). And it binds storage buffers alone; here its
// descriptor sets have room for the same buffers as texel buffers.
//
// Kompute drops the results of most calls, and goes on with what a failed one has not made. So a table of all functions
// that it calls notes the first that fails, and hands none on to the driver from then on but those that destroy.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <vulkan/vulkan.h>

#include "device.hpp"

namespace nnvk {

// Fills the table through which Kompute calls Vulkan; a function that is not listed there stays a null pointer. Once per
// process, after `load_vulkan` and before any Kompute object is made.
void install_dispatcher();

// While it lives, it has the result of this thread's Kompute calls: that of the first that fails.
class Outcome {
  public:
    Outcome();
    ~Outcome();
    Outcome(const Outcome&) = delete;
    Outcome& operator=(const Outcome&) = delete;

    VkResult result = VK_SUCCESS;
    const char* call = "";
};

// Runs `function`, which calls Kompute. Throws as `check` if a call of Vulkan fails.
template <typename Function> void call_kompute(Device& device, Function&& function) {
    Outcome outcome;
    try {
        function();
    } catch (const std::runtime_error&) { // vulkan.hpp's own exceptions, and those of Kompute, say less
        device.check(outcome.result, outcome.call);
        throw;
    }
    device.check(outcome.result, outcome.call);
}

// While it lives, the next vkCreateBuffer and vkAllocateMemory of this thread's Kompute calls return these handles.
class Adoption {
  public:
    Adoption(VkBuffer buffer, VkDeviceMemory memory);
    ~Adoption();
    Adoption(const Adoption&) = delete;
    Adoption& operator=(const Adoption&) = delete;

    // Whether Kompute has taken both, and so will destroy them.
    bool complete() const { return !buffer && !memory; }

    VkBuffer buffer;
    VkDeviceMemory memory;
};

// While it lives, this thread's kp::Algorithm either compiles from `cache`, and `pipeline` is then what it has made, or
// takes `pipeline` where one is given. It has the specialization constants 0 and up of these values; kp::Algorithm would
// keep a copy for ever. With a `subgroup_size` it is compiled for subgroups of that size, which may have to be full. A pipeline that Kompute destroys meanwhile stays: it was one that was given.
class PipelineScope {
  public:
    explicit PipelineScope(VkPipeline pipeline) : PipelineScope(VK_NULL_HANDLE, pipeline, {}, 0, false) {}
    PipelineScope(VkPipelineCache cache, VkPipeline pipeline, std::vector<uint32_t> specialization,
                  uint32_t subgroup_size, bool full_subgroups);
    ~PipelineScope();
    PipelineScope(const PipelineScope&) = delete;
    PipelineScope& operator=(const PipelineScope&) = delete;

    VkPipelineCache cache;
    VkPipeline pipeline;
    const bool given;
    const std::vector<uint32_t> specialization;
    const uint32_t subgroup_size;
    const bool full_subgroups;
};

// While it lives, this thread's kp::Algorithm has, beside its storage buffers, which are bindings 0 and up, as many uniform
// texel buffers from kFirstTexels on. Whoever made it writes these descriptors, into `set`. And it has so many bytes of push
// constants, which are pushed through `layout`; kp::Algorithm would copy them, and not check that there is memory.
class BindingScope {
  public:
    static constexpr uint32_t kFirstTexels = 16;

    explicit BindingScope(uint32_t push_constant_size);
    ~BindingScope();
    BindingScope(const BindingScope&) = delete;
    BindingScope& operator=(const BindingScope&) = delete;

    const uint32_t push_constant_size;
    VkDescriptorSet set = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
};

} // namespace nnvk
