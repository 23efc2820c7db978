#include "pipeline/front_order.h"

#include <algorithm>

namespace viaduct {
namespace {

/// By micro-batch, counted in steps of the first stage behind: one of a stage in front takes as
/// long as `virtual_stages` of them.
struct Pace {
  std::vector<int64_t> forward;   // by when the front has sent its output
  std::vector<int64_t> returned;  // after which step its gradient comes back
  std::vector<int64_t> backward;  // when the front begins with that
};

Pace pace_of(const ScheduleSettings& s, const std::vector<Step>& behind) {
  const auto count = static_cast<size_t>(s.micro_batches);
  Pace pace{std::vector<int64_t>(count), std::vector<int64_t>(count), {}};
  for (size_t step = 0; step < behind.size(); ++step) {
    for (const Compute& work : behind[step].work) {
      if (work.chunk != 0 || work.kind == ActionKind::backward_weight) continue;
      auto& times = work.kind == ActionKind::forward ? pace.forward : pace.returned;
      times[static_cast<size_t>(work.micro_batch)] = static_cast<int64_t>(step);
    }
  }
  for (size_t i = count - 1; i > 0; --i)
    pace.forward[i - 1] = std::min(pace.forward[i - 1], pace.forward[i] - s.virtual_stages);
  pace.backward = pace.returned;
  for (size_t i = 0; i < count; ++i) {
    pace.backward[i] += 1;
    if (i > 0)
      pace.backward[i] = std::max(pace.backward[i], pace.backward[i - 1] + s.virtual_stages);
  }
  return pace;
}

}  // namespace

std::vector<Step> front_order(const ScheduleSettings& s, const std::vector<Step>& behind,
                              int stage) {
  const Pace pace = pace_of(s, behind);
  const int64_t distance = int64_t{s.front_stages} - stage;
  struct At {
    int64_t begin = 0;
    Compute work;
  };
  std::vector<At> order;
  for (int64_t i = 0; i < s.micro_batches; ++i) {
    const auto at = static_cast<size_t>(i);
    order.push_back({pace.forward[at] - distance * s.virtual_stages, {ActionKind::forward, i}});
    if (s.backward) order.push_back({pace.backward[at], {ActionKind::backward, i}});
  }
  // At one time the backward, of an earlier micro-batch, comes first: both fit before the forward's
  // output is due. No order of these times deadlocks: what an action waits for has an earlier one,
  // or is the same backward of a later stage.
  const auto earlier = [](const At& a, const At& b) { return a.begin < b.begin; };
  std::ranges::stable_sort(order, earlier);
  std::vector<Step> steps;
  for (size_t step = 0; step < order.size(); ++step) {
    Compute work = order[step].work;
    work.due = static_cast<int64_t>(step);
    if (work.kind == ActionKind::backward && distance == 1) {
      // Gradients of a group come faster than they are used: each is received from the step on
      // during which it may come.
      const At sent{pace.returned[static_cast<size_t>(work.micro_batch)] + 1, {}};
      const auto next = std::ranges::lower_bound(order, sent, earlier) - order.begin();
      work.due = std::max<int64_t>(0, next - 1);
    }
    steps.push_back({{work}, false});
  }
  return steps;
}

void pace_inputs(const ScheduleSettings& s, std::vector<Step>& behind) {
  const Pace pace = pace_of(s, behind);
  for (Step& step : behind) {
    for (Compute& work : step.work) {
      if (work.kind == ActionKind::forward && work.chunk == 0)
        work.due = std::max<int64_t>(0, pace.forward[static_cast<size_t>(work.micro_batch)]);
    }
  }
}

}  // namespace viaduct
