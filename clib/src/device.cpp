// Devices, and what is the same everywhere.
#include <algorithm>

#include "request.hpp"

namespace nnvk {

namespace {

std::vector<ANeuralNetworksDevice>* ask() {
  const auto server = Server::running();
  Borrowed lane = server->lane();
  lane.send(Packet(kRequestDevices));
  auto reply = lane.receive();
  if (reply.code != ANEURALNETWORKS_NO_ERROR) {
    throw Error{reply.code, reply.reason};
  }
  auto found = std::make_unique<std::vector<ANeuralNetworksDevice>>();
  for (uint32_t left = reply.rest.u32(); left > 0; --left) {
    ANeuralNetworksDevice& device = found->emplace_back();
    device.name = reply.rest.string();
    device.version = reply.rest.string();
    device.type = reply.rest.i32();
    device.feature_level = reply.rest.i64();
    for (uint32_t extensions = reply.rest.u32(); extensions > 0; --extensions) {
      device.extensions.push_back(reply.rest.string());
    }
  }
  return found.release();
}

// As the first server has told; pointers to them stay what they are. Devices are never freed.
const std::vector<ANeuralNetworksDevice>& devices() {
  static std::mutex mutex;
  static const std::vector<ANeuralNetworksDevice>* known = nullptr;
  const std::lock_guard lock(mutex);
  if (known == nullptr) {
    again([&] { known = ask(); });
  }
  return *known;
}

}  // namespace

namespace by_hand {

void ANeuralNetworks_getDeviceCount(uint32_t* numDevices) { *numDevices = static_cast<uint32_t>(devices().size()); }

void ANeuralNetworks_getDevice(uint32_t devIndex, ANeuralNetworksDevice** device) {
  if (devIndex >= devices().size()) {
    NNVK_BAD_DATA("there is no device %u, there are %zu", devIndex, devices().size());
  }
  *device = const_cast<ANeuralNetworksDevice*>(&devices()[devIndex]);
}

void ANeuralNetworksDevice_getName(const ANeuralNetworksDevice* device, const char** name) { *name = device->name.c_str(); }

void ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice* device, const char** version) {
  *version = device->version.c_str();
}

void ANeuralNetworksDevice_getType(const ANeuralNetworksDevice* device, int32_t* type) { *type = device->type; }

void ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice* device, int64_t* featureLevel) {
  *featureLevel = device->feature_level;
}

void ANeuralNetworksDevice_getExtensionSupport(const ANeuralNetworksDevice* device, const char* extensionName,
                                               bool* isExtensionSupported) {
  const auto& known = device->extensions;
  *isExtensionSupported = std::find(known.begin(), known.end(), extensionName) != known.end();
}

void ANeuralNetworksModel_getExtensionOperandType(ANeuralNetworksModel*, const char* extensionName, uint16_t, int32_t*) {
  NNVK_BAD_DATA("extension %.200s has no operand types of its own here", extensionName);
}

void ANeuralNetworksModel_setOperandExtensionData(ANeuralNetworksModel*, int32_t index, const void*, size_t) {
  NNVK_BAD_DATA("operand %d is of no extension's type", index);
}

uint64_t ANeuralNetworks_getDefaultLoopTimeout() { return kDefaultLoopTimeout; }

uint64_t ANeuralNetworks_getMaximumLoopTimeout() { return kMaximumLoopTimeout; }

int64_t ANeuralNetworks_getRuntimeFeatureLevel() { return kFeatureLevel; }

}  // namespace by_hand
}  // namespace nnvk
