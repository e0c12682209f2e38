#include "program.hpp"

#include <cstring>

#include <kompute/Sequence.hpp>

#include "dispatch.hpp"
#include "error.hpp"
#include "loader.hpp"
#include "operations.hpp"

namespace nnvk {

void Queries::create() {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = count;
    device_->check(vkCreateQueryPool(device_->handle(), &info, nullptr, &pool_), "vkCreateQueryPool");
}

std::vector<uint64_t> Queries::read_ns() const {
    std::vector<uint64_t> values(count);
    device_->check(vkGetQueryPoolResults(device_->handle(), pool_, 0, count, count * sizeof(uint64_t), values.data(),
                                         sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                   "vkGetQueryPoolResults");
    const uint32_t bits = device_->physical->timestamp_valid_bits;
    const uint64_t mask = bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    const double period = device_->physical->properties.limits.timestampPeriod;
    for (uint64_t& value : values) {
        value = static_cast<uint64_t>(static_cast<long double>(value & mask) * period);
    }
    return values;
}

Program::Program(std::shared_ptr<Device> device_)
  : device(std::move(device_)), queries_(std::make_shared<Queries>(device)) {
    device->require_own();
}

Program::~Program() {
    // The command buffer goes before what it refers to.
    sequence_.reset();
    operations_.clear();
}

void Program::settle() noexcept {
    if (last_) {
        try {
            last_->wait(-1);
        } catch (const std::exception&) {
            // The device is lost: nothing is in flight any more.
        }
    }
}

void Program::require_recording() const {
    if (finished_) {
        throw std::runtime_error("the program's recording is finished");
    }
}

void Program::require_same_device(const char* what, const Device& other) const {
    if (&other != device.get()) {
        throw std::invalid_argument(std::string(what) + " belongs to another device");
    }
}

void Program::add(std::shared_ptr<Operation> operation) { operations_.push_back(std::move(operation)); }

void Program::copy(std::shared_ptr<Buffer> src, uint64_t src_offset, std::shared_ptr<Buffer> dst, uint64_t dst_offset,
                   uint64_t size) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    require_same_device("copy: the source", *src->device);
    require_same_device("copy: the destination", *dst->device);
    src->check_range("copy: source", src_offset, size);
    dst->check_range("copy: destination", dst_offset, size);
    if (src == dst && src_offset < dst_offset + size && dst_offset < src_offset + size) {
        throw std::invalid_argument("copy: the ranges overlap");
    }
    add(std::make_shared<OpCopy>(std::move(src), std::move(dst), VkBufferCopy{src_offset, dst_offset, size}));
}

void Program::fill(std::shared_ptr<Buffer> dst, uint64_t offset, uint64_t size, uint32_t value) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    require_same_device("fill: the buffer", *dst->device);
    dst->check_range("fill", offset, size);
    if (offset % 4 || size % 4) {
        throw std::invalid_argument("fill: offset " + std::to_string(offset) + " and size " + std::to_string(size) +
                                    " must be multiples of 4");
    }
    add(std::make_shared<OpFill>(std::move(dst), offset, size, value));
}

void Program::dispatch(std::shared_ptr<Algorithm> algorithm, std::array<uint32_t, 3> groups,
                       std::vector<uint8_t> push_constants) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    require_same_device("dispatch: the algorithm", *algorithm->device);
    const auto& limits = device->physical->properties.limits.maxComputeWorkGroupCount;
    for (int axis = 0; axis < 3; ++axis) {
        if (groups[axis] == 0 || groups[axis] > limits[axis]) {
            throw std::invalid_argument("dispatch: " + std::to_string(groups[axis]) + " workgroups in dimension " +
                                        std::to_string(axis) + ", expected 1 to " + std::to_string(limits[axis]));
        }
    }
    if (push_constants.size() != algorithm->push_constant_size) {
        throw std::invalid_argument("dispatch: expected " + std::to_string(algorithm->push_constant_size) +
                                    " bytes of push constants, got " + std::to_string(push_constants.size()));
    }
    const bool bind = bound_ != algorithm.get();
    bound_ = algorithm.get();
    add(std::make_shared<OpDispatch>(std::move(algorithm), groups, std::move(push_constants), bind));
}

void Program::warm_up(std::shared_ptr<Algorithm> algorithm) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    require_same_device("warm_up: the algorithm", *algorithm->device);
    bound_ = algorithm.get();
    add(std::make_shared<OpWarmUp>(std::move(algorithm)));
}

void Program::barrier() {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    add(std::make_shared<OpOrder>());
}

uint32_t Program::timestamp() {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    if (device->physical->timestamp_valid_bits == 0) {
        throw VulkanError("the device's compute queue has no timestamps", VK_ERROR_FEATURE_NOT_PRESENT);
    }
    add(std::make_shared<OpTimestamp>(queries_, queries_->count));
    return queries_->count++;
}

// A barrier names only the kinds of work that it has to order, because some GPUs flush other caches for transfers than
// for shaders. It orders them for the work up to the next barrier; what comes later has that one before it.
void Program::record_operations(kp::Sequence& sequence) const {
    uint32_t done = 0;                               // kinds of work so far
    std::array<uint32_t, kAllWork + 1> visible_to{}; // by kind: the kinds that all of its work is visible to
    for (auto operation = operations_.begin(); operation != operations_.end(); ++operation) {
        const Work work = (*operation)->work();
        done |= work;
        visible_to[work] = 0;
        if (!std::dynamic_pointer_cast<OpOrder>(*operation)) {
            sequence.record(*operation);
            continue;
        }
        uint32_t next = 0;
        for (auto later = operation + 1; later != operations_.end(); ++later) {
            if (std::dynamic_pointer_cast<OpOrder>(*later)) {
                break;
            }
            next |= (*later)->work();
        }
        uint32_t before = 0;
        for (const Work kind : {kTransfers, kShaders}) {
            if (done & kind && (visible_to[kind] & next) != next) {
                before |= kind;
                visible_to[kind] |= next;
            }
        }
        if (before) {
            sequence.record(std::make_shared<OpBarrier>(OpBarrier::writes(before), OpBarrier::accesses(next)));
        }
    }
}

void Program::finish(std::vector<Port> inputs, std::vector<Port> outputs) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_recording();
    for (const auto* ports : {&inputs, &outputs}) {
        for (size_t i = 0; i < ports->size(); ++i) {
            const Port& port = (*ports)[i];
            const std::string what = (ports == &inputs ? "input " : "output ") + std::to_string(i);
            if (!port.buffer->host_visible) {
                throw std::invalid_argument(what + ": the buffer is not host visible");
            }
            require_same_device((what + ": the buffer").c_str(), *port.buffer->device);
            if (port.size != 0) {
                port.buffer->check_range(what.c_str(), port.offset, port.size);
            }
        }
    }
    call_kompute(*device, [&] {
        auto sequence = std::make_shared<kp::Sequence>(device->kp_physical, device->kp_device, device->kp_queue,
                                                       device->physical->queue_family);
        sequence->record(std::make_shared<OpCapture>(commands_));
        if (queries_->count != 0) {
            queries_->create();
            sequence->record(std::make_shared<OpResetQueries>(queries_));
        }
        // Behind everything submitted before, whose buffers this program may share, and behind the host's writes.
        sequence->record(std::make_shared<OpBarrier>(OpBarrier::writes(kAllWork) | OpBarrier::kHostWrites,
                                                     OpBarrier::accesses(kAllWork)));
        record_operations(*sequence);
        sequence->record(std::make_shared<OpBarrier>(OpBarrier::writes(kAllWork), OpBarrier::kHostReads));
        sequence->end();
        sequence_ = std::move(sequence);
    });
    operations_.clear(); // the sequence holds them now
    inputs_ = std::move(inputs);
    outputs_ = std::move(outputs);
    finished_ = true;
}

void Program::check_sizes(const char* what, const std::vector<Port>& ports, const std::vector<HostBytes>& bytes) {
    if (bytes.size() != ports.size()) {
        throw std::invalid_argument("expected " + std::to_string(ports.size()) + " " + what + "s, got " +
                                    std::to_string(bytes.size()));
    }
    for (size_t i = 0; i < ports.size(); ++i) {
        if (bytes[i].data && bytes[i].size != ports[i].size) {
            throw std::invalid_argument(std::string(what) + " " + std::to_string(i) + ": expected " +
                                        std::to_string(ports[i].size) + " bytes, got " + std::to_string(bytes[i].size));
        }
    }
}

void Program::require_complete(const char* what) const {
    if (!finished_) {
        throw std::runtime_error(std::string(what) + ": the program's recording is not finished");
    }
    if (running_ || (last_ && !last_->signaled())) {
        throw std::runtime_error(std::string(what) + ": the program is still in flight");
    }
}

// The command buffer is submitted directly, with a fence of the submission's own, and not through
// kp::Sequence::evalAsync: that makes and destroys a VkFence each time and walks all operations twice, evalAwait
// destroys the fence on a timeout while the queue still uses it, and a second submission would be needed for a fence
// that can be handed out.
std::shared_ptr<Fence> Program::start(const std::vector<HostBytes>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].data && inputs[i].size) {
            std::memcpy(inputs_[i].buffer->data() + inputs_[i].offset, inputs[i].data, inputs[i].size);
        }
    }
    auto fence = make_bound<Fence>(device);
    device->submit(commands_, fence->handle());
    last_ = fence;
    return fence;
}

void Program::copy_out(const std::vector<HostBytes>& outputs) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].data && outputs[i].size) {
            std::memcpy(outputs[i].data, outputs_[i].buffer->data() + outputs_[i].offset, outputs[i].size);
        }
    }
}

bool Program::run(const std::vector<HostBytes>& inputs, const std::vector<HostBytes>& outputs, int64_t timeout_ns,
                  const Meanwhile& meanwhile) {
    std::shared_ptr<Fence> fence;
    {
        DriverCall call(*this);
        std::lock_guard lock(mutex_);
        require_complete("run");
        check_sizes("input", inputs_, inputs);
        check_sizes("output", outputs_, outputs);
        fence = start(inputs);
        running_ = true;
    }
    // Until the outputs are copied nobody else may submit: it would overwrite them.
    struct Running {
        Program& program;
        ~Running() {
            std::lock_guard lock(program.mutex_);
            program.running_ = false;
        }
    } running{*this};
    if (!fence->wait(timeout_ns, meanwhile)) {
        return false;
    }
    copy_out(outputs);
    return true;
}

std::shared_ptr<Fence> Program::submit(const std::vector<HostBytes>& inputs) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_complete("submit");
    check_sizes("input", inputs_, inputs);
    return start(inputs);
}

bool Program::wait(int64_t timeout_ns, const Meanwhile& meanwhile) {
    std::shared_ptr<Fence> fence;
    {
        DriverCall call(*this);
        std::lock_guard lock(mutex_);
        fence = last_;
    }
    return !fence || fence->wait(timeout_ns, meanwhile);
}

void Program::fetch(const std::vector<HostBytes>& outputs) {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_complete("fetch");
    if (!last_) {
        throw std::runtime_error("fetch: the program was never submitted");
    }
    check_sizes("output", outputs_, outputs);
    copy_out(outputs);
}

std::vector<uint64_t> Program::timestamps_ns() {
    DriverCall call(*this);
    std::lock_guard lock(mutex_);
    require_complete("timestamps_ns");
    if (!last_) {
        throw std::runtime_error("timestamps_ns: the program was never submitted");
    }
    return queries_->count ? queries_->read_ns() : std::vector<uint64_t>{};
}

} // namespace nnvk
