#include "plan/stage_time.h"

#include <algorithm>
#include <vector>

namespace viaduct {
namespace {

/// By index of the record's scopes: whether it is the optimizer's, or inside of it.
std::vector<bool> scopes_of_optimizer(const StepRecord& record) {
  std::vector<bool> inside;
  for (const ScopeRecord& scope : record.scopes())  // a scope begins behind its parent
    inside.push_back(scope.name == "optimizer" ||
                     (scope.parent >= 0 && inside[static_cast<size_t>(scope.parent)]));
  return inside;
}

struct Wait {
  TimeSpan span;
  std::string group;
};

/// Spans of the collectives of all groups in which data moves, and in which this rank waits for the
/// others to arrive, by begin.
void add_waits(const StepTimes& of, std::vector<Wait>& moving, std::vector<Wait>& coming) {
  for (size_t i = 0; i < of.times.collectives.size(); ++i) {
    const TimeSpan& span = of.times.collectives[i];
    if (span.end <= of.begin) continue;
    const double begun = of.times.begun[i];
    const std::string& group = of.record.collectives()[i].group;
    if (span.end > begun) moving.push_back({{begun, span.end}, group});
    if (begun > span.begin) coming.push_back({{span.begin, begun}, group});
  }
  const auto by_begin = [](const Wait& a, const Wait& b) { return a.span.begin < b.span.begin; };
  std::sort(moving.begin(), moving.end(), by_begin);
  std::sort(coming.begin(), coming.end(), by_begin);
}

/// Divides an idle span of compute among the waits that cover it, the first to begin first; returns
/// the parts that none covers.
template <class Add>
std::vector<TimeSpan> take_covered(std::vector<TimeSpan> idle, const std::vector<Wait>& waits,
                                   const Add& add) {
  for (const Wait& wait : waits) {
    std::vector<TimeSpan> rest;
    for (const TimeSpan& part : idle) {
      const double begin = std::max(part.begin, wait.span.begin);
      const double end = std::min(part.end, wait.span.end);
      if (end <= begin) {
        rest.push_back(part);
        continue;
      }
      add(wait.group, end - begin);
      if (begin > part.begin) rest.push_back({part.begin, begin});
      if (part.end > end) rest.push_back({end, part.end});
    }
    idle = std::move(rest);
    if (idle.empty()) break;
  }
  return idle;
}

/// Waits that may overlap with spans from `begin` on: both lists are walked in order of time.
class WaitWindow {
 public:
  explicit WaitWindow(const std::vector<Wait>& waits) : waits_(waits) {}
  std::vector<Wait> around(const TimeSpan& span) {
    while (next_ < waits_.size() && waits_[next_].span.begin < span.end)
      open_.push_back(waits_[next_++]);
    std::erase_if(open_, [&](const Wait& wait) { return wait.span.end <= span.begin; });
    return open_;
  }

 private:
  const std::vector<Wait>& waits_;
  std::vector<Wait> open_;
  size_t next_ = 0;
};

}  // namespace

StageTime stage_time(const StepTimes& of, double end) {
  StageTime time;
  std::vector<Wait> moving, coming;
  add_waits(of, moving, coming);
  WaitWindow moving_window(moving), coming_window(coming);
  const auto idle = [&](double from, double to) {
    if (to <= from) return;
    const TimeSpan span{from, to};
    auto rest = take_covered({span}, moving_window.around(span),
                             [&](const std::string& group, double s) { time.exposed[group] += s; });
    rest = take_covered(std::move(rest), coming_window.around(span),
                        [&](const std::string&, double s) { time.bubble += s; });
    for (const TimeSpan& part : rest) time.host += part.seconds();
  };
  const std::vector<bool> optimizer = scopes_of_optimizer(of.record);
  double at = of.begin;
  for (size_t i = 0; i < of.times.ops.size(); ++i) {
    const OpEntryRecord& op = of.record.ops()[i];
    const TimeSpan& span = of.times.ops[i];
    if (op.stream != 0 || span.end <= at) continue;
    idle(at, span.begin);
    const double seconds = span.end - std::max(at, span.begin);
    if (op.scope >= 0 && optimizer[static_cast<size_t>(op.scope)]) {
      time.optimizer += seconds;
    } else {
      time.compute += seconds;
      time.compute_by_kind[static_cast<size_t>(op_kind(op))] += seconds;
    }
    at = span.end;
  }
  // What is left at the end is waiting for the stages that end last.
  if (end > at) {
    const TimeSpan span{at, end};
    const auto rest =
        take_covered({span}, moving_window.around(span),
                     [&](const std::string& group, double s) { time.exposed[group] += s; });
    for (const TimeSpan& part : rest) time.bubble += part.seconds();
  }
  return time;
}

}  // namespace viaduct
