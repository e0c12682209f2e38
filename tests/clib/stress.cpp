// Many threads on the C library: each builds, compiles and computes in every way, on objects of its own and on shared
// ones. Arguments: threads, rounds. It fails at the first wrong result.
#include <android/NeuralNetworks.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <poll.h>
#include <unistd.h>

namespace {

void check(int code, const char* what) {
  if (code != ANEURALNETWORKS_NO_ERROR) {
    std::fprintf(stderr, "%s: result code %d\n", what, code);
    std::abort();
  }
}

#define CHECK(call) check(call, #call)

void expect(bool is_right, const char* what) {
  if (!is_right) {
    std::fprintf(stderr, "%s is wrong\n", what);
    std::abort();
  }
}

ANeuralNetworksModel* addModel(uint32_t length) {
  ANeuralNetworksModel* model = nullptr;
  CHECK(ANeuralNetworksModel_create(&model));
  const ANeuralNetworksOperandType tensor = {ANEURALNETWORKS_TENSOR_FLOAT32, 1, &length, 0.0f, 0};
  const ANeuralNetworksOperandType scalar = {ANEURALNETWORKS_INT32, 0, nullptr, 0.0f, 0};
  for (const auto* type : {&tensor, &tensor, &scalar, &tensor}) {
    CHECK(ANeuralNetworksModel_addOperand(model, type));
  }
  const int32_t none = ANEURALNETWORKS_FUSED_NONE;
  CHECK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
  const uint32_t inputs[] = {0, 1, 2}, output = 3;
  CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, inputs, 1, &output));
  CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, inputs, 1, &output));
  CHECK(ANeuralNetworksModel_finish(model));
  return model;
}

ANeuralNetworksCompilation* compile(ANeuralNetworksModel* model) {
  ANeuralNetworksCompilation* compilation = nullptr;
  CHECK(ANeuralNetworksCompilation_create(model, &compilation));
  CHECK(ANeuralNetworksCompilation_finish(compilation));
  return compilation;
}

struct Job {
  explicit Job(ANeuralNetworksCompilation* compilation, uint32_t length, float value)
      : first(length, value), second(length, 1.0f), sum(length) {
    CHECK(ANeuralNetworksExecution_create(compilation, &execution));
    CHECK(ANeuralNetworksExecution_setReusable(execution, true));
    const size_t bytes = length * sizeof(float);
    CHECK(ANeuralNetworksExecution_setInput(execution, 0, nullptr, first.data(), bytes));
    CHECK(ANeuralNetworksExecution_setInput(execution, 1, nullptr, second.data(), bytes));
    CHECK(ANeuralNetworksExecution_setOutput(execution, 0, nullptr, sum.data(), bytes));
  }
  Job(const Job&) = delete;
  ~Job() { ANeuralNetworksExecution_free(execution); }
  void verify(const char* what) {
    for (const float value : sum) {
      expect(value == first[0] + 1.0f, what);
    }
    std::fill(sum.begin(), sum.end(), -1.0f);
  }

  std::vector<float> first, second, sum;
  ANeuralNetworksExecution* execution = nullptr;
};

void work(unsigned seed, int rounds, ANeuralNetworksCompilation* shared, uint32_t shared_length) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const uint32_t length = random() % 2 ? 1 + random() % 50 : 1 + random() % 50000;
    ANeuralNetworksModel* model = nullptr;
    ANeuralNetworksCompilation* compilation = shared;
    if (random() % 3 == 0) {
      model = addModel(length);
      compilation = compile(model);
    }
    Job job(compilation, model == nullptr ? shared_length : length, static_cast<float>(random() % 1000));
    ANeuralNetworksBurst* burst = nullptr;
    CHECK(ANeuralNetworksBurst_create(compilation, &burst));
    for (int turn = 0; turn < 5; ++turn) {
      ANeuralNetworksEvent* event = nullptr;
      switch (random() % 5) {
        case 0:
          CHECK(ANeuralNetworksExecution_compute(job.execution));
          break;
        case 1:
          CHECK(ANeuralNetworksExecution_burstCompute(job.execution, burst));
          break;
        case 2:
          CHECK(ANeuralNetworksExecution_startCompute(job.execution, &event));
          CHECK(ANeuralNetworksEvent_wait(event));
          break;
        case 3: {
          CHECK(ANeuralNetworksExecution_startComputeWithDependencies(job.execution, nullptr, 0, 0, &event));
          int fence = -1;
          CHECK(ANeuralNetworksEvent_getSyncFenceFd(event, &fence));
          pollfd wanted = {fence, POLLIN, 0};
          expect(poll(&wanted, 1, 60000) == 1, "a fence");
          close(fence);
          break;
        }
        default: {  // one after the other, each waiting for the one before
          Job before(compilation, static_cast<uint32_t>(job.sum.size()), 7.0f);
          ANeuralNetworksEvent* first = nullptr;
          CHECK(ANeuralNetworksExecution_startComputeWithDependencies(before.execution, nullptr, 0, 0, &first));
          CHECK(ANeuralNetworksExecution_startComputeWithDependencies(job.execution, &first, 1, 0, &event));
          CHECK(ANeuralNetworksEvent_wait(event));
          before.verify("an execution that another has waited for");
          ANeuralNetworksEvent_free(first);
        }
      }
      ANeuralNetworksEvent_free(event);
      job.verify("an execution");
    }
    if (model != nullptr) {
      ANeuralNetworksModel_free(model);
      ANeuralNetworksCompilation_free(compilation);
    }
    ANeuralNetworksBurst_free(burst);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 8, rounds = count > 2 ? std::atoi(arguments[2]) : 20;
  ANeuralNetworksModel* model = addModel(4099);
  ANeuralNetworksCompilation* compilation = compile(model);
  ANeuralNetworksModel_free(model);
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back(work, static_cast<unsigned>(thread), rounds, compilation, 4099u);
  }
  for (auto& thread : all) {
    thread.join();
  }
  ANeuralNetworksCompilation_free(compilation);
  return 0;
}
