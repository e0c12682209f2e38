#include "computation.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace nnvk {

namespace {

// Wait for a descriptor, and for another one if that is not -1. Whether the first is ready; its error in `events`.
bool waitFor(int file, int other, int milliseconds, short* events = nullptr) {
  pollfd wanted[2] = {{file, POLLIN, 0}, {other, POLLIN, 0}};
  await(wanted, 2, milliseconds);
  if (events != nullptr) {
    *events = wanted[0].revents;
  }
  return wanted[0].revents != 0;
}

// A thread in which no handler of the application's signals runs.
template <class Work>
void detach(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::exception& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    fail(ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT, "there is no thread: %s", error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

// --- computations ---

Computation::Computation(const ANeuralNetworksExecution& execution)
    : server_(execution.server), number_(server_->newNumber()), arguments_(execution.arguments) {}

Computation::~Computation() { server_->release(number_); }

std::shared_ptr<Computation> Computation::start(ANeuralNetworksExecution& execution) {
  auto made = std::make_shared<Computation>(execution);
  made->begin(Packet(kRequestExecutionstartCompute).u64(execution.number).u64(made->number_));
  return made;
}

std::shared_ptr<Computation> Computation::startAfter(ANeuralNetworksExecution& execution,
                                                     std::vector<std::shared_ptr<Occurrence>> dependencies,
                                                     uint64_t duration) {
  auto made = std::make_shared<Computation>(execution);
  made->signal_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (!made->signal_) {
    failSystem("there is no descriptor for the event", errno);
  }
  Packet packet(kRequestExecutionstartComputeWithDependencies);
  packet.u64(execution.number).u64(made->number_).u64(duration).u32(static_cast<uint32_t>(dependencies.size()));
  bool are_over = true;
  for (const auto& dependency : dependencies) {
    packet.u64(dependency->numberIn(made->server_));
    are_over = dependency->isOver() && are_over;
    made->is_foreign_ = made->is_foreign_ || dependency->isForeign();
  }
  const bool is_gated = !are_over && made->arguments_->hasInputs();
  packet.u8(is_gated);
  if (is_gated) {
    made->gate_ = Descriptor(eventfd(0, EFD_CLOEXEC));
    if (!made->gate_) {
      failSystem("there is no descriptor to wait with", errno);
    }
    packet.descriptor(made->gate_.get());
    made->dependencies_ = std::move(dependencies);
  }
  made->begin(std::move(packet));
  if (is_gated) {
    try {
      made->inBackground();
    } catch (const Error&) {  // no thread: then this one
      made->openGate();
    }
  }
  return made;
}

// Sends the request, and hears whether the computation is under way.
void Computation::begin(Packet packet) {
  const std::lock_guard lock(mutex_);
  Borrowed lane = server_->lane();
  arguments_->begin();
  try {
    arguments_->follow(shared_from_this());
    if (gate_) {
      socket_ = Descriptor::duplicate(lane.socket(), "there is no descriptor to wait with");
    } else {
      arguments_->copyIn();
    }
    lane.send(packet);
    const auto reply = lane.receive();
    if (reply.code != ANEURALNETWORKS_NO_ERROR) {
      throw Error{reply.code, reply.reason};
    }
  } catch (...) {
    arguments_->end();
    is_over_ = true;
    throw;
  }
  lane.expect();
  lane_ = std::move(lane);
}

int Computation::wait() {
  if (!server_->isOurs()) {  // who waited when this process was forked still holds the lock
    return is_over_ ? code_ : guarded("ANeuralNetworksEvent_wait", [&] { server_->check(); });
  }
  const std::lock_guard lock(mutex_);
  finish();
  return code_;
}

bool Computation::isOver() {
  if (is_over_ || !server_->isOurs()) {
    return true;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);  // else somebody waits
  if (lock && !is_over_ && waitFor(lane_.socket(), -1, 0)) {
    finish();
  }
  return is_over_;
}

// With the lock: receive what the computation came to.
void Computation::finish() {
  if (is_over_) {
    return;
  }
  code_ = guarded("ANeuralNetworksEvent_wait", [&] {
    const auto reply = lane_.receive();
    if (reply.code != ANEURALNETWORKS_NO_ERROR) {
      throw Error{reply.code, reply.reason};
    }
    arguments_->copyOut(reply.rest);
  });
  lane_ = Borrowed();
  arguments_->end();
  is_over_ = true;
  if (signal_) {
    eventfd_write(signal_.get(), 1);
  }
}

// Waits for what the inputs must wait for, and lets the server begin. If that gives up before, its reply says so.
void Computation::openGate() {
  for (const auto& dependency : dependencies_) {
    dependency->waitOrHear(socket_.get());
  }
  arguments_->copyIn();
  eventfd_write(gate_.get(), 1);
}

void Computation::inBackground() {
  if (has_thread_.exchange(true)) {
    return;
  }
  try {
    detach([self = shared_from_this()] {
      if (self->gate_) {
        self->openGate();
      }
      self->wait();
    });
  } catch (const Error&) {
    has_thread_ = false;
    throw;
  }
}

Descriptor Computation::fence() {
  if (!signal_) {
    NNVK_BAD_DATA("the event is not backed by a sync fence: it comes from startCompute");
  }
  inBackground();
  return signal_.duplicate("there is no descriptor for the event");
}

void Computation::waitOrHear(int) { wait(); }  // it hears of the same server's end itself

uint64_t Computation::numberIn(const std::shared_ptr<Server>& server) {
  if (server != server_) {
    fail(ANEURALNETWORKS_DEAD_OBJECT, "an event lives in a server that has died");
  }
  return number_;
}

void Computation::drop() noexcept {
  if (!is_foreign_) {
    wait();
  } else if (!isOver()) {
    guarded("ANeuralNetworksEvent_free", [&] { inBackground(); });
  }
}

// --- fences ---

Fence::~Fence() {
  if (server_ != nullptr) {
    server_->release(number_);
  }
}

int Fence::wait() {
  return guarded("ANeuralNetworksEvent_wait", [&] {
    short events = 0;
    waitFor(descriptor_.get(), -1, -1, &events);
    if ((events & (POLLIN | POLLHUP)) == 0) {
      fail(ANEURALNETWORKS_OP_FAILED, "the sync fence is in error");
    }
  });
}

bool Fence::isOver() { return waitFor(descriptor_.get(), -1, 0); }

Descriptor Fence::fence() { return descriptor_.duplicate("the sync fence's descriptor can't be duplicated"); }

void Fence::waitOrHear(int socket) { waitFor(descriptor_.get(), socket, -1); }

uint64_t Fence::numberIn(const std::shared_ptr<Server>& server) {
  const std::lock_guard lock(mutex_);
  if (server_ != server) {
    const uint64_t number = server->newNumber();
    Request request(kRequestFence, server);
    request.put(number);
    request.packet().descriptor(descriptor_.get());
    request.ask();
    server_ = server;
    number_ = number;
  }
  return number_;
}

namespace by_hand {

void ANeuralNetworksEvent_createFromSyncFenceFd(int sync_fence_fd, ANeuralNetworksEvent** event) {
  if (sync_fence_fd < 0) {
    NNVK_BAD_DATA("%d is no descriptor", sync_fence_fd);
  }
  auto descriptor =
      Descriptor::duplicate(sync_fence_fd, "the sync fence's descriptor can't be duplicated", ANEURALNETWORKS_BAD_DATA);
  *event = new ANeuralNetworksEvent(std::make_shared<Fence>(std::move(descriptor)));
}

void ANeuralNetworksEvent_getSyncFenceFd(const ANeuralNetworksEvent* event, int* sync_fence_fd) {
  *sync_fence_fd = -1;
  *sync_fence_fd = event->occurrence->fence().release();
}

void ANeuralNetworksEvent_wait(ANeuralNetworksEvent* event) {
  const int code = event->occurrence->wait();
  if (code != ANEURALNETWORKS_NO_ERROR) {
    throw Known{code};
  }
}

}  // namespace by_hand
}  // namespace nnvk
