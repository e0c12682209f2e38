/** Shared memory by descriptors: here, memfds whose sizes can't be changed. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes shared memory of a size in bytes. Returns its descriptor, which the caller closes; -1 with errno after a
 * failure, -EINVAL where the size is 0. The name is for people, and may be NULL. */
int ASharedMemory_create(const char* name, size_t size);
/** Its size in bytes; 0 where the descriptor is of no shared memory. */
size_t ASharedMemory_getSize(int fd);
/** Takes from later mappings what `prot` (PROT_READ, with or without PROT_WRITE) does not have. Returns 0, or -1 with
 * errno: what was taken does not come back, and reading can't be taken. */
int ASharedMemory_setProt(int fd, int prot);

#ifdef __cplusplus
}
#endif
