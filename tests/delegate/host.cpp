// Calls a delegate as TensorFlow Lite does, without TensorFlow Lite. The graph has two operators, whose structures are
// where the sanitizers see every access beyond them. Arguments: the delegate, a device, a number of threads.
#include "delegate/tflite.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using Create = TfLiteDelegate* (*)(const char* const*, const char* const*, size_t, void (*)(const char*));
using Destroy = void (*)(TfLiteDelegate*);

Create create;
Destroy destroy;
std::string device, data_error;

void expect(bool is_right, const char* what) {
  if (!is_right) {
    std::fprintf(stderr, "wrong: %s\n", what);
    std::abort();
  }
}

template <class Array, class Value>
Array* newArray(const std::vector<Value>& values) {
  auto* array = static_cast<Array*>(std::malloc(sizeof(Array) + values.size() * sizeof(Value)));
  array->size = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), array->data);
  return array;
}

TfLiteIntArray* ints(const std::vector<int>& values) { return newArray<TfLiteIntArray>(values); }

struct Owning {
  void operator()(void* memory) const { std::free(memory); }
};
using Ints = std::unique_ptr<TfLiteIntArray, Owning>;

constexpr int kAdd = 0, kNeg = 59, kFloat32 = 1, kArena = 2;

// output = -(input + constant), of so many rows.
class Graph {
 public:
  explicit Graph(int rows) : plan_(ints({0, 1})), inputs_(ints({0})), outputs_(ints({3})) {
    context_.tensors = tensors_.data();
    context_.tensors_size = tensors_.size();
    context_.impl_ = this;
    context_.ReportError = report;
    context_.GetExecutionPlan = [](TfLiteContext* context, TfLiteIntArray** plan) {
      *plan = of(context).plan_.get();
      return kTfLiteOk;
    };
    context_.GetNodeAndRegistration = [](TfLiteContext* context, int index, TfLiteNode** node,
                                         TfLiteRegistration** registration) {
      if (of(context).has_lost_nodes) {
        return kTfLiteError;
      }
      *node = &of(context).nodes_[index];
      *registration = &of(context).registrations_[index];
      return kTfLiteOk;
    };
    context_.PreviewDelegatePartitioning = [](TfLiteContext* context, const TfLiteIntArray* nodes,
                                              TfLiteDelegateParams** partitions, int* count) {
      *partitions = &of(context).partition(nodes);
      *count = nodes->size > 0;
      return kTfLiteOk;
    };
    context_.ReplaceNodeSubsetsWithDelegateKernels = [](TfLiteContext* context, TfLiteRegistration registration,
                                                        const TfLiteIntArray* nodes, TfLiteDelegate* delegate) {
      of(context).partition(nodes).delegate = delegate;
      of(context).kernel_ = registration;
      return kTfLiteOk;
    };
    context_.ResizeTensor = [](TfLiteContext* context, TfLiteTensor* tensor, TfLiteIntArray* size) {
      if (of(context).is_full) {
        std::free(size);
        return kTfLiteError;
      }
      of(context).resize(*tensor, size);
      return kTfLiteOk;
    };
    for (auto& tensor : tensors_) {
      tensor.type = kFloat32;
      tensor.allocation_type = kArena;
      tensor.dims_signature = signature_.get();
    }
    resize(tensors_[1], ints({3}));
    const float constant[] = {10, 20, 30};
    std::memcpy(tensors_[1].data, constant, sizeof constant);
    tensors_[1].allocation_type = kTfLiteMmapRo;
    tensors_[1].dims_signature = nullptr;
    for (const int tensor : {0, 2, 3}) {
      resize(tensors_[tensor], ints({rows, 3}));
    }
    add_options_.reset(std::calloc(1, sizeof(int) + sizeof(bool)));  // an activation, and a flag that is not read
    nodes_[0] = node({0, 1}, {2});
    nodes_[0].builtin_data = add_options_.get();
    nodes_[1] = node({2}, {3});
    registrations_[0].builtin_code = kAdd;
    registrations_[1].builtin_code = kNeg;
  }

  ~Graph() {
    if (user_data_ != nullptr) {
      kernel_.free(&context_, user_data_);
    }
    for (auto& tensor : tensors_) {
      std::free(tensor.dims);
      std::free(tensor.data);
    }
    for (auto& node : nodes_) {
      std::free(node.inputs);
      std::free(node.outputs);
    }
    std::free(partition_.nodes_to_replace);
  }

  // As TensorFlow Lite does it: choosing operators, and making the kernel.
  void give(TfLiteDelegate* delegate) {
    expect(delegate->Prepare(&context_, delegate) == kTfLiteOk, "Prepare");
    expect(partition_.nodes_to_replace->size == 2, "what is taken");
    user_data_ = kernel_.init(&context_, reinterpret_cast<const char*>(&partition_), sizeof partition_);
    expect(user_data_ != reinterpret_cast<void*>(-1), "init");
  }

  TfLiteStatus refused(TfLiteDelegate* delegate) { return delegate->Prepare(&context_, delegate); }

  void resizeInput(int rows) { resize(tensors_[0], ints({rows, 3})); }

  TfLiteStatus prepare() {
    auto delegated = kernelNode();
    return kernel_.prepare(&context_, &delegated);
  }

  TfLiteStatus invoke() {
    auto delegated = kernelNode();
    return kernel_.invoke(&context_, &delegated);
  }

  void isRightFor(float value) {
    auto* input = static_cast<float*>(tensors_[0].data);
    const auto count = tensors_[0].bytes / sizeof(float);
    std::fill(input, input + count, value);
    expect(invoke() == kTfLiteOk, "invoke");
    expect(tensors_[3].bytes == tensors_[0].bytes, "the output's size");
    for (size_t index = 0; index < count; ++index) {
      const float wanted = -(value + 10.0f * static_cast<float>(index % 3 + 1));
      expect(std::abs(static_cast<float*>(tensors_[3].data)[index] - wanted) < 1e-5f, "an output");
    }
  }

  std::string error;
  bool has_lost_nodes = false, is_full = false;

 private:
  static Graph& of(TfLiteContext* context) { return *static_cast<Graph*>(context->impl_); }

  static void report(TfLiteContext* context, const char* format, ...) {
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    of(context).error = text;
  }

  static TfLiteNode node(const std::vector<int>& inputs, const std::vector<int>& outputs) {
    TfLiteNode made{};
    made.inputs = ints(inputs);
    made.outputs = ints(outputs);
    return made;
  }

  TfLiteNode kernelNode() const {
    TfLiteNode made{};
    made.user_data = user_data_;
    return made;
  }

  TfLiteDelegateParams& partition(const TfLiteIntArray* nodes) {
    auto* copy = ints({nodes->data, nodes->data + nodes->size});
    std::free(partition_.nodes_to_replace);
    partition_.nodes_to_replace = copy;
    partition_.input_tensors = inputs_.get();
    partition_.output_tensors = outputs_.get();
    return partition_;
  }

  static void resize(TfLiteTensor& tensor, TfLiteIntArray* size) {
    std::free(tensor.dims);
    std::free(tensor.data);
    tensor.dims = size;
    tensor.bytes = sizeof(float);
    for (int index = 0; index < size->size; ++index) {
      tensor.bytes *= static_cast<size_t>(size->data[index]);
    }
    tensor.data = std::malloc(tensor.bytes);
  }

  TfLiteContext context_{};
  std::vector<TfLiteTensor> tensors_{4};
  TfLiteNode nodes_[2]{};
  TfLiteRegistration registrations_[2]{};
  std::unique_ptr<void, Owning> add_options_;
  Ints plan_, inputs_, outputs_, signature_{ints({-1, 3})};
  TfLiteDelegateParams partition_{};
  TfLiteRegistration kernel_{};
  void* user_data_ = nullptr;
};

TfLiteDelegate* made(const std::vector<std::pair<const char*, const char*>>& options) {
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : options) {
    keys.push_back(key);
    values.push_back(value);
  }
  data_error.clear();
  return create(keys.data(), values.data(), keys.size(), [](const char* text) { data_error = text; });
}

TfLiteDelegate* delegate() {
  auto* found = made({{"device", device.c_str()}, {"verbosity", "0"}});
  expect(found != nullptr, "the delegate");
  return found;
}

void wrongOptions() {
  for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{
           {"devise", "x"}, {"device", "no such"}, {"relaxed", ""}, {"verbosity", "9"}, {nullptr, "x"}, {"device", nullptr}}) {
    expect(made({{key, value}}) == nullptr && data_error.find("nnvk: ") == 0, "a wrong option's complaint");
  }
  expect(create(nullptr, nullptr, 1, nullptr) == nullptr, "options that are not there");
  destroy(nullptr);
}

void resizing() {
  auto* mine = delegate();
  {
    Graph graph(2);
    graph.give(mine);
    for (const int rows : {2, 5, 0, 1, 700, 0, 0, 1}) {
      graph.resizeInput(rows);
      expect(graph.prepare() == kTfLiteOk, "prepare");
      graph.isRightFor(0.5f);
      graph.isRightFor(1.5f);
    }
  }
  destroy(mine);
}

void failures() {
  auto* mine = delegate();
  Graph lost(2), full(2);
  lost.has_lost_nodes = true;
  expect(lost.refused(mine) == kTfLiteError && !lost.error.empty(), "nodes that can't be had");
  full.give(mine);
  full.resizeInput(4);
  full.is_full = true;
  expect(full.prepare() == kTfLiteError && full.error.find("nnvk: ") == 0, "an output that can't be resized");
  full.is_full = false;
  expect(full.prepare() == kTfLiteOk, "the same later");
  full.isRightFor(3);
  destroy(mine);  // before the interpreters that had it
}

void several(int threads) {
  std::vector<std::thread> running;
  auto* shared = delegate();
  for (int index = 0; index < threads; ++index) {
    running.emplace_back([index, shared] {
      auto* own = index % 2 == 0 ? delegate() : nullptr;
      Graph first(1 + index), second(3);
      first.give(own == nullptr ? shared : own);
      second.give(shared);
      expect(first.prepare() == kTfLiteOk && second.prepare() == kTfLiteOk, "prepare");
      for (int times = 0; times < 5; ++times) {
        first.isRightFor(static_cast<float>(times));
        second.isRightFor(static_cast<float>(index));
      }
      if (own != nullptr) {
        destroy(own);
      }
    });
  }
  for (auto& thread : running) {
    thread.join();
  }
  destroy(shared);
}

void forked() {
  auto* mine = delegate();
  {
    Graph graph(2);
    graph.give(mine);
    expect(graph.prepare() == kTfLiteOk, "prepare");
    graph.isRightFor(1);
    std::fflush(nullptr);
    const pid_t child = fork();
    expect(child >= 0, "fork");
    if (child == 0) {
      graph.isRightFor(2);
      graph.resizeInput(3);
      expect(graph.prepare() == kTfLiteOk, "prepare in the child");
      graph.isRightFor(3);
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    expect(status == 0, "the child's end");
    graph.isRightFor(4);
  }
  destroy(mine);
}

}  // namespace

int main(int count, char** arguments) {
  expect(count == 4, "the number of arguments");
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr, "the library's path");
  create = reinterpret_cast<Create>(dlsym(library, "tflite_plugin_create_delegate"));
  destroy = reinterpret_cast<Destroy>(dlsym(library, "tflite_plugin_destroy_delegate"));
  device = arguments[2];
  wrongOptions();
  resizing();
  failures();
  several(std::atoi(arguments[3]));
  forked();
  std::puts("right");
}
