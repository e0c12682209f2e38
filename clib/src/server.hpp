// The server process as the library sees it: lanes to it, numbers of objects there, and shared memory with it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "error.hpp"
#include "wire.hpp"

namespace nnvk {

class Server;
struct Segment;

// A part of the memory that is shared with the server, for one argument of an execution.
class Block {
 public:
  Block() = default;
  Block(std::shared_ptr<Server> server, std::shared_ptr<Segment> segment, size_t offset, size_t size)
      : server_(std::move(server)), segment_(std::move(segment)), offset_(offset), size_(size) {}
  Block(Block&& other) noexcept = default;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  uint8_t* data() const;
  uint32_t segment() const;
  size_t offset() const { return offset_; }
  explicit operator bool() const { return segment_ != nullptr; }

 private:
  std::shared_ptr<Server> server_;
  std::shared_ptr<Segment> segment_;
  size_t offset_ = 0;
  size_t size_ = 0;
};

// A lane that is borrowed; it goes back at the end, unless it broke or something is still under way in it.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(std::shared_ptr<Server> server, std::unique_ptr<Lane> lane)
      : server_(std::move(server)), lane_(std::move(lane)) {}
  Borrowed(Borrowed&&) noexcept = default;
  Borrowed& operator=(Borrowed&& other) noexcept;
  ~Borrowed();

  // These throw DEAD_OBJECT where the server has gone, and another error where only the lane has.
  void send(const Packet& packet);
  // `also` is asked during the wait, too. If it throws, the reply can be received later.
  Lane::Received receive(Patience* also = nullptr);
  int socket() const { return lane_->socket(); }
  // Another reply will come.
  void expect() { is_waiting_ = true; }

 private:
  template <class Call>
  auto alive(Call call);

  std::shared_ptr<Server> server_;
  std::unique_ptr<Lane> lane_;
  bool is_waiting_ = false;  // for a reply
};

// Tells a server that takes long from one that has stopped: a lane of its own, on which it is asked now and then.
// Silence counts while somebody waits, and by the time that a wait should have taken: where the application was stopped
// itself, or the whole machine, the server gets its chance to answer.
class Watch {
 public:
  explicit Watch(Descriptor lane);

  // Whether it has not answered for NNVK_PATIENCE seconds. To be called every slice of a wait.
  bool isSilent();
  int patience() const { return static_cast<int>(patience_.count()); }
  Descriptor& lane() { return lane_; }

 private:
  using Clock = std::chrono::steady_clock;

  Descriptor lane_;
  std::chrono::seconds patience_;
  std::mutex mutex_;
  bool is_asked_ = false;
  Clock::time_point looked_{};
  Clock::duration silence_{};
};

class Server final : public std::enable_shared_from_this<Server>, private Patience {
 public:
  // The server of this process; it is started where there is none, or the last one has died. Throws.
  static std::shared_ptr<Server> running();

  // `life`: a socket whose end continues the server where it is stopped. `number`: the process to end where it does not
  // answer any more, or 0.
  Server(Descriptor control, Descriptor life, Descriptor watched, unsigned process, pid_t number);
  ~Server();

  Borrowed lane();
  uint64_t newNumber() { return numbers_++; }
  // Forget an object. Never fails.
  void release(uint64_t number) noexcept;
  Block allocate(size_t size);
  // Throws DEAD_OBJECT unless the server lives, as far as is known, and belongs to this process.
  void check() const;
  // Marks the server as dead and gives the error to throw.
  Error died(const std::string& reason) noexcept;
  // Whether it has gone, or goes within so many milliseconds.
  bool seesHangup(int milliseconds = 0) const;
  // Whether it was started in this process, and not in one that this was forked from.
  bool isOurs() const;

 private:
  friend class Block;
  friend class Borrowed;

  // After a wait without an answer. Throws DEAD_OBJECT where the server has died, or has stopped answering at all.
  void look() override;

  void giveBack(std::unique_ptr<Lane> lane, bool is_idle) noexcept;
  void giveBack(std::shared_ptr<Segment> segment, size_t offset, size_t size) noexcept;
  std::shared_ptr<Segment> newSegment(size_t size);
  void forget(const std::shared_ptr<Segment>& segment) noexcept;

  Descriptor control_;
  Descriptor life_;
  const unsigned process_;  // in which it was started: a child that was forked has none of it
  const pid_t number_;
  Watch watch_;
  std::atomic<bool> is_dead_{false};
  std::atomic<uint64_t> numbers_{1};
  std::atomic<uint32_t> segments_{1};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_;
  struct Place {
    std::shared_ptr<Segment> segment;
    size_t offset;
  };
  std::map<size_t, std::vector<Place>> free_;  // small blocks by their size
  std::multimap<size_t, std::shared_ptr<Segment>> large_;
  size_t large_bytes_ = 0;
};

// For what needs a server, and none in particular: if that dies meanwhile, the next one does.
template <class Call>
void again(Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code != ANEURALNETWORKS_DEAD_OBJECT) {
      throw;
    }
    call();
  }
}

}  // namespace nnvk
