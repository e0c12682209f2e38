#include "kernel.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>

namespace nnvk::tflite {

namespace {

constexpr size_t kMostExecutions = 4;  // of a partition

// For functions that have logged what was wrong.
void check(int code) {
  if (code != ANEURALNETWORKS_NO_ERROR) {
    throw Known{code};
  }
}

std::vector<ANeuralNetworksDevice*> allDevices() {
  uint32_t count = 0;
  check(ANeuralNetworks_getDeviceCount(&count));
  std::vector<ANeuralNetworksDevice*> devices(count);
  for (uint32_t index = 0; index < count; ++index) {
    check(ANeuralNetworks_getDevice(index, &devices[index]));
  }
  return devices;
}

bool isCpu(const ANeuralNetworksDevice* device) {
  int32_t type = 0;
  check(ANeuralNetworksDevice_getType(device, &type));
  return type == ANEURALNETWORKS_DEVICE_CPU;
}

// An array for TensorFlow Lite, which gives it to free().
TfLiteIntArray* newArray(const std::vector<int>& values) {
  auto* array = static_cast<TfLiteIntArray*>(malloc(sizeof(TfLiteIntArray) + values.size() * sizeof(int)));
  if (array == nullptr) {
    throw std::bad_alloc();
  }
  array->size = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), array->data);
  return array;
}

// The devices that the options ask for; none: nnvk chooses, and the CPU takes over.
std::vector<ANeuralNetworksDevice*> chosenDevices(const Options& options) {
  std::vector<ANeuralNetworksDevice*> chosen;
  if (options.device.empty() && !options.no_fallback) {
    return chosen;
  }
  std::string names;
  const auto devices = allDevices();
  for (auto* device : devices) {
    const char* name = nullptr;
    check(ANeuralNetworksDevice_getName(device, &name));
    names += std::string(names.empty() ? "" : ", ") + name;
    if (options.device.empty() ? !isCpu(device) : options.device == name) {
      chosen.push_back(device);
    }
  }
  if (chosen.empty()) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE, "there is no device %s; there are: %s",
         options.device.empty() ? "but CPUs" : options.device.c_str(), names.c_str());
  }
  if (!options.no_fallback) {
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(chosen), [&](auto* device) {
      return isCpu(device) && std::find(chosen.begin(), chosen.end(), device) == chosen.end();
    });
  }
  return chosen;
}

}  // namespace

void checkDevice(const Options& options) {
  again([&] { chosenDevices(options); });
}

std::vector<std::vector<int>> Kernel::inputShapes(const TfLiteContext& context) const {
  std::vector<std::vector<int>> shapes;
  for (const int input : edges_.inputs) {
    shapes.push_back(shapeOf(context.tensors[input]));
  }
  return shapes;
}

bool Kernel::isOfCustom(int tensor) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const NodeRecord& node) {
    return !node.custom.empty() && std::find(node.outputs.begin(), node.outputs.end(), tensor) != node.outputs.end();
  });
}

void Kernel::prepare(TfLiteContext& context) {
  if (model_ == nullptr || inputShapes(context) != shapes_) {
    try {
      build(context);
    } catch (const Error& error) {
      if (!has_open_sizes_ || error.code != ANEURALNETWORKS_BAD_DATA) {
        throw;
      }
      log(options_, "a partition waits for inputs of other sizes: %s", error.reason.c_str());
      return;
    }
  }
  for (const auto& output : outputs_) {
    auto& tensor = context.tensors[output.tensor];
    const auto declared = shapeOf(tensor);
    // A scalar, which NNAPI does not have: what files leave open instead is what custom operators give.
    const bool is_scalar = declared.empty() && output.shape == std::vector<int>{1} && !isOfCustom(output.tensor);
    if (!tensor.is_variable && !is_scalar && (declared != output.shape || tensor.bytes == 0) &&
        context.ResizeTensor(&context, &tensor, newArray(output.shape)) != kTfLiteOk) {
      fail(ANEURALNETWORKS_OP_FAILED, "an output can't be resized");
    }
  }
}

bool Kernel::isEmpty() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const Edge& output) {
    return std::find(output.shape.begin(), output.shape.end(), 0) != output.shape.end();
  });
}

void Kernel::forget() {
  executions_.clear();
  compilation_.reset();
  model_.reset();
}

// Calls, and keeps nothing if that fails in a way that `is_lasting`.
template <class Call, class IsLasting>
void Kernel::orForget(Call call, IsLasting is_lasting) {
  try {
    call();
  } catch (const Error& error) {
    if (is_lasting(error.code)) {
      forget();
    }
    throw;
  } catch (const Known& known) {
    if (is_lasting(known.code)) {
      forget();
    }
    throw;
  } catch (...) {
    forget();
    throw;
  }
}

void Kernel::build(const TfLiteContext& context) {
  forget();
  orForget([&] { buildNew(context); }, [](int) { return true; });
}

void Kernel::buildNew(const TfLiteContext& context) {
  const auto shapes = inputShapes(context);
  again([&] {
    Request request(kRequestTfliteModel, Server::running());
    request.announce();
    request.put(options_.relaxed);
    request.put(!options_.cache_dir.empty());
    put(request.packet(), context, nodes_, edges_);
    Reader reply = request.askAll();
    model_.reset(request.made<ANeuralNetworksModel>());
    std::vector<int> states(reply.count(sizeof(int32_t)));
    for (auto& state : states) {
      state = reply.i32();
      if (state < 0 || static_cast<size_t>(state) >= context.tensors_size) {
        fail(ANEURALNETWORKS_OP_FAILED, "the server names tensor %d of %zu", state, context.tensors_size);
      }
    }
    const auto edges = [&](const std::vector<int>& tensors) {
      std::vector<Edge> made;
      for (const std::vector<int>* group : {&tensors, static_cast<const std::vector<int>*>(&states)}) {
        for (const int tensor : *group) {
          Edge edge;
          edge.tensor = tensor;
          edge.bytes = reply.u64();
          edge.shape.resize(reply.count(sizeof(int32_t)));
          for (auto& size : edge.shape) {
            size = reply.i32();
          }
          // Results that may need 64 bits are as in the tensor: two words each.
          const size_t elements = std::accumulate(edge.shape.begin(), edge.shape.end(), size_t{1}, std::multiplies<>());
          if (context.tensors[tensor].type == kTfLiteInt64 && edge.bytes == elements * sizeof(int32_t)) {
            edge.small.resize(edge.bytes / sizeof(int32_t));
          }
          made.push_back(std::move(edge));
        }
      }
      return made;
    };
    inputs_ = edges(edges_.inputs);
    outputs_ = edges(edges_.outputs);
    if (!isEmpty()) {
      compile(options_.cache_dir.empty() ? nullptr : reply.bytes(ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN));
    }
  });
  shapes_ = shapes;
}

void Kernel::compile(const uint8_t* token) {
  ANeuralNetworksCompilation* compilation = nullptr;
  const auto devices = chosenDevices(options_);
  check(devices.empty() ? ANeuralNetworksCompilation_create(model_.get(), &compilation)
                        : ANeuralNetworksCompilation_createForDevices(
                              model_.get(), devices.data(), static_cast<uint32_t>(devices.size()), &compilation));
  compilation_.reset(compilation);
  if (token != nullptr) {
    check(ANeuralNetworksCompilation_setCaching(compilation, options_.cache_dir.c_str(), token));
  }
  check(ANeuralNetworksCompilation_finish(compilation));
}

// Where the operand's elements are; throws unless they fit the tensor.
void* Kernel::bufferOf(const TfLiteContext& context, Edge& edge) {
  const auto& tensor = context.tensors[edge.tensor];
  if (tensor.data == nullptr || tensor.bytes != edge.bytes * (edge.small.empty() ? 1 : 2)) {
    NNVK_BAD_DATA("tensor %d has %zu bytes, the model wants %zu", edge.tensor, tensor.bytes, edge.bytes);
  }
  return edge.small.empty() ? tensor.data : edge.small.data();
}

ANeuralNetworksExecution* Kernel::newExecution(const std::vector<void*>& buffers) {
  ANeuralNetworksExecution* execution = nullptr;
  check(ANeuralNetworksExecution_create(compilation_.get(), &execution));
  Execution made{buffers, Owned<ANeuralNetworksExecution, ANeuralNetworksExecution_free>(execution)};
  check(ANeuralNetworksExecution_setReusable(execution, true));
  auto buffer = buffers.begin();
  for (size_t index = 0; index < inputs_.size(); ++index) {
    check(ANeuralNetworksExecution_setInput(execution, index, nullptr, *buffer++, inputs_[index].bytes));
  }
  for (size_t index = 0; index < outputs_.size(); ++index) {
    check(ANeuralNetworksExecution_setOutput(execution, index, nullptr, *buffer++, outputs_[index].bytes));
  }
  executions_.insert(executions_.begin(), std::move(made));
  return execution;
}

// The execution with the tensors' buffers. LiteRT's programs may have several sets of buffers, which they take in turn.
ANeuralNetworksExecution* Kernel::execution(const TfLiteContext& context) {
  std::vector<void*> buffers;
  for (auto* edges : {&inputs_, &outputs_}) {
    for (auto& edge : *edges) {
      buffers.push_back(bufferOf(context, edge));
    }
  }
  const auto found = std::find_if(executions_.begin(), executions_.end(),
                                  [&](const Execution& one) { return one.buffers == buffers; });
  if (found != executions_.end()) {
    std::rotate(executions_.begin(), found, found + 1);
    return executions_.front().execution.get();
  }
  executions_.resize(std::min<size_t>(executions_.size(), kMostExecutions - 1));
  return newExecution(buffers);
}

void Kernel::compute(TfLiteContext& context) {
  if (model_ != nullptr && !model_->server->isOurs()) {
    forget();  // it is of the process that this one was forked from
  }
  if (model_ == nullptr) {  // or the server that it lived in has died
    build(context);
  }
  if (isEmpty()) {
    return;
  }
  orForget([&] { computeOnce(context); }, [](int code) { return code == ANEURALNETWORKS_DEAD_OBJECT; });
}

void Kernel::computeOnce(TfLiteContext& context) {
  auto* execution = this->execution(context);
  for (auto& input : inputs_) {
    const auto* wide = static_cast<const int64_t*>(context.tensors[input.tensor].data);
    for (size_t at = 0; at < input.small.size(); ++at) {
      input.small[at] = static_cast<int32_t>(wide[at]);
      if (input.small[at] != wide[at]) {
        NNVK_BAD_DATA("tensor %d has a value beyond 32 bits, which NNAPI does not have", input.tensor);
      }
    }
  }
  check(ANeuralNetworksExecution_compute(execution));
  for (auto& output : outputs_) {
    auto* wide = static_cast<int64_t*>(context.tensors[output.tensor].data);
    std::copy(output.small.begin(), output.small.end(), wide);  // nothing for others
  }
}

}  // namespace nnvk::tflite
