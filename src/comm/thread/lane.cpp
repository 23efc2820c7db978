#include "comm/thread/lane.h"

#include <mutex>

namespace viaduct {

Lane::Lane(ThreadWorld& world, const std::vector<int>& members)
    : world_(world),
      members_(std::make_shared<const std::vector<int>>(members)),
      next_(members.size()) {}

SharedOperation& Lane::operation(int64_t number) {
  auto& place = ring_[static_cast<size_t>(number) % kRing];
  if (place != nullptr && place->number() == number) return *place;
  if (!others_.empty()) {
    if (const auto found = others_.find(number); found != others_.end()) return *found->second;
    std::erase_if(others_, [](const auto& other) { return other.second->unused(); });
  }
  if (place == nullptr) place = std::make_shared<SharedOperation>(world_, members_);
  SharedOperation* fresh = place.get();
  if (!fresh->unused()) {
    auto& other = others_[number];
    other = std::make_shared<SharedOperation>(world_, members_);
    fresh = other.get();
  }
  fresh->renew(number);
  return *fresh;
}

Lane::Posted Lane::post(int party, const Ask& ask) {
  const std::lock_guard guard(lock_);
  SharedOperation& next = operation(next_[static_cast<size_t>(party)]++);
  return {&next, next.post(party, ask)};
}

bool Lane::leave(SharedOperation& operation) {
  const std::lock_guard guard(lock_);
  return operation.leave();
}

std::vector<int> Lane::missing(const SharedOperation& operation) {
  const std::lock_guard guard(lock_);
  std::vector<int> parties;
  for (int party = 0; party < static_cast<int>(members_->size()); ++party)
    if (!operation.is_here(party)) parties.push_back(party);
  return parties;
}

}  // namespace viaduct
