// A recorded command buffer, submitted many times: one kp::Sequence.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <vulkan/vulkan.h>

#include "algorithm.hpp"
#include "buffer.hpp"
#include "fence.hpp"

namespace kp {
class OpBase;
class Sequence;
} // namespace kp

namespace nnvk {

class Operation;
class Queries;

class Program : public ProcessBound, public std::enable_shared_from_this<Program> {
  public:
    // Where an input is put before a submission, or an output found after it: a range of a host-visible buffer.
    struct Port {
        std::shared_ptr<Buffer> buffer;
        uint64_t offset, size;
    };
    // Host memory of the caller; null data leaves the port alone.
    struct HostBytes {
        void* data;
        uint64_t size;
    };

    explicit Program(std::shared_ptr<Device> device);
    // Only once nothing is in flight; see `settle`.
    ~Program();

    void copy(std::shared_ptr<Buffer> src, uint64_t src_offset, std::shared_ptr<Buffer> dst, uint64_t dst_offset,
              uint64_t size);
    void fill(std::shared_ptr<Buffer> dst, uint64_t offset, uint64_t size, uint32_t value);
    void dispatch(std::shared_ptr<Algorithm> algorithm, std::array<uint32_t, 3> groups,
                  std::vector<uint8_t> push_constants);
    void warm_up(std::shared_ptr<Algorithm> algorithm);
    void barrier();
    uint32_t timestamp();
    void finish(std::vector<Port> inputs, std::vector<Port> outputs);

    bool run(const std::vector<HostBytes>& inputs, const std::vector<HostBytes>& outputs, int64_t timeout_ns,
             const Meanwhile& meanwhile = {});
    std::shared_ptr<Fence> submit(const std::vector<HostBytes>& inputs);
    bool wait(int64_t timeout_ns, const Meanwhile& meanwhile = {});
    // Waits for the work in flight, if any, also where it fails.
    void settle() noexcept;
    void fetch(const std::vector<HostBytes>& outputs);
    std::vector<uint64_t> timestamps_ns();

    const std::shared_ptr<Device> device;

  private:
    void add(std::shared_ptr<Operation> operation);
    void record_operations(kp::Sequence& sequence) const;
    void require_recording() const;
    void require_same_device(const char* what, const Device& other) const;
    void require_complete(const char* what) const;
    static void check_sizes(const char* what, const std::vector<Port>& ports, const std::vector<HostBytes>& bytes);
    std::shared_ptr<Fence> start(const std::vector<HostBytes>& inputs);
    void copy_out(const std::vector<HostBytes>& outputs) const;

    std::mutex mutex_; // recording and state; never held during a wait
    bool finished_ = false;
    bool running_ = false; // a run() is between its start and its outputs
    std::vector<std::shared_ptr<Operation>> operations_;
    const Algorithm* bound_ = nullptr; // whose pipeline is bound where the recording stands
    std::shared_ptr<Queries> queries_;
    std::vector<Port> inputs_, outputs_;
    std::shared_ptr<kp::Sequence> sequence_;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    std::shared_ptr<Fence> last_; // of the last submission
};

} // namespace nnvk
