// A part of a graph in the server: it is compiled there, and computes there.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "memory.hpp"
#include "model.hpp"
#include "objects.hpp"
#include "request.hpp"
#include "termination.hpp"

namespace nnvk::provider {

struct Options {
  std::string device;
  bool relaxed = false;
  bool is_auto = false;  // onnxruntime computes parts that it is measured to compute faster
  bool takes_all = false;  // nodes too that cost less in onnxruntime than on their way to the device
  bool takes_values = false;  // nodes too that are imported when values of their inputs are there
  std::string cache_dir;  // empty: compiled models are kept in no folder of the application's
  std::string profile;  // the file or folder of a recording of what the server does; empty: there is none
  bool saves = false;  // compiled parts, in nodes of a model that onnxruntime writes
  bool embeds = false;  // saved parts are in the model, not beside it
  std::string context_path;  // of the model with saved parts; empty: beside the session's model
};

// Why a node stays with onnxruntime, or the part that it is in.
struct Verdict {
  std::string reason;
  int32_t part = -1;
};

// A verdict for each node of a graph. Throws.
std::vector<Verdict> examine(const Options& options, const Graph* graph, size_t nodes);

// The bytes of a part that is compiled and saved. Throws what the server refuses it for.
std::string save(const Options& options, const Graph* graph, const Node* fused);

class Part {
 public:
  // `fused`: the node that onnxruntime puts in the place of `graph`. Throws what the server refuses it for.
  Part(const Options& options, const Graph* graph, const Node* fused);
  // A part that was saved, which `node` stands for.
  Part(const Options& options, const std::string& saved, const Node* node, const Node* fused);
  ~Part();

  // Several threads may compute at once. Throws; DEAD_OBJECT where the server that has the part is gone. A run that is
  // terminated leaves the server to finish it.
  void compute(KernelContext* context, Termination& termination);

 private:
  struct Input;
  // Where onnxruntime wants an output; NULL: nowhere.
  struct Target {
    uint8_t* data = nullptr;
    std::optional<Shared> shared;  // where the server has it too
  };
  struct Run;
  class Left;

  std::vector<Input> readInputs(const KernelContext* context) const;
  std::vector<Target> targetsOf(KernelContext* context, const Run& run) const;
  // A run for inputs of these types, shapes and places, with the elements of the inputs in it. `targets` become those
  // of its outputs, if their sizes are known.
  std::unique_ptr<Run> runFor(KernelContext* context, const std::vector<Input>& inputs, std::vector<Target>& targets,
                              Termination& termination);
  std::unique_ptr<Run> newRun(KernelContext* context, const std::vector<Input>& inputs, std::vector<Target>& targets,
                              Termination& termination) const;
  // An idle run that `fits`; NULL: there is none.
  template <class Fits>
  std::unique_ptr<Run> takeIdle(Fits fits);
  void giveBack(std::unique_ptr<Run> run);
  // Asks for something that a run does. If the wait is terminated, the run is kept until the server has done it.
  static Reader ask(Request& request, std::unique_ptr<Run>& run, Termination& termination);

  std::vector<size_t> given_;  // the inputs that are there
  std::vector<std::optional<size_t>> places_;  // of the outputs, among those that onnxruntime wants
  std::unique_ptr<Object> object_;
  std::mutex mutex_;
  std::list<std::unique_ptr<Run>> idle_;  // the last used one first
  size_t idle_bytes_ = 0;
};

}  // namespace nnvk::provider
