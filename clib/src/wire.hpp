// Packets and the sockets that they go through: the other half of nnvk/serve/protocol.py.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tables.hpp"

namespace nnvk {

// A file descriptor that is closed at the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  explicit operator bool() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) {
      ::close(release());
    }
  }
  // Another descriptor of the same, which is closed when a program is executed. Throws what `failSystem` makes of it.
  Descriptor duplicate(const char* what) const { return duplicate(number_, what); }
  static Descriptor duplicate(int number, const char* what, int otherwise = ANEURALNETWORKS_OP_FAILED);

 private:
  int number_ = -1;
};

// As poll(), also where RLIMIT_NOFILE is lower than `count`; signals don't end it.
int await(pollfd* wanted, size_t count, int milliseconds);

// A new memfd, or the error.
Descriptor makeSharedMemory(const char* name);
// No one shall be able to shrink it under the feet of who has mapped it.
void sealAgainstShrinking(const Descriptor& memory);

// A request under construction.
class Packet {
 public:
  explicit Packet(uint32_t request) { u32(request); }

  Packet& u8(uint8_t value) { return put(&value, sizeof value); }
  Packet& u32(uint32_t value) { return put(&value, sizeof value); }
  Packet& i32(int32_t value) { return put(&value, sizeof value); }
  Packet& u64(uint64_t value) { return put(&value, sizeof value); }
  Packet& f32(float value) { return put(&value, sizeof value); }
  Packet& bytes(const void* data, size_t length) { return put(data, length); }
  Packet& string(std::string_view text) { return u32(static_cast<uint32_t>(text.size())).put(text.data(), text.size()); }
  Packet& u32s(const uint32_t* values, size_t count) {
    return u32(static_cast<uint32_t>(count)).put(values, count * sizeof *values);
  }
  Packet& f32s(const float* values, size_t count) {
    return u32(static_cast<uint32_t>(count)).put(values, count * sizeof *values);
  }
  // Data at the next multiple of kAlignment. It is referred to until the packet is sent, not copied.
  Packet& aligned(const void* data, size_t length);
  // A descriptor that goes along; it stays the caller's.
  Packet& descriptor(int number);

 private:
  friend class Lane;

  struct Reference {
    size_t position;  // in bytes_, before which it comes
    const void* data;
    size_t length;
  };

  Packet& put(const void* data, size_t length) {
    if (length > 0) {
      bytes_.resize(bytes_.size() + length);
      memcpy(bytes_.data() + bytes_.size() - length, data, length);
    }
    return *this;
  }
  size_t size() const { return bytes_.size() + referred_; }

  std::vector<uint8_t> bytes_;
  std::vector<Reference> references_;
  size_t referred_ = 0;
  std::vector<int> descriptors_;
};

// Reads a reply. A reply that is too short is an error of the connection: Lane::Broken.
class Reader {
 public:
  Reader() = default;
  Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t u8() { return take<uint8_t>(); }
  uint32_t u32() { return take<uint32_t>(); }
  int32_t i32() { return take<int32_t>(); }
  uint64_t u64() { return take<uint64_t>(); }
  int64_t i64() { return take<int64_t>(); }
  std::string string() {
    const size_t length = u32();
    return std::string(reinterpret_cast<const char*>(bytes(length)), length);
  }
  // The number of things that follow, each of so many bytes at least: no more than there is room for.
  uint32_t count(size_t size);
  const uint8_t* bytes(size_t length);
  size_t left() const { return size_ - position_; }

 private:
  template <class T>
  T take() {
    T value;
    memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t position_ = 0;
};

// Asked every kSliceMilliseconds during a wait. It throws if there is nothing to wait for any more.
class Patience {
 public:
  virtual void look() = 0;

 protected:
  ~Patience() = default;
};

constexpr int kSliceMilliseconds = 250;
// Sends and receives return after a slice.
void limitWaits(const Descriptor& socket);

// A socket with one request under way at a time.
class Lane {
 public:
  // Thrown where the other end is gone, or what comes from there makes no sense.
  struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  // A reply: a result code, its reason, and the rest, which is valid until the next reply is received.
  struct Received {
    int code = 0;
    std::string reason;
    Reader rest;
  };

  explicit Lane(Descriptor socket) : socket_(std::move(socket)), buffer_(new uint8_t[kLargestPacket]) {
    limitWaits(socket_);
  }
  Lane(const Lane&) = delete;
  ~Lane() { unmap(); }

  int socket() const { return socket_.get(); }
  template <class Close>
  void closeWith(Close close) {
    close(socket_);
  }
  void send(const Packet& packet, Patience& patience) { sendTo(socket_.get(), packet, patience); }
  static void sendTo(int socket, const Packet& packet, Patience& patience);
  Received receive(Patience& patience);

 private:
  static void sendSmall(int socket, const void* data, size_t size, const std::vector<int>& descriptors,
                        Patience& patience);
  // The packet of so many bytes that is in shared memory. Throws Broken where it can shrink or is smaller.
  Reader map(const Descriptor& memory, uint64_t size);
  void unmap();

  Descriptor socket_;
  std::unique_ptr<uint8_t[]> buffer_;
  void* mapped_ = nullptr;  // the last packet, where it was in shared memory
  size_t mapped_size_ = 0;
};

}  // namespace nnvk
