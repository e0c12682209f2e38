// The functions by which onnxruntime loads the library, and the factory of providers.
#include <android/NeuralNetworks.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <list>

#include "context.hpp"
#include "devices.hpp"
#include "memory.hpp"
#include "provider.hpp"
#include "request.hpp"

namespace nnvk::provider {

namespace {

constexpr char kDeviceKey[] = "nnvk_device", kVirtual[] = ".virtual";
enum HardwareType : int32_t { kCpu = 0, kGpu = 1 };

struct OwnFactory : Factory {
  std::string name;  // its own: a library may be registered under several names
};

// The value of an entry of a session's configuration.
std::string entry(const SessionOptions* options, const std::string& key, const char* otherwise) {
  int is_there = 0;
  size_t size = 0;
  check(HasSessionConfigEntry(api, options, key.c_str(), &is_there));
  if (is_there == 0) {
    return otherwise;
  }
  if (Status* status = GetSessionConfigEntry(api, options, key.c_str(), static_cast<char*>(nullptr), &size)) {
    ReleaseStatus(api, status);  // it has given the size
  }
  std::string value(size, '\0');
  check(GetSessionConfigEntry(api, options, key.c_str(), value.data(), &size));
  return value.c_str();
}

// The value of an option of the provider; "ep.NAME." in lower case is before each.
std::string option(const SessionOptions* options, const std::string& provider, const char* name,
                   const char* otherwise) {
  std::string key = "ep." + provider + ".";
  for (char& letter : key) {
    letter = static_cast<char>(tolower(static_cast<unsigned char>(letter)));
  }
  return entry(options, key + name, otherwise);
}

// A path that means the same in the server, whose folder may be another one.
std::string absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).string();
}

bool isTrue(const char* name, const std::string& value) {
  if (value != "0" && value != "1") {
    NNVK_BAD_DATA("the option %s must be 0 or 1, got '%s'", name, value.c_str());
  }
  return value == "1";
}

bool isAuto(const std::string& device) { return strcasecmp(device.c_str(), "auto") == 0; }

// The name of the device that a session runs on: the option `chosen`, else the first of those that the session was given.
std::string chosenDevice(const std::string& chosen, const KeyValuePairs* const* metadata, size_t count) {
  if (chosen.empty()) {
    const char* given = count == 0 ? nullptr : GetKeyValue(api, metadata[0], kDeviceKey);
    return given == nullptr ? "" : given;
  }
  return deviceOf(chosen).name;
}

// A GPU that onnxruntime did not find: the program asks for it by a name of the registration that ends in ".virtual".
const HardwareDevice* virtualGpu() {
  KeyValuePairs* metadata = nullptr;
  HardwareDevice* made = nullptr;
  CreateKeyValuePairs(api, &metadata);
  AddKeyValuePair(api, metadata, "is_virtual", "1");
  Status* status = CreateHardwareDevice(ep_api, kGpu, 0u, 0u, "nnvk", metadata, &made);
  ReleaseKeyValuePairs(api, metadata);
  check(status);
  return made;
}

// A device of onnxruntime's for each of nnvk's, told apart by its metadata: on a GPU where onnxruntime has found one,
// else on the CPU.
Status* supportedDevices(Factory* factory, const HardwareDevice* const* hardware, size_t count, EpDevice** found,
                         size_t most, size_t* number) {
  *number = 0;
  return safely("listing devices", [&] {
    const HardwareDevice *cpu = nullptr, *gpu = nullptr;
    for (size_t at = 0; at < count; ++at) {
      const int32_t type = HardwareDevice_Type(api, hardware[at]);
      cpu = type == kCpu && cpu == nullptr ? hardware[at] : cpu;
      gpu = type == kGpu && gpu == nullptr ? hardware[at] : gpu;
    }
    const std::string& name = static_cast<OwnFactory*>(factory)->name;
    const size_t length = sizeof kVirtual - 1;
    if (name.size() > length && name.compare(name.size() - length, length, kVirtual) == 0) {
      gpu = virtualGpu();
    }
    for (const auto& device : allDevices()) {
      const auto* chosen = device.is_cpu || gpu == nullptr ? cpu : gpu;
      if (chosen == nullptr || *number == most) {
        continue;
      }
      KeyValuePairs* metadata = nullptr;
      CreateKeyValuePairs(api, &metadata);
      AddKeyValuePair(api, metadata, kDeviceKey, device.name.c_str());
      Status* status = CreateEpDevice(ep_api, factory, chosen, metadata, nullptr, &found[*number]);
      ReleaseKeyValuePairs(api, metadata);
      check(status);
      check(EpDevice_AddAllocatorInfo(ep_api, found[*number], newMemoryInfo(static_cast<int32_t>(*number))));
      ++*number;
    }
  });
}

Status* createEp(Factory* factory, const HardwareDevice* const*, const KeyValuePairs* const* metadata, size_t count,
                 const SessionOptions* session, const Logger* logger, Ep** made) {
  *made = nullptr;
  return safely(
      "making the execution provider",
      [&] {
        const std::string& name = static_cast<OwnFactory*>(factory)->name;
        Options options;
        const char* variable = secure_getenv("NNVK_DEVICE");
        const std::string device = option(session, name, "device", variable == nullptr ? "" : variable);
        options.is_auto = isAuto(device);
        options.device = chosenDevice(options.is_auto ? "" : device, metadata, count);
        options.relaxed = isTrue("relaxed", option(session, name, "relaxed", "0"));
        options.takes_all = isTrue("take_all", option(session, name, "take_all", "0"));
        options.takes_values = isTrue("values_at_run", option(session, name, "values_at_run", "0"));
        options.cache_dir = absolute(option(session, name, "cache_dir", ""));
        options.profile = absolute(option(session, name, "profile", ""));
        options.saves = isTrue("ep.context_enable", entry(session, "ep.context_enable", "0"));
        options.is_auto = options.is_auto && !options.saves;
        options.embeds = isTrue("ep.context_embed_mode", entry(session, "ep.context_embed_mode", "0"));
        options.context_path = entry(session, "ep.context_file_path", "");
        Server::running();  // a server that can't be started is an error now
        *made = newProvider(name, options, logger);
      },
      kInvalidArgument);
}

// Whether this nnvk can load the parts of a compiled model.
Status* validate(Factory*, const HardwareDevice* const*, size_t, const char* saved, int32_t* compatibility) {
  *compatibility = kNotApplicable;
  return safely("looking at a compiled model", [&] { *compatibility = compatibilityOf(saved == nullptr ? "" : saved); });
}

}  // namespace

}  // namespace nnvk::provider

using namespace nnvk;
using namespace nnvk::provider;

extern "C" NNVK_EXPORT ort::Status* CreateEpFactories(const char* name, const ort::ApiBase* base, const ort::Logger*,
                                                      ort::Factory** factories, size_t most, size_t* count) {
  *count = 0;
  const std::string version = base->GetVersionString();
  running = version.rfind("1.", 0) == 0 ? atoi(version.c_str() + 2) : 1000;
  if (running < static_cast<int>(ort::kOldest)) {
    if ((api = base->GetApi(1)) != nullptr) {
      return ort::CreateStatus(api, kFail, ("nnvk: onnxruntime must be 1.24 or later, got " + version).c_str());
    }
  } else {
    api = base->GetApi(ort::kOldest);
  }
  if (api == nullptr || most == 0) {  // without the tables there is nothing to make a status with
    fprintf(stderr, "nnvk: onnxruntime %s does not have the interface of version 1.24\n", version.c_str());
    return nullptr;
  }
  ep_api = ort::GetEpApi(api);
  return safely("loading", [&] {
    // Factories stay, and so does the code (-z nodelete): sessions may outlive the registration.
    static auto* made = new std::list<OwnFactory>;
    auto& factory = made->emplace_back();
    factory.name = name;
    factory.ort_version_supported = ort::kVersion;
    factory.GetName = [](const ort::Factory* own) { return static_cast<const OwnFactory*>(own)->name.c_str(); };
    factory.GetVendor = [](const ort::Factory*) { return "nnvk"; };
    factory.GetVendorId = [](const ort::Factory*) { return uint32_t{0}; };
    factory.GetVersion = [](const ort::Factory*) { return NNVK_VERSION; };
    factory.GetSupportedDevices = supportedDevices;
    factory.CreateEp = createEp;
    factory.ReleaseEp = [](ort::Factory*, ort::Ep* provider) { freeProvider(provider); };
    factory.ValidateCompiledModelCompatibilityInfo = validate;
    factory.CreateAllocator = [](ort::Factory*, const ort::MemoryInfo* info, const ort::KeyValuePairs*,
                                 ort::Allocator** made) {
      return safely("making an allocator", [&] { *made = newAllocator(info); });
    };
    factory.ReleaseAllocator = [](ort::Factory*, ort::Allocator* allocator) { freeAllocator(allocator); };
    factory.CreateDataTransfer = [](ort::Factory*, ort::DataTransfer** made) {
      return safely("making a data transfer", [&] { *made = newDataTransfer(); });
    };
    factories[0] = &factory;
    *count = 1;
  });
}

extern "C" NNVK_EXPORT ort::Status* ReleaseEpFactory(ort::Factory*) { return nullptr; }
