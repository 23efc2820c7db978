#include "pipeline/compute_order.h"

#include <algorithm>

#include "pipeline/dualpipe_order.h"
#include "pipeline/front_order.h"

namespace viaduct {
namespace {

using Steps = std::vector<Step>;

/// Numbers the steps and marks the steady ones: [steady_begin, steady_end).
Steps numbered(Steps steps, int64_t steady_begin, int64_t steady_end) {
  for (int64_t i = 0; i < static_cast<int64_t>(steps.size()); ++i) {
    Step& step = steps[static_cast<size_t>(i)];
    step.steady = i >= steady_begin && i < steady_end;
    for (Compute& work : step.work) work.due = i;
  }
  return steps;
}

void append(Steps& steps, ActionKind kind, int64_t micro_batch) {
  steps.push_back({{{kind, micro_batch, 0, 0}}, false});
}

Steps forward_then_backward(int64_t micro_batches) {
  Steps steps;
  for (int64_t i = 0; i < micro_batches; ++i) append(steps, ActionKind::forward, i);
  for (int64_t i = 0; i < micro_batches; ++i) append(steps, ActionKind::backward, i);
  return numbered(std::move(steps), 0, 0);
}

Steps one_forward_one_backward(int64_t micro_batches, int64_t warmup) {
  Steps steps;
  for (int64_t i = 0; i < warmup; ++i) append(steps, ActionKind::forward, i);
  for (int64_t i = warmup; i < micro_batches; ++i) {
    append(steps, ActionKind::forward, i);
    append(steps, ActionKind::backward, i - warmup);
  }
  const auto steady_end = static_cast<int64_t>(steps.size());
  for (int64_t i = micro_batches - warmup; i < micro_batches; ++i)
    append(steps, ActionKind::backward, i);
  return numbered(std::move(steps), warmup, steady_end);
}

/// 1F1B of one stage whose forwards alternate with the backward of the previous micro-batch.
Steps one_ahead(int64_t micro_batches) {
  Steps steps;
  append(steps, ActionKind::forward, 0);
  for (int64_t i = 1; i < micro_batches; ++i) {
    steps.push_back({{{ActionKind::forward, i}, {ActionKind::backward, i - 1}}, false, true});
  }
  append(steps, ActionKind::backward, micro_batches - 1);
  return numbered(std::move(steps), 1, micro_batches);
}

/// 1F1B with the weight half of a backward `lag` backwards later. If the lag is the stage's number,
/// every stage holds up to pp micro-batches, like the first stage of 1F1B, and only pp − 1 forwards
/// of the bubble remain.
Steps zero_bubble_h1(int64_t micro_batches, int64_t warmup, int64_t lag) {
  Steps steps;
  const auto backward = [&](int64_t i) {
    append(steps, ActionKind::backward_input, i);
    if (i >= lag) append(steps, ActionKind::backward_weight, i - lag);
  };
  for (int64_t i = 0; i < warmup; ++i) append(steps, ActionKind::forward, i);
  for (int64_t i = warmup; i < micro_batches; ++i) {
    append(steps, ActionKind::forward, i);
    backward(i - warmup);
  }
  const auto steady_end = static_cast<int64_t>(steps.size());
  for (int64_t i = micro_batches - warmup; i < micro_batches; ++i) backward(i);
  for (int64_t i = std::max<int64_t>(0, micro_batches - lag); i < micro_batches; ++i)
    append(steps, ActionKind::backward_weight, i);
  return numbered(std::move(steps), warmup, steady_end);
}

/// Number in the order of forwards of (micro_batch, chunk), by [chunk][micro_batch].
std::vector<std::vector<int64_t>> numbers(const std::vector<ForwardNumber>& order,
                                          const ScheduleSettings& s) {
  std::vector<std::vector<int64_t>> result(
      static_cast<size_t>(s.virtual_stages),
      std::vector<int64_t>(static_cast<size_t>(s.micro_batches)));
  for (size_t n = 0; n < order.size(); ++n)
    result[static_cast<size_t>(order[n].chunk)][static_cast<size_t>(order[n].micro_batch)] =
        static_cast<int64_t>(n);
  return result;
}

Steps interleaved(const ScheduleSettings& s, int stage) {
  const int64_t group = s.group > 0 ? s.group : s.pp;
  const auto order = interleaved_order(s.virtual_stages, s.micro_batches, group);
  const auto number = numbers(order, s);
  const auto total = static_cast<int64_t>(order.size());
  int64_t warmup = 2 * int64_t{s.pp - stage - 1} + (s.virtual_stages - 1) * group;
  // A forward that alternates with a backward cannot be the one whose output this one reads.
  if (s.combines) ++warmup;
  warmup = s.backward ? std::min(total, warmup) : total;
  const bool first = stage == 0, last = stage == s.pp - 1;

  // A step ends when its messages are passed on. Stage p is one step behind stage p − 1, so the
  // first stage receives a message of the last one pp − 1 steps after it was sent, and keeps it
  // until its turn.
  const auto forward = [&](int64_t n) {
    const ForwardNumber at = order[static_cast<size_t>(n)];
    Compute work{ActionKind::forward, at.micro_batch, at.chunk, n};
    if (first && at.chunk > 0) {
      const int64_t sent =
          number[static_cast<size_t>(at.chunk - 1)][static_cast<size_t>(at.micro_batch)];
      work.due = std::min(n, sent + s.pp);
    }
    return work;
  };
  // Backwards go through the chunks in reverse, so the n-th mirrors the n-th forward.
  const auto backward = [&](int64_t n) {
    const ForwardNumber mirror = order[static_cast<size_t>(n)];
    const int chunk = s.virtual_stages - 1 - mirror.chunk;
    Compute work{ActionKind::backward, mirror.micro_batch, chunk, warmup + n};
    if (last && mirror.chunk > 0) {
      const int64_t sent =
          number[static_cast<size_t>(mirror.chunk - 1)][static_cast<size_t>(mirror.micro_batch)];
      work.due = std::min(warmup + n, warmup + sent + s.pp);
    }
    return work;
  };

  Steps steps;
  for (int64_t n = 0; n < warmup; ++n) steps.push_back({{forward(n)}, false});
  for (int64_t n = warmup; n < total; ++n)
    steps.push_back({{forward(n), backward(n - warmup)}, true, s.combines});
  for (int64_t n = total - warmup; s.backward && n < total; ++n)
    steps.push_back({{backward(n)}, false});
  return steps;
}

}  // namespace

std::vector<ForwardNumber> interleaved_order(int virtual_stages, int64_t micro_batches,
                                             int64_t group) {
  std::vector<ForwardNumber> order;
  for (int64_t begin = 0; begin < micro_batches; begin += group) {
    const int64_t end = std::min(begin + group, micro_batches);
    for (int chunk = 0; chunk < virtual_stages; ++chunk) {
      for (int64_t i = begin; i < end; ++i) order.push_back({i, chunk});
    }
  }
  return order;
}

Steps compute_order(const ScheduleSettings& s, int stage) {
  if (s.has_front()) {
    ScheduleSettings behind = s;
    behind.pp -= s.front_stages, behind.front_stages = 0;
    const int place = std::max(0, stage - s.front_stages);
    Steps steps = compute_order(behind, place);
    if (stage < s.front_stages) return front_order(s, steps, stage);
    if (place == 0) pace_inputs(s, steps);
    return steps;
  }
  if (s.kind == ScheduleKind::interleaved) return interleaved(s, stage);
  if (s.kind == ScheduleKind::dualpipe_v) return dualpipe_v_order(s, stage);
  const int64_t warmup = std::min<int64_t>(s.pp - stage - 1, s.micro_batches);
  if (!s.backward) {
    Steps steps;
    for (int64_t i = 0; i < s.micro_batches; ++i) append(steps, ActionKind::forward, i);
    return numbered(std::move(steps), 0, 0);
  }
  if (s.kind == ScheduleKind::gpipe) return forward_then_backward(s.micro_batches);
  if (s.kind == ScheduleKind::zb_h1) return zero_bubble_h1(s.micro_batches, warmup, stage);
  if (s.combines) return one_ahead(s.micro_batches);
  return one_forward_one_backward(s.micro_batches, warmup);
}

}  // namespace viaduct
