// Whether a driver still works in a child of a process that had used it.
#pragma once

#include <memory>

namespace nnvk {

class Device;

// Runs a shader that does nothing on a new device, in a process whose parent had used Vulkan before the fork. Some drivers
// have threads that all their devices share and that the child doesn't have: there nothing would ever end. Throws
// VulkanError then, for good in this process.
void check_after_fork(const std::shared_ptr<Device>& device);

} // namespace nnvk
