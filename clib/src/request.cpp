#include "request.hpp"

namespace nnvk {

void Request::put(const ANeuralNetworksOperandType* type) {
  packet_.u8(type != nullptr);
  if (type == nullptr) {
    return;
  }
  requiredArray(type->dimensions, type->dimensionCount, "type->dimensions");
  packet_.i32(type->type).f32(type->scale).i32(type->zeroPoint).u32s(type->dimensions, type->dimensionCount);
}

void Request::put(const ANeuralNetworksSymmPerChannelQuantParams* channels) {
  requiredArray(channels->scales, channels->scaleCount, "channelQuant->scales");
  packet_.u32(channels->channelDim).f32s(channels->scales, channels->scaleCount);
}

void Request::put(const Object& object) {
  if (object.server != server_) {
    fail(ANEURALNETWORKS_DEAD_OBJECT, "an object lives in a server that has died");
  }
  packet_.u64(object.number);
}

void Request::put(const ANeuralNetworksDevice* const* devices, uint32_t count) {
  packet_.u32(count);
  for (uint32_t index = 0; index < count; ++index) {
    put(*devices[index]);
  }
}

void Request::put(const void* data, size_t length) {
  packet_.u8(data != nullptr);
  if (data != nullptr) {
    packet_.u64(length).aligned(data, length);
  }
}

void Request::ask(Patience* also) {
  lane_ = server_->lane();
  lane_.send(packet_);
  awaitReply(also);
}

void Request::awaitReply(Patience* also) {
  reply_ = lane_.receive(also);
  if (reply_.rest.left() == 0) {
    check();
  }
}

bool Request::hasReply() const {
  pollfd wanted{lane_.socket(), POLLIN, 0};
  return await(&wanted, 1, 0) > 0;
}

Reader Request::askAll(Patience* also) {
  ask(also);
  check();
  return reply_.rest;
}

void Request::check() const {
  if (reply_.code != ANEURALNETWORKS_NO_ERROR) {
    throw Error{reply_.code, reply_.reason};
  }
}

}  // namespace nnvk
