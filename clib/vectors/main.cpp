// Runs models on inputs through the C library, as an application would: what `nnvk conformance --path c` starts.
//
// Standard input has one message for each model, standard output one answer; numbers are little-endian, as they are in
// memory. A message is its length (u64), the name of a device, and calls, each a `Call` and its arguments, which build
// models and at last run one of them. An answer is its length, the result code of the first call that has failed and its
// name, or 0 and what RUN gives: the number of an operation that the device does not support, or -1 and the outputs.
#include <android/NeuralNetworks.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace {

enum class Call : uint8_t {
  kCreate,             // a model, which gets the next number
  kAddOperand,         // model, type, scale, zero point, dimensions
  kSetChannels,        // model, operand, channel dimension, scales
  kSetValue,           // model, operand, whether there is one, bytes
  kSetValueFromModel,  // model, operand, model
  kAddOperation,       // model, type, inputs, outputs
  kIdentify,           // model, inputs, outputs
  kRelax,              // model, whether
  kFinish,             // model
  kRun,                // model, inputs (whether there is one, bytes), outputs (buffer, with guards of so many bytes)
};

struct Failure {
  int code;
  const char* function;
};

#define CHECK(function, ...)                              \
  do {                                                    \
    const int code = function(__VA_ARGS__);               \
    if (code != ANEURALNETWORKS_NO_ERROR) {               \
      throw Failure{code, #function};                     \
    }                                                     \
  } while (false)

// The message under way. It is ours to trust, but for an early end.
class Reader {
 public:
  explicit Reader(std::vector<uint8_t> content) : content_(std::move(content)) {}

  template <class T>
  T take() {
    T value;
    memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> takeAll() {
    const auto count = take<uint32_t>();
    std::vector<T> values(count);
    memcpy(values.data(), bytes(count * sizeof(T)), count * sizeof(T));
    return values;
  }
  std::string text() {
    const auto letters = takeAll<char>();
    return std::string(letters.begin(), letters.end());
  }
  uint8_t* bytes(size_t length) {
    if (length > content_.size() - position_) {
      std::fprintf(stderr, "a message ends too early\n");
      std::exit(2);
    }
    position_ += length;
    return content_.data() + position_ - length;
  }
  bool isAtEnd() const { return position_ == content_.size(); }

 private:
  std::vector<uint8_t> content_;
  size_t position_ = 0;
};

class Answer {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    put(&value, sizeof value);
  }
  void put(const Answer& other) { put(other.content_.data(), other.content_.size()); }
  void put(const void* data, size_t length) {
    const auto* begin = static_cast<const uint8_t*>(data);
    content_.insert(content_.end(), begin, begin + length);
  }
  bool send() const {
    const uint64_t length = content_.size();
    return std::fwrite(&length, sizeof length, 1, stdout) == 1 &&
           std::fwrite(content_.data(), 1, content_.size(), stdout) == content_.size() && std::fflush(stdout) == 0;
  }

 private:
  std::vector<uint8_t> content_;
};

template <class T, void (*kFree)(T*)>
struct Freeing {
  void operator()(T* object) const { kFree(object); }
};
template <class T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Freeing<T, kFree>>;
using Model = Owned<ANeuralNetworksModel, ANeuralNetworksModel_free>;
using Compilation = Owned<ANeuralNetworksCompilation, ANeuralNetworksCompilation_free>;
using Execution = Owned<ANeuralNetworksExecution, ANeuralNetworksExecution_free>;

ANeuralNetworksDevice* findDevice(const std::string& name) {
  uint32_t count = 0;
  CHECK(ANeuralNetworks_getDeviceCount, &count);
  for (uint32_t index = 0; index < count; ++index) {
    ANeuralNetworksDevice* device = nullptr;
    const char* found = nullptr;
    CHECK(ANeuralNetworks_getDevice, index, &device);
    CHECK(ANeuralNetworksDevice_getName, device, &found);
    if (name == found) {
      return device;
    }
  }
  throw Failure{ANEURALNETWORKS_BAD_DATA, "ANeuralNetworks_getDevice"};
}

struct Network {
  Model model;
  uint32_t operations = 0;
};

void addOperand(ANeuralNetworksModel* model, Reader& message) {
  ANeuralNetworksOperandType type = {};
  type.type = message.take<int32_t>();
  type.scale = message.take<float>();
  type.zeroPoint = message.take<int32_t>();
  const auto dimensions = message.takeAll<uint32_t>();
  type.dimensionCount = static_cast<uint32_t>(dimensions.size());
  type.dimensions = dimensions.data();
  CHECK(ANeuralNetworksModel_addOperand, model, &type);
}

void setChannels(ANeuralNetworksModel* model, Reader& message) {
  const auto operand = message.take<int32_t>();
  ANeuralNetworksSymmPerChannelQuantParams channels = {};
  channels.channelDim = message.take<uint32_t>();
  const auto scales = message.takeAll<float>();
  channels.scaleCount = static_cast<uint32_t>(scales.size());
  channels.scales = scales.data();
  CHECK(ANeuralNetworksModel_setOperandSymmPerChannelQuantParams, model, operand, &channels);
}

// The outputs' buffers with their guards, and their shapes.
void run(ANeuralNetworksDevice* device, const Network& network, Reader& message, Answer& answer) {
  struct Buffer {
    uint8_t* data;
    size_t length;
  };
  const auto bufferOf = [&] {
    const auto length = static_cast<size_t>(message.take<uint64_t>());
    return Buffer{message.bytes(length), length};
  };
  std::vector<Buffer> inputs, outputs;
  for (auto left = message.take<uint32_t>(); left > 0; --left) {
    inputs.push_back(message.take<uint8_t>() != 0 ? bufferOf() : Buffer{nullptr, 0});
  }
  const auto guard = message.take<uint32_t>();
  for (auto left = message.take<uint32_t>(); left > 0; --left) {
    outputs.push_back(bufferOf());
  }

  const std::unique_ptr<bool[]> supported(new bool[network.operations + 1]());
  CHECK(ANeuralNetworksModel_getSupportedOperationsForDevices, network.model.get(), &device, 1, supported.get());
  for (uint32_t operation = 0; operation < network.operations; ++operation) {
    if (!supported[operation]) {
      answer.put<int32_t>(ANEURALNETWORKS_NO_ERROR);
      answer.put(static_cast<int32_t>(operation));
      return;
    }
  }
  ANeuralNetworksCompilation* made = nullptr;
  CHECK(ANeuralNetworksCompilation_createForDevices, network.model.get(), &device, 1, &made);
  const Compilation compilation(made);
  CHECK(ANeuralNetworksCompilation_finish, compilation.get());
  ANeuralNetworksExecution* begun = nullptr;
  CHECK(ANeuralNetworksExecution_create, compilation.get(), &begun);
  const Execution execution(begun);
  for (size_t index = 0; index < inputs.size(); ++index) {
    const auto& input = inputs[index];
    CHECK(ANeuralNetworksExecution_setInput, execution.get(), static_cast<int32_t>(index), nullptr, input.data, input.length);
  }
  for (size_t index = 0; index < outputs.size(); ++index) {
    const size_t length = outputs[index].length - 2 * guard;  // an empty output has a byte, which is the guard's
    CHECK(ANeuralNetworksExecution_setOutput, execution.get(), static_cast<int32_t>(index), nullptr,
          outputs[index].data + guard, length == 0 ? 1 : length);
  }
  CHECK(ANeuralNetworksExecution_compute, execution.get());
  Answer found;
  for (size_t index = 0; index < outputs.size(); ++index) {
    uint32_t rank = 0;
    CHECK(ANeuralNetworksExecution_getOutputOperandRank, execution.get(), static_cast<int32_t>(index), &rank);
    std::vector<uint32_t> dimensions(rank);
    if (rank > 0) {  // else it is a scalar, which has none
      CHECK(ANeuralNetworksExecution_getOutputOperandDimensions, execution.get(), static_cast<int32_t>(index),
            dimensions.data());
    }
    found.put(rank);
    found.put(dimensions.data(), rank * sizeof(uint32_t));
    found.put(outputs[index].data, outputs[index].length);
  }
  answer.put<int32_t>(ANEURALNETWORKS_NO_ERROR);
  answer.put<int32_t>(-1);
  answer.put(found);
}

void follow(Reader& message, Answer& answer) {
  ANeuralNetworksDevice* device = findDevice(message.text());
  std::vector<Network> networks;
  while (!message.isAtEnd()) {
    const auto call = message.take<Call>();
    if (call == Call::kCreate) {
      ANeuralNetworksModel* made = nullptr;
      CHECK(ANeuralNetworksModel_create, &made);
      networks.push_back({Model(made)});
      continue;
    }
    Network& network = networks.at(message.take<uint32_t>());
    ANeuralNetworksModel* model = network.model.get();
    switch (call) {
      case Call::kCreate:
        break;
      case Call::kAddOperand:
        addOperand(model, message);
        break;
      case Call::kSetChannels:
        setChannels(model, message);
        break;
      case Call::kSetValue: {
        const auto operand = message.take<int32_t>();
        const bool is_there = message.take<uint8_t>() != 0;
        const auto length = static_cast<size_t>(message.take<uint64_t>());
        const void* data = message.bytes(length);
        CHECK(ANeuralNetworksModel_setOperandValue, model, operand, is_there ? data : nullptr, length);
        break;
      }
      case Call::kSetValueFromModel: {
        const auto operand = message.take<int32_t>();
        CHECK(ANeuralNetworksModel_setOperandValueFromModel, model, operand,
              networks.at(message.take<uint32_t>()).model.get());
        break;
      }
      case Call::kAddOperation: {
        const auto type = message.take<int32_t>();
        const auto inputs = message.takeAll<uint32_t>(), outputs = message.takeAll<uint32_t>();
        CHECK(ANeuralNetworksModel_addOperation, model, type, static_cast<uint32_t>(inputs.size()), inputs.data(),
              static_cast<uint32_t>(outputs.size()), outputs.data());
        ++network.operations;
        break;
      }
      case Call::kIdentify: {
        const auto inputs = message.takeAll<uint32_t>(), outputs = message.takeAll<uint32_t>();
        CHECK(ANeuralNetworksModel_identifyInputsAndOutputs, model, static_cast<uint32_t>(inputs.size()), inputs.data(),
              static_cast<uint32_t>(outputs.size()), outputs.data());
        break;
      }
      case Call::kRelax:
        CHECK(ANeuralNetworksModel_relaxComputationFloat32toFloat16, model, message.take<uint8_t>() != 0);
        break;
      case Call::kFinish:
        CHECK(ANeuralNetworksModel_finish, model);
        break;
      case Call::kRun:
        run(device, network, message, answer);
        break;
    }
  }
}

}  // namespace

int main() {
  uint64_t length = 0;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) {
    std::vector<uint8_t> content(length);
    if (std::fread(content.data(), 1, content.size(), stdin) != content.size()) {
      return 2;
    }
    Reader message(std::move(content));
    Answer answer;
    try {
      follow(message, answer);
    } catch (const Failure& failure) {
      answer.put<int32_t>(failure.code);
      answer.put(failure.function, strlen(failure.function));
    }
    if (!answer.send()) {
      return 2;
    }
  }
  return 0;
}
