#include "error.hpp"

#include <android/log.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

namespace nnvk {

namespace {

void log(const char* function, const char* reason) {
  __android_log_print(ANDROID_LOG_ERROR, "nnvk", "%s: %s", function, reason);
}

}  // namespace

void fail(int code, const char* format, ...) {
  char reason[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  throw Error{code, reason};
}

int systemCode(int error, int otherwise) {
  if (error == EMFILE || error == ENFILE || error == ETOOMANYREFS) {
    return ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT;
  }
  return error == ENOMEM || error == ENOSPC || error == EAGAIN || error == ENOBUFS ? ANEURALNETWORKS_OUT_OF_MEMORY
                                                                                   : otherwise;
}

void failSystem(const char* what, int error, int otherwise) {
  fail(systemCode(error, otherwise), "%s: %s", what, strerror(error));
}

int caught(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    log(function, error.reason.c_str());
    return error.code;
  } catch (const Known& known) {
    return known.code;
  } catch (const std::bad_alloc&) {
    log(function, "there is not enough memory");
    return ANEURALNETWORKS_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    log(function, error.what());
    return ANEURALNETWORKS_OP_FAILED;
  } catch (...) {
    log(function, "something unknown was thrown");
    return ANEURALNETWORKS_OP_FAILED;
  }
}

}  // namespace nnvk
