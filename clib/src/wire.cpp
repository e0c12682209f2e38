#include "wire.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "error.hpp"

namespace nnvk {

Descriptor Descriptor::duplicate(int number, const char* what, int otherwise) {
  Descriptor copy(fcntl(number, F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    failSystem(what, errno, otherwise);
  }
  return copy;
}

namespace {

// poll() takes no more descriptors than the limit says, though more may be open; select() takes those that are open.
int awaitBySelect(pollfd* wanted, size_t count, int milliseconds) {
  int most = 0;
  for (size_t index = 0; index < count; ++index) {
    most = std::max(most, wanted[index].fd);
  }
  std::vector<fd_mask> readable(static_cast<size_t>(most) / NFDBITS + 1);
  const auto bitOf = [](int file) { return static_cast<fd_mask>(fd_mask{1} << (file % NFDBITS)); };
  for (size_t index = 0; index < count; ++index) {
    if (wanted[index].fd >= 0) {
      readable[static_cast<size_t>(wanted[index].fd) / NFDBITS] |= bitOf(wanted[index].fd);
    }
  }
  timeval limit{milliseconds / 1000, milliseconds % 1000 * 1000};
  const int ready = ::select(most + 1, reinterpret_cast<fd_set*>(readable.data()), nullptr, nullptr,
                             milliseconds < 0 ? nullptr : &limit);
  for (size_t index = 0; index < count; ++index) {
    const int file = wanted[index].fd;
    const bool is_ready = ready > 0 && file >= 0 && (readable[static_cast<size_t>(file) / NFDBITS] & bitOf(file)) != 0;
    wanted[index].revents = is_ready ? POLLIN : 0;
  }
  return ready;
}

}  // namespace

int await(pollfd* wanted, size_t count, int milliseconds) {
  int ready;
  while ((ready = poll(wanted, count, milliseconds)) < 0 && errno == EINTR) {
  }
  if (ready < 0 && errno == EINVAL) {
    while ((ready = awaitBySelect(wanted, count, milliseconds)) < 0 && errno == EINTR) {
    }
  }
  return ready;
}

Descriptor makeSharedMemory(const char* name) {
  Descriptor memory(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) {
    failSystem("shared memory can't be made", errno);
  }
  return memory;
}

void sealAgainstShrinking(const Descriptor& memory) {
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    failSystem("shared memory can't be sealed", errno);
  }
}

Packet& Packet::aligned(const void* data, size_t length) {
  bytes_.resize(bytes_.size() + (kAlignment - size() % kAlignment) % kAlignment);
  if (length > 0) {
    references_.push_back({bytes_.size(), data, length});
    referred_ += length;
  }
  return *this;
}

Packet& Packet::descriptor(int number) {
  descriptors_.push_back(number);
  return *this;
}

uint32_t Reader::count(size_t size) {
  const uint32_t number = u32();
  if (number > left() / size) {
    throw Lane::Broken("a reply ends too early");
  }
  return number;
}

const uint8_t* Reader::bytes(size_t length) {
  if (length > left()) {
    throw Lane::Broken("a reply ends too early");
  }
  const uint8_t* found = data_ + position_;
  position_ += length;
  return found;
}

namespace {

void writeAll(int file, std::vector<iovec> parts) {
  for (size_t first = 0; first < parts.size();) {
    const ssize_t written = writev(file, &parts[first], static_cast<int>(std::min<size_t>(parts.size() - first, IOV_MAX)));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      failSystem("a request can't be put into shared memory", written == 0 ? ENOSPC : errno);
    }
    auto left = static_cast<size_t>(written);
    for (; first < parts.size() && left >= parts[first].iov_len; ++first) {
      left -= parts[first].iov_len;
    }
    if (left > 0) {
      parts[first].iov_base = static_cast<uint8_t*>(parts[first].iov_base) + left;
      parts[first].iov_len -= left;
    }
  }
}

}  // namespace

void limitWaits(const Descriptor& socket) {
  const timeval slice{0, kSliceMilliseconds * 1000};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice);
}

void Lane::sendTo(int socket, const Packet& packet, Patience& patience) {
  if (packet.references_.empty() && packet.size() <= kLargestPacket) {
    sendSmall(socket, packet.bytes_.data(), packet.bytes_.size(), packet.descriptors_, patience);
    return;
  }
  std::vector<iovec> parts;
  size_t position = 0;
  const auto take = [&](size_t end) {
    if (end > position) {
      parts.push_back({const_cast<uint8_t*>(packet.bytes_.data() + position), end - position});
    }
    position = end;
  };
  for (const auto& reference : packet.references_) {
    take(reference.position);
    parts.push_back({const_cast<void*>(reference.data), reference.length});
  }
  take(packet.bytes_.size());
  const Descriptor memory = makeSharedMemory("nnvk-request");
  writeAll(memory.get(), std::move(parts));
  sealAgainstShrinking(memory);
  std::vector<int> descriptors = packet.descriptors_;
  descriptors.insert(descriptors.begin(), memory.get());
  Packet indirect(kIndirect);
  indirect.u64(packet.size());
  sendSmall(socket, indirect.bytes_.data(), indirect.bytes_.size(), descriptors, patience);
}

void Lane::sendSmall(int socket, const void* data, size_t size, const std::vector<int>& descriptors,
                     Patience& patience) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
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
    memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == ENOMEM || errno == ENOBUFS || errno == ETOOMANYREFS) {
      failSystem("a request can't be sent", errno, ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT);
    }
    if (errno == EAGAIN) {
      patience.look();
    } else if (errno != EINTR) {
      throw Broken(std::string("a request can't be sent: ") + strerror(errno));
    }
  }
}

Lane::Received Lane::receive(Patience& patience) {
  unmap();
  iovec part{buffer_.get(), kLargestPacket};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size;
  while ((size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN) {
      patience.look();
      message.msg_controllen = sizeof control;
    } else if (errno != EINTR) {
      throw Broken(std::string("nothing can be received: ") + strerror(errno));
    }
  }
  std::vector<Descriptor> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
        int number;
        memcpy(&number, CMSG_DATA(header) + at, sizeof number);
        descriptors.emplace_back(number);
      }
    }
  }
  if (size == 0) {
    throw Broken("the server has gone");
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    failSystem("there is no descriptor for what the server sends", EMFILE);
  }
  Received received;
  received.rest = Reader(buffer_.get(), static_cast<size_t>(size));
  uint32_t mark;
  if (static_cast<size_t>(size) >= sizeof mark && (memcpy(&mark, buffer_.get(), sizeof mark), mark == kIndirect)) {
    received.rest.u32();
    const uint64_t size_of_packet = received.rest.u64();
    if (descriptors.empty()) {
      throw Broken("a reply has no descriptor");
    }
    received.rest = map(descriptors.front(), size_of_packet);
  }
  received.code = received.rest.i32();
  received.reason = received.rest.string();
  return received;
}

Reader Lane::map(const Descriptor& memory, uint64_t size) {
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw Broken("the shared memory of a reply is not sealed against shrinking");
  }
  struct stat about;
  if (fstat(memory.get(), &about) != 0 || size == 0 || size > static_cast<uint64_t>(about.st_size)) {
    throw Broken("the shared memory of a reply has not the " + std::to_string(size) + " bytes that were announced");
  }
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    failSystem("a reply can't be mapped", errno, ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT);
  }
  mapped_ = mapped;
  mapped_size_ = size;
  return Reader(static_cast<const uint8_t*>(mapped), size);
}

void Lane::unmap() {
  if (mapped_ != nullptr) {
    munmap(std::exchange(mapped_, nullptr), mapped_size_);
  }
}

}  // namespace nnvk
