#include "comm/thread/lane.h"

#include <mutex>

namespace viaduct {

Lane::Lane(ThreadWorld& world, const std::vector<int>& members)
    : world_(world),
      members_(std::make_shared<const std::vector<int>>(members)),
      parties_(members.size()) {
  for (auto& place : ring_) place = std::make_shared<SharedOperation>(world_, members_);
}

SharedOperation& Lane::operation(int64_t number) {
  auto& place = ring_[static_cast<size_t>(number) % kRing];
  if (place->number() == number) return *place;
  if (!others_.empty()) {
    if (const auto found = others_.find(number); found != others_.end()) return *found->second;
    std::erase_if(others_, [](const auto& other) { return other.second->unused(); });
  }
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
  std::atomic<int64_t>& counter = parties_[static_cast<size_t>(party)].next;
  const int64_t number = counter.load(std::memory_order_relaxed);
  SharedOperation* next = ring_[static_cast<size_t>(number) % kRing].get();
  if (next->number() != number) {
    const std::lock_guard guard(lock_);
    next = &operation(number);
  }
  const bool last = next->post(party, ask);
  counter.store(number + 1, std::memory_order_release);
  return {next, last};
}

std::vector<int> Lane::missing(const SharedOperation& operation) const {
  std::vector<int> parties;
  for (size_t party = 0; party < parties_.size(); ++party)
    if (parties_[party].next.load() <= operation.number())
      parties.push_back(static_cast<int>(party));
  return parties;
}

}  // namespace viaduct
