#include "plan/largest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>

#include "base/error.h"
#include "base/units.h"
#include "plan/contradictions.h"

namespace viaduct {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24, kMostLayers = 1 << 14;

/// The result of the search for one value.
struct Found {
  std::optional<Layout> layout;  // that fits
  double bytes = 0;  // of its fullest stage; without a layout, the minimum that is needed
};

class Largest {
 public:
  Largest(const PlanRequest& request, LargestOf question, double time_limit_seconds)
      : request_(request),
        question_(question),
        step_(step_of(question)),
        most_((question == LargestOf::tokens ? kMostTokens : kMostLayers) / step_),
        end_(Deadline::at(begin_ + time_limit_seconds)) {
    fit_.capacity_bytes = capacity_bytes(request.cluster, request.prediction);
  }

  LargestFit run() {
    try {
      bisect();
      fit_.proven = true;
    } catch (const DeadlineError&) {
    }
    fit_.seconds = steady_seconds() - begin_;
    return fit_;
  }

 private:
  /// Steps: `fits` of them do, `too_many` do not.
  void bisect() {
    int64_t fits = 0, too_many = 1;
    while (too_many <= most_ && try_value(too_many)) fits = too_many, too_many *= 2;
    while (too_many - fits > 1) {
      const int64_t middle = (fits + too_many) / 2;
      (try_value(middle) ? fits : too_many) = middle;
    }
  }

  /// Whether this many steps fit; remembers the results.
  bool try_value(int64_t steps) {
    const int64_t value = steps * step_;
    try {
      const Found found = search(with_one_row(with_value(request_, question_, value)));
      if (found.layout) {
        fit_.value = value, fit_.layout = *found.layout, fit_.bytes = found.bytes;
        return true;
      }
      fit_.next_bytes = found.bytes, fit_.next_refused.clear();
    } catch (const ConfigError& error) {
      if (steps == 1) throw;
      fit_.next_bytes = 0, fit_.next_refused = error.what();
    }
    return false;
  }

  /// Unless the rows of a micro-batch are given: others need more memory.
  static PlanRequest with_one_row(PlanRequest request) {
    const std::string field = "train.micro_batch_size=";
    const auto& given = request.overrides;
    if (std::none_of(given.begin(), given.end(),
                     [&](const std::string& text) { return text.starts_with(field); }))
      request.overrides.push_back(field + "1");
    return request;
  }

  struct Waiting {
    double bytes;
    const Layout* layout;
    bool closest;  // the bound is
    bool operator<(const Waiting& other) const { return bytes > other.bytes; }
  };

  Found search(const PlanRequest& request) {
    SearchSpace space(request, nullptr, end_);
    std::priority_queue<Waiting> waiting;
    int chunks = std::numeric_limits<int>::max();
    for (const Layout& layout : space.layouts()) chunks = std::min(chunks, layout.vpp);
    for (const Layout& layout : space.layouts())
      if (layout.vpp == chunks)
        waiting.push({model_bound(space.model(), layout).bytes, &layout, false});
    if (waiting.empty()) throw ConfigError(no_layout_text(space.limits().space));
    std::string refused;
    double least = 0;  // of the layouts that were measured and need too much
    while (!waiting.empty()) {
      end_.check("search for what fits");
      const Waiting next = waiting.top();
      waiting.pop();
      if (next.bytes > fit_.capacity_bytes)
        return {{}, least > 0 ? std::min(least, next.bytes) : next.bytes};
      if (!next.closest) {
        waiting.push(
            {std::max(next.bytes, space.closest(*next.layout, end_).bytes), next.layout, true});
        continue;
      }
      try {
        ++fit_.dry_runs;
        const MemoryNeed need =
            memory_need(setup_of_layout(request, *next.layout), request.cluster, end_);
        if (need.host_bytes > request.cluster.host_memory_bytes) {
          refused =
              fmt::format("the ranks of a host offload {}, and it has {}",
                          format_bytes(static_cast<int64_t>(need.host_bytes)),
                          format_bytes(static_cast<int64_t>(request.cluster.host_memory_bytes)));
          continue;
        }
        if (need.bytes <= fit_.capacity_bytes) return {*next.layout, need.bytes};
        least = least > 0 ? std::min(least, need.bytes) : need.bytes;
      } catch (const ConfigError& error) {
        refused = error.what();
      }
    }
    if (least == 0) fail<ConfigError>("{}", refused);
    return {{}, least};
  }

  const PlanRequest& request_;
  LargestOf question_;
  int64_t step_, most_;
  double begin_ = steady_seconds();
  Deadline end_;
  LargestFit fit_;
};

}  // namespace

int64_t step_of(LargestOf question) {
  return question == LargestOf::tokens ? 1024 : 4;
}

PlanRequest with_value(const PlanRequest& request, LargestOf question, int64_t value) {
  PlanRequest changed = request;
  if (question == LargestOf::layers) {
    changed.overrides.push_back(fmt::format("model.num_layers={}", value));
  } else {
    changed.overrides.push_back(fmt::format("model.seq_length={}", value));
    changed.overrides.push_back(fmt::format("model.max_position_embeddings={}", value));
  }
  return changed;
}

LargestFit largest_that_fits(const PlanRequest& request, LargestOf question,
                             double time_limit_seconds) {
  return Largest(request, question, time_limit_seconds).run();
}

}  // namespace viaduct
