#include "probe.hpp"

#include <atomic>

#include "algorithm.hpp"
#include "buffer.hpp"
#include "device.hpp"
#include "error.hpp"
#include "program.hpp"

namespace nnvk {

namespace {

constexpr int64_t kPatienceNs = 10'000'000'000;
// Enough for a driver to spread over its threads.
constexpr uint32_t kGroups = 256;

// layout(local_size_x = 1) in; void main() {}
const std::vector<uint32_t> kNothing = {
    0x07230203, 0x00010300, 0, 5, 0,                   // SPIR-V 1.3, 5 ids
    0x00020011, 1,                                     // OpCapability Shader
    0x0003000e, 0, 1,                                  // OpMemoryModel Logical GLSL450
    0x0005000f, 5, 1, 0x6e69616d, 0,                   // OpEntryPoint GLCompute %1 "main"
    0x00060010, 1, 17, 1, 1, 1,                        // OpExecutionMode %1 LocalSize 1 1 1
    0x00020013, 2, 0x00030021, 3, 2,                   // %2 = OpTypeVoid, %3 = OpTypeFunction %2
    0x00050036, 2, 1, 0, 3,                            // %1 = OpFunction %2 None %3
    0x000200f8, 4, 0x000100fd, 0x00010038,             // %4 = OpLabel, OpReturn, OpFunctionEnd
};

std::atomic<unsigned> broken_in{0}; // the process in which a driver was found broken; 0: none, no child is number 0

} // namespace

void check_after_fork(const std::shared_ptr<Device>& device) {
    if (!vulkan_is_inherited()) {
        return;
    }
    if (broken_in != process_number()) {
        auto buffer = make_bound<Buffer>(device, 4, false);
        auto algorithm = make_bound<Algorithm>(device, std::vector<std::shared_ptr<Buffer>>{buffer}, kNothing,
                                               std::vector<uint32_t>{}, 0);
        auto* program = new Program(device); // with the device it stays where its work never ends
        program->dispatch(std::move(algorithm), {kGroups, 1, 1}, {});
        program->finish({}, {});
        if (program->run({}, {}, kPatienceNs)) {
            DriverCall call;
            delete program;
            return;
        }
        broken_in = process_number();
    }
    throw VulkanError("the driver does not work in a forked child of a process that has used it; start processes with "
                      "multiprocessing's method spawn or forkserver",
                      VK_ERROR_INITIALIZATION_FAILED);
}

} // namespace nnvk
