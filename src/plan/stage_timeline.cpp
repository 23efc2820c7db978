#include "plan/stage_timeline.h"

#include <algorithm>
#include <map>

namespace viaduct {
namespace {

/// The phase around a scope; −1: none.
int64_t phase_of(const StepRecord& record, int64_t scope) {
  while (scope >= 0 && record.scopes()[static_cast<size_t>(scope)].kind != ScopeKind::phase)
    scope = record.scopes()[static_cast<size_t>(scope)].parent;
  return scope;
}

std::vector<PhaseSpan> phases_of(const StepRecord& record, const RankTimes& times,
                                 const SequenceWindow& step, double begin) {
  std::map<int64_t, PhaseSpan> phases;
  for (size_t i = 0; i < times.ops.size(); ++i) {
    const OpEntryRecord& op = record.ops()[i];
    if (op.stream != 0 || op.at < step.begin || op.at >= step.end) continue;
    const int64_t phase = phase_of(record, op.scope);
    if (phase < 0) continue;
    const TimeSpan span{times.ops[i].begin - begin, times.ops[i].end - begin};
    const ScopeRecord& scope = record.scopes()[static_cast<size_t>(phase)];
    PhaseSpan& of =
        phases.try_emplace(phase, PhaseSpan{scope.name, scope.micro_batch, scope.chunk, span})
            .first->second;
    of.span.begin = std::min(of.span.begin, span.begin);
    of.span.end = std::max(of.span.end, span.end);
  }
  std::vector<PhaseSpan> out;
  for (auto& [index, phase] : phases) out.push_back(std::move(phase));
  std::stable_sort(out.begin(), out.end(), [](const PhaseSpan& a, const PhaseSpan& b) {
    return a.span.begin < b.span.begin;
  });
  return out;
}

/// Positions of ops of the compute stream and when they begin: memory is allocated and freed in the
/// order of compute.
struct Clock {
  std::vector<std::pair<int64_t, double>> ops;
  double end = 0;
  double at(int64_t position) const {
    const auto next =
        std::lower_bound(ops.begin(), ops.end(), position,
                         [](const auto& op, int64_t wanted) { return op.first < wanted; });
    return next == ops.end() ? end : next->second;
  }
};

std::vector<MemoryPoint> memory_of(const StepRecord& record, const Clock& clock,
                                   const SequenceWindow& step, double begin, double end) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // position, bytes
  int64_t held = 0;
  for (const AllocationRecord& a : record.allocations()) {
    if (a.allocated_at < step.begin)
      held += a.bytes;
    else if (a.allocated_at < step.end)
      changes.emplace_back(a.allocated_at, a.bytes);
    if (a.released_at < 0) continue;
    if (a.released_at < step.begin)
      held -= a.bytes;
    else if (a.released_at < step.end)
      changes.emplace_back(a.released_at, -a.bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<MemoryPoint> points;
  const double width = (end - begin) / kMemoryPoints;
  int part = 0;
  MemoryPoint least{0, held}, most{0, held};
  const auto put = [&] {
    const bool up = least.seconds <= most.seconds;
    points.push_back(up ? least : most);
    if (least.bytes != most.bytes) points.push_back(up ? most : least);
  };
  for (const auto& [position, bytes] : changes) {
    const double seconds = clock.at(position) - begin;
    const int now = width > 0 ? std::min(kMemoryPoints - 1, static_cast<int>(seconds / width)) : 0;
    if (now > part) {
      put();
      part = now;
      least = most = {seconds, held};
    }
    held += bytes;
    if (held < least.bytes) least = {seconds, held};
    if (held > most.bytes) most = {seconds, held};
  }
  put();
  return points;
}

}  // namespace

StageTimeline stage_timeline(const StepRecord& record, const RankTimes& times,
                             const SequenceWindow& step, double begin, double end) {
  Clock clock{{}, end};
  for (size_t i = 0; i < times.ops.size(); ++i)
    if (const OpEntryRecord& op = record.ops()[i]; op.stream == 0 && op.at >= step.begin)
      clock.ops.emplace_back(op.at, times.ops[i].begin);
  return {phases_of(record, times, step, begin), memory_of(record, clock, step, begin, end)};
}

}  // namespace viaduct
