// A part of a graph in the server: it is compiled there, and computes there.
#pragma once

#include <memory>

#include "model.hpp"
#include "objects.hpp"

namespace nnvk::provider {

struct Options {
  std::string device;
  bool relaxed = false;
};

// Why a node stays with onnxruntime, or the part that it is in.
struct Verdict {
  std::string reason;
  int32_t part = -1;
};

// A verdict for each node of a graph. Throws.
std::vector<Verdict> examine(const Options& options, const Graph* graph, size_t nodes);

class Part {
 public:
  // `fused`: the node that onnxruntime puts in the place of `graph`. Throws what the server refuses it for.
  Part(const Options& options, const Graph* graph, const Node* fused);

  // Several threads may compute at once. Throws; DEAD_OBJECT where the server that has the part is gone.
  void compute(KernelContext* context) const;

 private:
  std::vector<size_t> given_;  // the inputs that are there
  std::unique_ptr<Object> object_;
};

}  // namespace nnvk::provider
