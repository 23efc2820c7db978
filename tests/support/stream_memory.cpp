#include "support/stream_memory.h"

#include <cstring>

namespace viaduct::test {

Event StreamMemory::copy(const char* stream, const Event& after, void* to, const void* from,
                         int64_t bytes, std::shared_ptr<std::string> owner) {
  const int on = device_.stream(stream);
  for (const Event& event : {device_.record_event(kComputeStream), after}) device_.wait(on, event);
  device_.launched(on);
  device_.push(on, stream, [=, owner = std::move(owner)] {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return true;
  });
  return device_.record_event(on);
}

SecondMemory::Id StreamMemory::put(const Tensor& value) {
  const auto bytes = std::make_shared<std::string>(static_cast<size_t>(value.bytes()), '\0');
  const Event copied = copy("offload", {}, bytes->data(), value.raw(), value.bytes(), bytes);
  held_[next_] = {bytes, copied};
  return next_++;
}

void StreamMemory::finish_put(Id id) {
  device_.wait(kComputeStream, held_.at(id).copied);
}

void StreamMemory::fetch(Id id, const Tensor& value) {
  Held& held = held_.at(id);
  held.copied =
      copy("fetch", held.copied, value.raw(), held.bytes->data(), value.bytes(), held.bytes);
}

void StreamMemory::take(Id id) {
  device_.wait(kComputeStream, held_.at(id).copied);
  held_.erase(id);
}

void StreamMemory::finish_fetch(Id id) {
  finish_put(id);
}

void StreamMemory::put_again(Id id, const Tensor& value) {
  Held& held = held_.at(id);
  held.copied =
      copy("offload", held.copied, held.bytes->data(), value.raw(), value.bytes(), held.bytes);
}

void StreamMemory::drop(Id id) noexcept {
  try {
    device_.wait(kComputeStream, held_.at(id).copied);
    held_.erase(id);
  } catch (...) {  // a rank failed: reported at the end of the run
  }
}

}  // namespace viaduct::test
