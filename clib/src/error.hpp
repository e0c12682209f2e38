// Errors on their way from where they are noticed to the C function that returns them.
#pragma once

#include <string>
#include <type_traits>

#include <android/NeuralNetworksTypes.h>

namespace nnvk {

// A result code and what was wrong, for the log.
struct Error {
  int code;
  std::string reason;
};

// A result code whose reason was logged before.
struct Known {
  int code;
};

[[noreturn]] void fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

#define NNVK_BAD_DATA(...) ::nnvk::fail(ANEURALNETWORKS_BAD_DATA, __VA_ARGS__)
#define NNVK_BAD_STATE(...) ::nnvk::fail(ANEURALNETWORKS_BAD_STATE, __VA_ARGS__)

// The result code of an errno: want of descriptors, want of memory, or else.
int systemCode(int error, int otherwise);
// Throws it.
[[noreturn]] void failSystem(const char* what, int error, int otherwise = ANEURALNETWORKS_OP_FAILED);

// Logs the exception that is being handled, and returns its code. Only within a handler.
int caught(const char* function) noexcept;

// Runs the body of a C function, so that no exception leaves it. `call` returns a code, or nothing on success.
template <class Call>
int guarded(const char* function, Call call) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return ANEURALNETWORKS_NO_ERROR;
    } else {
      return call();
    }
  } catch (...) {
    return caught(function);
  }
}

inline void required(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    fail(ANEURALNETWORKS_UNEXPECTED_NULL, "%s is NULL", name);
  }
}

}  // namespace nnvk
