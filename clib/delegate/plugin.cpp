// The delegate as TensorFlow Lite loads it: tflite_plugin_create_delegate.
#include <android/log.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <set>

#include "kernel.hpp"

namespace nnvk::tflite {

namespace {

struct Delegate {
  TfLiteDelegate base{};
  Options options;
};

// No exception goes into TensorFlow Lite: what was wrong is logged, and this is what the caller of the interpreter gets.
template <class Call>
TfLiteStatus safely(TfLiteContext* context, const char* doing, Call call) noexcept {
  const int code = guarded(doing, call);
  if (code == ANEURALNETWORKS_NO_ERROR) {
    return kTfLiteOk;
  }
  context->ReportError(context, "nnvk: %s failed with NNAPI's result code %d; the reason is logged above", doing, code);
  return kTfLiteError;
}

void* init(TfLiteContext* context, const char* buffer, size_t) {
  const auto& given = *reinterpret_cast<const TfLiteDelegateParams*>(buffer);
  Kernel* kernel = nullptr;
  const auto status = safely(context, "making a partition", [&] {
    const auto sizes = optionSizes();
    std::vector<NodeRecord> nodes;
    for (int index = 0; index < given.nodes_to_replace->size; ++index) {
      TfLiteNode* node = nullptr;
      TfLiteRegistration* registration = nullptr;
      if (context->GetNodeAndRegistration(context, given.nodes_to_replace->data[index], &node, &registration) !=
          kTfLiteOk) {
        fail(ANEURALNETWORKS_OP_FAILED, "there is no node %d", given.nodes_to_replace->data[index]);
      }
      nodes.push_back(record(sizes, *node, *registration));
    }
    Edges edges;
    for (int index = 0; index < given.input_tensors->size; ++index) {
      const int tensor = given.input_tensors->data[index];
      if (tensor != kTfLiteOptionalTensor && !isConstant(context->tensors[tensor]) &&
          !context->tensors[tensor].is_variable) {
        edges.inputs.push_back(tensor);
      }
    }
    for (int index = 0; index < given.output_tensors->size; ++index) {
      if (!context->tensors[given.output_tensors->data[index]].is_variable) {
        edges.outputs.push_back(given.output_tensors->data[index]);
      }
    }
    const bool has_open_sizes =
        std::any_of(context->tensors, context->tensors + context->tensors_size, [](const auto& t) { return isOpen(t); });
    const auto& options = static_cast<Delegate*>(given.delegate->data_)->options;
    kernel = new Kernel(options, std::move(nodes), std::move(edges), has_open_sizes);
  });
  // All bits set is how TensorFlow Lite is told of a failure.
  return status == kTfLiteOk ? static_cast<void*>(kernel) : reinterpret_cast<void*>(-1);
}

void release(TfLiteContext*, void* kernel) {
  if (kernel != reinterpret_cast<void*>(-1)) {
    delete static_cast<Kernel*>(kernel);
  }
}

TfLiteStatus prepareKernel(TfLiteContext* context, TfLiteNode* node) {
  return safely(context, "compiling a partition", [&] { static_cast<Kernel*>(node->user_data)->prepare(*context); });
}

TfLiteStatus invoke(TfLiteContext* context, TfLiteNode* node) {
  return safely(context, "computing", [&] { static_cast<Kernel*>(node->user_data)->compute(*context); });
}

// TensorFlow Lite's array of numbers.
class IntArray {
 public:
  explicit IntArray(const std::vector<int>& values) : words_(values.size() + 1) {
    words_[0] = static_cast<int>(values.size());
    std::copy(values.begin(), values.end(), words_.begin() + 1);
  }
  const TfLiteIntArray* get() const { return reinterpret_cast<const TfLiteIntArray*>(words_.data()); }

 private:
  std::vector<int> words_;
};

// Those of the nodes that go to nnvk, and in how many partitions. Others are logged.
std::vector<int> withoutSmallParts(TfLiteContext& context, const Options& options, const std::vector<int>& nodes,
                                   size_t* count) {
  TfLiteDelegateParams* partitions = nullptr;
  int found = 0;
  const IntArray wanted(nodes);
  if (context.PreviewDelegatePartitioning(&context, wanted.get(), &partitions, &found) != kTfLiteOk) {
    fail(ANEURALNETWORKS_OP_FAILED, "there are no partitions");
  }
  std::vector<const TfLiteDelegateParams*> kept;
  for (int at = 0; at < found; ++at) {
    const auto& inputs = *partitions[at].input_tensors;
    const bool has_input = std::any_of(inputs.data, inputs.data + inputs.size, [&](int tensor) {
      return tensor != kTfLiteOptionalTensor && !isConstant(context.tensors[tensor]) &&
             !context.tensors[tensor].is_variable;
    });
    if (has_input && partitions[at].output_tensors->size > 0) {
      kept.push_back(&partitions[at]);
    } else {
      log(options, "%d operators stay with TensorFlow Lite: they read constants alone, and NNAPI's models have inputs",
          partitions[at].nodes_to_replace->size);
    }
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](auto* a, auto* b) { return a->nodes_to_replace->size > b->nodes_to_replace->size; });
  while (options.max_partitions > 0 && kept.size() > options.max_partitions) {
    log(options, "%d operators stay with TensorFlow Lite: their partition is not among the %zu largest",
        kept.back()->nodes_to_replace->size, options.max_partitions);
    kept.pop_back();
  }
  *count = kept.size();
  std::vector<int> taken;
  for (const auto* partition : kept) {
    const auto& replaced = *partition->nodes_to_replace;
    taken.insert(taken.end(), replaced.data, replaced.data + replaced.size);
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

TfLiteStatus prepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  return safely(context, "choosing operators", [&] {
    const auto& options = static_cast<Delegate*>(delegate->data_)->options;
    TfLiteIntArray* plan = nullptr;
    if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) {
      fail(ANEURALNETWORKS_OP_FAILED, "there is no execution plan");
    }
    const auto sizes = optionSizes();
    const std::vector<int> indexes(plan->data, plan->data + plan->size);
    std::vector<NodeRecord> nodes;
    std::set<int> written;
    for (const int index : indexes) {
      TfLiteNode* node = nullptr;
      TfLiteRegistration* registration = nullptr;
      if (context->GetNodeAndRegistration(context, index, &node, &registration) != kTfLiteOk) {
        fail(ANEURALNETWORKS_OP_FAILED, "there is no node %d", index);
      }
      nodes.push_back(record(sizes, *node, *registration));
      written.insert(nodes.back().outputs.begin(), nodes.back().outputs.end());
    }
    std::set<int> inputs;
    for (const auto& node : nodes) {
      for (const int tensor : node.inputs) {
        if (tensor != kTfLiteOptionalTensor && written.count(tensor) == 0 && !isConstant(context->tensors[tensor]) &&
            !context->tensors[tensor].is_variable) {
          inputs.insert(tensor);
        }
      }
    }
    std::vector<std::string> reasons;
    again([&] {
      Request request(kRequestTfliteExamine, Server::running());
      put(request.packet(), *context, nodes, {{inputs.begin(), inputs.end()}, {}});
      Reader reply = request.askAll();
      reasons.clear();
      for (size_t left = nodes.size(); left > 0; --left) {
        reasons.push_back(reply.string());
      }
    });
    std::vector<int> taken;
    for (size_t at = 0; at < nodes.size(); ++at) {
      if (reasons[at].empty()) {
        taken.push_back(indexes[at]);
      } else {
        log(options, "operator %d stays with TensorFlow Lite: %s", indexes[at], reasons[at].c_str());
      }
    }
    size_t partitions = 0;
    taken = withoutSmallParts(*context, options, taken, &partitions);
    log(options, "%zu of %zu operators in %zu partition%s", taken.size(), nodes.size(), partitions,
        partitions == 1 ? "" : "s");
    if (taken.empty()) {
      return;
    }
    TfLiteRegistration registration{};
    registration.init = init;
    registration.free = release;
    registration.prepare = prepareKernel;
    registration.invoke = invoke;
    registration.builtin_code = kTfLiteBuiltinDelegate;
    registration.custom_name = "nnvk";
    registration.version = 1;
    const IntArray replaced(taken);
    if (context->ReplaceNodeSubsetsWithDelegateKernels(context, registration, replaced.get(), delegate) != kTfLiteOk) {
      fail(ANEURALNETWORKS_OP_FAILED, "TensorFlow Lite did not take the partitions");
    }
  });
}

bool isTrue(const std::string& key, std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char letter) { return tolower(letter); });
  if (value == "1" || value == "true") {
    return true;
  }
  if (value != "0" && value != "false") {
    NNVK_BAD_DATA("the option %s must be true or false, got '%s'", key.c_str(), value.c_str());
  }
  return false;
}

// Structures grow at their ends only, but those of older versions lack what is read here. There is a number to be
// asked for where TensorFlow Lite's C functions are in a library of their own; LiteRT is newer in any case.
void checkVersion() {
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "TfLiteVersion"));
  int major = 0, minor = 0;
  if (version != nullptr && sscanf(version(), "%d.%d", &major, &minor) == 2 &&
      std::make_pair(major, minor) < std::pair<int, int>(kOldestMajor, kOldestMinor)) {
    fail(ANEURALNETWORKS_UNAVAILABLE_DEVICE, "TensorFlow Lite must be %d.%d or later, got %s", kOldestMajor,
         kOldestMinor, version());
  }
}

size_t toNumber(const std::string& key, const std::string& value, size_t most) {
  const bool is_number = !value.empty() && value.size() < 10 && value.find_first_not_of("0123456789") == value.npos;
  const size_t number = is_number ? std::stoul(value) : most + 1;
  if (number > most) {
    NNVK_BAD_DATA("the option %s must be a number from 0 to %zu, got '%s'", key.c_str(), most, value.c_str());
  }
  return number;
}

void set(Options& options, const char* given_key, const char* given_value) {
  if (given_key == nullptr || given_value == nullptr) {
    NNVK_BAD_DATA("an option must have a key and a value, got NULL");
  }
  const std::string key = given_key, value = given_value;
  if (key == "device") {
    options.device = value;
  } else if (key == "cache_dir") {
    options.cache_dir = value;
  } else if (key == "relaxed") {
    options.relaxed = isTrue(key, value);
  } else if (key == "no_fallback") {
    options.no_fallback = isTrue(key, value);
  } else if (key == "max_partitions") {
    options.max_partitions = toNumber(key, value, 1000000);
  } else if (key == "verbosity") {
    options.verbosity = toNumber(key, value, 1);
  } else {
    NNVK_BAD_DATA("there is no option '%s'; there are device, no_fallback, relaxed, max_partitions, cache_dir, verbosity", key.c_str());
  }
}

}  // namespace

void log(const Options& options, const char* format, ...) {
  if (options.verbosity < 1) {
    return;
  }
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  __android_log_write(ANDROID_LOG_INFO, "nnvk", text);
}

}  // namespace nnvk::tflite

using namespace nnvk;
using namespace nnvk::tflite;

extern "C" NNVK_EXPORT TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values,
                                                                     size_t count, void (*report_error)(const char*)) {
  std::unique_ptr<Delegate> made;
  std::string reason = "there is not enough memory";
  try {
    checkVersion();
    made = std::make_unique<Delegate>();
    for (size_t index = 0; index < count; ++index) {
      set(made->options, keys == nullptr ? nullptr : keys[index], values == nullptr ? nullptr : values[index]);
    }
    checkDevice(made->options);
  } catch (const Error& error) {
    reason = error.reason;
    made.reset();
  } catch (const Known& known) {
    reason = "NNAPI's result code is " + std::to_string(known.code) + "; the reason is logged above";
    made.reset();
  } catch (const std::exception&) {
    made.reset();
  }
  if (made == nullptr) {
    if (report_error != nullptr) {
      report_error(("nnvk: " + reason).c_str());
    }
    return nullptr;
  }
  made->base.data_ = made.get();
  made->base.Prepare = prepare;
  made->base.flags = kTfLiteDelegateFlagsAllowDynamicTensors;
  return &made.release()->base;
}

extern "C" NNVK_EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  if (delegate != nullptr) {
    delete static_cast<Delegate*>(delegate->data_);
  }
}
