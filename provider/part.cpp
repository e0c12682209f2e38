#include "part.hpp"

#include <algorithm>
#include <atomic>

namespace nnvk::provider {

namespace {

void put(Request& request, const std::vector<std::string>& names) {
  request.put(static_cast<uint32_t>(names.size()));
  for (const auto& name : names) {
    request.put(name.c_str());
  }
}

void put(Request& request, const Shared& memory) {
  request.put(memory.block->segment());
  request.put(static_cast<uint64_t>(memory.block->offset() + memory.offset));
}

void put(Request& request, const Options& options, const std::string& model, const Weights& weights) {
  request.put(options.device.c_str());
  request.put(options.relaxed);
  request.put(options.is_auto);
  Packet& packet = request.packet();
  packet.u64(model.size()).aligned(model.data(), model.size());
  packet.u64(weights.size).aligned(nullptr, 0);
  for (const auto& [data, size] : weights.parts) {
    packet.aligned(data, size);
  }
}

// An output as the server tells of it.
struct Output {
  TensorType type;
  size_t size = 0;
};

Output readOutput(Reader& reply) {
  Output output;
  output.type.element = reply.i32();
  output.type.shape.resize(reply.count(sizeof(int64_t)));
  for (auto& size : output.type.shape) {
    size = reply.i64();
  }
  output.size = reply.u64();
  return output;
}

// Where onnxruntime wants an output to be written.
uint8_t* targetOf(KernelContext* context, size_t index, const Output& output) {
  Value* value = nullptr;
  void* data = nullptr;
  size_t expected = 0;
  const auto& shape = output.type.shape;
  check(KernelContext_GetOutput(api, context, index, shape.data(), shape.size(), &value));
  check(GetTensorSizeInBytes(api, value, &expected));
  const int32_t element = typeOf(value).element;
  if (element != output.type.element || expected != output.size) {
    fail(ANEURALNETWORKS_OP_FAILED, "output %zu has %zu bytes of type %d, onnxruntime wants %zu of type %d", index,
         output.size, output.type.element, expected, element);
  }
  check(GetTensorMutableData(api, value, &data));
  return static_cast<uint8_t*>(data);
}

void copy(uint8_t* target, const uint8_t* elements, size_t size) {
  if (size > 0 && target != elements) {
    memcpy(target, elements, size);
  }
}

// The most runs that wait for inputs of their shapes, and the most bytes of shared memory of all but the last one.
constexpr size_t kMostIdle = 8;
constexpr size_t kMostIdleBytes = size_t{256} * 1024 * 1024;

}  // namespace

std::vector<Verdict> examine(const Options& options, const Graph* graph, size_t nodes) {
  Weights weights;
  const auto model = modelBytes(graph, outputsOf(graph), weights);
  std::vector<Verdict> verdicts;
  again([&] {
    Request request(kRequestOnnxExamine, Server::running());
    put(request, options, model, weights);
    request.put(options.takes_all);
    request.put(options.takes_values);
    Reader reply = request.askAll();
    verdicts.clear();
    for (size_t left = nodes; left > 0; --left) {
      auto& verdict = verdicts.emplace_back();
      verdict.reason = reply.string();
      verdict.part = reply.i32();
    }
  });
  return verdicts;
}

Part::~Part() = default;

Part::Part(const Options& options, const Graph* graph, const Node* fused) {
  Weights weights;
  const auto model = modelBytes(graph, outputsOf(fused), weights);
  const auto inputs = inputsOf(fused);  // in the order in which computations have them
  for (size_t index = 0; index < inputs.size(); ++index) {
    if (*nameOf(inputs[index]) != '\0') {
      given_.push_back(index);
    }
  }
  for (size_t index = 0; index < outputsOf(fused).size(); ++index) {
    places_.emplace_back(index);
  }
  again([&] {
    const auto server = Server::running();
    const uint64_t number = server->newNumber();
    Request request(kRequestOnnxModel, server);
    request.put(number);
    put(request, options, model, weights);
    request.put(options.cache_dir.c_str());
    put(request, namesOf(inputs));
    request.askAll();
    object_ = std::make_unique<Object>(server, number);
  });
}

std::string save(const Options& options, const Graph* graph, const Node* fused) {
  Weights weights;
  const auto model = modelBytes(graph, outputsOf(fused), weights);
  std::string saved;
  again([&] {
    Request request(kRequestOnnxSave, Server::running());
    put(request, options, model, weights);
    put(request, namesOf(inputsOf(fused)));
    Reader reply = request.askAll();
    const size_t size = reply.left();
    saved.assign(reinterpret_cast<const char*>(reply.bytes(size)), size);
  });
  return saved;
}

Part::Part(const Options& options, const std::string& saved, const Node* node, const Node* fused) {
  const auto inputs = namesOf(inputsOf(node)), outputs = namesOf(outputsOf(node));
  std::vector<uint32_t> order;
  size_t index = 0;
  for (const auto* input : inputsOf(fused)) {  // onnxruntime may give each once, in another order
    const auto found = std::find(inputs.begin(), inputs.end(), nameOf(input));
    if (found != inputs.end()) {
      order.push_back(static_cast<uint32_t>(found - inputs.begin()));
      given_.push_back(index);
    }
    ++index;
  }
  const auto wanted = namesOf(outputsOf(fused));
  for (const auto& output : outputs) {
    const auto found = std::find(wanted.begin(), wanted.end(), output);
    places_.push_back(found == wanted.end() ? std::nullopt : std::optional<size_t>(found - wanted.begin()));
  }
  again([&] {
    const auto server = Server::running();
    const uint64_t number = server->newNumber();
    Request request(kRequestOnnxLoad, server);
    request.put(number);
    request.put(options.device.c_str());
    request.put(options.cache_dir.c_str());
    request.put(order.data(), static_cast<uint32_t>(order.size()));
    request.packet().u64(saved.size()).aligned(saved.data(), saved.size());
    Reader reply = request.askAll();
    object_ = std::make_unique<Object>(server, number);
    const uint32_t count = reply.u32();
    if (count != places_.size()) {
      NNVK_BAD_DATA("the saved part has %u outputs, its node %zu", count, places_.size());
    }
  });
}

struct Part::Input {
  TensorType type;
  const void* data = nullptr;
  size_t size = 0;
  std::optional<Shared> shared;  // where the server has it too
};

// An execution in the server, and the memory that it reads and writes: its own, or that of the application's values.
struct Part::Run {
  struct Argument {
    Shared memory;
    bool is_own = true;

    // Whether it is at a place of the application's, or at its own if that has none.
    bool isAt(const std::optional<Shared>& place) const { return is_own ? !place : place && memory == *place; }
  };
  std::vector<TensorType> types;  // of the inputs
  std::vector<Argument> inputs;
  bool is_bound = false;  // to places for its outputs; else they come with each reply
  std::vector<Output> outputs;
  std::vector<Argument> results;
  size_t bytes = 0;  // of memory of its own
  std::unique_ptr<Object> object;

  const Argument& add(std::vector<Argument>& arguments, Server& server, const std::optional<Shared>& place,
                      size_t size) {
    bytes += place ? 0 : size;
    return arguments.emplace_back(Argument{place ? *place : newShared(server, size), !place});
  }
  bool fits(const std::vector<Input>& others) const {
    for (size_t at = 0; at < types.size(); ++at) {
      const auto& other = others[at];
      if (types[at].element != other.type.element || types[at].shape != other.type.shape ||
          !inputs[at].isAt(other.shared)) {
        return false;
      }
    }
    return true;
  }
  bool writesTo(const std::vector<Target>& targets) const {
    return std::equal(results.begin(), results.end(), targets.begin(), targets.end(),
                      [](const Argument& own, const Target& target) { return own.isAt(target.shared); });
  }
  void copyIn(const std::vector<Input>& others) const {
    for (size_t at = 0; at < others.size(); ++at) {
      if (inputs[at].is_own) {
        copy(inputs[at].memory.data(), static_cast<const uint8_t*>(others[at].data), others[at].size);
      }
    }
  }
};

// Runs that were terminated and go on in the server, which reads and writes their memory.
class Part::Left {
 public:
  static Left& all() {
    static auto* left = new Left;  // it stays: the process may end during a run
    return *left;
  }

  void add(std::unique_ptr<Run> run, Request request) {
    const std::lock_guard lock(mutex_);
    runs_.push_back({std::move(run), std::move(request)});
    ++count_;
  }

  // Forgets those that have ended.
  void forget() {
    if (count_ == 0) {
      return;
    }
    std::list<Entry> ended;  // freed without the lock
    const std::lock_guard lock(mutex_);
    for (auto next = runs_.begin(); next != runs_.end();) {
      const auto one = next++;
      if (one->request.server()->isOurs() && one->hasEnded()) {
        ended.splice(ended.end(), runs_, one);
        --count_;
      }
    }
  }

 private:
  struct Entry {
    std::unique_ptr<Run> run;
    Request request;

    bool hasEnded() {
      try {
        if (!request.hasReply()) {
          return false;
        }
        request.awaitReply();
      } catch (const Error&) {
        // It is nobody's any more.
      }
      return true;
    }
  };

  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::list<Entry> runs_;
};

Reader Part::ask(Request& request, std::unique_ptr<Run>& run, Termination& termination) {
  try {
    return request.askAll(&termination);
  } catch (const Terminated&) {
    Left::all().add(std::move(run), std::move(request));
    throw Error{ANEURALNETWORKS_OP_FAILED, "the run was terminated by its options"};
  }
}

std::vector<Part::Input> Part::readInputs(const KernelContext* context) const {
  std::vector<Input> inputs;
  for (const size_t index : given_) {
    const Value* value = nullptr;
    Input input;
    check(KernelContext_GetInput(api, context, index, &value));
    input.type = typeOf(value);
    check(GetTensorData(api, value, &input.data));
    check(GetTensorSizeInBytes(api, value, &input.size));
    input.shared = findShared(*object_->server, input.data, input.size);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

template <class Fits>
std::unique_ptr<Part::Run> Part::takeIdle(Fits fits) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& one) { return fits(*one); });
  if (found == idle_.end()) {
    return nullptr;
  }
  auto run = std::move(*found);
  idle_.erase(found);
  idle_bytes_ -= run->bytes;
  return run;
}

std::vector<Part::Target> Part::targetsOf(KernelContext* context, const Run& run) const {
  std::vector<Target> targets(run.outputs.size());
  for (size_t index = 0; index < targets.size(); ++index) {
    if (places_.at(index)) {
      const auto& output = run.outputs[index];
      auto& target = targets[index];
      target.data = targetOf(context, *places_[index], output);
      target.shared = findShared(*object_->server, target.data, output.size);
    }
  }
  return targets;
}

std::unique_ptr<Part::Run> Part::runFor(KernelContext* context, const std::vector<Input>& inputs,
                                        std::vector<Target>& targets, Termination& termination) {
  auto run = takeIdle([&](const Run& one) { return one.fits(inputs); });
  if (run != nullptr) {
    targets = targetsOf(context, *run);
    if (!run->writesTo(targets)) {
      giveBack(std::move(run));
      run = takeIdle([&](const Run& one) { return one.fits(inputs) && one.writesTo(targets); });
    }
  }
  if (run == nullptr) {
    return newRun(context, inputs, targets, termination);
  }
  run->copyIn(inputs);
  return run;
}

std::unique_ptr<Part::Run> Part::newRun(KernelContext* context, const std::vector<Input>& inputs,
                                        std::vector<Target>& targets, Termination& termination) const {
  const auto& server = object_->server;
  auto run = std::make_unique<Run>();
  const uint64_t number = server->newNumber();
  Request request(kRequestOnnxRun, server);
  request.put(*object_);
  request.put(number);
  request.put(static_cast<uint32_t>(inputs.size()));
  for (const auto& input : inputs) {
    const auto& shape = input.type.shape;
    run->types.push_back(input.type);
    request.put(input.type.element);
    request.put(static_cast<uint32_t>(shape.size()));
    request.packet().bytes(shape.data(), shape.size() * sizeof(int64_t));
    put(request, run->add(run->inputs, *server, input.shared, input.size).memory);
  }
  run->copyIn(inputs);  // the server may have to know them
  run->object = std::make_unique<Object>(server, number);
  Reader reply = ask(request, run, termination);
  run->is_bound = reply.u8() != 0;
  if (run->is_bound) {
    const uint32_t count = reply.u32();
    for (uint32_t index = 0; index < count; ++index) {
      run->outputs.push_back(readOutput(reply));
    }
    targets = targetsOf(context, *run);
    Request places(kRequestOnnxOutputs, server);
    places.put(*run->object);
    places.put(count);
    for (uint32_t index = 0; index < count; ++index) {
      put(places, run->add(run->results, *server, targets[index].shared, run->outputs[index].size).memory);
    }
    places.askAll();
  }
  return run;
}

void Part::giveBack(std::unique_ptr<Run> run) {
  std::list<std::unique_ptr<Run>> last;  // freed without the lock
  const std::lock_guard lock(mutex_);
  idle_bytes_ += run->bytes;
  idle_.push_front(std::move(run));
  while (idle_.size() > kMostIdle || (idle_.size() > 1 && idle_bytes_ > kMostIdleBytes)) {
    idle_bytes_ -= idle_.back()->bytes;
    last.splice(last.begin(), idle_, std::prev(idle_.end()));
  }
}

void Part::compute(KernelContext* context, Termination& termination) {
  object_->server->check();
  Left::all().forget();
  std::vector<Target> targets;
  auto run = runFor(context, readInputs(context), targets, termination);
  Request request(kRequestOnnxCompute, object_->server);
  request.put(*run->object);
  Reader reply = ask(request, run, termination);
  if (run->is_bound) {
    for (size_t index = 0; index < targets.size(); ++index) {
      if (targets[index].data != nullptr) {
        copy(targets[index].data, run->results[index].memory.data(), run->outputs[index].size);
      }
    }
  } else {
    const uint32_t count = reply.u32();
    for (uint32_t index = 0; index < count; ++index) {
      const auto output = readOutput(reply);
      const uint8_t* elements = reply.bytes(output.size);
      if (places_.at(index)) {
        copy(targetOf(context, *places_[index], output), elements, output.size);
      }
    }
  }
  giveBack(std::move(run));
}

}  // namespace nnvk::provider
