/* Adds tensors as the NDK's sample of the Neural Networks API does: sum = (tensor0 + input1) + (tensor2 + input3), with
 * the constants tensor0 and tensor2 in shared memory.
 *
 *     cc add.c -o add $(nnvk config --includes --ldflags)
 *     ./add 1.5 2.5
 */
#include <android/NeuralNetworks.h>
#include <android/sharedmem.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDTH = 100, HEIGHT = 200, LENGTH = WIDTH * HEIGHT, BYTES = LENGTH * sizeof(float) };

static void check(int code, const char* what) {
  if (code != ANEURALNETWORKS_NO_ERROR) {
    fprintf(stderr, "%s: result code %d\n", what, code);
    exit(1);
  }
}

#define CHECK(call) check(call, #call)

/* Shared memory of floats, mapped. */
static float* make_shared(const char* name, int count, int* descriptor) {
  *descriptor = ASharedMemory_create(name, count * sizeof(float));
  void* mapped = *descriptor < 0 ? MAP_FAILED
                                 : mmap(NULL, count * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
  if (mapped == MAP_FAILED) {
    perror(name);
    exit(1);
  }
  return mapped;
}

int main(int count, char** arguments) {
  const float first = count > 1 ? strtof(arguments[1], NULL) : 1.0f;
  const float second = count > 2 ? strtof(arguments[2], NULL) : 2.0f;

  /* The constants: 0.5 everywhere. */
  int weights_fd;
  float* weights = make_shared("weights", 2 * LENGTH, &weights_fd);
  for (int i = 0; i < 2 * LENGTH; ++i) {
    weights[i] = 0.5f;
  }
  ANeuralNetworksMemory* weights_memory;
  CHECK(ANeuralNetworksMemory_createFromFd(2 * BYTES, PROT_READ, weights_fd, 0, &weights_memory));
  close(weights_fd);

  /* The model. */
  const uint32_t dimensions[] = {WIDTH, HEIGHT};
  const ANeuralNetworksOperandType tensor = {ANEURALNETWORKS_TENSOR_FLOAT32, 2, dimensions, 0.0f, 0};
  const ANeuralNetworksOperandType scalar = {ANEURALNETWORKS_INT32, 0, NULL, 0.0f, 0};
  enum { FUSE, TENSOR0, INPUT1, TENSOR2, INPUT3, SUM1, SUM2, SUM };
  ANeuralNetworksModel* model;
  CHECK(ANeuralNetworksModel_create(&model));
  CHECK(ANeuralNetworksModel_addOperand(model, &scalar));
  for (int operand = TENSOR0; operand <= SUM; ++operand) {
    CHECK(ANeuralNetworksModel_addOperand(model, &tensor));
  }
  const int32_t none = ANEURALNETWORKS_FUSED_NONE;
  CHECK(ANeuralNetworksModel_setOperandValue(model, FUSE, &none, sizeof none));
  CHECK(ANeuralNetworksModel_setOperandValueFromMemory(model, TENSOR0, weights_memory, 0, BYTES));
  CHECK(ANeuralNetworksModel_setOperandValueFromMemory(model, TENSOR2, weights_memory, BYTES, BYTES));
  const uint32_t add1[] = {TENSOR0, INPUT1, FUSE}, add2[] = {TENSOR2, INPUT3, FUSE}, add3[] = {SUM1, SUM2, FUSE};
  const uint32_t sum1 = SUM1, sum2 = SUM2, sum = SUM;
  CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, add1, 1, &sum1));
  CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, add2, 1, &sum2));
  CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, add3, 1, &sum));
  const uint32_t inputs[] = {INPUT1, INPUT3};
  CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, inputs, 1, &sum));
  CHECK(ANeuralNetworksModel_finish(model));

  ANeuralNetworksCompilation* compilation;
  CHECK(ANeuralNetworksCompilation_create(model, &compilation));
  CHECK(ANeuralNetworksCompilation_setPreference(compilation, ANEURALNETWORKS_PREFER_FAST_SINGLE_ANSWER));
  CHECK(ANeuralNetworksCompilation_finish(compilation));

  /* One input is a buffer, the other lies in shared memory, and so does the output. */
  float* input1 = malloc(BYTES);
  int input3_fd, sum_fd;
  float* input3 = make_shared("input", LENGTH, &input3_fd);
  const float* result = make_shared("output", LENGTH, &sum_fd);
  for (int i = 0; i < LENGTH; ++i) {
    input1[i] = first;
    input3[i] = second;
  }
  ANeuralNetworksMemory *input3_memory, *sum_memory;
  CHECK(ANeuralNetworksMemory_createFromFd(BYTES, PROT_READ, input3_fd, 0, &input3_memory));
  CHECK(ANeuralNetworksMemory_createFromFd(BYTES, PROT_READ | PROT_WRITE, sum_fd, 0, &sum_memory));
  ANeuralNetworksExecution* execution;
  CHECK(ANeuralNetworksExecution_create(compilation, &execution));
  CHECK(ANeuralNetworksExecution_setInput(execution, 0, NULL, input1, BYTES));
  CHECK(ANeuralNetworksExecution_setInputFromMemory(execution, 1, NULL, input3_memory, 0, BYTES));
  CHECK(ANeuralNetworksExecution_setOutputFromMemory(execution, 0, NULL, sum_memory, 0, BYTES));
  ANeuralNetworksEvent* end;
  CHECK(ANeuralNetworksExecution_startCompute(execution, &end));
  CHECK(ANeuralNetworksEvent_wait(end));
  ANeuralNetworksEvent_free(end);
  ANeuralNetworksExecution_free(execution);

  const float expected = (0.5f + first) + (0.5f + second);
  int wrong = 0;
  for (int i = 0; i < LENGTH; ++i) {
    wrong += !(fabsf(result[i] - expected) <= 1e-6f * fabsf(expected));
  }
  printf("(0.5 + %g) + (0.5 + %g) = %g; %d of %d elements are wrong\n", first, second, result[0], wrong, LENGTH);

  ANeuralNetworksMemory_free(input3_memory);
  ANeuralNetworksMemory_free(sum_memory);
  ANeuralNetworksCompilation_free(compilation);
  ANeuralNetworksModel_free(model);
  ANeuralNetworksMemory_free(weights_memory);
  munmap(weights, 2 * BYTES);
  munmap(input3, BYTES);
  munmap((void*)result, BYTES);
  close(input3_fd);
  close(sum_fd);
  free(input1);
  return wrong != 0;
}
