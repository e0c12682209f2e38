/** Logging: here, lines on standard error. */
#pragma once

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How important a message is. */
typedef enum android_LogPriority {
  ANDROID_LOG_UNKNOWN = 0,
  ANDROID_LOG_DEFAULT,
  ANDROID_LOG_VERBOSE,
  ANDROID_LOG_DEBUG,
  ANDROID_LOG_INFO,
  ANDROID_LOG_WARN,
  ANDROID_LOG_ERROR,
  ANDROID_LOG_FATAL,
  ANDROID_LOG_SILENT,
} android_LogPriority;

/** Writes a line. Returns 1, or a negative number where it can't be written. A tag or text of NULL is empty. */
int __android_log_write(int prio, const char* tag, const char* text);
/** Writes a line, as printf. */
int __android_log_print(int prio, const char* tag, const char* fmt, ...) __attribute__((__format__(printf, 3, 4)));
/** Writes a line, as vprintf. */
int __android_log_vprint(int prio, const char* tag, const char* fmt, va_list ap)
    __attribute__((__format__(printf, 3, 0)));
/** Writes what was wrong and ends the program. Without a format it is the condition that did not hold. */
void __android_log_assert(const char* cond, const char* tag, const char* fmt, ...)
    __attribute__((__noreturn__, __format__(printf, 3, 4)));

#ifdef __cplusplus
}
#endif
