// A call that the server carries out: what the generated stubs are made of.
#pragma once

#include "objects.hpp"

#define NNVK_EXPORT __attribute__((visibility("default")))

namespace nnvk {

class Request {
 public:
  Request(uint32_t number, std::shared_ptr<Server> server) : server_(std::move(server)), packet_(number) {}

  Packet& packet() { return packet_; }
  const std::shared_ptr<Server>& server() const { return server_; }

  void put(bool value) { packet_.u8(value); }
  void put(uint16_t value) { packet_.u32(value); }
  void put(uint32_t value) { packet_.u32(value); }
  void put(int32_t value) { packet_.i32(value); }
  void put(uint64_t value) { packet_.u64(value); }
  void put(float value) { packet_.f32(value); }
  void put(const char* text) { packet_.string(text); }
  void put(const ANeuralNetworksOperandType* type);
  void put(const ANeuralNetworksSymmPerChannelQuantParams* channels);
  void put(const Object& object);
  void put(const ANeuralNetworksMemory& memory) { packet_.u64(memory.numberIn(server_)); }
  void put(const ANeuralNetworksDevice& device) { packet_.string(device.name); }
  void put(const ANeuralNetworksDevice* const* devices, uint32_t count);
  void put(const uint32_t* numbers, uint32_t count) { packet_.u32s(numbers, count); }
  void put(const void* data, size_t length);

  // The number of what it makes.
  void announce() { packet_.u64(made_ = server_->newNumber()); }
  // Send it, and receive the reply. Throws the error that came, unless something came with it. `also` is asked during
  // the wait; after it has thrown, `awaitReply` goes on.
  void ask(Patience* also = nullptr);
  void awaitReply(Patience* also = nullptr);
  // Whether the reply has come, or the end of the server.
  bool hasReply() const;
  // Send it, and receive what comes, which is valid as long as this. Throws the error that came.
  Reader askAll(Patience* also = nullptr);
  // Throw the error that came with something.
  void check() const;

  template <class T>
  T* made() const {
    return new T(server_, made_);
  }
  void take(uint32_t* value) { *value = reply_.rest.u32(); }
  void take(int32_t* value) { *value = reply_.rest.i32(); }
  void take(uint64_t* value) { *value = reply_.rest.u64(); }
  // All that has come.
  void takeAll(void* values) {
    const size_t size = reply_.rest.left();
    memcpy(values, reply_.rest.bytes(size), size);
  }

 private:
  std::shared_ptr<Server> server_;
  Packet packet_;
  uint64_t made_ = 0;
  Borrowed lane_;  // the reply may lie in its memory
  Lane::Received reply_;
};

inline void requiredArray(const void* array, size_t count, const char* name) {
  if (count > 0) {
    required(array, name);
  }
}

template <class T>
void requiredElements(const T* const* array, uint32_t count, const char* name) {
  requiredArray(array, count, name);
  for (uint32_t index = 0; index < count; ++index) {
    if (array[index] == nullptr) {
      fail(ANEURALNETWORKS_UNEXPECTED_NULL, "%s[%u] is NULL", name, index);
    }
  }
}

}  // namespace nnvk
