#include "server.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <set>

#include "request.hpp"
#include "spawn.hpp"

namespace nnvk {

namespace {

constexpr size_t kMostIdleLanes = 8;
constexpr size_t kSmallestBlock = kAlignment;
constexpr size_t kLargestSmallBlock = 64 * 1024;
constexpr size_t kChunk = 1024 * 1024;
constexpr size_t kMostIdleBytes = 64 * 1024 * 1024;
constexpr int kPatiencesToStart = 12;  // a server that starts has much to read, and the machine may be slow
constexpr int kMillisecondsToEnd = 200;

// The state of this process alone. A forked child gets a new one and leaves the old one as it is, since threads that
// do not exist any more may hold its locks.
struct Process {
  std::mutex starting;
  std::mutex mutex;  // of all that follows, held for a moment only, so that forks can wait for it
  std::shared_ptr<Server> server;
  std::set<int> sockets;
};

Process* process = nullptr;
std::atomic<unsigned> generation{0};

void beforeFork() { process->mutex.lock(); }

void inParent() { process->mutex.unlock(); }

void inChild() {
  for (const int socket : process->sockets) {
    ::close(socket);  // else the server would not notice the parent's end
  }
  process = new Process;
  ++generation;
}

Process& thisProcess() {
  static const bool is_made = [] {
    process = new Process;
    pthread_atfork(beforeFork, inParent, inChild);
    return true;
  }();
  static_cast<void>(is_made);
  return *process;
}

// Makes a socket pair; the first end is closed in children that are forked.
std::pair<Descriptor, Descriptor> socketPair() {
  const std::lock_guard lock(thisProcess().mutex);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    failSystem("there is no socket for the server", errno, ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT);
  }
  std::pair<Descriptor, Descriptor> made{Descriptor(ends[0]), Descriptor(ends[1])};
  process->sockets.insert(ends[0]);
  return made;
}

void closeSocket(Descriptor& socket) noexcept {
  if (socket) {
    const std::lock_guard lock(thisProcess().mutex);
    process->sockets.erase(socket.get());
    socket.close();
  }
}

bool isReady(int file, int milliseconds) {
  pollfd wanted{file, POLLIN, 0};
  return await(&wanted, 1, milliseconds) > 0;
}

struct Unlimited : Patience {
  void look() override {}
} unlimited;

constexpr int kPatience = 10;

int patienceInSeconds() {
  const char* text = secure_getenv("NNVK_PATIENCE");
  char* end = nullptr;
  const long value = text == nullptr || *text == '\0' ? kPatience : strtol(text, &end, 10);
  return value < 0 || value > INT_MAX || (end != nullptr && *end != '\0') ? kPatience : static_cast<int>(value);
}

// Waits until a process that starts has something to say. False: it does not, and nothing more is to be expected.
bool awaitGreeting(int socket, pid_t process) {
  const int patience = patienceInSeconds();
  const int64_t most = patience * int64_t{1000};
  int64_t waited = 0, stopped = 0;
  while (!isReady(socket, kSliceMilliseconds)) {
    waited += kSliceMilliseconds;
    stopped = isStopped(process) ? stopped + kSliceMilliseconds : 0;
    if (patience > 0 && (stopped >= most || waited >= kPatiencesToStart * most)) {
      return false;
    }
  }
  return true;
}

std::shared_ptr<Server> start() {
  const std::string command = findServer();
  if (command.empty() && hasMoreRightsThanCaller()) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE,
         "there is no command nnvk beside the library that only root can change; NNVK_SERVER and PATH don't count in a "
         "program with more rights than its caller");
  }
  if (command.empty()) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE,
         "there is no command nnvk beside the library or in PATH; NNVK_SERVER can name it");
  }
  auto [mine, its] = socketPair();
  struct Closing {
    Descriptor& socket;
    ~Closing() { closeSocket(socket); }
  } closing{mine};
  auto [life, its_life] = socketPair();
  Closing closing_life{life};
  auto [watched, answering] = socketPair();  // before there is a server, which could do nothing without it
  Closing closing_watched{watched};
  const pid_t number = startServer(command, its.get(), its_life.get());
  its.close();
  uint32_t greeting[3] = {};
  if (!awaitGreeting(mine.get(), number)) {
    kill(number, SIGKILL);
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE, "the server %s does not answer", command.c_str());
  }
  ssize_t size;
  while ((size = recv(mine.get(), greeting, sizeof greeting, 0)) < 0 && errno == EINTR) {
  }
  if (size != static_cast<ssize_t>(sizeof greeting)) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE, "the server %s does not start", command.c_str());
  }
  if (greeting[0] != kFingerprint) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE, "the server %s is of another version than the library", command.c_str());
  }
  const int descriptor = answering.get();
  Packet packet(kRequestLane);
  packet.descriptor(descriptor);
  limitWaits(mine);
  try {
    Lane::sendTo(mine.get(), packet, unlimited);
  } catch (const Lane::Broken& broken) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE, "the server %s ends at once: %s", command.c_str(), broken.what());
  }
  const pid_t server = static_cast<pid_t>(greeting[2]);
  if (server != number) {
    continueAtEnd(its_life.get(), server);
  }
  // This library does not end processes that the command has started.
  return std::make_shared<Server>(std::move(mine), std::move(life), std::move(watched), generation.load(),
                                  server == number ? number : 0);
}

}  // namespace

// Memory that both map.
struct Segment {
  uint32_t number;
  size_t size;
  uint8_t* data;

  Segment(uint32_t number, size_t size, uint8_t* data) : number(number), size(size), data(data) {}
  Segment(const Segment&) = delete;
  ~Segment() { munmap(data, size); }
};

// --- blocks and borrowed lanes ---

Block& Block::operator=(Block&& other) noexcept {
  std::swap(server_, other.server_);
  std::swap(segment_, other.segment_);
  std::swap(offset_, other.offset_);
  std::swap(size_, other.size_);
  return *this;
}

Block::~Block() {
  if (segment_ != nullptr) {
    server_->giveBack(std::move(segment_), offset_, size_);
  }
}

uint8_t* Block::data() const { return segment_->data + offset_; }

uint32_t Block::segment() const { return segment_->number; }

Borrowed& Borrowed::operator=(Borrowed&& other) noexcept {
  std::swap(server_, other.server_);
  std::swap(lane_, other.lane_);
  std::swap(is_waiting_, other.is_waiting_);
  return *this;
}

Borrowed::~Borrowed() {
  if (lane_ != nullptr) {
    server_->giveBack(std::move(lane_), !is_waiting_);
  }
}

template <class Call>
auto Borrowed::alive(Call call) {
  server_->check();
  try {
    return call();
  } catch (const Lane::Broken& broken) {
    // A server that dies closes all its sockets, in some order. One that has no thread or descriptor left for a lane
    // closes that alone.
    if (server_->seesHangup(kMillisecondsToEnd)) {
      throw server_->died(broken.what());
    }
    fail(ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT, "the server can't do more at once: %s", broken.what());
  }
}

void Borrowed::send(const Packet& packet) {
  is_waiting_ = true;
  alive([&] { lane_->send(packet, *server_); });
}

Lane::Received Borrowed::receive(Patience* also) {
  struct Both final : Patience {
    Both(Server& server, Patience* also) : server(server), also(also) {}
    void look() override {
      server.look();
      if (also != nullptr) {
        also->look();
      }
    }
    Server& server;
    Patience* also;
  } patience(*server_, also);
  is_waiting_ = true;
  auto received = alive([&] { return lane_->receive(patience); });
  is_waiting_ = false;
  return received;
}

// --- whether it lives ---

Watch::Watch(Descriptor lane) : lane_(std::move(lane)), patience_(patienceInSeconds()) {}

bool Watch::isSilent() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // else another one looks
  if (!lock || patience_.count() == 0) {
    return false;
  }
  const auto now = Clock::now();
  if (is_asked_ && !isReady(lane_.get(), 0)) {
    silence_ += std::min<Clock::duration>(now - looked_, std::chrono::milliseconds(2 * kSliceMilliseconds));
  } else {
    silence_ = {};
    is_asked_ = true;
    uint8_t answer[64];
    static_cast<void>(recv(lane_.get(), answer, sizeof answer, MSG_DONTWAIT));  // an end is for others to notice
    static_cast<void>(send(lane_.get(), &kRequestPing, sizeof kRequestPing, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  looked_ = now;
  return silence_ >= patience_;
}

void Server::look() {
  check();
  if (!watch_.isSilent()) {
    return;
  }
  if (number_ > 0 && !seesHangup()) {  // as long as it has its socket the number is its own
    kill(number_, SIGKILL);
  }
  throw died("it has not answered anything for " + std::to_string(watch_.patience()) + " seconds");
}

// --- the server ---

std::shared_ptr<Server> Server::running() {
  Process& here = thisProcess();
  const auto current = [&] {
    const std::lock_guard lock(here.mutex);
    return here.server;
  };
  const auto lives = [](const std::shared_ptr<Server>& server) {
    return server != nullptr && !server->is_dead_ && !server->seesHangup();
  };
  auto server = current();
  if (lives(server)) {
    return server;
  }
  const std::lock_guard lock(here.starting);
  server = current();
  if (lives(server)) {
    return server;
  }
  server = start();
  const std::lock_guard guard(here.mutex);
  std::swap(here.server, server);
  return here.server;
}

Server::Server(Descriptor control, Descriptor life, Descriptor watched, unsigned process, pid_t number)
    : control_(std::move(control)),
      life_(std::move(life)),
      process_(process),
      number_(number),
      watch_(std::move(watched)) {}

Server::~Server() {
  if (!isOurs()) {
    control_.release();
    life_.release();
    watch_.lane().release();
    for (auto& lane : idle_) {
      lane.release();  // the descriptors are closed already, and their numbers may be others'
    }
    return;
  }
  closeSocket(control_);
  closeSocket(life_);
  closeSocket(watch_.lane());
  for (auto& lane : idle_) {
    lane->closeWith(closeSocket);
  }
}

bool Server::isOurs() const { return process_ == generation.load(); }

bool Server::seesHangup(int milliseconds) const {
  return isReady(control_.get(), milliseconds);  // after the greeting nothing comes but the end
}

void Server::check() const {
  if (!isOurs()) {
    fail(ANEURALNETWORKS_DEAD_OBJECT, "the object is of the process that this one was forked from");
  }
  if (is_dead_) {
    fail(ANEURALNETWORKS_DEAD_OBJECT, "the server that the object lived in has died");
  }
}

Error Server::died(const std::string& reason) noexcept {
  if (!is_dead_.exchange(true)) {
    // It goes by this if it lives in spite of all; the descriptor itself may be in use by another thread.
    shutdown(control_.get(), SHUT_RDWR);
  }
  return Error{ANEURALNETWORKS_DEAD_OBJECT, "the server has died: " + reason};
}

Borrowed Server::lane() {
  check();
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto lane = std::move(idle_.back());
      idle_.pop_back();
      return Borrowed(shared_from_this(), std::move(lane));
    }
  }
  auto [mine, its] = socketPair();
  auto lane = std::make_unique<Lane>(std::move(mine));
  Packet packet(kRequestLane);
  packet.descriptor(its.get());
  try {
    const std::lock_guard lock(mutex_);
    Lane::sendTo(control_.get(), packet, *this);
  } catch (const Lane::Broken& broken) {
    lane->closeWith(closeSocket);
    throw died(broken.what());
  } catch (...) {
    lane->closeWith(closeSocket);
    throw;
  }
  return Borrowed(shared_from_this(), std::move(lane));
}

void Server::release(uint64_t number) noexcept {
  try {
    if (isOurs() && !is_dead_) {
      const std::lock_guard lock(mutex_);
      Lane::sendTo(control_.get(), Packet(kRequestRelease).u32(1).u64(number), *this);
    }
  } catch (const Lane::Broken& broken) {
    died(broken.what());
  } catch (...) {
    // It stays in the server as long as that lives.
  }
}

void Server::giveBack(std::unique_ptr<Lane> lane, bool is_idle) noexcept {
  if (!isOurs()) {
    lane.release();
    return;
  }
  if (is_idle && !is_dead_) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMostIdleLanes) {
      idle_.push_back(std::move(lane));
      return;
    }
  }
  lane->closeWith(closeSocket);
}

// --- shared memory ---

std::shared_ptr<Segment> Server::newSegment(size_t size) {
  const Descriptor memory = makeSharedMemory("nnvk-arguments");
  if (ftruncate(memory.get(), static_cast<off_t>(size)) != 0) {
    failSystem("shared memory can't be made larger", errno, ANEURALNETWORKS_OUT_OF_MEMORY);
  }
  sealAgainstShrinking(memory);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (data == MAP_FAILED) {
    failSystem("shared memory can't be mapped", errno, ANEURALNETWORKS_OUT_OF_MEMORY);
  }
  auto segment = std::make_shared<Segment>(segments_++, size, static_cast<uint8_t*>(data));
  Request request(kRequestMap, shared_from_this());
  request.put(segment->number);
  request.put(static_cast<uint64_t>(size));
  request.packet().descriptor(memory.get());
  request.ask();
  return segment;
}

void Server::forget(const std::shared_ptr<Segment>& segment) noexcept {
  try {
    Request request(kRequestUnmap, shared_from_this());
    request.put(segment->number);
    request.ask();
  } catch (...) {
    // The server has died, or keeps it until it ends.
  }
}

Block Server::allocate(size_t size) {
  check();
  if (size > kLargestSmallBlock) {
    const size_t rounded = (size + kLargestSmallBlock - 1) / kLargestSmallBlock * kLargestSmallBlock;
    if (rounded < size) {
      fail(ANEURALNETWORKS_BAD_DATA, "a buffer can't have %zu bytes", size);
    }
    {
      const std::lock_guard lock(mutex_);
      const auto found = large_.lower_bound(rounded);
      if (found != large_.end() && found->first <= 2 * rounded) {
        auto segment = std::move(found->second);
        large_.erase(found);
        large_bytes_ -= segment->size;
        return Block(shared_from_this(), segment, 0, segment->size);
      }
    }
    return Block(shared_from_this(), newSegment(rounded), 0, rounded);
  }
  size_t rounded = kSmallestBlock;
  while (rounded < size) {
    rounded *= 2;
  }
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      auto& places = free_[rounded];
      if (!places.empty()) {
        const auto place = std::move(places.back());
        places.pop_back();
        return Block(shared_from_this(), place.segment, place.offset, rounded);
      }
    }
    const auto segment = newSegment(kChunk);
    const std::lock_guard lock(mutex_);
    auto& places = free_[rounded];
    for (size_t offset = kChunk; offset > 0; offset -= rounded) {
      places.push_back({segment, offset - rounded});
    }
  }
}

void Server::giveBack(std::shared_ptr<Segment> segment, size_t offset, size_t size) noexcept {
  if (!isOurs() || is_dead_) {
    return;
  }
  try {
    if (size <= kLargestSmallBlock) {
      const std::lock_guard lock(mutex_);
      free_[size].push_back({std::move(segment), offset});
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (large_bytes_ + size <= kMostIdleBytes) {
        large_.emplace(size, segment);
        large_bytes_ += size;
        return;
      }
    }
    forget(segment);
  } catch (...) {
    // No memory to remember it by: it is not used again.
  }
}

}  // namespace nnvk
