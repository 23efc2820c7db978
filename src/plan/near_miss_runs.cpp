#include "plan/near_miss_runs.h"

#include <algorithm>
#include <queue>

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

  /// A layout with one field changed, the one with the lowest bound of time first.
  struct Neighbor {
    double seconds = 0;
    const Layout* layout = nullptr;
    SearchSpace* space = nullptr;
    bool refined = false;  // the bound is the closest one
    bool operator<(const Neighbor& other) const { return seconds > other.seconds; }
  };

  /// The closest bound that is known without dry runs.
  static LowerBound known_bound(const SearchSpace& space, const Layout& layout) {
    for (int basis = static_cast<int>(kClosestBasis); basis > 0; --basis)
      if (const auto bound = space.bound(layout, static_cast<BoundBasis>(basis))) return *bound;
    return model_bound(space.model(), layout);
  }

  bool is_candidate(const Layout& layout) const {
    return std::any_of(result_.candidates.begin(), result_.candidates.end(),
                       [&](const Candidate& candidate) { return candidate.layout == layout; });
  }

  /// The fastest layout with one field changed that fits, by its closest bound of time. Dry runs
  /// are made only of the first ones.
  std::optional<Layout> neighbor_that_fits(const Layout& layout) {
    std::priority_queue<Neighbor> neighbors;
    const auto add = [&](const LowerBound& bound, Neighbor neighbor) {
      neighbor.seconds = std::max(neighbor.seconds, bound.seconds);
      if (bound.bytes <= result_.capacity_bytes) neighbors.push(neighbor);
    };
    for (const auto& space : spaces_) {
      for (const Layout& other : space->layouts())
        if (differences(layout, other).size() == 1)
          add(known_bound(*space, other), {.layout = &other, .space = space.get()});
    }
    while (!neighbors.empty() && time_is_left_()) {
      Neighbor next = neighbors.top();
      neighbors.pop();
      if (!next.refined) {
        next.refined = true;
        add(next.space->closest(*next.layout), next);
        continue;
      }
      try {
        if (is_candidate(*next.layout) ||
            peak_bytes_of_layout(request_, *next.layout) <= result_.capacity_bytes)
          return *next.layout;
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
