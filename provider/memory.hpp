// Memory for values that the application and the server share: onnxruntime's name for it is host-accessible memory.
#pragma once

#include <memory>
#include <optional>

#include "graph.hpp"
#include "server.hpp"

namespace nnvk::provider {

// A place in memory that is shared with a server, which stays as long as something refers to it.
struct Shared {
  std::shared_ptr<Block> block;
  size_t offset = 0;  // in the block

  uint8_t* data() const { return block->data() + offset; }
  bool operator==(const Shared& other) const { return block == other.block && offset == other.offset; }
};

// New memory. Throws.
Shared newShared(Server& server, size_t size);
// Where bytes are in memory of the allocator that this server shares; nothing: they are elsewhere.
std::optional<Shared> findShared(const Server& server, const void* data, size_t size);

// The description of the shared memory, for the device of this number. It is never freed. Throws.
const MemoryInfo* newMemoryInfo(int32_t device);
Allocator* newAllocator(const MemoryInfo* info);
void freeAllocator(Allocator* allocator) noexcept;
// Copies between shared memory and other memory of the host.
DataTransfer* newDataTransfer();

}  // namespace nnvk::provider
