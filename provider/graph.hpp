// A graph as onnxruntime describes it.
#pragma once
#include <string>
#include <vector>

#include "error.hpp"
#include "onnxruntime.h"

namespace nnvk::provider {

using namespace ort;

inline const Api* api = nullptr;
inline const EpApi* ep_api = nullptr;
inline int running = 0;  // the minor version of the running onnxruntime

// Throws the error of onnxruntime that a status is.
inline void check(Status* status) {
  if (status != nullptr) {
    const std::string reason = GetErrorMessage(api, status);
    ReleaseStatus(api, status);
    throw Error{ANEURALNETWORKS_OP_FAILED, reason};
  }
}

// --- the graph ------------------------------------------------------------------------------

template <class Item, class Owner, class Count, class Get>
std::vector<const Item*> all(const Owner* owner, Count count, Get get) {
  size_t size = 0;
  check(count(owner, &size));
  std::vector<const Item*> items(size);
  if (size > 0) {
    check(get(owner, items.data(), size));
  }
  return items;
}
#define ALL(ITEM, OWNER, COUNT, GET)                                         \
  all<ITEM>(OWNER, [](auto* of, size_t* out) { return COUNT(api, of, out); }, \
            [](auto* of, const ITEM** out, size_t size) { return GET(api, of, out, size); })

inline auto inputsOf(const Node* node) { return ALL(ValueInfo, node, Node_GetNumInputs, Node_GetInputs); }
inline auto outputsOf(const Node* node) { return ALL(ValueInfo, node, Node_GetNumOutputs, Node_GetOutputs); }
inline auto implicitOf(const Node* node) {
  return ALL(ValueInfo, node, Node_GetNumImplicitInputs, Node_GetImplicitInputs);
}
// The inputs of a node, and the values that the graphs in it read of those around them.
inline auto readBy(const Node* node) {
  auto values = inputsOf(node);
  const auto implicit = implicitOf(node);
  values.insert(values.end(), implicit.begin(), implicit.end());
  return values;
}
inline auto attributesOf(const Node* node) { return ALL(OpAttr, node, Node_GetNumAttributes, Node_GetAttributes); }
inline auto nodesOf(const Graph* graph) { return ALL(Node, graph, Graph_GetNumNodes, Graph_GetNodes); }
inline auto inputsOf(const Graph* graph) { return ALL(ValueInfo, graph, Graph_GetNumInputs, Graph_GetInputs); }
inline auto outputsOf(const Graph* graph) { return ALL(ValueInfo, graph, Graph_GetNumOutputs, Graph_GetOutputs); }
inline auto constantsOf(const Graph* graph) {
  return ALL(ValueInfo, graph, Graph_GetNumInitializers, Graph_GetInitializers);
}

template <class Call, class Owner>
const char* text(Call call, const Owner* owner) {
  const char* found = nullptr;
  check(call(owner, &found));
  return found == nullptr ? "" : found;
}
#define TEXT(CALL, OWNER) text([](auto* of, const char** out) { return CALL(api, of, out); }, OWNER)

inline const char* nameOf(const ValueInfo* value) { return value == nullptr ? "" : TEXT(GetValueInfoName, value); }

// The values that have names: what is left out has none.
inline std::vector<std::string> namesOf(const std::vector<const ValueInfo*>& values) {
  std::vector<std::string> names;
  for (const auto* value : values) {
    if (*nameOf(value) != '\0') {
      names.emplace_back(nameOf(value));
    }
  }
  return names;
}

// NULL where a value is none, or may still be given otherwise: an initializer that is an input too is a default only.
inline const Value* constant(const ValueInfo* value) {
  bool is_constant = false;
  const Value* found = nullptr;
  check(ValueInfo_IsConstantInitializer(api, value, &is_constant));
  if (is_constant) {
    check(ValueInfo_GetInitializerValue(api, value, &found));
  }
  return found;
}

// ONNX's number of an element type: onnxruntime numbers FLOAT8E8M0, UINT2 and INT2 in another order.
inline int32_t elementOfOnnx(int32_t element) {
  switch (element) {
    case 24: return 25;  // UINT2
    case 25: return 26;  // INT2
    case 26: return 24;  // FLOAT8E8M0
    default: return element;
  }
}

struct TensorType {
  int32_t element = 0;  // ONNX's number
  bool has_shape = true;
  std::vector<int64_t> shape;
};

inline TensorType typeOf(const TensorInfo* info) {
  TensorType type;
  size_t rank = 0;
  check(GetTensorElementType(api, info, &type.element));
  type.element = elementOfOnnx(type.element);
  check(GetDimensionsCount(api, info, &rank));
  type.has_shape = TensorTypeAndShape_HasShape(api, info);
  type.shape.resize(rank);
  if (rank > 0) {
    check(GetDimensions(api, info, type.shape.data(), rank));
  }
  return type;
}

// NULL for a sequence, and for an inner value of unknown type.
inline const TensorInfo* tensorInfoOf(const ValueInfo* value) {
  const TypeInfo* type = nullptr;
  const TensorInfo* tensor = nullptr;
  check(GetValueInfoTypeInfo(api, value, &type));
  if (type != nullptr) {
    check(CastTypeInfoToTensorInfo(api, type, &tensor));
  }
  return tensor;
}

inline TensorType typeOf(const Value* value) {
  TensorInfo* info = nullptr;
  check(GetTensorTypeAndShape(api, value, &info));
  const auto type = typeOf(info);
  ReleaseTensorTypeAndShapeInfo(api, info);
  return type;
}

// The names of sizes; empty for a size without one.
inline std::vector<std::string> symbolsOf(const TensorInfo* info, size_t rank) {
  std::vector<const char*> names(rank);
  if (rank > 0) {
    check(GetSymbolicDimensions(api, info, names.data(), rank));
  }
  std::vector<std::string> symbols;
  for (const char* name : names) {
    symbols.emplace_back(name == nullptr ? "" : name);
  }
  return symbols;
}

}  // namespace nnvk::provider
