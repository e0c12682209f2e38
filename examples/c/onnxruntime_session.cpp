// A model of float inputs in onnxruntime, on its CPU provider and on nnvk's execution provider, with the largest
// difference between the outputs. Sizes that the file leaves open are 1.
//
//     c++ -std=c++17 onnxruntime_session.cpp -o onnxruntime_session -lonnxruntime
//     ./onnxruntime_session $(nnvk config --onnxruntime) model.onnx [DEVICE [COMPILED.onnx]]
//
// With COMPILED.onnx, nnvk's parts are compiled into that model the first time, and loaded from there the next times.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Outputs = std::vector<std::vector<float>>;

// The device of nnvk with this name, or the first one.
Ort::ConstEpDevice deviceOf(const Ort::Env& env, const std::string& name) {
  for (const auto& device : env.GetEpDevices()) {
    const char* found = device.EpMetadata().GetValue("nnvk_device");
    if (std::string(device.EpName()) == "nnvk" && found != nullptr && (name.empty() || name == found)) {
      std::printf("nnvk's device is %s\n", found);
      return device;
    }
  }
  throw std::runtime_error("there is no device " + name);
}

// The outputs for inputs whose elements run from -1 to 1.
Outputs run(Ort::Session& session) {
  const Ort::AllocatorWithDefaultOptions allocator;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<std::string> names;
  std::vector<const char*> inputs, outputs;
  std::vector<std::vector<float>> elements;
  std::vector<Ort::Value> values;
  const size_t count = session.GetInputCount(), results = session.GetOutputCount();
  for (size_t index = 0; index < count + results; ++index) {
    names.emplace_back(index < count ? session.GetInputNameAllocated(index, allocator).get()
                                     : session.GetOutputNameAllocated(index - count, allocator).get());
  }
  for (size_t index = 0; index < count + results; ++index) {
    (index < count ? inputs : outputs).push_back(names[index].c_str());
  }
  for (size_t index = 0; index < count; ++index) {
    const auto type = session.GetInputTypeInfo(index);
    auto shape = type.GetTensorTypeAndShapeInfo().GetShape();
    size_t size = 1;
    for (auto& extent : shape) {
      extent = std::max<int64_t>(extent, 1);
      size *= static_cast<size_t>(extent);
    }
    auto& data = elements.emplace_back(size);
    for (size_t at = 0; at < size; ++at) {
      data[at] = std::sin(static_cast<float>(at + 1));
    }
    values.push_back(Ort::Value::CreateTensor<float>(memory, data.data(), size, shape.data(), shape.size()));
  }
  const auto found = session.Run(Ort::RunOptions(), inputs.data(), values.data(), count, outputs.data(), results);
  Outputs copied;
  for (const auto& value : found) {
    const auto* data = value.GetTensorData<float>();
    copied.emplace_back(data, data + value.GetTensorTypeAndShapeInfo().GetElementCount());
  }
  return copied;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3 || count > 5) {
    std::fprintf(stderr, "usage: %s LIBRARY MODEL [DEVICE [COMPILED]]\n", arguments[0]);
    return 2;
  }
  try {
    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "example");
    env.RegisterExecutionProviderLibrary("nnvk", arguments[1]);
    Ort::SessionOptions plain, options;
    options.AppendExecutionProvider_V2(env, {deviceOf(env, count > 3 ? arguments[3] : "")},
                                       std::unordered_map<std::string, std::string>{{"relaxed", "0"}});
    const std::string model = arguments[2], compiled = count == 5 ? arguments[4] : "";
    const bool is_compiled = std::filesystem::exists(compiled);
    if (!compiled.empty() && !is_compiled) {
      options.AddConfigEntry("ep.context_enable", "1");
      options.AddConfigEntry("ep.context_file_path", compiled.c_str());
    }
    Ort::Session cpu(env, model.c_str(), plain), gpu(env, (is_compiled ? compiled : model).c_str(), options);
    const auto expected = run(cpu), got = run(gpu);
    float largest = 0;
    for (size_t index = 0; index < expected.size(); ++index) {
      for (size_t at = 0; at < expected[index].size(); ++at) {
        largest = std::max(largest, std::abs(expected[index][at] - got[index].at(at)));
      }
    }
    std::printf("%zu outputs, the largest difference is %.2g\n", got.size(), static_cast<double>(largest));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
