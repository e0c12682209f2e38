#include "devices.hpp"

#include <android/NeuralNetworks.h>

#include "error.hpp"

namespace nnvk::provider {

namespace {

void checkNnapi(int code) {
  if (code != ANEURALNETWORKS_NO_ERROR) {
    throw Known{code};
  }
}

}  // namespace

std::vector<DeviceRecord> allDevices() {
  uint32_t count = 0;
  checkNnapi(ANeuralNetworks_getDeviceCount(&count));
  std::vector<DeviceRecord> devices;
  for (uint32_t index = 0; index < count; ++index) {
    ANeuralNetworksDevice* device = nullptr;
    const char *name = nullptr, *version = nullptr;
    int32_t type = 0;
    checkNnapi(ANeuralNetworks_getDevice(index, &device));
    checkNnapi(ANeuralNetworksDevice_getName(device, &name));
    checkNnapi(ANeuralNetworksDevice_getVersion(device, &version));
    checkNnapi(ANeuralNetworksDevice_getType(device, &type));
    devices.push_back({name, version, type == ANEURALNETWORKS_DEVICE_CPU});
  }
  return devices;
}

DeviceRecord deviceOf(const std::string& name) {
  std::string names;
  for (const auto& device : allDevices()) {
    if (name.empty() || device.name == name) {
      return device;
    }
    names += (names.empty() ? "" : ", ") + device.name;
  }
  NNVK_BAD_DATA("the option device must be one of %s, got '%s'", names.c_str(), name.c_str());
}

}  // namespace nnvk::provider
