// The bytes of an ONNX model of a graph: onnxruntime has no function that gives them.
#pragma once

#include <utility>

#include "graph.hpp"
#include "wire.hpp"

namespace nnvk::provider {

// Large constants, which go behind the model as onnxruntime has them: each begins at a multiple of kAlignment.
struct Weights {
  std::vector<std::pair<const void*, size_t>> parts;
  size_t size = 0;
  size_t add(const void* data, size_t bytes) {
    const size_t offset = (size + kAlignment - 1) / kAlignment * kAlignment;
    parts.emplace_back(data, bytes);
    size = offset + bytes;
    return offset;
  }
};

// The bytes of a model of a graph with these outputs, without its large constants, which are added to `weights`. A
// value of another graph that the nodes read is an input, or a constant if it is one. Throws.
std::string modelBytes(const Graph* graph, const std::vector<const ValueInfo*>& outputs, Weights& weights);

}  // namespace nnvk::provider
