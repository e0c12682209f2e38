// Many threads make and free objects of the C library in every order, and wait for each other's events, while the server
// may be killed. Arguments: threads, rounds, and the file of the servers' processes if they are to be killed. A call ends
// well, or with DEAD_OBJECT where servers are killed; results are right where all calls have ended well.
#include <android/NeuralNetworks.h>
#include <android/sharedmem.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

bool may_die = false;
std::atomic<int> deaths{0}, computed{0};

// Whether a call has ended well; the only other end is that of the server, perhaps while it starts.
bool isWell(int code, const char* what) {
  if (code == ANEURALNETWORKS_NO_ERROR) {
    return true;
  }
  if (!may_die || (code != ANEURALNETWORKS_DEAD_OBJECT && code != ANEURALNETWORKS_UNAVAILABLE_DEVICE)) {
    std::fprintf(stderr, "%s: result code %d\n", what, code);
    std::abort();
  }
  ++deaths;
  return false;
}

#define WELL(call) isWell(call, #call)

// Waits for events in threads of its own.
class Waiters {
 public:
  explicit Waiters(int threads) {
    for (int thread = 0; thread < threads; ++thread) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~Waiters() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) {
      thread.join();
    }
  }
  // Have a thread wait for an event; `left` counts down when it has.
  void add(ANeuralNetworksEvent* event, std::atomic<int>* left) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({event, left});
    }
    changed_.notify_one();
  }

 private:
  struct Job {
    ANeuralNetworksEvent* event;
    std::atomic<int>* left;
  };

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_over_ || !jobs_.empty(); });
      if (jobs_.empty()) {
        return;
      }
      const Job job = jobs_.front();
      jobs_.pop_front();
      lock.unlock();
      WELL(ANeuralNetworksEvent_wait(job.event));
      --*job.left;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

// One round of one thread: the arrays, which outlive all objects, and how the objects are freed.
class Round {
 public:
  Round(std::mt19937& random, Waiters& waiters) : random_(random), waiters_(waiters) {}

  void run() {
    length_ = random_() % 3 == 0 ? 1 + random_() % 40000 : 1 + random_() % 64;
    const size_t count = 2 + random_() % 4;
    first_.assign(length_, static_cast<float>(random_() % 1000));
    second_.assign(length_, 1.0f);
    sums_.assign(count, std::vector<float>(length_, -1.0f));
    const bool is_right = build() && compute(count);
    std::shuffle(frees_.begin(), frees_.end(), random_);
    for (auto& free : frees_) {
      free();
    }
    if (is_right) {
      for (const auto& sum : sums_) {
        for (const float value : sum) {
          if (value != first_[0] + 1.0f) {
            std::fprintf(stderr, "%f is no %f\n", value, first_[0] + 1.0f);
            std::abort();
          }
        }
      }
      ++computed;
    }
  }

 private:
  template <class T>
  T* freed(T* object, void (*free)(T*)) {
    frees_.push_back([object, free] { free(object); });
    return object;
  }

  bool build() {
    ANeuralNetworksModel* model = nullptr;
    if (!WELL(ANeuralNetworksModel_create(&model))) {
      return false;
    }
    freed(model, ANeuralNetworksModel_free);
    const ANeuralNetworksOperandType tensor = {ANEURALNETWORKS_TENSOR_FLOAT32, 1, &length_, 0.0f, 0};
    const ANeuralNetworksOperandType scalar = {ANEURALNETWORKS_INT32, 0, nullptr, 0.0f, 0};
    for (const auto* type : {&tensor, &tensor, &scalar, &tensor}) {
      if (!WELL(ANeuralNetworksModel_addOperand(model, type))) {
        return false;
      }
    }
    const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    const uint32_t inputs[] = {0, 1, 2}, output = 3;
    return WELL(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none)) &&
           WELL(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, inputs, 1, &output)) &&
           WELL(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, inputs, 1, &output)) &&
           WELL(ANeuralNetworksModel_finish(model)) && WELL(ANeuralNetworksCompilation_create(model, &compilation_)) &&
           freed(compilation_, ANeuralNetworksCompilation_free) != nullptr &&
           WELL(ANeuralNetworksCompilation_finish(compilation_));
  }

  // Many executions at once, in every way.
  bool compute(size_t count) {
    std::atomic<int> left{0};
    bool is_well = true;
    ANeuralNetworksEvent* before = nullptr;
    for (size_t number = 0; is_well && number < count; ++number) {
      is_well = start(number, before, left);
    }
    while (left > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return is_well;
  }

  bool start(size_t number, ANeuralNetworksEvent*& before, std::atomic<int>& left) {
    const size_t bytes = length_ * sizeof(float);
    ANeuralNetworksExecution* execution = nullptr;
    if (!WELL(ANeuralNetworksExecution_create(compilation_, &execution))) {
      return false;
    }
    freed(execution, ANeuralNetworksExecution_free);
    if (!setFirst(execution, bytes) ||
        !WELL(ANeuralNetworksExecution_setInput(execution, 1, nullptr, second_.data(), bytes)) ||
        !WELL(ANeuralNetworksExecution_setOutput(execution, 0, nullptr, sums_[number].data(), bytes))) {
      return false;
    }
    ANeuralNetworksEvent* event = nullptr;
    switch (random_() % 4) {
      case 0:
        return WELL(ANeuralNetworksExecution_compute(execution));
      case 1: {
        ANeuralNetworksBurst* burst = nullptr;
        if (!WELL(ANeuralNetworksBurst_create(compilation_, &burst))) {
          return false;
        }
        freed(burst, ANeuralNetworksBurst_free);
        return WELL(ANeuralNetworksExecution_burstCompute(execution, burst));
      }
      case 2:
        if (!WELL(ANeuralNetworksExecution_startCompute(execution, &event))) {
          return false;
        }
        break;
      default:
        if (!WELL(ANeuralNetworksExecution_startComputeWithDependencies(execution, &before, before != nullptr, 0, &event))) {
          return false;
        }
    }
    freed(event, ANeuralNetworksEvent_free);
    before = event;
    for (auto waits = random_() % 3; waits > 0; --waits) {
      ++left;
      waiters_.add(event, &left);
    }
    return WELL(ANeuralNetworksEvent_wait(event));
  }

  // By a buffer, or by shared memory that is freed before or after it is used up.
  bool setFirst(ANeuralNetworksExecution* execution, size_t bytes) {
    if (random_() % 2 == 0) {
      return WELL(ANeuralNetworksExecution_setInput(execution, 0, nullptr, first_.data(), bytes));
    }
    const int descriptor = ASharedMemory_create("churn", bytes);
    if (descriptor < 0 || pwrite(descriptor, first_.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
      std::abort();
    }
    ANeuralNetworksMemory* memory = nullptr;
    const bool is_made = WELL(ANeuralNetworksMemory_createFromFd(bytes, PROT_READ, descriptor, 0, &memory));
    close(descriptor);
    if (!is_made) {
      return false;
    }
    const bool is_set = WELL(ANeuralNetworksExecution_setInputFromMemory(execution, 0, nullptr, memory, 0, bytes));
    if (random_() % 2 == 0) {
      ANeuralNetworksMemory_free(memory);  // the execution keeps it
    } else {
      freed(memory, ANeuralNetworksMemory_free);
    }
    return is_set;
  }

  std::mt19937& random_;
  Waiters& waiters_;
  uint32_t length_ = 0;
  std::vector<float> first_, second_;
  std::vector<std::vector<float>> sums_;
  ANeuralNetworksCompilation* compilation_ = nullptr;
  std::vector<std::function<void()>> frees_;
};

// Kills the last server now and then.
void kill(const char* pids, const std::atomic<bool>& is_over) {
  std::mt19937 random(1);
  while (!is_over) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500 + random() % 2500));
    std::ifstream file(pids);
    int pid = 0, last = 0;
    while (file >> pid) {
      last = pid;
    }
    if (last > 0) {
      ::kill(last, SIGKILL);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 4, rounds = count > 2 ? std::atoi(arguments[2]) : 20;
  may_die = count > 3;
  // The thread sanitizer takes the start of a process for a fork, and knows little of the thread that starts it.
  std::thread([] {
    uint32_t devices = 0;
    WELL(ANeuralNetworks_getDeviceCount(&devices));
  }).join();
  std::atomic<bool> is_over{false};
  std::thread killer;
  if (may_die) {
    killer = std::thread([&] { kill(arguments[3], is_over); });
  }
  {
    Waiters waiters(3);
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(thread));
        for (int round = 0; round < rounds; ++round) {
          Round(random, waiters).run();
        }
      });
    }
    for (auto& thread : all) {
      thread.join();
    }
  }
  is_over = true;
  if (may_die) {
    killer.join();
  }
  std::printf("%d rounds computed, %d calls met a dead server\n", computed.load(), deaths.load());
  return computed > 0 ? 0 : 1;
}
