// The operations that a Program records: subclasses of kp::OpBase. Kompute's own operations only copy whole tensors,
// only order a transfer before a shader, and do not reset the query pool.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <kompute/Algorithm.hpp>
#include <kompute/operations/OpBase.hpp>

#include "algorithm.hpp"
#include "buffer.hpp"
#include "loader.hpp"

namespace nnvk {

// The kinds of work on memory that barriers order, as bits.
enum Work : uint32_t { kNoWork = 0, kTransfers = 1, kShaders = 2, kAllWork = 3 };

// A kp::OpBase that has nothing to do around a submission.
class Operation : public kp::OpBase {
  public:
    virtual Work work() const { return kNoWork; }
    void preEval(const vk::CommandBuffer&) final {}
    void postEval(const vk::CommandBuffer&) final {}
};

// Hands out the command buffer that the kp::Sequence records into.
class OpCapture final : public Operation {
  public:
    explicit OpCapture(VkCommandBuffer& out) : out_(out) {}
    void record(const vk::CommandBuffer& commands) override { out_ = commands; }

  private:
    VkCommandBuffer& out_;
};

class OpCopy final : public Operation {
  public:
    OpCopy(std::shared_ptr<Buffer> src, std::shared_ptr<Buffer> dst, VkBufferCopy region)
      : src_(std::move(src)), dst_(std::move(dst)), region_(region) {}
    void record(const vk::CommandBuffer& commands) override {
        vkCmdCopyBuffer(commands, src_->handle(), dst_->handle(), 1, &region_);
    }
    Work work() const override { return kTransfers; }

  private:
    std::shared_ptr<Buffer> src_, dst_;
    VkBufferCopy region_;
};

class OpFill final : public Operation {
  public:
    OpFill(std::shared_ptr<Buffer> dst, uint64_t offset, uint64_t size, uint32_t value)
      : dst_(std::move(dst)), offset_(offset), size_(size), value_(value) {}
    void record(const vk::CommandBuffer& commands) override {
        vkCmdFillBuffer(commands, dst_->handle(), offset_, size_, value_);
    }
    Work work() const override { return kTransfers; }

  private:
    std::shared_ptr<Buffer> dst_;
    uint64_t offset_, size_;
    uint32_t value_;
};

class OpDispatch final : public Operation {
  public:
    // bind: whether pipeline and descriptor set must be bound first, or are those of the dispatch before.
    OpDispatch(std::shared_ptr<Algorithm> algorithm, std::array<uint32_t, 3> groups, std::vector<uint8_t> push_constants,
               bool bind)
      : algorithm_(std::move(algorithm)), groups_(groups), push_constants_(std::move(push_constants)), bind_(bind) {}
    void record(const vk::CommandBuffer& commands) override {
        std::lock_guard lock(algorithm_->recording());
        kp::Algorithm& kompute = *algorithm_->kompute();
        kompute.setWorkgroup(groups_);
        if (bind_) {
            kompute.recordBindCore(commands);
        }
        if (!push_constants_.empty()) {
            vkCmdPushConstants(commands, algorithm_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                               static_cast<uint32_t>(push_constants_.size()), push_constants_.data());
        }
        kompute.recordDispatch(commands);
    }
    Work work() const override { return kShaders; }

  private:
    std::shared_ptr<Algorithm> algorithm_;
    std::array<uint32_t, 3> groups_;
    std::vector<uint8_t> push_constants_;
    bool bind_;
};

// A dispatch of no workgroups, which makes drivers compile what they leave until a pipeline is first used.
class OpWarmUp final : public Operation {
  public:
    explicit OpWarmUp(std::shared_ptr<Algorithm> algorithm) : algorithm_(std::move(algorithm)) {}
    void record(const vk::CommandBuffer& commands) override {
        std::lock_guard lock(algorithm_->recording());
        kp::Algorithm& kompute = *algorithm_->kompute();
        kompute.recordBindCore(commands);
        if (algorithm_->push_constant_size != 0) {
            const std::vector<uint8_t> zeros(algorithm_->push_constant_size);
            vkCmdPushConstants(commands, algorithm_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                               algorithm_->push_constant_size, zeros.data());
        }
        vkCmdDispatch(commands, 0, 0, 0); // kp::Algorithm would make it one workgroup
    }
    Work work() const override { return kShaders; } // for the validation layer, which does not count workgroups

  private:
    std::shared_ptr<Algorithm> algorithm_;
};

// A global memory barrier: one of these is cheaper than one for every buffer, and no driver gains from the latter.
class OpBarrier final : public Operation {
  public:
    struct Scope {
        VkPipelineStageFlags stages;
        VkAccessFlags access;
    };
    static constexpr Scope kHostWrites{VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_WRITE_BIT};
    static constexpr Scope kHostReads{VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT};
    static constexpr Scope writes(uint32_t work) {
        return {stages(work), VkFlags(work & kTransfers ? VK_ACCESS_TRANSFER_WRITE_BIT : 0) |
                                  VkFlags(work & kShaders ? VK_ACCESS_SHADER_WRITE_BIT : 0)};
    }
    static constexpr Scope accesses(uint32_t work) {
        return {stages(work), writes(work).access | VkFlags(work & kTransfers ? VK_ACCESS_TRANSFER_READ_BIT : 0) |
                                  VkFlags(work & kShaders ? VK_ACCESS_SHADER_READ_BIT : 0)};
    }

    OpBarrier(Scope src, Scope dst) : src_(src), dst_(dst) {}
    void record(const vk::CommandBuffer& commands) override {
        VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, src_.access, dst_.access};
        vkCmdPipelineBarrier(commands, src_.stages, dst_.stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    }

  private:
    static constexpr VkPipelineStageFlags stages(uint32_t work) {
        return VkFlags(work & kTransfers ? VK_PIPELINE_STAGE_TRANSFER_BIT : 0) |
               VkFlags(work & kShaders ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT : 0);
    }

    Scope src_, dst_;
};

// A place where all work so far comes before all that follows. `Program::finish` makes barriers of these.
class OpOrder final : public Operation {
  public:
    void record(const vk::CommandBuffer&) override {}
};

constexpr OpBarrier::Scope operator|(OpBarrier::Scope a, OpBarrier::Scope b) {
    return {a.stages | b.stages, a.access | b.access};
}

// Timestamp queries of one program: the pool is made when their number is known.
class Queries {
  public:
    explicit Queries(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    ~Queries() { vkDestroyQueryPool(device_->handle(), pool_, nullptr); }
    Queries(const Queries&) = delete;
    Queries& operator=(const Queries&) = delete;

    void create();
    // The values of the last submission, in nanoseconds. Only once it is complete.
    std::vector<uint64_t> read_ns() const;

    VkQueryPool pool() const { return pool_; }
    uint32_t count = 0;

  private:
    std::shared_ptr<Device> device_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
};

class OpResetQueries final : public Operation {
  public:
    explicit OpResetQueries(std::shared_ptr<Queries> queries) : queries_(std::move(queries)) {}
    void record(const vk::CommandBuffer& commands) override {
        vkCmdResetQueryPool(commands, queries_->pool(), 0, queries_->count);
    }

  private:
    std::shared_ptr<Queries> queries_;
};

class OpTimestamp final : public Operation {
  public:
    OpTimestamp(std::shared_ptr<Queries> queries, uint32_t index) : queries_(std::move(queries)), index_(index) {}
    void record(const vk::CommandBuffer& commands) override {
        // At the bottom of the pipe: when every command before it is complete.
        vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_->pool(), index_);
    }

  private:
    std::shared_ptr<Queries> queries_;
    uint32_t index_;
};

} // namespace nnvk
