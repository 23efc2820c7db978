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
               ThreadPool& pool, LayoutRuns begun, SearchResult& result, const Deadline& deadline)
      : request_(request),
        spaces_(spaces),
        pool_(pool),
        runs_(std::move(begun)),
        result_(result),
        deadline_(deadline) {}

  void run() {
    try {
      look();
    } catch (const DeadlineError&) {
      // What was found until then is shown.
    }
  }

 private:
  void look() {
    while (!deadline_.passed()) {
      // Those of them that are known need no more however the others change: all can be looked at
      // beside each other.
      std::vector<Layout> rough, refined;
      for (const NearMiss& miss : near_misses(result_)) {
        if (!miss.rejected.refined) {
          rough.push_back(miss.rejected.layout);
        } else if (!miss.rejected.exact_bytes) {
          refined.push_back(miss.rejected.layout);
        }
      }
      if (rough.empty() && refined.empty()) break;
      for (const Layout& layout : rough) refine(layout);
      measure(refined);
    }
    for (const NearMiss& miss : near_misses(result_)) {
      const auto entry = entry_of(miss.rejected.layout);
      entry->neighbor = neighbor_that_fits(entry->layout);
    }
  }

  LowerBound closest_bound(const Layout& layout) const {
    for (const auto& space : spaces_)
      if (space->variant() == layout.variant) return space->closest(layout, deadline_);
    return {};
  }

  void refine(const Layout& layout) {
    const auto entry = entry_of(layout);
    const LowerBound closer = closest_bound(layout);
    entry->seconds = std::max(entry->seconds, closer.seconds);
    entry->bytes = std::max(entry->bytes, closer.bytes);
    entry->refined = true;
  }

  /// Makes further dry runs of the layouts' stages: first of the ends, then of the others, if the
  /// ends do not say that other layouts miss by less.
  void measure(const std::vector<Layout>& layouts) {
    std::vector<StageRuns*> runs;
    std::vector<Layout> taken;
    for (const Layout& layout : layouts) {
      try {
        runs.push_back(&runs_of(layout));
        taken.push_back(layout);
      } catch (const ConfigError& error) {
        refuse(layout, error);
      }
    }
    // At one time either the ends or what is behind them: between the two, other layouts may turn
    // out to miss by less.
    const bool any_new = std::any_of(runs.begin(), runs.end(),
                                     [](const StageRuns* run) { return run->peak_bytes() == 0; });
    const auto ends = run_stages(
        pool_, runs, [&](const StageRuns&) { return !any_new; }, deadline_);
    for (size_t i = 0; i < taken.size(); ++i) {
      if (ends[i].refused) {
        refuse(taken[i], *ends[i].refused);
        continue;
      }
      const auto entry = entry_of(taken[i]);
      entry->exact_bytes = runs[i]->all_made();
      entry->bytes = entry->exact_bytes ? runs[i]->peak_bytes()
                                        : std::max(entry->bytes, runs[i]->peak_bytes());
    }
  }

  void refuse(const Layout& layout, const ConfigError& error) {
    ++result_.refused[error.what()];
    result_.rejected.erase(entry_of(layout));
  }

  /// Begun before, or new. ConfigError if the trainer refuses the layout.
  StageRuns& runs_of(const Layout& layout) {
    for (auto& [other, runs] : runs_)
      if (other == layout) return *runs;
    auto runs = std::make_unique<StageRuns>(setup_of_layout(request_, layout), request_.cluster,
                                            StageRuns::Keep::memory);
    return *runs_.emplace_back(layout, std::move(runs)).second;
  }

  std::vector<Rejected>::iterator entry_of(const Layout& layout) {
    return std::find_if(result_.rejected.begin(), result_.rejected.end(),
                        [&](const Rejected& rejected) { return rejected.layout == layout; });
  }

  /// Whether its bytes, or the least that they can be, are known to be too many.
  bool is_rejected(const Layout& layout) { return entry_of(layout) != result_.rejected.end(); }

  /// False if the deadline passed before it was known.
  bool fits(const Layout& layout) {
    StageRuns& runs = runs_of(layout);
    const auto ends = run_stages(
        pool_, {&runs},
        [&](const StageRuns& outer) { return outer.peak_bytes() <= result_.capacity_bytes; },
        deadline_);
    if (ends.front().refused) throw ConfigError(*ends.front().refused);
    return !ends.front().out_of_time && runs.peak_bytes() <= result_.capacity_bytes;
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
        if (differences(layout, other).size() == 1 && !is_rejected(other))
          add(known_bound(*space, other), {.layout = &other, .space = space.get()});
    }
    while (!neighbors.empty() && !deadline_.passed()) {
      Neighbor next = neighbors.top();
      neighbors.pop();
      if (!next.refined) {
        next.refined = true;
        add(next.space->closest(*next.layout, deadline_), next);
        continue;
      }
      try {
        if (is_candidate(*next.layout) || fits(*next.layout)) return *next.layout;
      } catch (const ConfigError&) {
        continue;
      }
    }
    return std::nullopt;
  }

  const PlanRequest& request_;
  const std::vector<std::unique_ptr<SearchSpace>>& spaces_;
  ThreadPool& pool_;
  LayoutRuns runs_;
  SearchResult& result_;
  Deadline deadline_;
};

}  // namespace

void look_at_near_misses(const PlanRequest& request,
                         const std::vector<std::unique_ptr<SearchSpace>>& spaces, ThreadPool& pool,
                         LayoutRuns begun, SearchResult& result, const Deadline& deadline) {
  NearMissRuns(request, spaces, pool, std::move(begun), result, deadline).run();
}

}  // namespace viaduct
