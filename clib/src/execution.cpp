// Executions: their arguments, and computing at once.
#include "computation.hpp"

namespace nnvk {

// --- arguments ---

void Arguments::set(std::map<int32_t, Argument>& arguments, int32_t index, Argument argument) {
  const std::lock_guard lock(mutex_);
  arguments.insert_or_assign(index, std::move(argument));
}

bool Arguments::hasInputs() {
  const std::lock_guard lock(mutex_);
  for (const auto& [index, input] : inputs_) {
    if (input.block) {
      return true;
    }
  }
  return false;
}

void Arguments::begin() {
  std::shared_ptr<Computation> before;
  {
    const std::lock_guard lock(mutex_);
    if (!is_busy_) {
      is_busy_ = true;
      return;
    }
    before = computation_.lock();
  }
  if (before != nullptr) {
    before->isOver();  // takes notice of an end that nobody has waited for
  }
  const std::lock_guard lock(mutex_);
  if (is_busy_) {
    NNVK_BAD_STATE("the execution is under way");
  }
  is_busy_ = true;
}

void Arguments::end() noexcept {
  const std::lock_guard lock(mutex_);
  is_busy_ = false;
}

void Arguments::follow(const std::shared_ptr<Computation>& computation) {
  const std::lock_guard lock(mutex_);
  computation_ = computation;
}

void Arguments::copyIn() {
  const std::lock_guard lock(mutex_);
  if (!is_busy_) {
    return;  // it has ended before, and the buffers may be gone
  }
  for (const auto& [index, input] : inputs_) {
    if (input.block) {
      memcpy(input.block.data(), input.buffer, input.length);
    }
  }
}

void Arguments::copyOut(Reader reply) {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> sizes;
  if (reply.left() > 0) {
    for (uint32_t left = reply.u32(); left > 0; --left) {
      sizes.push_back(reply.u64());
    }
  }
  for (const auto& [index, output] : outputs_) {
    if (output.block) {
      const auto at = static_cast<size_t>(index);
      memcpy(output.buffer, output.block.data(), at < sizes.size() ? std::min<size_t>(output.length, sizes[at]) : output.length);
    }
  }
}

namespace {

// A buffer of the application, as an argument; nothing where there is none.
Arguments::Argument argument(const std::shared_ptr<Server>& server, const void* buffer, size_t length) {
  if (buffer == nullptr && length > 0) {
    fail(ANEURALNETWORKS_UNEXPECTED_NULL, "there is no buffer, but a length of %zu bytes", length);
  }
  if (buffer != nullptr && length == 0) {
    NNVK_BAD_DATA("there is a buffer, but its length is 0");
  }
  return {const_cast<void*>(buffer), length, buffer == nullptr ? Block() : server->allocate(length)};
}

void ask(uint32_t number, ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type,
         const Arguments::Argument& argument) {
  Request request(number, execution->server);
  request.put(*execution);
  request.put(index);
  request.put(type);
  const bool is_there = static_cast<bool>(argument.block);
  request.put(is_there);
  request.put(is_there ? argument.block.segment() : 0);
  request.put(static_cast<uint64_t>(argument.block.offset()));
  request.put(static_cast<uint64_t>(argument.length));
  request.ask();
}

void askFromMemory(uint32_t number, ANeuralNetworksExecution* execution, int32_t index,
                   const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset,
                   size_t length) {
  Request request(number, execution->server);
  request.put(*execution);
  request.put(index);
  request.put(type);
  request.put(*memory);
  request.put(static_cast<uint64_t>(offset));
  request.put(static_cast<uint64_t>(length));
  request.ask();
}

void computeNow(ANeuralNetworksExecution* execution, Packet packet) {
  const auto arguments = execution->arguments;
  Borrowed lane = execution->server->lane();
  arguments->begin();
  const struct Ending {
    Arguments& arguments;
    ~Ending() { arguments.end(); }
  } ending{*arguments};
  arguments->copyIn();
  lane.send(packet);
  const auto reply = lane.receive();
  if (reply.code != ANEURALNETWORKS_NO_ERROR) {
    throw Error{reply.code, reply.reason};
  }
  arguments->copyOut(reply.rest);
}

}  // namespace

namespace by_hand {

void ANeuralNetworksExecution_setInput(ANeuralNetworksExecution* execution, int32_t index,
                                       const ANeuralNetworksOperandType* type, const void* buffer, size_t length) {
  auto input = argument(execution->server, buffer, length);
  ask(kRequestExecutionsetInput, execution, index, type, input);
  execution->arguments->setInput(index, std::move(input));
}

void ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution* execution, int32_t index,
                                        const ANeuralNetworksOperandType* type, void* buffer, size_t length) {
  auto output = argument(execution->server, buffer, length);
  ask(kRequestExecutionsetOutput, execution, index, type, output);
  execution->arguments->setOutput(index, std::move(output));
}

void ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                 const ANeuralNetworksOperandType* type,
                                                 const ANeuralNetworksMemory* memory, size_t offset, size_t length) {
  askFromMemory(kRequestExecutionsetInputFromMemory, execution, index, type, memory, offset, length);
  execution->arguments->setInput(index, {});
}

void ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution* execution, int32_t index,
                                                  const ANeuralNetworksOperandType* type,
                                                  const ANeuralNetworksMemory* memory, size_t offset, size_t length) {
  askFromMemory(kRequestExecutionsetOutputFromMemory, execution, index, type, memory, offset, length);
  execution->arguments->setOutput(index, {});
}

void ANeuralNetworksExecution_compute(ANeuralNetworksExecution* execution) {
  computeNow(execution, Packet(kRequestExecutioncompute).u64(execution->number));
}

void ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution* execution, ANeuralNetworksBurst* burst) {
  if (burst->server != execution->server) {
    fail(ANEURALNETWORKS_DEAD_OBJECT, "the burst or the execution lives in a server that has died");
  }
  computeNow(execution, Packet(kRequestExecutionburstCompute).u64(execution->number).u64(burst->number));
}

void ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution* execution, ANeuralNetworksEvent** event) {
  *event = new ANeuralNetworksEvent(Computation::start(*execution));
}

void ANeuralNetworksExecution_startComputeWithDependencies(ANeuralNetworksExecution* execution,
                                                           const ANeuralNetworksEvent* const* dependencies,
                                                           uint32_t num_dependencies, uint64_t duration,
                                                           ANeuralNetworksEvent** event) {
  std::vector<std::shared_ptr<Occurrence>> before;
  for (uint32_t index = 0; index < num_dependencies; ++index) {
    before.push_back(dependencies[index]->occurrence);
  }
  *event = new ANeuralNetworksEvent(Computation::startAfter(*execution, std::move(before), duration));
}

}  // namespace by_hand
}  // namespace nnvk
