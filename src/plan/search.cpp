#include "plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "plan/contradictions.h"
#include "plan/layout_predictions.h"
#include "plan/layout_queue.h"
#include "plan/near_miss_runs.h"
#include "plan/search_space.h"
#include "run/vision_support.h"

namespace viaduct {
namespace {

// Share of the time limit; the rest is for dry runs that have begun, and for layouts that do not
// fit.
constexpr double kSearchShare = 0.8;

// Share of the time limit for layouts without stages of an encoder's own, where others have them.
constexpr double kFirstShare = 0.5;

// Seconds besides the time limit in which the states of a model are found.
constexpr double kStateSeconds = 3;

// Layouts that are predicted at the end of the time if none fits before.
constexpr size_t kSmallest = 4;

// Dry runs of layers between two predictions.
constexpr int64_t kGuessAfter = 16;

// A layout whose bound is so many times the lowest one is probably no row. It is predicted out of
// turn only if nothing fits at half of the search's time, so that there is something to show.
constexpr double kFarBehind = 1.5;

class Search {
 public:
  Search(const PlanRequest& request, const SearchSettings& settings)
      : request_(request), settings_(settings), begin_(settings.clock()), pool_(settings.threads) {}

  SearchResult run() {
    try {
      make_spaces();
    } catch (const DeadlineError&) {
      fail<ConfigError>(
          "viaduct plan: --time-limit: {} s, but the states of this model alone took {:.0f} s and "
          "are not known yet; expected more seconds, or a smaller model",
          limit(), limit() + kStateSeconds);
    }
    describe_result();
    // Bounds of layouts with stages of an encoder's own are further from their times. The others
    // come first, so that there are rows to compare these with.
    for (const bool own : {false, true}) {
      for (const auto& space : spaces_) {
        for (const Layout& layout : space->layouts())
          if ((layout.encoder_stages > 0) == own)
            add({model_bound(space->model(), layout), &layout, space.get(), BoundBasis::model});
      }
      while (!queue_.empty() && !done() && (own || !passed(kFirstShare * limit()))) advance();
    }
    if (result_.candidates.empty() && !queue_.empty()) predict_smallest();
    finish();
    return std::move(result_);
  }

 private:
  /// One for each variant that can be planned.
  void make_spaces() {
    if (request_.variants.empty()) {
      spaces_.push_back(std::make_unique<SearchSpace>(request_, nullptr, end_of_states()));
      return;
    }
    std::string last;
    for (const auto& variant : request_.variants) {
      try {
        spaces_.push_back(std::make_unique<SearchSpace>(request_, variant, end_of_states()));
      } catch (const ConfigError& error) {
        last = variant->name + ": " + error.what();
        ++result_.refused[last];
      }
    }
    VIADUCT_CHECK(ConfigError, !spaces_.empty(), "viaduct plan: of {} none can be planned; {}",
                  counted(static_cast<int64_t>(request_.variants.size()), "variant"), last);
  }

  void describe_result() {
    const SearchSpace& first = *spaces_.front();
    result_.model = first.costs().whole().model;
    const SpaceLimits& space = first.limits().space;
    result_.ranks = space.ranks, result_.global_batch = space.global_batch;
    result_.length = space.length;
    result_.images_of_row = images_of_row(first.costs().whole());
    result_.images = images_text(first.costs().whole());
    result_.not_searched = first.limits().not_searched;
    result_.capacity_bytes = capacity_bytes(request_.cluster, request_.prediction);
    for (const auto& each : spaces_)
      result_.layouts += static_cast<int64_t>(each->layouts().size());
    if (result_.layouts == 0) throw ConfigError(no_layout_text(space));
  }

  /// Puts a layout into the queue unless its memory is known to be too much.
  void add(const Waiting& waiting) {
    const LowerBound& bound = waiting.bound;
    if (bound.bytes <= result_.capacity_bytes) return queue_.push(waiting);
    result_.rejected.push_back({.layout = *waiting.layout,
                                .seconds = bound.seconds,
                                .bytes = bound.bytes,
                                .refined = waiting.refined()});
  }

  /// Puts a layout back with the next closer bound, whose costs are known.
  void refine(Waiting waiting) {
    waiting.basis = waiting.next_basis();
    const LowerBound closer = *waiting.space->bound(*waiting.layout, waiting.basis);
    waiting.bound.seconds = std::max(waiting.bound.seconds, closer.seconds);
    waiting.bound.bytes = std::max(waiting.bound.bytes, closer.bytes);
    add(waiting);
  }

  /// Seconds of the search: more of them as long as nothing fits.
  double limit() const {
    return result_.candidates.empty()
               ? std::max(settings_.time_limit_seconds, settings_.first_row_seconds)
               : settings_.time_limit_seconds;
  }
  /// What still runs then is given up.
  Deadline end() const { return Deadline::at(begin_ + limit(), settings_.clock); }
  /// Of finding the states of a model, without which there is nothing to show.
  Deadline end_of_states() const {
    return Deadline::at(steady_seconds() + limit() + kStateSeconds);
  }
  bool passed(double seconds) const { return settings_.clock() > begin_ + seconds; }

  bool done() const {
    return queue_.front().bound.seconds > slowest_row() || passed(kSearchShare * limit());
  }

  /// Seconds of the last row that the search proves; infinite while rows are missing.
  double slowest_row() const {
    return static_cast<int>(fastest_.size()) < settings_.rows
               ? std::numeric_limits<double>::infinity()
               : fastest_.back();
  }

  /// The cost of a layer to be made.
  struct Task {
    SearchSpace* space;
    Layout sizes;
    LayerCost cost = {};
    bool out_of_time = false;
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
      work += waiting.layout->stages();
    };
    // A prediction out of turn makes a best time to compare bounds with.
    const Waiting* const refined = queue_.first_refined();
    if (made_ >= next_guess_ && refined != nullptr && is_good_guess(*refined))
      predicts(queue_.take_refined());
    while (work < settings_.threads && !queue_.empty()) {
      if (work > 0 && !may_be_row(queue_.front())) break;
      const Waiting next = queue_.take_front();
      if (next.refined()) {
        predicts(next);
      } else if (next.space->bound(*next.layout, next.next_basis())) {
        refine(next);
      } else {
        held.push_back(next);
        Task task{next.space, next.space->needed(*next.layout, next.next_basis())};
        if (std::none_of(tasks.begin(), tasks.end(),
                         [&](const Task& other) { return makes_the_same(task, other); })) {
          tasks.push_back(std::move(task));
          ++work;
        }
      }
    }
    make_layers(tasks);
    predict_whole(whole);
    for (const Waiting& waiting : held) {
      // Given up, the time is over: its bound stays as it is.
      if (waiting.space->bound(*waiting.layout, waiting.next_basis()))
        refine(waiting);
      else
        queue_.push(waiting);
    }
  }

  bool is_good_guess(const Waiting& refined) const {
    const bool late =
        result_.candidates.empty() && passed(kSearchShare / 2 * settings_.time_limit_seconds);
    return may_be_row(refined) &&
           (late || refined.bound.seconds <= kFarBehind * queue_.front().bound.seconds);
  }

  static bool makes_the_same(const Task& a, const Task& b) {
    return a.space == b.space && same_layer(a.sizes, b.sizes);
  }

  void make_layers(std::vector<Task>& tasks) {
    pool_.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
      Task& task = tasks[static_cast<size_t>(i)];
      try {
        task.cost = task.space->costs().measured(task.sizes, end());
      } catch (const DeadlineError&) {
        task.out_of_time = true;
      }
    });
    for (const Task& task : tasks)
      if (!task.out_of_time) task.space->costs().keep(task.sizes, task.cost);
    made_ += static_cast<int64_t>(tasks.size());
  }

  void predict_whole(const std::vector<Waiting>& all) {
    std::vector<const Layout*> layouts;
    for (const Waiting& waiting : all) layouts.push_back(waiting.layout);
    std::vector<LayoutPrediction> predictions = predict_layouts(request_, pool_, layouts, end());
    for (size_t i = 0; i < all.size(); ++i) take(all[i], std::move(predictions[i]));
    if (!all.empty()) next_guess_ = made_ + kGuessAfter;
  }

  /// The search's share of the time is over and no layout fits yet: predicts those that probably
  /// need the least memory.
  void predict_smallest() {
    std::vector<Waiting> waiting;
    while (!queue_.empty()) waiting.push_back(queue_.take_front());
    const auto keeps_most = [](const Waiting& one) {
      return std::tuple(
          one.layout->recompute != Recompute::full, one.layout->micro_batch * one.layout->vpp,
          -one.layout->cp * one.layout->weight_ranks(), -one.layout->tp, one.bound.bytes);
    };
    std::stable_sort(waiting.begin(), waiting.end(), [&](const Waiting& a, const Waiting& b) {
      return keeps_most(a) < keeps_most(b);
    });
    size_t count = 0;
    while (count < std::min(waiting.size(), kSmallest) && !end().passed())
      predict_whole({waiting[count++]});
    for (size_t i = count; i < waiting.size(); ++i) add(waiting[i]);
  }

  /// Whether a layout may be one of the rows that the search proves, by its bound.
  bool may_be_row(const Waiting& waiting) const { return waiting.bound.seconds <= slowest_row(); }

  void take(const Waiting& waiting, LayoutPrediction predicted) {
    if (predicted.out_of_time) {
      result_.given_up.push_back(*waiting.layout);
      return add(waiting);
    }
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
    fastest_.insert(std::ranges::upper_bound(fastest_, seconds), seconds);
    if (static_cast<int>(fastest_.size()) > settings_.rows) fastest_.pop_back();
    result_.candidates.push_back(std::move(candidate));
  }

  void finish() {
    const auto faster = [](const auto& a, const auto& b) { return a.seconds < b.seconds; };
    std::stable_sort(result_.candidates.begin(), result_.candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.prediction.step_seconds < b.prediction.step_seconds;
                     });
    std::stable_sort(result_.rejected.begin(), result_.rejected.end(), faster);
    result_.left = queue_.size();
    result_.next_bound = queue_.empty() ? 0 : queue_.front().bound.seconds;
    result_.proven = std::ranges::count_if(result_.candidates, [this](const Candidate& c) {
      return queue_.empty() || c.prediction.step_seconds < result_.next_bound;
    });
    result_.complete = queue_.empty() || result_.proven > 0;
    look_at_near_misses(request_, spaces_, pool_, std::move(begun_), result_, end());
    for (const auto& space : spaces_) result_.layer_costs += space->costs().pairs();
    result_.seconds = settings_.clock() - begin_;
  }

  const PlanRequest& request_;
  SearchSettings settings_;
  double begin_;  // on the clock of the settings
  ThreadPool pool_;
  std::vector<std::unique_ptr<SearchSpace>> spaces_;
  LayoutQueue queue_;
  int64_t made_ = 0, next_guess_ = kGuessAfter;  // costs of layers
  std::vector<double> fastest_;                  // seconds of the rows to be proven, ascending
  LayoutRuns begun_;                             // of layouts that were found too large
  SearchResult result_;
};

}  // namespace

SearchResult search_layouts(const PlanRequest& request, const SearchSettings& settings) {
  return Search(request, settings).run();
}

}  // namespace viaduct
