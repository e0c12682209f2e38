#include "graph.hpp"

#include <algorithm>
#include <set>

namespace nnvk::tflite {

namespace {

// As nnvk/importers/tflite/partition.py has them.
enum Flags : uint8_t { kStatic = 1, kVariable = 2, kSparse = 4, kConstant = 8, kDeclared = 16 };

std::vector<int> numbers(const TfLiteIntArray* array) {
  return array == nullptr ? std::vector<int>() : std::vector<int>(array->data, array->data + array->size);
}

Packet& put(Packet& packet, const std::vector<int>& values) {
  static_assert(sizeof(int) == sizeof(uint32_t));
  return packet.u32s(reinterpret_cast<const uint32_t*>(values.data()), values.size());
}

void put(Packet& packet, const TfLiteTensor& tensor, int number, bool is_input) {
  const bool is_constant = isConstant(tensor);
  uint8_t flags = 0;
  flags |= is_constant || is_input ? kStatic : 0;
  // No dimensions: a scalar, or a rank that is not known.
  flags |= !shapeOf(tensor).empty() && !isOpen(tensor) ? kDeclared : 0;
  flags |= tensor.is_variable ? kVariable : 0;
  flags |= tensor.sparsity != nullptr ? kSparse : 0;
  flags |= is_constant ? kConstant : 0;
  packet.i32(number).u32(static_cast<uint32_t>(tensor.type)).u8(flags);
  put(put(packet, shapeOf(tensor)), numbers(tensor.dims_signature));
  const auto* affine = tensor.quantization.type == kTfLiteAffineQuantization
                           ? static_cast<const TfLiteAffineQuantization*>(tensor.quantization.params)
                           : nullptr;
  const auto* scales = affine == nullptr ? nullptr : affine->scale;
  packet.f32s(scales == nullptr ? nullptr : scales->data, scales == nullptr ? 0 : static_cast<size_t>(scales->size));
  put(packet, affine == nullptr ? std::vector<int>() : numbers(affine->zero_point));
  packet.i32(affine == nullptr ? 0 : affine->quantized_dimension);
  packet.string(tensor.name == nullptr ? "" : tensor.name);
  packet.u64(is_constant ? tensor.bytes : 0);
  if (is_constant) {
    packet.aligned(tensor.data, tensor.bytes);
  }
}

}  // namespace

OptionSizes optionSizes() {
  OptionSizes sizes;
  again([&] {
    Request request(kRequestTfliteOptions, Server::running());
    Reader reply = request.askAll();
    for (uint32_t left = reply.u32(); left > 0; --left) {
      const int32_t code = reply.i32();
      sizes[code] = reply.u32();
    }
  });
  return sizes;
}

NodeRecord record(const OptionSizes& sizes, const TfLiteNode& node, const TfLiteRegistration& registration) {
  NodeRecord made{registration.builtin_code, "", registration.version, numbers(node.inputs), numbers(node.outputs),
                  numbers(node.intermediates), ""};
  if (registration.builtin_code == kTfLiteBuiltinCustom) {
    made.custom = registration.custom_name == nullptr ? "custom" : registration.custom_name;
    if (node.custom_initial_data != nullptr && node.custom_initial_data_size > 0) {
      made.options.assign(static_cast<const char*>(node.custom_initial_data),
                          static_cast<size_t>(node.custom_initial_data_size));
    }
    return made;
  }
  const auto size = sizes.find(registration.builtin_code);
  if (size != sizes.end() && node.builtin_data != nullptr) {
    made.options.assign(static_cast<const char*>(node.builtin_data), size->second);
  }
  return made;
}

bool isConstant(const TfLiteTensor& tensor) {
  return tensor.allocation_type == kTfLiteMmapRo && tensor.data != nullptr;
}

std::vector<int> shapeOf(const TfLiteTensor& tensor) { return numbers(tensor.dims); }

bool isOpen(const TfLiteTensor& tensor) {
  const auto signature = numbers(tensor.dims_signature);
  return std::find(signature.begin(), signature.end(), -1) != signature.end();
}

void put(Packet& packet, const TfLiteContext& context, const std::vector<NodeRecord>& nodes, const Edges& edges) {
  std::set<int> tensors;
  const auto add = [&](const std::vector<int>& added) {
    for (const int tensor : added) {
      if (tensor != kTfLiteOptionalTensor) {
        tensors.insert(tensor);
      }
    }
  };
  for (const auto& node : nodes) {
    add(node.inputs);
    add(node.outputs);
    add(node.intermediates);
  }
  add(edges.inputs);
  add(edges.outputs);
  const std::set<int> inputs(edges.inputs.begin(), edges.inputs.end());
  packet.u32(static_cast<uint32_t>(tensors.size()));
  for (const int tensor : tensors) {
    put(packet, context.tensors[tensor], tensor, inputs.count(tensor) > 0);
  }
  packet.u32(static_cast<uint32_t>(nodes.size()));
  for (const auto& node : nodes) {
    packet.i32(node.code).string(node.custom).i32(node.version);
    put(put(put(packet, node.inputs), node.outputs), node.intermediates);
    packet.string(node.options);
  }
  put(put(packet, edges.inputs), edges.outputs);
}

}  // namespace nnvk::tflite
