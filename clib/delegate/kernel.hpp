// A partition: the model of it, and what TensorFlow Lite calls for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <android/NeuralNetworks.h>

#include "graph.hpp"

namespace nnvk::tflite {

struct Options {
  std::string device;  // empty: nnvk chooses
  std::string cache_dir;
  bool relaxed = false;
  bool no_fallback = false;
  size_t max_partitions = 3;  // the largest; 0: all. As Android's own delegate has it
  size_t verbosity = 1;       // 0: errors alone; 1: what was taken, and why others were not
};

void log(const Options& options, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Throws unless there is the device that the options name.
void checkDevice(const Options& options);

class Kernel {
 public:
  // `has_open_sizes`: those that inputs of the graph have are perhaps but placeholders.
  Kernel(const Options& options, std::vector<NodeRecord> nodes, Edges edges, bool has_open_sizes)
      : options_(options), nodes_(std::move(nodes)), edges_(std::move(edges)), has_open_sizes_(has_open_sizes) {}

  // Compile it for the shapes that the inputs have now, and give the outputs theirs. These throw; what can't be mapped
  // with placeholders is no error before it is computed.
  void prepare(TfLiteContext& context);
  void compute(TfLiteContext& context);

 private:
  template <class T, void (*Free)(T*)>
  struct Freeing {
    void operator()(T* object) const { Free(object); }
  };
  template <class T, void (*Free)(T*)>
  using Owned = std::unique_ptr<T, Freeing<T, Free>>;

  // A tensor of TensorFlow Lite and an operand of the model.
  struct Edge {
    int tensor = 0;
    size_t bytes = 0;            // of the operand
    std::vector<int> shape;      // of the tensor
    std::vector<int32_t> small;  // where the operand has 32 bits for the tensor's 64
  };

  struct Execution {
    std::vector<void*> buffers;  // of the inputs and outputs
    Owned<ANeuralNetworksExecution, ANeuralNetworksExecution_free> execution;
  };

  std::vector<std::vector<int>> inputShapes(const TfLiteContext& context) const;
  // Whether a custom operator writes it.
  bool isOfCustom(int tensor) const;
  // Whether there is nothing to compute: no output has elements.
  bool isEmpty() const;
  void build(const TfLiteContext& context);
  void buildNew(const TfLiteContext& context);
  void computeOnce(TfLiteContext& context);
  void forget();
  template <class Call, class IsLasting>
  void orForget(Call call, IsLasting is_lasting);
  void compile(const uint8_t* token);
  ANeuralNetworksExecution* newExecution(const std::vector<void*>& buffers);
  ANeuralNetworksExecution* execution(const TfLiteContext& context);
  void* bufferOf(const TfLiteContext& context, Edge& edge);

  const Options options_;
  const std::vector<NodeRecord> nodes_;
  const Edges edges_;
  const bool has_open_sizes_;
  std::vector<std::vector<int>> shapes_;  // of the inputs, which it is compiled for
  std::vector<Edge> inputs_, outputs_;
  Owned<ANeuralNetworksModel, ANeuralNetworksModel_free> model_;
  Owned<ANeuralNetworksCompilation, ANeuralNetworksCompilation_free> compilation_;
  std::vector<Execution> executions_;  // the last one that was used is the first
};

}  // namespace nnvk::tflite
