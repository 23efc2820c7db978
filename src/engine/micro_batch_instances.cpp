#include "engine/micro_batch_instances.h"

#include <algorithm>
#include <tuple>

namespace viaduct {
namespace {

/// What distinguishes the actions of one micro-batch from each other. The first one also uploads
/// the micro-batch.
using ActionKey = std::tuple<ActionKind, int, int, int, bool, Flow, int, bool, bool>;

ActionKey key_of(const Action& action, bool apart, bool first) {
  const Message& m = action.message;
  return {action.kind,
          action.chunk,
          action.segments.begin,
          action.segments.end,
          m.outgoing,
          m.flow,
          m.peer,
          apart,
          first};
}

/// An action of a micro-batch, and its place in the step.
struct Keyed {
  ActionKey key;
  size_t place = 0;
};

/// How many of a kind are run at least.
constexpr size_t kFirst = 3;

}  // namespace

MicroBatchInstances::MicroBatchInstances(Device& device, const ActionList& actions,
                                         const std::set<std::pair<int64_t, int>>& apart,
                                         ActionOrder order, StepActions& log)
    : device_(device), log_(log), numbers_(actions.size()) {
  std::map<int64_t, std::vector<Keyed>> keyed;  // by micro-batch
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    std::vector<Keyed>& own = keyed[action.micro_batch];
    own.push_back(
        {key_of(action, apart.contains({action.micro_batch, action.chunk}), own.empty()), i});
  }
  std::map<std::vector<ActionKey>, std::vector<int64_t>> kinds;
  for (auto& [micro_batch, own] : keyed) {
    if (order == ActionOrder::any) std::ranges::stable_sort(own, {}, &Keyed::key);
    std::vector<ActionKey> keys;
    for (const Keyed& one : own) {
      numbers_[one.place] = static_cast<int64_t>(keys.size());
      keys.push_back(one.key);
    }
    kinds[std::move(keys)].push_back(micro_batch);
  }
  const auto micro_batches =
      keyed.empty() ? size_t{0} : static_cast<size_t>(keyed.rbegin()->first) + 1;
  for (size_t i = 0; i < micro_batches; ++i) recorded_as_.push_back(static_cast<int64_t>(i));
  count_ = static_cast<int64_t>(keyed.size());
  for (const auto& [own, list] : kinds) {
    if (list.size() <= kFirst + 1) continue;
    for (size_t i = kFirst; i + 1 < list.size(); ++i)
      recorded_as_[static_cast<size_t>(list[i])] = list[kFirst - 1];
    count_ -= static_cast<int64_t>(list.size() - kFirst - 1);
    log_.alike.emplace_back(list[kFirst - 2], list[kFirst - 1]);
  }
}

bool MicroBatchInstances::before(const Action& action) {
  const int64_t at = device_.record()->position(), calls = stream_calls();
  log_.actions.push_back({.micro_batch = action.micro_batch,
                          .recorded_as = recorded_as(action.micro_batch),
                          .number = numbers_[log_.actions.size()],
                          .begin = at,
                          .end = at,
                          .calls_begin = calls,
                          .calls_end = calls});
  return runs(action.micro_batch);
}

void MicroBatchInstances::after(const Action&) {
  ActionRecord& ran = log_.actions.back();
  ran.end = device_.record()->position();
  ran.calls_end = stream_calls();
}

}  // namespace viaduct
