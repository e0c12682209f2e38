// An inverted residual block, as MobileNetV2 has them, on one device: expansion (1x1), depthwise 3x3 with a fused RELU6,
// projection (1x1) and the residual. It is computed in four ways that must agree: at once, in a burst, and fenced twice in
// a row through device memory, where the second execution waits for the first and begins after a sync fence.
//
//     c++ -std=c++17 mobilenet_block.cpp -o mobilenet_block $(nnvk config --includes --ldflags)
//     ./mobilenet_block [DEVICE]
#include <android/NeuralNetworks.h>
#include <android/hardware_buffer.h>
#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

void check(int code, const char* what) {
  if (code != ANEURALNETWORKS_NO_ERROR) {
    std::fprintf(stderr, "%s: result code %d\n", what, code);
    std::exit(1);
  }
}

#define CHECK(call) check(call, #call)

// Pointers that free what they point to.
template <class T, void (*kFree)(T*)>
struct Freeing {
  void operator()(T* object) const { kFree(object); }
};
template <class T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Freeing<T, kFree>>;
using Model = Owned<ANeuralNetworksModel, ANeuralNetworksModel_free>;
using Compilation = Owned<ANeuralNetworksCompilation, ANeuralNetworksCompilation_free>;
using Execution = Owned<ANeuralNetworksExecution, ANeuralNetworksExecution_free>;
using Burst = Owned<ANeuralNetworksBurst, ANeuralNetworksBurst_free>;
using Event = Owned<ANeuralNetworksEvent, ANeuralNetworksEvent_free>;
using Memory = Owned<ANeuralNetworksMemory, ANeuralNetworksMemory_free>;
using MemoryDesc = Owned<ANeuralNetworksMemoryDesc, ANeuralNetworksMemoryDesc_free>;

constexpr uint32_t kSize = 14, kChannels = 8, kExpanded = 48;
constexpr size_t kLength = kSize * kSize * kChannels, kBytes = kLength * sizeof(float);

// Numbers that look random and are the same everywhere.
std::vector<float> weights(size_t count, float scale) {
  static uint32_t state = 1;
  std::vector<float> made(count);
  for (float& value : made) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return made;
}

class Builder {
 public:
  Builder() { CHECK(ANeuralNetworksModel_create(&model_)); }

  uint32_t tensor(const std::vector<uint32_t>& dimensions) {
    return add({ANEURALNETWORKS_TENSOR_FLOAT32, static_cast<uint32_t>(dimensions.size()), dimensions.data(), 0.0f, 0});
  }
  uint32_t constant(const std::vector<uint32_t>& dimensions, const std::vector<float>& values) {
    const uint32_t index = tensor(dimensions);
    CHECK(ANeuralNetworksModel_setOperandValue(model_, static_cast<int32_t>(index), values.data(),
                                               values.size() * sizeof(float)));
    return index;
  }
  uint32_t scalar(int32_t value) {
    const uint32_t index = add({ANEURALNETWORKS_INT32, 0, nullptr, 0.0f, 0});
    CHECK(ANeuralNetworksModel_setOperandValue(model_, static_cast<int32_t>(index), &value, sizeof value));
    return index;
  }
  void operation(OperationCode code, const std::vector<uint32_t>& inputs, uint32_t output) {
    CHECK(ANeuralNetworksModel_addOperation(model_, code, static_cast<uint32_t>(inputs.size()), inputs.data(), 1, &output));
  }
  Model finish(uint32_t input, uint32_t output) {
    CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model_, 1, &input, 1, &output));
    CHECK(ANeuralNetworksModel_finish(model_));
    return Model(model_);
  }

 private:
  uint32_t add(const ANeuralNetworksOperandType& type) {
    CHECK(ANeuralNetworksModel_addOperand(model_, &type));
    return count_++;
  }

  ANeuralNetworksModel* model_ = nullptr;
  uint32_t count_ = 0;
};

struct Weights {
  std::vector<float> expansion = weights(kExpanded * kChannels, 0.5f), expansion_bias = weights(kExpanded, 0.2f);
  std::vector<float> depthwise = weights(9 * kExpanded, 0.4f), depthwise_bias = weights(kExpanded, 0.2f);
  std::vector<float> projection = weights(kChannels * kExpanded, 0.2f), projection_bias = weights(kChannels, 0.1f);
};

Model block(const Weights& w) {
  Builder b;
  const uint32_t input = b.tensor({1, kSize, kSize, kChannels}), expanded = b.tensor({1, kSize, kSize, kExpanded});
  const uint32_t filtered = b.tensor({1, kSize, kSize, kExpanded}), projected = b.tensor({1, kSize, kSize, kChannels});
  const uint32_t output = b.tensor({1, kSize, kSize, kChannels});
  const uint32_t same = b.scalar(ANEURALNETWORKS_PADDING_SAME), one = b.scalar(1);
  const uint32_t none = b.scalar(ANEURALNETWORKS_FUSED_NONE), relu6 = b.scalar(ANEURALNETWORKS_FUSED_RELU6);
  b.operation(ANEURALNETWORKS_CONV_2D,
              {input, b.constant({kExpanded, 1, 1, kChannels}, w.expansion), b.constant({kExpanded}, w.expansion_bias), same,
               one, one, relu6},
              expanded);
  b.operation(ANEURALNETWORKS_DEPTHWISE_CONV_2D,
              {expanded, b.constant({1, 3, 3, kExpanded}, w.depthwise), b.constant({kExpanded}, w.depthwise_bias), same, one,
               one, one, relu6},
              filtered);
  b.operation(ANEURALNETWORKS_CONV_2D,
              {filtered, b.constant({kChannels, 1, 1, kExpanded}, w.projection), b.constant({kChannels}, w.projection_bias),
               same, one, one, none},
              projected);
  b.operation(ANEURALNETWORKS_ADD, {input, projected, none}, output);
  return b.finish(input, output);
}

float relu6(float value) { return std::fmin(std::fmax(value, 0.0f), 6.0f); }

// The same in plain C++.
std::vector<float> reference(const Weights& w, const std::vector<float>& input) {
  std::vector<float> expanded(kSize * kSize * kExpanded), output(input);
  for (size_t pixel = 0; pixel < kSize * kSize; ++pixel) {
    for (size_t e = 0; e < kExpanded; ++e) {
      float sum = w.expansion_bias[e];
      for (size_t c = 0; c < kChannels; ++c) {
        sum += input[pixel * kChannels + c] * w.expansion[e * kChannels + c];
      }
      expanded[pixel * kExpanded + e] = relu6(sum);
    }
  }
  for (int y = 0; y < static_cast<int>(kSize); ++y) {
    for (int x = 0; x < static_cast<int>(kSize); ++x) {
      float* pixel = &output[(static_cast<size_t>(y) * kSize + static_cast<size_t>(x)) * kChannels];
      for (size_t c = 0; c < kChannels; ++c) {
        pixel[c] += w.projection_bias[c];
      }
      for (size_t e = 0; e < kExpanded; ++e) {
        float sum = w.depthwise_bias[e];
        for (int dy = 0; dy < 3; ++dy) {
          for (int dx = 0; dx < 3; ++dx) {
            const int sy = y + dy - 1, sx = x + dx - 1;
            if (sy >= 0 && sx >= 0 && sy < static_cast<int>(kSize) && sx < static_cast<int>(kSize)) {
              sum += expanded[(static_cast<size_t>(sy) * kSize + static_cast<size_t>(sx)) * kExpanded + e] *
                     w.depthwise[static_cast<size_t>(dy * 3 + dx) * kExpanded + e];
            }
          }
        }
        for (size_t c = 0; c < kChannels; ++c) {
          pixel[c] += relu6(sum) * w.projection[c * kExpanded + e];
        }
      }
    }
  }
  return output;
}

bool agree(const char* what, const float* found, const std::vector<float>& expected) {
  float most = 0.0f;
  for (size_t index = 0; index < kLength; ++index) {
    most = std::fmax(most, std::fabs(found[index] - expected[index]));
  }
  const bool is_right = most < 1e-4f;
  std::printf("%-28s %s, off by %.1e at most\n", what, is_right ? "right" : "WRONG", static_cast<double>(most));
  return is_right;
}

Execution execution(const Compilation& compilation) {
  ANeuralNetworksExecution* made = nullptr;
  CHECK(ANeuralNetworksExecution_create(compilation.get(), &made));
  return Execution(made);
}

}  // namespace

int main(int count, char** arguments) {
  // The device: the one that is named, or the first.
  uint32_t devices = 0;
  CHECK(ANeuralNetworks_getDeviceCount(&devices));
  ANeuralNetworksDevice* device = nullptr;
  for (uint32_t index = 0; index < devices && device == nullptr; ++index) {
    ANeuralNetworksDevice* candidate = nullptr;
    const char* name = nullptr;
    CHECK(ANeuralNetworks_getDevice(index, &candidate));
    CHECK(ANeuralNetworksDevice_getName(candidate, &name));
    if (count < 2 || std::string(arguments[1]) == name) {
      device = candidate;
      std::printf("on %s\n", name);
    }
  }
  if (device == nullptr) {
    std::fprintf(stderr, "there is no such device\n");
    return 1;
  }

  const Weights all;
  const Model model = block(all);
  ANeuralNetworksCompilation* made_compilation = nullptr;
  CHECK(ANeuralNetworksCompilation_createForDevices(model.get(), &device, 1, &made_compilation));
  const Compilation compilation(made_compilation);
  CHECK(ANeuralNetworksCompilation_finish(compilation.get()));

  const std::vector<float> input = weights(kLength, 1.0f);
  const std::vector<float> once = reference(all, input), twice = reference(all, once);
  std::vector<float> output(kLength);
  bool is_right = true;

  // At once, and again.
  {
    const Execution run = execution(compilation);
    CHECK(ANeuralNetworksExecution_setReusable(run.get(), true));
    CHECK(ANeuralNetworksExecution_setInput(run.get(), 0, nullptr, input.data(), kBytes));
    CHECK(ANeuralNetworksExecution_setOutput(run.get(), 0, nullptr, output.data(), kBytes));
    CHECK(ANeuralNetworksExecution_compute(run.get()));
    is_right = agree("compute", output.data(), once) && is_right;
    output.assign(kLength, 0.0f);
    CHECK(ANeuralNetworksExecution_compute(run.get()));
    is_right = agree("compute, again", output.data(), once) && is_right;
  }

  // In a burst.
  {
    ANeuralNetworksBurst* made = nullptr;
    CHECK(ANeuralNetworksBurst_create(compilation.get(), &made));
    const Burst burst(made);
    output.assign(kLength, 0.0f);
    const Execution run = execution(compilation);
    CHECK(ANeuralNetworksExecution_setInput(run.get(), 0, nullptr, input.data(), kBytes));
    CHECK(ANeuralNetworksExecution_setOutput(run.get(), 0, nullptr, output.data(), kBytes));
    CHECK(ANeuralNetworksExecution_burstCompute(run.get(), burst.get()));
    is_right = agree("burst", output.data(), once) && is_right;
  }

  // Twice in a row: from a hardware buffer to device memory, and from there to a buffer. It begins with a sync fence.
  {
    AHardwareBuffer_Desc shape = {};
    shape.width = kBytes;
    shape.height = shape.layers = 1;
    shape.format = AHARDWAREBUFFER_FORMAT_BLOB;
    shape.usage = AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN | AHARDWAREBUFFER_USAGE_GPU_DATA_BUFFER;
    AHardwareBuffer* buffer = nullptr;
    if (AHardwareBuffer_allocate(&shape, &buffer) != 0) {
      std::fprintf(stderr, "there is no hardware buffer\n");
      return 1;
    }
    const Owned<AHardwareBuffer, AHardwareBuffer_release> owned(buffer);
    ANeuralNetworksMemory* made_memory = nullptr;
    CHECK(ANeuralNetworksMemory_createFromAHardwareBuffer(buffer, &made_memory));
    const Memory source(made_memory);

    ANeuralNetworksMemoryDesc* made_desc = nullptr;
    CHECK(ANeuralNetworksMemoryDesc_create(&made_desc));
    const MemoryDesc desc(made_desc);
    CHECK(ANeuralNetworksMemoryDesc_addInputRole(desc.get(), compilation.get(), 0, 1.0f));
    CHECK(ANeuralNetworksMemoryDesc_addOutputRole(desc.get(), compilation.get(), 0, 1.0f));
    CHECK(ANeuralNetworksMemoryDesc_finish(desc.get()));
    CHECK(ANeuralNetworksMemory_createFromDesc(desc.get(), &made_memory));
    const Memory between(made_memory);

    int ends[2];
    if (pipe(ends) != 0) {
      std::perror("pipe");
      return 1;
    }
    ANeuralNetworksEvent* made_event = nullptr;
    CHECK(ANeuralNetworksEvent_createFromSyncFenceFd(ends[0], &made_event));
    const Event begin(made_event);

    const Execution first = execution(compilation), second = execution(compilation);
    CHECK(ANeuralNetworksExecution_setInputFromMemory(first.get(), 0, nullptr, source.get(), 0, kBytes));
    CHECK(ANeuralNetworksExecution_setOutputFromMemory(first.get(), 0, nullptr, between.get(), 0, 0));
    const ANeuralNetworksEvent* dependency = begin.get();
    CHECK(ANeuralNetworksExecution_startComputeWithDependencies(first.get(), &dependency, 1, 0, &made_event));
    const Event middle(made_event);
    output.assign(kLength, 0.0f);
    CHECK(ANeuralNetworksExecution_setInputFromMemory(second.get(), 0, nullptr, between.get(), 0, 0));
    CHECK(ANeuralNetworksExecution_setOutput(second.get(), 0, nullptr, output.data(), kBytes));
    dependency = middle.get();
    CHECK(ANeuralNetworksExecution_startComputeWithDependencies(second.get(), &dependency, 1, 0, &made_event));
    const Event end(made_event);
    int fence = -1;
    CHECK(ANeuralNetworksEvent_getSyncFenceFd(end.get(), &fence));

    void* bytes = nullptr;  // the input comes only now
    AHardwareBuffer_lock(buffer, AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN, -1, nullptr, &bytes);
    std::memcpy(bytes, input.data(), kBytes);
    AHardwareBuffer_unlock(buffer, nullptr);
    if (write(ends[1], "!", 1) != 1) {
      std::perror("write");
      return 1;
    }
    pollfd wanted = {fence, POLLIN, 0};
    if (poll(&wanted, 1, 60 * 1000) != 1) {
      std::fprintf(stderr, "the sync fence does not signal\n");
      return 1;
    }
    is_right = agree("fenced, device memory", output.data(), twice) && is_right;
    CHECK(ANeuralNetworksEvent_wait(end.get()));
    close(fence);
    close(ends[0]);
    close(ends[1]);
  }
  return is_right ? 0 : 1;
}
