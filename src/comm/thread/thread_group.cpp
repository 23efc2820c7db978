#include "comm/thread/thread_group.h"

#include "base/error.h"

namespace viaduct {

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> members,
                         std::string name)
    : world_(std::move(world)),
      members_(std::move(members)),
      name_(std::move(name)),
      collectives_(*world_, members_),
      hosts_(*world_, members_, name_) {}

Lane& ThreadGroup::channel(int from, int to, Flow flow) {
  const std::lock_guard guard(mutex_);
  auto& channel = channels_[{from, to, flow}];
  if (channel == nullptr)
    channel = std::make_unique<Lane>(*world_, std::vector<int>{world_rank(from), world_rank(to)});
  return *channel;
}

std::shared_ptr<ThreadGroup> ThreadGroup::split(const std::vector<int>& members, int64_t time,
                                                const std::string& name) {
  const std::lock_guard guard(mutex_);
  Split& split = splits_[{members, time}];
  if (split.group == nullptr) {
    std::vector<int> ranks;
    for (const int member : members) ranks.push_back(world_rank(member));
    split.group = std::make_shared<ThreadGroup>(world_, std::move(ranks), name);
  }
  const auto group = split.group;
  if (++split.fetched == members.size()) splits_.erase({members, time});
  VIADUCT_CHECK(CommError, group->name() == name,
                "split of {}: one rank calls the new group {}, another {}", name_, group->name(),
                name);
  return group;
}

std::shared_ptr<ThreadGroup> ThreadGroup::again(double seconds) {
  const std::lock_guard guard(mutex_);
  if (again_ == nullptr) {
    WorldOptions options = world_->options();
    options.timeout_seconds = seconds;
    again_ = std::make_shared<ThreadGroup>(std::make_shared<ThreadWorld>(world_->ranks(), options),
                                           members_, name_);
    for (const int rank : members_)
      if (world_->has_ended(rank)) again_->world().end(rank);
  }
  return again_;
}

void ThreadGroup::end(int rank) {
  world_->end(rank);
  const std::lock_guard guard(mutex_);
  if (again_ != nullptr) again_->world().end(rank);
}

}  // namespace viaduct
