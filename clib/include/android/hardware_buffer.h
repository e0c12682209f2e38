/** Hardware buffers in the BLOB form: memory that processes share, here a memfd. Images are not supported. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the content is. Only BLOB can be allocated. */
enum AHardwareBuffer_Format {
  AHARDWAREBUFFER_FORMAT_R8G8B8A8_UNORM = 1,
  AHARDWAREBUFFER_FORMAT_R8G8B8X8_UNORM = 2,
  AHARDWAREBUFFER_FORMAT_R8G8B8_UNORM = 3,
  AHARDWAREBUFFER_FORMAT_R5G6B5_UNORM = 4,
  AHARDWAREBUFFER_FORMAT_R16G16B16A16_FLOAT = 0x16,
  /** Bytes: width of them, height and layers are 1. */
  AHARDWAREBUFFER_FORMAT_BLOB = 0x21,
};

/** Who will use it how; bits. */
enum AHardwareBuffer_UsageFlags {
  AHARDWAREBUFFER_USAGE_CPU_READ_NEVER = 0,
  AHARDWAREBUFFER_USAGE_CPU_READ_RARELY = 2,
  AHARDWAREBUFFER_USAGE_CPU_READ_OFTEN = 3,
  AHARDWAREBUFFER_USAGE_CPU_READ_MASK = 0xF,
  AHARDWAREBUFFER_USAGE_CPU_WRITE_NEVER = 0 << 4,
  AHARDWAREBUFFER_USAGE_CPU_WRITE_RARELY = 2 << 4,
  AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN = 3 << 4,
  AHARDWAREBUFFER_USAGE_CPU_WRITE_MASK = 0xF << 4,
  AHARDWAREBUFFER_USAGE_GPU_DATA_BUFFER = 1 << 24,
};

/** A hardware buffer. */
typedef struct AHardwareBuffer AHardwareBuffer;

/** What a buffer is like. */
typedef struct AHardwareBuffer_Desc {
  uint32_t width;
  uint32_t height;
  uint32_t layers;
  /** An AHardwareBuffer_Format. */
  uint32_t format;
  /** AHardwareBuffer_UsageFlags. */
  uint64_t usage;
  /** Given by AHardwareBuffer_describe. */
  uint32_t stride;
  /** 0. */
  uint32_t rfu0;
  /** 0. */
  uint64_t rfu1;
} AHardwareBuffer_Desc;

/** A part of an image. */
typedef struct ARect {
  int32_t left;
  int32_t top;
  int32_t right;
  int32_t bottom;
} ARect;

/** Makes a buffer, which is released once it is not needed any more. Returns 0, or a negative errno. */
int AHardwareBuffer_allocate(const AHardwareBuffer_Desc* desc, AHardwareBuffer** outBuffer);
/** One user more. */
void AHardwareBuffer_acquire(AHardwareBuffer* buffer);
/** One user less; without users it is destroyed. */
void AHardwareBuffer_release(AHardwareBuffer* buffer);
/** Tells what it is like. */
void AHardwareBuffer_describe(const AHardwareBuffer* buffer, AHardwareBuffer_Desc* outDesc);
/** Gives the bytes, once `fence`, a descriptor that it closes (-1: none), is readable. `rect` is NULL. Returns 0, or a
 * negative errno. */
int AHardwareBuffer_lock(AHardwareBuffer* buffer, uint64_t usage, int32_t fence, const ARect* rect,
                         void** outVirtualAddress);
/** As AHardwareBuffer_lock; bytes per pixel and per row are 1 and the width. */
int AHardwareBuffer_lockAndGetInfo(AHardwareBuffer* buffer, uint64_t usage, int32_t fence, const ARect* rect,
                                   void** outVirtualAddress, int32_t* outBytesPerPixel, int32_t* outBytesPerStride);
/** Ends the use of the bytes. `fence`, unless NULL, becomes -1: it is done at once. Returns 0, or a negative errno. */
int AHardwareBuffer_unlock(AHardwareBuffer* buffer, int32_t* fence);
/** Whether AHardwareBuffer_allocate takes such a description: 1 or 0. */
int AHardwareBuffer_isSupported(const AHardwareBuffer_Desc* desc);
/** A number that no other buffer of this process has. */
int AHardwareBuffer_getId(const AHardwareBuffer* buffer, uint64_t* outId);
/** Sends it to another process. Returns 0, or a negative errno. */
int AHardwareBuffer_sendHandleToUnixSocket(const AHardwareBuffer* buffer, int socketFd);
/** Receives what another process has sent. Returns 0, or a negative errno. */
int AHardwareBuffer_recvHandleFromUnixSocket(int socketFd, AHardwareBuffer** outBuffer);

#ifdef __cplusplus
}
#endif
