#include <android/hardware_buffer.h>

#include "hardware_buffer.hpp"
#include "request.hpp"

using namespace nnvk;

ANeuralNetworksMemory::ANeuralNetworksMemory(Descriptor file, size_t size, int protect, size_t offset)
    : file_(std::move(file)), size_(size), protect_(protect), offset_(offset) {
  again([&] {
    server_ = Server::running();
    number_ = announcedTo(server_);
  });
}

uint64_t ANeuralNetworksMemory::announcedTo(const std::shared_ptr<Server>& server) const {
  const uint64_t number = server->newNumber();
  Request request(kRequestMemory, server);
  request.put(number);
  request.put(static_cast<uint64_t>(size_));
  request.put(static_cast<int32_t>(protect_));
  request.put(static_cast<uint64_t>(offset_));
  request.packet().descriptor(file_.get());
  request.ask();
  return number;
}

uint64_t ANeuralNetworksMemory::numberIn(const std::shared_ptr<Server>& server) const {
  const std::lock_guard lock(mutex_);
  if (server == server_) {
    return number_;
  }
  if (!file_) {
    fail(ANEURALNETWORKS_DEAD_OBJECT, "the memory lives in a server that has died");
  }
  number_ = announcedTo(server);
  server_ = server;
  return number_;
}

std::shared_ptr<Server> ANeuralNetworksMemory::server() const {
  if (file_) {
    return Server::running();
  }
  const std::lock_guard lock(mutex_);
  return server_;
}

namespace nnvk::by_hand {

void ANeuralNetworksMemory_createFromFd(size_t size, int protect, int fd, size_t offset, ANeuralNetworksMemory** memory) {
  if (fd < 0) {
    NNVK_BAD_DATA("%d is no descriptor", fd);
  }
  Descriptor file = Descriptor::duplicate(fd, "the descriptor can't be duplicated", ANEURALNETWORKS_UNMAPPABLE);
  *memory = new ANeuralNetworksMemory(std::move(file), size, protect, offset);
}

void ANeuralNetworksMemory_createFromAHardwareBuffer(const AHardwareBuffer* ahwb, ANeuralNetworksMemory** memory) {
  Descriptor file = ahwb->memory.duplicate("the hardware buffer can't be shared");
  *memory = new ANeuralNetworksMemory(std::move(file), ahwb->size(), PROT_READ | PROT_WRITE, 0);
}

}  // namespace nnvk::by_hand
