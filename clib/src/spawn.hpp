// Starting the server.
#pragma once

#include <sys/types.h>

#include <string>

namespace nnvk {

// The command that is the server: NNVK_SERVER, or what is beside this library, or what PATH finds. Empty: none.
std::string findServer();

// Start `command serve` with the socket as its descriptor 3; the process's number. It is no child of this process: nobody's wait() sees it,
// and no SIGCHLD comes. It notices by the socket when this process has gone. Throws where it can't be started.
pid_t startServer(const std::string& command, int socket);

}  // namespace nnvk
