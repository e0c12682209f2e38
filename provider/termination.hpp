// The flag in a run's options that ends the run.
#pragma once

#include "graph.hpp"
#include "wire.hpp"

namespace nnvk::provider {

// Thrown by a wait whose run shall end.
struct Terminated {};

// Looks at the flag of a run during its waits.
class Termination final : public Patience {
 public:
  // NULL: the run has no options that are known, and is not ended.
  explicit Termination(const RunOptions* options);
  void look() override;

 private:
  const uint8_t* flag_ = nullptr;
};

// onnxruntime says to a session's provider, in the thread of the run, that a run begins and ends.
void beginRun(const Ep* provider, const RunOptions* options);
void endRun(const Ep* provider) noexcept;
// The options of the provider's run in this thread; NULL: there is none.
const RunOptions* currentRun(const Ep* provider) noexcept;

}  // namespace nnvk::provider
