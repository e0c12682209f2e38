#include "part.hpp"

#include "request.hpp"

namespace nnvk::provider {

namespace {

void put(Request& request, const Options& options, const std::string& model, const Weights& weights) {
  request.put(options.device.c_str());
  request.put(options.relaxed);
  Packet& packet = request.packet();
  packet.u64(model.size()).aligned(model.data(), model.size());
  packet.u64(weights.size).aligned(nullptr, 0);
  for (const auto& [data, size] : weights.parts) {
    packet.aligned(data, size);
  }
}

void* output(KernelContext* context, size_t index, int32_t element, const std::vector<int64_t>& shape,
             size_t size) {
  Value* value = nullptr;
  void* data = nullptr;
  size_t expected = 0;
  check(KernelContext_GetOutput(api, context, index, shape.data(), shape.size(), &value));
  check(GetTensorSizeInBytes(api, value, &expected));
  if (typeOf(value).element != element || expected != size) {
    fail(ANEURALNETWORKS_OP_FAILED, "output %zu has %zu bytes of type %d, onnxruntime wants %zu of type %d", index, size,
         element, expected, typeOf(value).element);
  }
  check(GetTensorMutableData(api, value, &data));
  return data;
}

}  // namespace

std::vector<Verdict> examine(const Options& options, const Graph* graph, size_t nodes) {
  Weights weights;
  const auto model = modelBytes(graph, outputsOf(graph), weights);
  std::vector<Verdict> verdicts;
  again([&] {
    Request request(kRequestOnnxExamine, Server::running());
    put(request, options, model, weights);
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

Part::Part(const Options& options, const Graph* graph, const Node* fused) {
  Weights weights;
  const auto model = modelBytes(graph, outputsOf(fused), weights);
  std::vector<std::string> names;
  size_t index = 0;
  for (const auto* input : inputsOf(fused)) {  // the order in which computations have them
    const std::string name = nameOf(input);
    if (!name.empty()) {
      names.push_back(name);
      given_.push_back(index);
    }
    ++index;
  }
  again([&] {
    const auto server = Server::running();
    const uint64_t number = server->newNumber();
    Request request(kRequestOnnxModel, server);
    request.put(number);
    put(request, options, model, weights);
    request.put(static_cast<uint32_t>(names.size()));
    for (const auto& name : names) {
      request.put(name.c_str());
    }
    request.askAll();
    object_ = std::make_unique<Object>(server, number);
  });
}

void Part::compute(KernelContext* context) const {
  object_->server->check();
  Request request(kRequestOnnxCompute, object_->server);
  request.put(*object_);
  Packet& packet = request.packet();
  packet.u32(static_cast<uint32_t>(given_.size()));
  for (const size_t index : given_) {
    const Value* value = nullptr;
    const void* data = nullptr;
    size_t size = 0;
    check(KernelContext_GetInput(api, context, index, &value));
    const auto type = typeOf(value);
    check(GetTensorData(api, value, &data));
    check(GetTensorSizeInBytes(api, value, &size));
    packet.i32(type.element).u32(static_cast<uint32_t>(type.shape.size()));
    packet.bytes(type.shape.data(), type.shape.size() * sizeof(int64_t));
    packet.u64(size).aligned(data, size);
  }
  Reader reply = request.askAll();
  const uint32_t count = reply.u32();
  for (uint32_t index = 0; index < count; ++index) {
    const int32_t element = reply.i32();
    std::vector<int64_t> shape(reply.u32());
    for (auto& size : shape) {
      size = reply.i64();
    }
    const size_t size = reply.u64();
    const uint8_t* data = reply.bytes(size);
    void* place = output(context, index, element, shape, size);
    if (size > 0) {
      memcpy(place, data, size);
    }
  }
}

}  // namespace nnvk::provider
