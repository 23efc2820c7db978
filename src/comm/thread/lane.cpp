#include "comm/thread/lane.h"

#include <mutex>

namespace viaduct {

Lane::Lane(ThreadWorld& world, const std::vector<int>& members)
    : world_(world),
      members_(std::make_shared<const std::vector<int>>(members)),
      next_(members.size()) {}

Lane::Posted Lane::post(int party, const CommRequest& request) {
  const std::lock_guard guard(lock_);
  const size_t place = static_cast<size_t>(next_[static_cast<size_t>(party)]++ - first_open_);
  if (place == open_.size()) open_.push_back(std::make_shared<SharedOperation>(world_, members_));
  Posted posted{open_[place]};
  posted.last = posted.operation->post(party, request);
  if (posted.last) {  // every party has posted all before it, so it is the oldest
    open_.pop_front();
    ++first_open_;
  }
  return posted;
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
