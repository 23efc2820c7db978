#include "support/later_memory.h"

#include <algorithm>
#include <cstring>

namespace viaduct::test {

SecondMemory::Id LaterMemory::put(const Tensor& value) {
  go_on();
  const auto bytes = static_cast<size_t>(value.bytes());
  held_[next_] = {std::vector<std::byte>(bytes, std::byte{0xff}), value.raw(), true};
  bytes_ += value.bytes();
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return next_++;
}

void LaterMemory::finish_put(Id id) {
  go_on();
  finish(id);
}

void LaterMemory::fetch(Id id, const Tensor& value) {
  go_on();
  Held& held = held_.at(id);
  held.device = value.raw();
  held.leaves = false;
  std::memset(held.device, 0xff, held.bytes.size());
}

void LaterMemory::take(Id id) {
  go_on();
  finish(id);
  drop(id);
}

void LaterMemory::finish_fetch(Id id) {
  finish_put(id);
}

void LaterMemory::put_again(Id id, const Tensor& value) {
  go_on();
  Held& held = held_.at(id);
  std::fill(held.bytes.begin(), held.bytes.end(), std::byte{0xff});
  held.device = value.raw();
  held.leaves = true;
}

void LaterMemory::drop(Id id) noexcept {
  bytes_ -= static_cast<int64_t>(held_.at(id).bytes.size());
  held_.erase(id);
}

void LaterMemory::go_on() {
  for (auto& [id, held] : held_) {
    if (held.device == nullptr || random_() % 4 != 0) continue;
    copy(held);
    ++early_;
  }
}

void LaterMemory::copy(Held& held) {
  void* host = held.bytes.data();
  std::memcpy(held.leaves ? host : held.device, held.leaves ? held.device : host,
              held.bytes.size());
  held.device = nullptr;
  ++copies_;
}

void LaterMemory::finish(Id id) {
  Held& held = held_.at(id);
  if (held.device != nullptr) copy(held);
}

}  // namespace viaduct::test
