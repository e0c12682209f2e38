// A program of LiteRT's C functions, whose headers its Python package does not have: the negatives of six numbers.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
struct Layout {
  uint32_t rank : 7, has_strides : 1;
  int32_t sizes[8];
  uint32_t strides[8];
};
struct Type {
  int element;  // 1: float
  Layout layout;
};
struct Text {
  int type;  // 8: text
  const char* text;
};
struct Option {
  int tag;  // 22: the folder of accelerators
  Text value;
};
int LiteRtCreateEnvironment(int count, const Option* options, void** made);
int LiteRtCreateModelFromFile(void* environment, const char* path, void** made);
int LiteRtCreateOptions(void** made);
int LiteRtSetOptionsHardwareAccelerators(void* options, int set);
int LiteRtCreateCompiledModel(void* environment, void* model, void* options, void** made);
int LiteRtCompiledModelIsFullyAccelerated(void* compiled, bool* is_fully);
int LiteRtCreateManagedTensorBuffer(void* environment, int kind, const Type* type, size_t bytes, void** made);
int LiteRtLockTensorBuffer(void* buffer, void** data, int mode);
int LiteRtUnlockTensorBuffer(void* buffer);
int LiteRtRunCompiledModel(void* compiled, size_t signature, size_t inputs, void** in, size_t outputs, void** out);
void LiteRtDestroyTensorBuffer(void* buffer);
void LiteRtDestroyCompiledModel(void* compiled);
void LiteRtDestroyOptions(void* options);
void LiteRtDestroyModel(void* model);
void LiteRtDestroyEnvironment(void* environment);
}

namespace {

void check(int status, const char* what) {
  if (status != 0) {
    printf("%s: status %d\n", what, status);
    exit(1);
  }
}

}  // namespace

// Arguments: a model of six floats, and the folder of the accelerator, or nothing for the loader's folders.
int main(int count, char** arguments) {
  const Option folder = {22, {8, arguments[2]}};
  void *environment, *model, *options, *compiled, *buffers[2], *data;
  check(LiteRtCreateEnvironment(count - 2, &folder, &environment), "environment");
  check(LiteRtCreateModelFromFile(environment, arguments[1], &model), "model");
  check(LiteRtCreateOptions(&options), "options");
  check(LiteRtSetOptionsHardwareAccelerators(options, 2), "hardware");
  check(LiteRtCreateCompiledModel(environment, model, options, &compiled), "compilation");
  bool is_fully = false;
  check(LiteRtCompiledModelIsFullyAccelerated(compiled, &is_fully), "acceleration");
  const Type type = {1, {2, 0, {2, 3}, {}}};
  float values[6] = {1, 2, 3, 4, 5, 6};
  for (auto& buffer : buffers) {
    check(LiteRtCreateManagedTensorBuffer(environment, 1, &type, sizeof values, &buffer), "buffer");
  }
  check(LiteRtLockTensorBuffer(buffers[0], &data, 1), "input");
  memcpy(data, values, sizeof values);
  check(LiteRtUnlockTensorBuffer(buffers[0]), "input");
  check(LiteRtRunCompiledModel(compiled, 0, 1, &buffers[0], 1, &buffers[1]), "run");
  check(LiteRtLockTensorBuffer(buffers[1], &data, 0), "output");
  memcpy(values, data, sizeof values);
  check(LiteRtUnlockTensorBuffer(buffers[1]), "output");
  for (auto* buffer : buffers) {
    LiteRtDestroyTensorBuffer(buffer);
  }
  LiteRtDestroyCompiledModel(compiled);
  LiteRtDestroyOptions(options);
  LiteRtDestroyModel(model);
  LiteRtDestroyEnvironment(environment);
  printf("%d:", is_fully);
  for (const float value : values) {
    printf(" %g", value);
  }
  puts("");
}
