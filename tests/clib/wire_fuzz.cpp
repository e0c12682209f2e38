// Hostile replies to the C library: `wire_fuzz COUNT SEED`. It prints how many were understood, and ends with 0.
#include <android/log.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "error.hpp"
#include "wire.hpp"

using namespace nnvk;

extern "C" int __android_log_print(int, const char*, const char*, ...) { return 0; }

namespace {

std::mt19937_64 generator;

uint64_t below(uint64_t limit) { return generator() % limit; }

// Sizes around all limits, most of them small.
uint64_t odd() {
  constexpr uint64_t kOdd[] = {0, 1, 2, 3, 7, 8, 255, 4095, 4096, 4097, 65535, 65536, uint64_t{1} << 31,
                               UINT32_MAX, uint64_t{1} << 40, uint64_t{1} << 63, UINT64_MAX};
  return below(2) == 0 ? below(64) : kOdd[below(std::size(kOdd))];
}

template <class T>
void put(std::vector<uint8_t>& bytes, T value) {
  bytes.resize(bytes.size() + sizeof value);
  memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
}

// A reply as it should be, and sometimes something else.
std::vector<uint8_t> reply() {
  std::vector<uint8_t> bytes;
  const uint32_t length = below(32);
  put(bytes, static_cast<int32_t>(below(10)));
  put(bytes, below(4) == 0 ? static_cast<uint32_t>(odd()) : length);
  bytes.resize(bytes.size() + length, 'x');
  for (uint64_t left = below(6); left > 0; --left) {
    put(bytes, static_cast<uint32_t>(odd()));
  }
  for (uint64_t left = below(3); left > 0; --left) {
    bytes[below(bytes.size())] = static_cast<uint8_t>(generator());
  }
  if (below(4) == 0) {
    bytes.resize(1 + below(bytes.size()));
  }
  return bytes;
}

// Shared memory with a reply, or a descriptor of something else.
Descriptor memory(size_t& size) {
  if (below(8) == 0) {
    size = odd();
    return Descriptor(open(below(2) == 0 ? "/dev/null" : "/", O_RDONLY | O_CLOEXEC));
  }
  const auto content = reply();
  Descriptor made(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (write(made.get(), content.data(), content.size()) < 0) {
    abort();
  }
  if (below(4) != 0) {
    sealAgainstShrinking(made);
  } else if (below(2) == 0 && ftruncate(made.get(), static_cast<off_t>(below(3))) != 0) {
    abort();
  }
  size = below(3) == 0 ? odd() : content.size();
  return made;
}

void sendOne(int socket) {
  std::vector<uint8_t> bytes;
  std::vector<Descriptor> descriptors;
  if (below(3) == 0) {
    size_t size = 0;
    if (below(8) != 0) {
      descriptors.push_back(memory(size));
    }
    put(bytes, kIndirect);
    put(bytes, static_cast<uint64_t>(size));
    bytes.resize(below(8) == 0 ? 1 + below(bytes.size()) : bytes.size());
  } else {
    bytes = reply();
  }
  for (uint64_t left = below(16) == 0 ? below(8) : 0; left > 0; --left) {
    descriptors.push_back(Descriptor::duplicate(socket, "a descriptor"));
  }
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 16)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    for (size_t index = 0; index < descriptors.size(); ++index) {
      const int number = descriptors[index].get();
      memcpy(CMSG_DATA(header) + index * sizeof number, &number, sizeof number);
    }
  }
  if (sendmsg(socket, &message, 0) < 0) {
    perror("sendmsg");
    abort();
  }
}

// As those do who understand replies.
uint64_t readAll(Reader rest) {
  uint64_t sum = 0;
  switch (below(4)) {
    case 0:
      return rest.string().size() + rest.u64();
    case 1:
      for (uint32_t left = rest.count(sizeof(int32_t)); left > 0; --left) {
        sum += rest.u32();
      }
      return sum;
    default:
      for (const size_t left = rest.left(); sum < left; ++sum) {
        rest.u8();
      }
      return sum;
  }
}

}  // namespace

int main(int, char** arguments) {
  const long count = atol(arguments[1]);
  generator.seed(static_cast<uint64_t>(atol(arguments[2])));
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return 1;
  }
  const Descriptor server(sockets[1]);
  Lane lane{Descriptor(sockets[0])};
  struct Never final : Patience {
    void look() override { abort(); }
  } never;
  long understood = 0, broken = 0, refused = 0;
  for (long left = count; left > 0; --left) {
    sendOne(server.get());
    try {
      readAll(lane.receive(never).rest);
      ++understood;
    } catch (const Lane::Broken&) {
      ++broken;
    } catch (const Error&) {
      ++refused;
    }
  }
  const Descriptor next = Descriptor::duplicate(server.get(), "a descriptor");
  printf("%ld understood, %ld broken, %ld refused, %d\n", understood, broken, refused, next.get());
  return next.get() < 16 ? 0 : 2;  // else descriptors stay open
}
