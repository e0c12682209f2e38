// Starting the server.
#pragma once

#include <sys/types.h>

#include <string>

namespace nnvk {

// Whether this program has rights that its caller lacks (set-user-ID, set-group-ID, capabilities of its file). No
// environment variable of the caller's may then decide what is run or read.
bool hasMoreRightsThanCaller();

// The command that is the server: NNVK_SERVER, or what is beside this library, or what PATH finds; empty where there is
// none. A program with more rights than its caller gets only what is beside the library, and only where root and the
// program's user alone can change it.
std::string findServer();

// Start `command serve` with two sockets as its descriptors 3 and 4; the process's number. It is no child of this
// process: nobody's wait() sees it, and no SIGCHLD comes. It notices by the first socket when this process has gone;
// through the second, `life`, nothing goes: it is as after `continueAtEnd`. Throws where it can't be started.
pid_t startServer(const std::string& command, int socket, int life);

// Have the kernel continue a stopped process, which then ends, when the other end of its socket `life` is closed.
void continueAtEnd(int life, pid_t process) noexcept;

// Whether a process is stopped, by SIGSTOP or a debugger.
bool isStopped(pid_t process);

}  // namespace nnvk
