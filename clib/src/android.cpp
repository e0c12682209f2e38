// The other functions of Android that NNAPI programs use: shared memory, hardware buffers, the log.
#include <android/log.h>
#include <android/sharedmem.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "hardware_buffer.hpp"
#include "request.hpp"

using nnvk::Descriptor;

namespace {

// Runs what throws; the errno that it came to, negative.
template <class Call>
int negativeErrno(Call call) noexcept {
  try {
    call();
    return 0;
  } catch (const nnvk::Error& error) {
    __android_log_print(ANDROID_LOG_ERROR, "nnvk", "%s", error.reason.c_str());
    return error.code == ANEURALNETWORKS_OUT_OF_MEMORY ? -ENOMEM
           : error.code == ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT ? -EMFILE
                                                                         : -EINVAL;
  } catch (...) {
    return -ENOMEM;
  }
}

// A memfd of a size that can't change.
Descriptor makeSized(const char* name, size_t size) {
  Descriptor memory = nnvk::makeSharedMemory(name);
  if (size > static_cast<size_t>(LLONG_MAX) || ftruncate(memory.get(), static_cast<off_t>(size)) != 0) {
    nnvk::failSystem("shared memory can't have this size", ENOMEM);
  }
  nnvk::sealAgainstShrinking(memory);
  return memory;
}

bool isBlob(const AHardwareBuffer_Desc& desc) {
  return desc.format == AHARDWAREBUFFER_FORMAT_BLOB && desc.width > 0 && desc.height == 1 && desc.layers == 1 &&
         desc.rfu0 == 0 && desc.rfu1 == 0;
}

// Logs why a call is refused.
int invalid(const char* function, const char* format, ...) {
  char reason[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  __android_log_print(ANDROID_LOG_ERROR, "nnvk", "%s: %s", function, reason);
  return -EINVAL;
}

void* mapAll(const Descriptor& memory, size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (data == MAP_FAILED) {
    nnvk::failSystem("the hardware buffer can't be mapped", errno, ANEURALNETWORKS_OUT_OF_MEMORY);
  }
  return data;
}

uint64_t nextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

// --- shared memory ---

extern "C" NNVK_EXPORT int ASharedMemory_create(const char* name, size_t size) {
  if (size == 0) {
    return -EINVAL;
  }
  int made = -1;
  const int error = negativeErrno([&] { made = makeSized(name == nullptr ? "none" : name, size).release(); });
  if (error != 0) {
    errno = -error;
    return -1;
  }
  return made;
}

extern "C" NNVK_EXPORT size_t ASharedMemory_getSize(int fd) {
  struct stat status;
  return fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &status) != 0 ? 0 : static_cast<size_t>(status.st_size);
}

extern "C" NNVK_EXPORT int ASharedMemory_setProt(int fd, int prot) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return -1;
  }
  if ((prot & PROT_READ) == 0 || (prot & ~(PROT_READ | PROT_WRITE)) != 0) {
    errno = EINVAL;
    return -1;
  }
  if ((prot & PROT_WRITE) != 0) {
    if ((seals & F_SEAL_FUTURE_WRITE) != 0) {
      errno = EINVAL;
      return -1;
    }
    return 0;
  }
  return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
}

// --- hardware buffers ---

AHardwareBuffer::AHardwareBuffer(Descriptor memory, const AHardwareBuffer_Desc& desc)
    : memory(std::move(memory)), desc(desc), data(mapAll(this->memory, desc.width)), id(nextId()) {}

extern "C" NNVK_EXPORT int AHardwareBuffer_allocate(const AHardwareBuffer_Desc* desc, AHardwareBuffer** outBuffer) {
  if (desc == nullptr || outBuffer == nullptr) {
    return invalid("AHardwareBuffer_allocate", "the description and the result must not be null");
  }
  if (!isBlob(*desc)) {
    return invalid("AHardwareBuffer_allocate",
                   "the buffer must be of format BLOB (0x%x) with a width in bytes, height 1 and layers 1; got format "
                   "0x%x, width %u, height %u, layers %u",
                   AHARDWAREBUFFER_FORMAT_BLOB, desc->format, desc->width, desc->height, desc->layers);
  }
  return negativeErrno([&] {
    AHardwareBuffer_Desc full = *desc;
    full.stride = full.width;
    *outBuffer = new AHardwareBuffer(makeSized("nnvk-hardware-buffer", desc->width), full);
  });
}

extern "C" NNVK_EXPORT void AHardwareBuffer_acquire(AHardwareBuffer* buffer) { ++buffer->users; }

extern "C" NNVK_EXPORT void AHardwareBuffer_release(AHardwareBuffer* buffer) {
  if (buffer != nullptr && --buffer->users == 0) {
    delete buffer;
  }
}

extern "C" NNVK_EXPORT void AHardwareBuffer_describe(const AHardwareBuffer* buffer, AHardwareBuffer_Desc* outDesc) {
  if (buffer != nullptr && outDesc != nullptr) {
    *outDesc = buffer->desc;
  }
}

extern "C" NNVK_EXPORT int AHardwareBuffer_lock(AHardwareBuffer* buffer, uint64_t, int32_t fence, const ARect* rect,
                                                void** outVirtualAddress) {
  if (buffer == nullptr || outVirtualAddress == nullptr) {
    return invalid("AHardwareBuffer_lock", "the buffer and the address must not be null");
  }
  if (rect != nullptr) {
    return invalid("AHardwareBuffer_lock", "a buffer of format BLOB is locked as a whole: rect must be null");
  }
  if (fence >= 0) {
    const Descriptor owned(fence);
    pollfd wanted{fence, POLLIN, 0};
    nnvk::await(&wanted, 1, -1);
  }
  *outVirtualAddress = buffer->data;
  return 0;
}

extern "C" NNVK_EXPORT int AHardwareBuffer_lockAndGetInfo(AHardwareBuffer* buffer, uint64_t usage, int32_t fence,
                                                          const ARect* rect, void** outVirtualAddress,
                                                          int32_t* outBytesPerPixel, int32_t* outBytesPerStride) {
  if (outBytesPerPixel == nullptr || outBytesPerStride == nullptr) {
    return -EINVAL;
  }
  const int error = AHardwareBuffer_lock(buffer, usage, fence, rect, outVirtualAddress);
  if (error == 0) {
    *outBytesPerPixel = 1;
    *outBytesPerStride = static_cast<int32_t>(buffer->desc.stride);
  }
  return error;
}

extern "C" NNVK_EXPORT int AHardwareBuffer_unlock(AHardwareBuffer* buffer, int32_t* fence) {
  if (fence != nullptr) {
    *fence = -1;
  }
  return buffer == nullptr ? -EINVAL : 0;
}

extern "C" NNVK_EXPORT int AHardwareBuffer_isSupported(const AHardwareBuffer_Desc* desc) {
  return desc != nullptr && isBlob(*desc);
}

extern "C" NNVK_EXPORT int AHardwareBuffer_getId(const AHardwareBuffer* buffer, uint64_t* outId) {
  if (buffer == nullptr || outId == nullptr) {
    return -EINVAL;
  }
  *outId = buffer->id;
  return 0;
}

extern "C" NNVK_EXPORT int AHardwareBuffer_sendHandleToUnixSocket(const AHardwareBuffer* buffer, int socketFd) {
  if (buffer == nullptr) {
    return -EINVAL;
  }
  iovec part{const_cast<AHardwareBuffer_Desc*>(&buffer->desc), sizeof buffer->desc};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = buffer->memory.get();
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  ssize_t sent;
  while ((sent = sendmsg(socketFd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent < 0 ? -errno : 0;
}

extern "C" NNVK_EXPORT int AHardwareBuffer_recvHandleFromUnixSocket(int socketFd, AHardwareBuffer** outBuffer) {
  if (outBuffer == nullptr) {
    return -EINVAL;
  }
  AHardwareBuffer_Desc desc{};
  iovec part{&desc, sizeof desc};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  while ((received = recvmsg(socketFd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (received < 0) {
    return -errno;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr && (message.msg_flags & MSG_CTRUNC) != 0) {
    return -EMFILE;
  }
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -EINVAL;
  }
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  Descriptor memory(descriptor);
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (received != static_cast<ssize_t>(sizeof desc) || !isBlob(desc) || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      ASharedMemory_getSize(memory.get()) < desc.width) {
    return invalid("AHardwareBuffer_recvHandleFromUnixSocket", "what came is no buffer of format BLOB");
  }
  return negativeErrno([&] { *outBuffer = new AHardwareBuffer(std::move(memory), desc); });
}

// --- the log ---

extern "C" NNVK_EXPORT int __android_log_write(int prio, const char* tag, const char* text) {
  static const char kLetters[] = "??VDIWEF?";
  const char letter = prio < 0 || prio > ANDROID_LOG_SILENT ? '?' : kLetters[prio];
  if (prio == ANDROID_LOG_SILENT) {
    return 1;
  }
  return fprintf(stderr, "%c %s: %s\n", letter, tag == nullptr ? "" : tag, text == nullptr ? "" : text) < 0 ? -EBADF : 1;
}

extern "C" NNVK_EXPORT int __android_log_vprint(int prio, const char* tag, const char* fmt, va_list ap) {
  char text[4096];
  vsnprintf(text, sizeof text, fmt, ap);
  return __android_log_write(prio, tag, text);
}

extern "C" NNVK_EXPORT int __android_log_print(int prio, const char* tag, const char* fmt, ...) {
  va_list arguments;
  va_start(arguments, fmt);
  const int result = __android_log_vprint(prio, tag, fmt, arguments);
  va_end(arguments);
  return result;
}

extern "C" NNVK_EXPORT void __android_log_assert(const char* cond, const char* tag, const char* fmt, ...) {
  if (fmt != nullptr) {
    va_list arguments;
    va_start(arguments, fmt);
    __android_log_vprint(ANDROID_LOG_FATAL, tag, fmt, arguments);
    va_end(arguments);
  } else {
    __android_log_print(ANDROID_LOG_FATAL, tag, "assertion failed: %s", cond == nullptr ? "" : cond);
  }
  abort();
}
