#include "spawn.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "error.hpp"
#include "wire.hpp"

extern char** environ;

namespace nnvk {

namespace {

// For functions that run on another stack than the thread's own, and that only _exit() or execve() leave. Sanitizers
// would keep their marks of that stack.
#define NNVK_OTHER_STACK __attribute__((no_sanitize("address", "thread")))

constexpr int kSocket = 3, kLife = 4;
constexpr size_t kStack = 256 * 1024;

bool isExecutable(const std::string& path) {
  return access(path.c_str(), X_OK) == 0;
}

// Whether nobody but root and the user whose rights this program has can put something else in a file's place: it and
// all folders above it are theirs alone. In a folder with the sticky bit others can't replace what is not theirs.
bool isTheirsAlone(std::string path) {
  for (bool is_file = true;; is_file = false) {
    struct stat status;
    if (lstat(path.empty() ? "/" : path.c_str(), &status) != 0 || S_ISLNK(status.st_mode) ||
        (status.st_uid != 0 && status.st_uid != geteuid())) {
      return false;
    }
    const bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (others_write && (is_file || (status.st_mode & S_ISVTX) == 0)) {
      return false;
    }
    if (path.empty()) {
      return true;
    }
    path.resize(path.rfind('/'));
  }
}

// The library lies in <prefix>/lib/python3.x/site-packages/nnvk/lib, the command in <prefix>/bin.
std::string besideLibrary() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&findServer), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::unique_ptr<char, decltype(&free)> path(realpath(info.dli_fname, nullptr), &free);
  if (path == nullptr) {
    return "";
  }
  std::string folder = path.get();
  for (int level = 0; level < 7; ++level) {
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos) {
      return "";
    }
    folder.resize(slash);
    std::string command = folder + "/bin/nnvk";
    if (isExecutable(command) && (!hasMoreRightsThanCaller() || isTheirsAlone(command))) {
      return command;
    }
  }
  return "";
}

std::string inPath() {
  const char* path = getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const size_t end = rest.find(':');
    const std::string command = std::string(rest.substr(0, end)) + "/nnvk";
    if (command.front() == '/' && isExecutable(command)) {
      return command;
    }
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return "";
}

// The server is a Python of its own: what the application's Python or its tools are told is none of its business.
bool isForServer(std::string_view variable) {
  return variable.rfind("PYTHON", 0) != 0 && variable.rfind("LD_PRELOAD=", 0) != 0;
}

// The environment of a server with more rights than the caller of its application: nothing of the caller's. This
// server stores no files, because it would store them in the caller's home folder.
char* kOwnEnvironment[] = {
    const_cast<char*>("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    const_cast<char*>("HOME=/nonexistent"), const_cast<char*>("LANG=C.UTF-8"), const_cast<char*>("NNVK_CACHE_DIR=0")};

std::vector<char*> environmentOfServer() {
  std::vector<char*> environment;
  if (hasMoreRightsThanCaller()) {
    environment.assign(std::begin(kOwnEnvironment), std::end(kOwnEnvironment));
  } else {
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
      if (isForServer(*variable)) {
        environment.push_back(*variable);
      }
    }
  }
  environment.push_back(nullptr);
  return environment;
}

struct Start {
  const char* command;
  char* const* arguments;
  char* const* environment;
  char* stack;  // of the process that becomes the server: its upper end
  int socket;
  int life;
  volatile int error;
  volatile pid_t server;
};

// In the process that becomes the server. It shares the memory of the application until it executes the command, and
// so makes nothing but system calls.
NNVK_OTHER_STACK int become(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  // The limit of descriptors that counts is the server's own: it has none of the application's.
  rlimit most;
  if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
  }
  const int null = open("/dev/null", O_RDWR);
  const int socket = fcntl(start.socket, F_DUPFD, kLife + 1);
  const int life = fcntl(start.life, F_DUPFD, kLife + 1);
  if (null < 0 || socket < 0 || life < 0) {
    start.error = errno;
    _exit(127);
  }
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  if (fcntl(STDERR_FILENO, F_GETFD) < 0) {
    dup2(null, STDERR_FILENO);
  }
  if (dup2(socket, kSocket) < 0 || dup2(life, kLife) < 0) {
    start.error = errno;
    _exit(127);
  }
  continueAtEnd(kLife, getpid());
#ifdef SYS_close_range
  const bool closed = syscall(SYS_close_range, kLife + 1, ~0U, 0) == 0;
#else
  const bool closed = false;
#endif
  if (!closed) {
    for (int number = kLife + 1; number < 65536; ++number) {
      close(number);
    }
  }
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(start.command, start.arguments, start.environment);
  start.error = errno;
  _exit(127);
}

// In the process between the two, which ends at once, so that the server is nobody's child. It leads a session of its
// own: Ctrl-C is for the application to decide on.
NNVK_OTHER_STACK int between(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  setsid();
  // Not vfork(), of which sanitizers make their own that takes this stack for the thread's.
  const pid_t server = clone(become, start.stack, CLONE_VM | CLONE_VFORK, &start);
  if (server < 0) {
    start.error = errno;
  }
  start.server = server;
  _exit(0);
}

}  // namespace

bool hasMoreRightsThanCaller() { return getauxval(AT_SECURE) != 0; }

std::string findServer() {
  if (hasMoreRightsThanCaller()) {
    return besideLibrary();
  }
  const char* chosen = getenv("NNVK_SERVER");
  if (chosen != nullptr && *chosen != '\0') {
    return chosen;
  }
  std::string found = besideLibrary();
  return found.empty() ? inPath() : found;
}

NNVK_OTHER_STACK void continueAtEnd(int life, pid_t process) noexcept {
  // Where the kernel refuses one of these, a stopped process stays until somebody continues or kills it.
  if (fcntl(life, F_SETOWN, process) == 0 && fcntl(life, F_SETSIG, SIGCONT) == 0) {
    fcntl(life, F_SETFL, fcntl(life, F_GETFL) | O_ASYNC);
  }
}

bool isStopped(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  const std::unique_ptr<FILE, decltype(&fclose)> file(fopen(path.c_str(), "re"), &fclose);
  char text[256];  // "123 (name) T ...", with a name of 15 characters at most
  const size_t size = file == nullptr ? 0 : fread(text, 1, sizeof text, file.get());
  const std::string_view read(text, size);
  const size_t end = read.rfind(')');
  return end != std::string_view::npos && end + 2 < size && (read[end + 2] == 'T' || read[end + 2] == 't');
}

pid_t startServer(const std::string& command, int socket, int life) {
  std::vector<char*> environment = environmentOfServer();
  std::string name = command;
  char serve[] = "serve", option[] = "--socket", number[] = {'0' + kSocket, '\0'};
  char* arguments[] = {name.data(), serve, option, number, nullptr};
  void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) {
    failSystem("there is no memory for a new process", errno);
  }
  Start start{command.c_str(), arguments, environment.data(), static_cast<char*>(stack) + kStack / 2, socket, life, 0, 0};
  // No handler of the application may run in the new processes, which share its memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Not fork(): that would run the application's handlers for forks. Without SIGCHLD in the flags there is none when
  // the process between ends, and only a wait with __WCLONE sees it.
  const int child = clone(between, static_cast<char*>(stack) + kStack, CLONE_VM | CLONE_VFORK, &start);
  const int error = errno;
  if (child > 0) {
    while (waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  munmap(stack, kStack);
  if (child < 0) {
    failSystem("no process can be started", error, ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT);
  }
  if (start.error != 0) {
    fail(systemCode(start.error, ANEURALNETWORKS_UNAVAILABLE_DEVICE), "the server %s can't be started: %s",
         command.c_str(), strerror(start.error));
  }
  return start.server;
}

}  // namespace nnvk
