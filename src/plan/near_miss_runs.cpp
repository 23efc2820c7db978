#include "plan/near_miss_runs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/reasons.h"

namespace viaduct {
namespace {

class NearMissRuns {
 public:
  NearMissRuns(const PlanRequest& request, const std::vector<std::unique_ptr<SearchSpace>>& spaces,
               SearchResult& result, FunctionRef<bool()> time_is_left)
      : request_(request), spaces_(spaces), result_(result), time_is_left_(time_is_left) {}

  void run() {
    while (time_is_left_()) {
      const auto misses = near_misses(result_);
      const auto unknown = std::find_if(misses.begin(), misses.end(), [](const NearMiss& miss) {
        return !miss.rejected.refined || !miss.rejected.exact_bytes;
      });
      if (unknown == misses.end()) break;
      const auto entry = entry_of(*unknown);
      try {
        if (entry->refined) {
          entry->bytes = peak_bytes_of_layout(request_, entry->layout), entry->exact_bytes = true;
        } else {
          const LowerBound closer = closest_bound(entry->layout);
          entry->seconds = std::max(entry->seconds, closer.seconds);
          entry->bytes = std::max(entry->bytes, closer.bytes);
          entry->refined = true;
        }
      } catch (const ConfigError& error) {
        ++result_.refused[error.what()];
        result_.rejected.erase(entry);
      }
    }
    for (const NearMiss& miss : near_misses(result_)) {
      const auto entry = entry_of(miss);
      entry->neighbor = neighbor_that_fits(entry->layout);
    }
  }

 private:
  LowerBound closest_bound(const Layout& layout) const {
    for (const auto& space : spaces_)
      if (space->variant() == layout.variant) return space->closest(layout);
    return {};
  }

  std::vector<Rejected>::iterator entry_of(const NearMiss& miss) {
    return std::find_if(
        result_.rejected.begin(), result_.rejected.end(),
        [&](const Rejected& rejected) { return rejected.layout == miss.rejected.layout; });
  }

  /// The fastest layout with one field changed that fits, by its bound of time.
  std::optional<Layout> neighbor_that_fits(const Layout& layout) {
    std::vector<std::pair<double, const Layout*>> neighbors;
    for (const auto& space : spaces_) {
      for (const Layout& other : space->layouts()) {
        if (!time_is_left_()) return std::nullopt;
        if (differences(layout, other).size() != 1) continue;
        if (model_bound(space->model(), other).bytes > result_.capacity_bytes) continue;
        const LowerBound bound = space->closest(other);
        if (bound.bytes <= result_.capacity_bytes) neighbors.emplace_back(bound.seconds, &other);
      }
    }
    std::sort(neighbors.begin(), neighbors.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [seconds, other] : neighbors) {
      if (!time_is_left_()) break;
      try {
        if (peak_bytes_of_layout(request_, *other) <= result_.capacity_bytes) return *other;
      } catch (const ConfigError&) {
        continue;
      }
    }
    return std::nullopt;
  }

  const PlanRequest& request_;
  const std::vector<std::unique_ptr<SearchSpace>>& spaces_;
  SearchResult& result_;
  FunctionRef<bool()> time_is_left_;
};

}  // namespace

void look_at_near_misses(const PlanRequest& request,
                         const std::vector<std::unique_ptr<SearchSpace>>& spaces,
                         SearchResult& result, FunctionRef<bool()> time_is_left) {
  NearMissRuns(request, spaces, result, time_is_left).run();
}

}  // namespace viaduct
