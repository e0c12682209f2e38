// Nodes and tensors of a TFLite graph, as the server is told of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "request.hpp"
#include "tflite.h"

namespace nnvk::tflite {

// A node, kept for when TensorFlow Lite shows it no more.
struct NodeRecord {
  int32_t code;
  std::string custom;
  int32_t version;
  std::vector<int> inputs, outputs, intermediates;
  std::string options;
};

// Bytes of the structure of a builtin's options, by its number: what the server reads of it.
using OptionSizes = std::map<int32_t, uint32_t>;
OptionSizes optionSizes();

NodeRecord record(const OptionSizes& sizes, const TfLiteNode& node, const TfLiteRegistration& registration);

bool isConstant(const TfLiteTensor& tensor);
std::vector<int> shapeOf(const TfLiteTensor& tensor);
// Whether the file leaves sizes of it open.
bool isOpen(const TfLiteTensor& tensor);

// Which tensors a graph is entered and left by.
struct Edges {
  std::vector<int> inputs, outputs;
};

// Put a graph into a request.
void put(Packet& packet, const TfLiteContext& context, const std::vector<NodeRecord>& nodes, const Edges& edges);

}  // namespace nnvk::tflite
