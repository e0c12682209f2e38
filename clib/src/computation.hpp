// Computations that go on while the application does something else, and fences.
#pragma once

#include "request.hpp"

namespace nnvk {

class Computation final : public Occurrence, public std::enable_shared_from_this<Computation> {
 public:
  // Begin one. These throw what the server refuses it for.
  static std::shared_ptr<Computation> start(ANeuralNetworksExecution& execution);
  static std::shared_ptr<Computation> startAfter(ANeuralNetworksExecution& execution,
                                                 std::vector<std::shared_ptr<Occurrence>> dependencies,
                                                 uint64_t duration);

  explicit Computation(const ANeuralNetworksExecution& execution);
  ~Computation() override;

  int wait() override;
  bool isOver() override;
  Descriptor fence() override;
  void waitOrHear(int socket) override;
  uint64_t numberIn(const std::shared_ptr<Server>& server) override;
  bool isForeign() const override { return is_foreign_; }
  void drop() noexcept override;

 private:
  void begin(Packet packet);
  void finish();
  void openGate();
  void inBackground();

  const std::shared_ptr<Server> server_;
  const uint64_t number_;
  const std::shared_ptr<Arguments> arguments_;
  std::mutex mutex_;  // of the lane and the code; who waits holds it
  Borrowed lane_;
  int code_ = ANEURALNETWORKS_NO_ERROR;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> has_thread_{false};
  // Constant once it has begun:
  Descriptor signal_;  // of a fenced one: an eventfd, readable once it is over
  bool is_foreign_ = false;
  std::vector<std::shared_ptr<Occurrence>> dependencies_;  // those that inputs must wait for
  Descriptor gate_;                                        // which the server waits for then
  Descriptor socket_;                                      // by which the server's end is heard of then
};

// A sync fence of somebody else.
class Fence final : public Occurrence {
 public:
  explicit Fence(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  ~Fence() override;

  int wait() override;
  bool isOver() override;
  Descriptor fence() override;
  void waitOrHear(int socket) override;
  uint64_t numberIn(const std::shared_ptr<Server>& server) override;
  bool isForeign() const override { return true; }

 private:
  const Descriptor descriptor_;
  std::mutex mutex_;
  std::shared_ptr<Server> server_;
  uint64_t number_ = 0;
};

}  // namespace nnvk
