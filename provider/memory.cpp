#include "memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace nnvk::provider {

namespace {

enum DeviceType : int32_t { kCpuMemory = 0, kGpuMemory = 1 };
enum MemoryType : int32_t { kDefault = 0, kHostAccessible = 5 };
constexpr int32_t kDeviceAllocator = 0;
constexpr uint32_t kVendor = 0;

struct SharedValues {
  struct Entry {
    std::shared_ptr<Block> block;
    std::shared_ptr<Server> server;
    size_t size;
  };
  std::atomic<size_t> count{0};
  std::mutex mutex;
  std::map<const uint8_t*, Entry> blocks;  // by their addresses
};

// It stays: values may outlive all that is freed at the end of the process.
SharedValues& sharedValues() {
  static auto* made = new SharedValues;
  return *made;
}

struct OwnAllocator : Allocator {
  const MemoryInfo* info;
};

void* allocate(Allocator*, size_t size) {
  try {
    auto server = Server::running();
    auto block = std::make_shared<Block>(server->allocate(size));
    auto* data = block->data();
    auto& all = sharedValues();
    const std::lock_guard lock(all.mutex);
    all.blocks[data] = {std::move(block), std::move(server), size};
    ++all.count;
    return data;
  } catch (...) {
    return nullptr;  // which onnxruntime says
  }
}

void release(Allocator*, void* data) {
  auto& all = sharedValues();
  SharedValues::Entry freed;  // without the lock
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(static_cast<const uint8_t*>(data));
  if (found != all.blocks.end()) {
    freed = std::move(found->second);
    all.blocks.erase(found);
    --all.count;
  }
}

bool isReachable(const MemoryDevice* device) {
  return MemoryDevice_GetMemoryType(ep_api, device) == kHostAccessible ||
         MemoryDevice_GetDeviceType(ep_api, device) == kCpuMemory;
}

Status* copyTensors(DataTransfer*, const Value** sources, Value** targets, SyncStream**, size_t count) {
  for (size_t at = 0; at < count; ++at) {
    const void* source = nullptr;
    void* target = nullptr;
    size_t size = 0, room = 0;
    Status* status = GetTensorData(api, sources[at], &source);
    status = status != nullptr ? status : GetTensorMutableData(api, targets[at], &target);
    status = status != nullptr ? status : GetTensorSizeInBytes(api, sources[at], &size);
    status = status != nullptr ? status : GetTensorSizeInBytes(api, targets[at], &room);
    if (status != nullptr) {
      return status;
    }
    memmove(target, source, std::min(size, room));
  }
  return nullptr;
}

}  // namespace

Shared newShared(Server& server, size_t size) { return {std::make_shared<Block>(server.allocate(size)), 0}; }

std::optional<Shared> findShared(const Server& server, const void* data, size_t size) {
  auto& all = sharedValues();
  if (all.count == 0) {
    return std::nullopt;
  }
  const auto* first = static_cast<const uint8_t*>(data);
  const std::lock_guard lock(all.mutex);
  auto next = all.blocks.upper_bound(first);
  if (next == all.blocks.begin()) {
    return std::nullopt;
  }
  const auto& [begin, entry] = *std::prev(next);
  const size_t offset = static_cast<size_t>(first - begin);
  if (entry.server.get() != &server || offset > entry.size || size > entry.size - offset) {
    return std::nullopt;
  }
  return Shared{entry.block, offset};
}

const MemoryInfo* newMemoryInfo(int32_t device) {
  MemoryInfo* made = nullptr;
  check(CreateMemoryInfo_V2(api, "nnvk", int32_t{kGpuMemory}, kVendor, device, int32_t{kHostAccessible},
                            size_t{kAlignment}, kDeviceAllocator, &made));
  return made;
}

Allocator* newAllocator(const MemoryInfo* info) {
  auto* made = new OwnAllocator{};
  made->version = kVersion;
  made->Alloc = allocate;
  made->Free = release;
  made->Info = [](const Allocator* own) { return static_cast<const OwnAllocator*>(own)->info; };
  made->Reserve = allocate;
  made->info = info;
  return made;
}

void freeAllocator(Allocator* allocator) noexcept { delete static_cast<OwnAllocator*>(allocator); }

DataTransfer* newDataTransfer() {
  auto* made = new DataTransfer{};
  made->ort_version_supported = kVersion;
  made->Release = [](DataTransfer* own) { delete own; };
  made->CanCopy = [](const DataTransfer*, const MemoryDevice* source, const MemoryDevice* target) {
    return isReachable(source) && isReachable(target);
  };
  made->CopyTensors = copyTensors;
  return made;
}

}  // namespace nnvk::provider
