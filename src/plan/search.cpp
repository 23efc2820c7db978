#include "plan/search.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <queue>

#include "base/error.h"
#include "plan/layout_space.h"
#include "plan/model_cost.h"
#include "plan/reasons.h"
#include "plan/search_limits.h"

namespace viaduct {
namespace {

using Clock = std::chrono::steady_clock;

// Of the limit of time; the rest is for what does not fit.
constexpr double kSearchShare = 0.8;

// Dry runs of layers between two predictions.
constexpr int64_t kGuessAfter = 16;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A layout that waits, the one with the lowest bound first.
struct Waiting {
  LowerBound bound;
  size_t layout;
  bool refined;  // the bound is that of its layers
  bool operator<(const Waiting& other) const { return bound.seconds > other.bound.seconds; }
};

class Search {
 public:
  Search(const PlanRequest& request, const SearchSettings& settings)
      : request_(request), settings_(settings), begin_(Clock::now()), costs_(request) {}

  SearchResult run() {
    const SearchLimits limits = search_limits(request_, costs_.whole());
    model_ = model_cost(request_, limits, costs_);
    result_.model = costs_.whole().model;
    result_.ranks = limits.space.ranks, result_.global_batch = limits.space.global_batch;
    result_.length = limits.space.length;
    result_.not_searched = limits.not_searched;
    result_.capacity_bytes = capacity_bytes(request_.cluster, request_.prediction);
    layouts_ = enumerate_layouts(limits.space);
    result_.layouts = static_cast<int64_t>(layouts_.size());
    VIADUCT_CHECK(ConfigError, !layouts_.empty(),
                  "viaduct plan: no layout divides {} ranks, {} layers and {} rows under the given "
                  "overrides; fix fewer sizes, or choose ranks and a batch with more divisors",
                  result_.ranks, model_.layers, result_.global_batch);
    bound_.emplace(model_, request_.cluster, request_.prediction.collectives);
    for (size_t i = 0; i < layouts_.size(); ++i) add({model_bound(model_, layouts_[i]), i, false});
    int64_t next_guess = kGuessAfter;
    while (!empty() && !done()) {
      // A prediction out of turn makes a best time to compare bounds with.
      const bool guess = costs_.made() >= next_guess && !refined_.empty() && may_be_best();
      if (guess || rough_.empty() || front().refined) {
        predict_next();
        next_guess = costs_.made() + kGuessAfter;
      } else {
        const Waiting next = rough_.top();
        rough_.pop();
        add({layer_bound(layouts_[next.layout]), next.layout, true});
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  LowerBound layer_bound(const Layout& layout) { return bound_->of(costs_.of(layout), layout); }

  /// Puts a layout into the queue unless its memory is known to be too much.
  void add(const Waiting& waiting) {
    const LowerBound& bound = waiting.bound;
    if (bound.bytes <= result_.capacity_bytes)
      return (waiting.refined ? refined_ : rough_).push(waiting);
    result_.rejected.push_back({.layout = layouts_[waiting.layout],
                                .seconds = bound.seconds,
                                .bytes = bound.bytes,
                                .refined = waiting.refined});
  }

  bool done() const {
    const double next = front().bound.seconds;
    if (!result_.candidates.empty() && next > best_ &&
        static_cast<int>(result_.candidates.size()) >= settings_.least_candidates)
      return true;
    return seconds_since(begin_) > kSearchShare * settings_.time_limit_seconds;
  }

  bool empty() const { return rough_.empty() && refined_.empty(); }

  /// The layout with the lowest bound of all that wait.
  const Waiting& front() const {
    return rough_.empty() || (!refined_.empty() && !(refined_.top() < rough_.top()))
               ? refined_.top()
               : rough_.top();
  }

  /// Whether the foremost layout whose bound is that of its layers may be the fastest.
  bool may_be_best() const {
    return result_.candidates.empty() || refined_.top().bound.seconds <= best_;
  }

  /// Predicts the foremost of the layouts whose bounds are those of their layers, as many at a time
  /// as there are threads.
  void predict_next() {
    std::vector<Waiting> next;
    std::vector<std::future<Predicted>> predicted;
    while (!refined_.empty() && static_cast<int>(next.size()) < settings_.threads &&
           (next.empty() || may_be_best())) {
      next.push_back(refined_.top());
      refined_.pop();
      predicted.push_back(std::async(next.size() == 1 ? std::launch::deferred : std::launch::async,
                                     &Search::predict_layout, this, next.back()));
    }
    for (auto& each : predicted) take(each.get());
  }

  struct Predicted {
    std::optional<Candidate> candidate;
    std::string refused;  // why, if there is none
  };

  /// Changes nothing: several run at a time.
  Predicted predict_layout(const Waiting& waiting) const {
    const Layout& layout = layouts_[waiting.layout];
    try {
      const RunSetup setup = setup_of_layout(request_, layout);
      return {Candidate{layout, waiting.bound,
                        predict(setup, request_.cluster, request_.prediction), setup.notes},
              {}};
    } catch (const ConfigError& error) {
      return {std::nullopt, error.what()};
    }
  }

  void take(Predicted predicted) {
    ++result_.dry_runs;
    if (!predicted.candidate) {
      ++result_.refused[predicted.refused];
      return;
    }
    Candidate& candidate = *predicted.candidate;
    const double seconds = candidate.prediction.step_seconds;
    if (!candidate.prediction.fits) {
      result_.rejected.push_back(
          {candidate.layout, seconds, static_cast<double>(candidate.peak_bytes()), true, true});
      return;
    }
    best_ = result_.candidates.empty() ? seconds : std::min(best_, seconds);
    result_.candidates.push_back(std::move(candidate));
  }

  bool time_is_left() const { return seconds_since(begin_) <= settings_.time_limit_seconds; }

  /// Bytes of the fullest stage, by dry runs. ConfigError if the trainer refuses the layout.
  double peak_bytes(const Layout& layout) const {
    double peak = 0;
    for (const DryRun& stage : dry_run_stages(setup_of_layout(request_, layout)))
      peak = std::max(peak, static_cast<double>(stage.peak.bytes));
    return peak;
  }

  /// Replaces the bounds of the layouts that miss by least by closer ones, then by what dry runs
  /// say, and finds what would make them fit.
  void look_at_near_misses() {
    while (time_is_left()) {
      const auto misses = near_misses(result_);
      const auto unknown = std::find_if(misses.begin(), misses.end(), [](const NearMiss& miss) {
        return !miss.rejected.refined || !miss.rejected.exact_bytes;
      });
      if (unknown == misses.end()) break;
      const auto entry = entry_of(*unknown);
      try {
        if (entry->refined) {
          entry->bytes = peak_bytes(entry->layout), entry->exact_bytes = true;
        } else {
          const LowerBound closer = layer_bound(entry->layout);
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

  std::vector<Rejected>::iterator entry_of(const NearMiss& miss) {
    return std::find_if(
        result_.rejected.begin(), result_.rejected.end(),
        [&](const Rejected& rejected) { return rejected.layout == miss.rejected.layout; });
  }

  /// The fastest layout with one field changed that fits, by its bound of time.
  std::optional<Layout> neighbor_that_fits(const Layout& layout) {
    std::vector<std::pair<double, const Layout*>> neighbors;
    for (const Layout& other : layouts_) {
      if (!time_is_left()) return std::nullopt;
      if (differences(layout, other).size() != 1) continue;
      const LowerBound bound = layer_bound(other);
      if (bound.bytes <= result_.capacity_bytes) neighbors.emplace_back(bound.seconds, &other);
    }
    std::sort(neighbors.begin(), neighbors.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [seconds, other] : neighbors) {
      if (!time_is_left()) break;
      try {
        if (peak_bytes(*other) <= result_.capacity_bytes) return *other;
      } catch (const ConfigError&) {
        continue;
      }
    }
    return std::nullopt;
  }

  void finish() {
    const auto faster = [](const auto& a, const auto& b) { return a.seconds < b.seconds; };
    std::stable_sort(result_.candidates.begin(), result_.candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.prediction.step_seconds < b.prediction.step_seconds;
                     });
    std::stable_sort(result_.rejected.begin(), result_.rejected.end(), faster);
    result_.left = static_cast<int64_t>(rough_.size() + refined_.size());
    result_.next_bound = empty() ? 0 : front().bound.seconds;
    result_.complete = empty() || (!result_.candidates.empty() && result_.next_bound > best_);
    look_at_near_misses();
    result_.layer_costs = costs_.made();
    result_.seconds = seconds_since(begin_);
  }

  const PlanRequest& request_;
  SearchSettings settings_;
  Clock::time_point begin_;
  LayerCosts costs_;
  ModelCost model_;
  std::vector<Layout> layouts_;
  std::optional<LayoutBound> bound_;
  std::priority_queue<Waiting> rough_, refined_;  // by what the bound is of: the model, the layers
  double best_ = 0;                               // seconds
  SearchResult result_;
};

}  // namespace

int64_t Candidate::peak_bytes() const {
  int64_t peak = 0;
  for (const StagePrediction& stage : prediction.stages)
    peak = std::max(peak, stage.run.peak.bytes);
  return peak;
}

double Candidate::slack_bytes() const {
  return prediction.capacity_bytes - static_cast<double>(peak_bytes());
}

SearchResult search_layouts(const PlanRequest& request, const SearchSettings& settings) {
  return Search(request, settings).run();
}

bool on_pareto_front(const SearchResult& result, const Candidate& candidate) {
  return std::none_of(result.candidates.begin(), result.candidates.end(),
                      [&](const Candidate& other) {
                        return other.prediction.step_seconds < candidate.prediction.step_seconds &&
                               other.slack_bytes() > candidate.slack_bytes();
                      });
}

bool ties_with_best(const SearchResult& result, const Candidate& candidate, double tie_share) {
  const double best = result.candidates.front().prediction.step_seconds;
  return candidate.prediction.step_seconds <= best * (1 + tie_share);
}

}  // namespace viaduct
