// EPContext nodes: parts of a model that were compiled before, in the nodes themselves or in files beside the model.
#pragma once

#include "part.hpp"

namespace nnvk::provider {

// Whether a node is a part that nnvk has saved.
bool isContext(const Node* node);
// The saved part of such a node, in the model of `graph`. Throws.
std::string readContext(const Options& options, const Graph* graph, const Node* node);
// Why a part with these inputs and outputs can't be saved; empty: it can. onnxruntime would write its node, but not load
// it: the operator has no types of fewer than 16 bits but whole numbers of 8 and BOOL.
std::string whyNotSaved(const std::vector<const ValueInfo*>& edges);
// A node in the place of `fused` with a saved part, the one of this number in the model. Throws.
Node* newContext(const Options& options, const Graph* graph, const Node* fused, const std::string& saved, size_t number);

// The versions of nnvk, of saved parts and of a device, which onnxruntime keeps in the model.
std::string compatibility(const std::string& device);
enum Compatibility : int32_t { kNotApplicable = 0, kOptimal = 1, kPreferRecompilation = 2, kUnsupported = 3 };
// Whether parts that were saved with this text can be loaded, and whether they have to be compiled for that.
Compatibility compatibilityOf(const std::string& saved);

}  // namespace nnvk::provider
