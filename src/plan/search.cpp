#include "plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "plan/layout_predictions.h"
#include "plan/near_miss_runs.h"
#include "plan/search_space.h"

namespace viaduct {
namespace {

using Clock = std::chrono::steady_clock;

// Share of the time limit; the rest is for layouts that do not fit.
constexpr double kSearchShare = 0.8;

// Layouts that are predicted at the end of the time if none fits before.
constexpr size_t kSmallest = 4;

// Dry runs of layers between two predictions.
constexpr int64_t kGuessAfter = 16;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A layout that waits, the one with the lowest bound first.
struct Waiting {
  LowerBound bound;
  const Layout* layout;
  SearchSpace* space;
  BoundBasis basis;
  bool operator<(const Waiting& other) const { return bound.seconds > other.bound.seconds; }
};

class Search {
 public:
  Search(const PlanRequest& request, const SearchSettings& settings)
      : request_(request), settings_(settings), begin_(Clock::now()), pool_(settings.threads) {}

  SearchResult run() {
    make_spaces();
    describe_result();
    for (const auto& space : spaces_) {
      for (const Layout& layout : space->layouts())
        add({model_bound(space->model(), layout), &layout, space.get(), BoundBasis::model});
    }
    while (!empty() && !done()) advance();
    if (result_.candidates.empty() && !empty()) predict_smallest();
    finish();
    return std::move(result_);
  }

 private:
  /// One for each variant that can be planned.
  void make_spaces() {
    if (request_.variants.empty()) {
      spaces_.push_back(std::make_unique<SearchSpace>(request_));
      return;
    }
    std::string last;
    for (const auto& variant : request_.variants) {
      try {
        spaces_.push_back(std::make_unique<SearchSpace>(request_, variant));
      } catch (const ConfigError& error) {
        last = variant->name + ": " + error.what();
        ++result_.refused[last];
      }
    }
    VIADUCT_CHECK(ConfigError, !spaces_.empty(),
                  "viaduct plan: none of the {} variants can be planned; {}",
                  request_.variants.size(), last);
  }

  void describe_result() {
    const SearchSpace& first = *spaces_.front();
    result_.model = first.costs().whole().model;
    const SpaceLimits& space = first.limits().space;
    result_.ranks = space.ranks, result_.global_batch = space.global_batch;
    result_.length = space.length;
    result_.not_searched = first.limits().not_searched;
    result_.capacity_bytes = capacity_bytes(request_.cluster, request_.prediction);
    for (const auto& each : spaces_)
      result_.layouts += static_cast<int64_t>(each->layouts().size());
    VIADUCT_CHECK(ConfigError, result_.layouts > 0,
                  "viaduct plan: no layout divides {} ranks, {} layers and {} rows under the given "
                  "overrides; fix fewer sizes, or choose ranks and a batch with more divisors",
                  result_.ranks, first.model().layers, result_.global_batch);
  }

  /// Puts a layout into the queue unless its memory is known to be too much.
  void add(const Waiting& waiting) {
    const LowerBound& bound = waiting.bound;
    const bool refined = waiting.basis == kClosestBasis;
    if (bound.bytes <= result_.capacity_bytes) return (refined ? refined_ : rough_).push(waiting);
    result_.rejected.push_back({.layout = *waiting.layout,
                                .seconds = bound.seconds,
                                .bytes = bound.bytes,
                                .refined = refined});
  }

  /// Puts a layout back with the next closer bound, whose costs are known.
  void refine(Waiting waiting) {
    waiting.basis = next_basis(waiting);
    const LowerBound closer = *waiting.space->bound(*waiting.layout, waiting.basis);
    waiting.bound.seconds = std::max(waiting.bound.seconds, closer.seconds);
    waiting.bound.bytes = std::max(waiting.bound.bytes, closer.bytes);
    add(waiting);
  }

  static BoundBasis next_basis(const Waiting& waiting) {
    return static_cast<BoundBasis>(static_cast<int>(waiting.basis) + 1);
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

  /// The cost of a layer to be made.
  struct Task {
    SearchSpace* space;
    Layout sizes;
    LayerCost cost = {};
  };

  /// Work for each thread: what the foremost layouts wait for.
  void advance() {
    std::vector<Task> tasks;
    std::vector<Waiting> whole;  // to be predicted
    std::vector<Waiting> held;   // until the tasks' costs are there
    // The stages of a layout are work for as many threads.
    int work = 0;
    const auto predicts = [&](const Waiting& waiting) {
      whole.push_back(waiting);
      work += waiting.layout->pp;
    };
    // A prediction out of turn makes a best time to compare bounds with.
    if (made_ >= next_guess_ && !refined_.empty() && may_be_best(refined_.top())) {
      predicts(refined_.top());
      refined_.pop();
    }
    while (work < settings_.threads && !empty()) {
      const Waiting next = front();
      if (work > 0 && !may_be_best(next)) break;
      (next.basis == kClosestBasis ? refined_ : rough_).pop();
      if (next.basis == kClosestBasis) {
        predicts(next);
      } else if (next.space->bound(*next.layout, next_basis(next))) {
        refine(next);
      } else {
        held.push_back(next);
        Task task{next.space, next.space->needed(*next.layout, next_basis(next))};
        if (std::none_of(tasks.begin(), tasks.end(),
                         [&](const Task& other) { return makes_the_same(task, other); })) {
          tasks.push_back(std::move(task));
          ++work;
        }
      }
    }
    make_layers(tasks);
    predict_whole(whole);
    for (const Waiting& waiting : held) refine(waiting);
  }

  static bool makes_the_same(const Task& a, const Task& b) {
    return a.space == b.space && same_layer(a.sizes, b.sizes);
  }

  void make_layers(std::vector<Task>& tasks) {
    pool_.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
      Task& task = tasks[static_cast<size_t>(i)];
      task.cost = task.space->costs().measured(task.sizes);
    });
    for (const Task& task : tasks) task.space->costs().keep(task.sizes, task.cost);
    made_ += static_cast<int64_t>(tasks.size());
  }

  void predict_whole(const std::vector<Waiting>& all) {
    std::vector<const Layout*> layouts;
    for (const Waiting& waiting : all) layouts.push_back(waiting.layout);
    std::vector<LayoutPrediction> predictions = predict_layouts(request_, pool_, layouts);
    for (size_t i = 0; i < all.size(); ++i) take(all[i], std::move(predictions[i]));
    if (!all.empty()) next_guess_ = made_ + kGuessAfter;
  }

  bool time_is_left() const { return seconds_since(begin_) <= settings_.time_limit_seconds; }

  /// The search's share of the time is over and no layout fits yet: predicts those that probably
  /// need the least memory.
  void predict_smallest() {
    std::vector<Waiting> waiting;
    while (!empty()) {
      auto& queue = &front() == (rough_.empty() ? nullptr : &rough_.top()) ? rough_ : refined_;
      waiting.push_back(queue.top());
      queue.pop();
    }
    const auto keeps_most = [](const Waiting& one) {
      return std::tuple(
          one.layout->recompute != Recompute::full, one.layout->micro_batch * one.layout->vpp,
          -one.layout->tp * one.layout->cp * one.layout->pp, -one.layout->tp, one.bound.bytes);
    };
    std::stable_sort(waiting.begin(), waiting.end(), [&](const Waiting& a, const Waiting& b) {
      return keeps_most(a) < keeps_most(b);
    });
    size_t count = 0;
    while (count < std::min(waiting.size(), kSmallest) && time_is_left())
      predict_whole({waiting[count++]});
    for (size_t i = count; i < waiting.size(); ++i) add(waiting[i]);
  }

  /// Whether a layout may be the fastest, by its bound.
  bool may_be_best(const Waiting& waiting) const {
    return result_.candidates.empty() || waiting.bound.seconds <= best_;
  }

  void take(const Waiting& waiting, LayoutPrediction predicted) {
    ++result_.dry_runs;
    if (predicted.too_large) {
      const double bytes = std::max(waiting.bound.bytes, predicted.too_large->peak_bytes());
      result_.rejected.push_back({.layout = *waiting.layout,
                                  .seconds = waiting.bound.seconds,
                                  .bytes = bytes,
                                  .refined = true});
      begun_.emplace_back(*waiting.layout, std::move(predicted.too_large));
      return;
    }
    if (!predicted.prediction) {
      ++result_.refused[predicted.refused];
      return;
    }
    Candidate candidate{*waiting.layout, waiting.bound, std::move(*predicted.prediction),
                        std::move(predicted.notes)};
    const double seconds = candidate.prediction.step_seconds;
    if (candidate.prediction.host_is_full()) {
      ++result_.refused[fmt::format(
          "what its ranks offload does not fit in the {} of a host (memory.offload_path = null)",
          format_bytes(static_cast<int64_t>(candidate.prediction.host_capacity_bytes)))];
      return;
    }
    if (!candidate.prediction.fits) {
      result_.rejected.push_back(
          {candidate.layout, seconds, static_cast<double>(candidate.peak_bytes()), true, true});
      return;
    }
    best_ = result_.candidates.empty() ? seconds : std::min(best_, seconds);
    result_.candidates.push_back(std::move(candidate));
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
    result_.proven = std::ranges::count_if(result_.candidates, [this](const Candidate& c) {
      return empty() || c.prediction.step_seconds < result_.next_bound;
    });
    result_.complete = empty() || (!result_.candidates.empty() && result_.next_bound > best_);
    look_at_near_misses(request_, spaces_, pool_, std::move(begun_), result_,
                        [this] { return time_is_left(); });
    for (const auto& space : spaces_) result_.layer_costs += space->costs().pairs();
    result_.seconds = seconds_since(begin_);
  }

  const PlanRequest& request_;
  SearchSettings settings_;
  Clock::time_point begin_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<SearchSpace>> spaces_;
  std::priority_queue<Waiting> rough_, refined_;  // the second: with their closest bounds
  int64_t made_ = 0, next_guess_ = kGuessAfter;   // costs of layers
  double best_ = 0;                               // seconds
  LayoutRuns begun_;                              // of layouts that were found too large
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
