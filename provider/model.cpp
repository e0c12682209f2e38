#include "model.hpp"

#include <cstring>
#include <map>
#include <set>

namespace nnvk::provider {

namespace {

using Values = std::vector<const ValueInfo*>;
using Constants = std::map<std::string, const Value*>;

constexpr int32_t kText = 8;  // the element type STRING

// A message of protobuf that is written field by field.
struct Message {
  std::string bytes;
  Message& raw(uint64_t number) {
    for (; number > 127; number >>= 7) {
      bytes += static_cast<char>(number | 128);
    }
    bytes += static_cast<char>(number);
    return *this;
  }
  Message& number(int field, int64_t value) { return raw(field << 3).raw(static_cast<uint64_t>(value)); }
  Message& real(int field, float value) {
    raw(field << 3 | 5).bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Message& part(int field, const void* data, size_t size) {
    raw(field << 3 | 2).raw(size).bytes.append(static_cast<const char*>(data), size);
    return *this;
  }
  Message& part(int field, const std::string& data) { return part(field, data.data(), data.size()); }
  Message& part(int field, const Message& message) { return part(field, message.bytes); }
};

// Without `weights`, all bytes are in the message.
Message tensorProto(const std::string& name, const Value* value, Weights* weights) {
  const auto type = typeOf(value);
  Message tensor;
  for (const int64_t size : type.shape) {
    tensor.number(1, size);
  }
  tensor.number(2, type.element).part(8, name);
  if (type.element == kText) {
    throw Error{ANEURALNETWORKS_BAD_DATA, "a constant is of strings"};
  }
  const void* data = nullptr;
  size_t size = 0;
  check(GetTensorData(api, value, &data));
  check(GetTensorSizeInBytes(api, value, &size));
  if (weights == nullptr || size < 1024) {
    return tensor.part(9, data, size);
  }
  const auto entry = [&](const char* key, size_t number) {
    tensor.part(13, Message().part(1, key).part(2, std::to_string(number)));
  };
  entry("location", 0);  // external data, whose place is told with the tensor
  entry("offset", weights->add(data, size));
  entry("length", size);
  return tensor.number(14, 1);
}

Message portProto(const ValueInfo* value) {
  const TensorInfo* tensor_info = tensorInfoOf(value);
  Message port;
  port.part(1, nameOf(value));
  if (tensor_info == nullptr) {
    return port;  // a sequence, or an inner value of unknown type
  }
  const auto type = typeOf(tensor_info);
  const auto symbols = symbolsOf(tensor_info, type.shape.size());
  Message shape;
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    Message dim;
    if (type.shape[axis] >= 0) {
      dim.number(1, type.shape[axis]);
    } else if (!symbols[axis].empty()) {
      dim.part(2, symbols[axis]);
    }
    shape.part(1, dim);
  }
  Message tensor;
  tensor.number(1, type.element);
  if (type.has_shape) {
    tensor.part(2, shape);
  }
  return port.part(2, Message().part(1, tensor));
}

Message graphProto(const Graph* graph, const Values& inputs, const Values& outputs, const Constants& constants,
                   Weights& weights);

Message attributeProto(const OpAttr* attribute) {
  Message proto;
  int32_t type = 0;
  size_t size = 0;
  check(OpAttr_GetType(api, attribute, &type));
  proto.part(1, TEXT(OpAttr_GetName, attribute));
  if (type == 8) {  // a tensor; graphs are told of by their node
    Value* value = nullptr;
    check(OpAttr_GetTensorAttributeAsOrtValue(api, attribute, &value));
    proto.part(5, tensorProto("", value, nullptr)).number(20, 4);
    ReleaseValue(api, value);
    return proto;
  }
  if (type < 1 || type > 6) {
    throw Error{ANEURALNETWORKS_BAD_DATA, "an attribute is neither of numbers nor of text"};
  }
  if (Status* status = ReadOpAttr(api, attribute, type, static_cast<void*>(nullptr), size_t{0}, &size)) {
    ReleaseStatus(api, status);  // which is how the size is told
  }
  std::string data(size, '\0');
  if (size > 0) {
    check(ReadOpAttr(api, attribute, type, static_cast<void*>(data.data()), size, &size));
  }
  const auto* ints = reinterpret_cast<const int64_t*>(data.data());
  const auto* floats = reinterpret_cast<const float*>(data.data());
  static const int numbers[] = {0, 2, 7, 1, 6, 3, 8};  // INT, INTS, FLOAT, FLOATS, STRING, STRINGS as ONNX has them
  proto.number(20, numbers[type]);
  for (size_t at = 0; at < size / sizeof(int64_t) && (type == 1 || type == 2); ++at) {
    proto.number(type == 1 ? 3 : 8, ints[at]);
  }
  for (size_t at = 0; at < size / sizeof(float) && (type == 3 || type == 4); ++at) {
    type == 3 ? proto.real(2, floats[at]) : proto.real(7, floats[at]);
  }
  if (type == 5) {
    proto.part(4, data.c_str());  // a zero byte may come along
  }
  for (size_t at = 0; type == 6 && at < size; at += strlen(&data[at]) + 1) {
    proto.part(9, &data[at]);  // one after the other, each with a zero byte behind it
  }
  return proto;
}

Message nodeProto(const Node* node, Weights& weights) {
  Message proto;
  for (const auto* input : inputsOf(node)) {
    proto.part(1, nameOf(input));
  }
  for (const auto* output : outputsOf(node)) {
    proto.part(2, nameOf(output));
  }
  proto.part(3, TEXT(Node_GetName, node)).part(4, TEXT(Node_GetOperatorType, node)).part(7, TEXT(Node_GetDomain, node));
  size_t count = 0;
  check(Node_GetNumSubgraphs(api, node, &count));
  std::vector<const Graph*> graphs(count);
  std::vector<const char*> names(count);
  if (count > 0) {
    check(Node_GetSubgraphs(api, node, graphs.data(), count, names.data()));
  }
  for (size_t at = 0; at < count; ++at) {
    Constants constants;
    for (const auto* value : constantsOf(graphs[at])) {
      constants[nameOf(value)] = constant(value);
    }
    const auto inner = graphProto(graphs[at], inputsOf(graphs[at]), outputsOf(graphs[at]), constants, weights);
    proto.part(5, Message().part(1, names[at]).part(6, inner).number(20, 5));
  }
  for (const auto* attribute : attributesOf(node)) {
    int32_t type = 0;
    check(OpAttr_GetType(api, attribute, &type));
    if (type != 7) {
      proto.part(5, attributeProto(attribute));
    }
  }
  return proto;
}

Message graphProto(const Graph* graph, const Values& inputs, const Values& outputs, const Constants& constants,
                   Weights& weights) {
  Message proto;
  for (const auto* node : nodesOf(graph)) {
    proto.part(1, nodeProto(node, weights));
  }
  const std::string name = TEXT(Graph_GetName, graph);
  proto.part(2, name.empty() ? "graph" : name);
  for (const auto& [constant_name, value] : constants) {
    if (value != nullptr) {
      proto.part(5, tensorProto(constant_name, value, &weights));
    }
  }
  for (const auto* input : inputs) {
    if (constants.count(nameOf(input)) == 0 || constants.at(nameOf(input)) == nullptr) {
      proto.part(11, portProto(input));
    }
  }
  for (const auto* output : outputs) {
    proto.part(12, portProto(output));
  }
  return proto;
}

}  // namespace

std::string modelBytes(const Graph* graph, const std::vector<const ValueInfo*>& outputs, Weights& weights) {
  const auto nodes = nodesOf(graph);
  std::set<std::string> known;
  Constants constants;
  Values inputs;
  for (const auto* node : nodes) {
    for (const auto* value : readBy(node)) {
      const std::string name = nameOf(value);
      if (!name.empty() && known.insert(name).second) {
        const Value* found = constant(value);
        if (found != nullptr && typeOf(found).element != kText) {
          constants[name] = found;
        } else {  // text is told of as an input: its nodes stay
          inputs.push_back(value);
        }
      }
    }
    for (const auto* value : outputsOf(node)) {
      known.insert(nameOf(value));
    }
  }
  Message proto = graphProto(graph, inputs, outputs, constants, weights), model;
  for (const auto* node : nodes) {  // onnxruntime has inferred shapes, of operators too that ONNX does not know
    for (const auto* value : outputsOf(node)) {
      if (*nameOf(value) != '\0') {
        proto.part(13, portProto(value));
      }
    }
  }
  int64_t ir_version = 0;
  size_t count = 0;
  check(Graph_GetOnnxIRVersion(api, graph, &ir_version));
  check(Graph_GetNumOperatorSets(api, graph, &count));
  std::vector<const char*> domains(count);
  std::vector<int64_t> versions(count);
  check(Graph_GetOperatorSets(api, graph, domains.data(), versions.data(), count));
  model.number(1, ir_version).part(7, proto);
  for (size_t at = 0; at < count; ++at) {
    model.part(8, Message().part(1, domains[at]).number(2, versions[at]));
  }
  return model.bytes;
}

}  // namespace nnvk::provider
