// The structures behind the pointers of the C interface.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server.hpp"

namespace nnvk {

// An object in the server. It is forgotten there when it is freed here; what still needs it there keeps it.
struct Object {
  Object(std::shared_ptr<Server> server, uint64_t number) : server(std::move(server)), number(number) {}
  Object(const Object&) = delete;
  ~Object() { server->release(number); }

  const std::shared_ptr<Server> server;
  const uint64_t number;
};

inline std::shared_ptr<Server> serverOf(const Object& object) { return object.server; }

// The occurrence that an event stands for.
class Occurrence {
 public:
  virtual ~Occurrence() = default;
  // Wait for it; its result code, each time.
  virtual int wait() = 0;
  // Whether it has occurred, and its outputs are written.
  virtual bool isOver() = 0;
  // A new descriptor that becomes readable then. Throws.
  virtual Descriptor fence() = 0;
  // Wait for it, or until something comes through the socket.
  virtual void waitOrHear(int socket) = 0;
  // Its number in a server. Throws.
  virtual uint64_t numberIn(const std::shared_ptr<Server>& server) = 0;
  // Whether it needs something that may never come.
  virtual bool isForeign() const = 0;
  // Nobody is interested any more.
  virtual void drop() noexcept {}
};

class Computation;

// The arguments of an execution that lie in the application's buffers, which outlives it while it computes.
class Arguments {
 public:
  // Where the application has an input or output, and where the server has it.
  struct Argument {
    void* buffer;
    size_t length;
    Block block;
  };

  void setInput(int32_t index, Argument argument) { set(inputs_, index, std::move(argument)); }
  void setOutput(int32_t index, Argument argument) { set(outputs_, index, std::move(argument)); }
  bool hasInputs();
  // Throws BAD_STATE where a computation is under way; else one is.
  void begin();
  void end() noexcept;
  // Remembers the current computation, to ask later whether it has ended.
  void follow(const std::shared_ptr<Computation>& computation);
  void copyIn();
  // After success: the reply may say how much of each output is written.
  void copyOut(Reader reply);

 private:
  void set(std::map<int32_t, Argument>& arguments, int32_t index, Argument argument);

  std::mutex mutex_;
  std::map<int32_t, Argument> inputs_, outputs_;
  bool is_busy_ = false;
  std::weak_ptr<Computation> computation_;
};

}  // namespace nnvk

struct ANeuralNetworksBurst : nnvk::Object {
  using Object::Object;
};

struct ANeuralNetworksCompilation : nnvk::Object {
  using Object::Object;
};

struct ANeuralNetworksModel : nnvk::Object {
  using Object::Object;
};

struct ANeuralNetworksMemoryDesc : nnvk::Object {
  using Object::Object;
};

struct ANeuralNetworksExecution : nnvk::Object {
  using Object::Object;
  const std::shared_ptr<nnvk::Arguments> arguments = std::make_shared<nnvk::Arguments>();
};

struct ANeuralNetworksEvent {
  explicit ANeuralNetworksEvent(std::shared_ptr<nnvk::Occurrence> occurrence) : occurrence(std::move(occurrence)) {}
  ~ANeuralNetworksEvent() { occurrence->drop(); }

  const std::shared_ptr<nnvk::Occurrence> occurrence;
};

struct ANeuralNetworksDevice {
  std::string name, version;
  int32_t type;
  int64_t feature_level;
  std::vector<std::string> extensions;
};

// Device memory belongs to the server. Memory made from a descriptor outlives the server: the next one maps it, too.
struct ANeuralNetworksMemory {
  ANeuralNetworksMemory(std::shared_ptr<nnvk::Server> server, uint64_t number) : server_(std::move(server)), number_(number) {}
  ANeuralNetworksMemory(nnvk::Descriptor file, size_t size, int protect, size_t offset);
  ~ANeuralNetworksMemory() { server_->release(number_); }

  // Its number in a server, which hears of it now if it has not yet. Throws.
  uint64_t numberIn(const std::shared_ptr<nnvk::Server>& server) const;
  // The server that has it, or can have it.
  std::shared_ptr<nnvk::Server> server() const;

 private:
  uint64_t announcedTo(const std::shared_ptr<nnvk::Server>& server) const;

  mutable std::mutex mutex_;
  mutable std::shared_ptr<nnvk::Server> server_;
  mutable uint64_t number_ = 0;
  const nnvk::Descriptor file_;
  const size_t size_ = 0;
  const int protect_ = 0;
  const size_t offset_ = 0;
};

namespace nnvk {

inline std::shared_ptr<Server> serverOf(const ANeuralNetworksMemory& memory) { return memory.server(); }

template <class T>
void freeObject(T* object) noexcept {
  delete object;
}

}  // namespace nnvk
