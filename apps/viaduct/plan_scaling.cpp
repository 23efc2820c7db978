#include "plan_scaling.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/units.h"
#include "plan_document.h"

namespace viaduct::cli {
namespace {

/// The search on one number of ranks.
struct Point {
  PlanRequest request;
  SearchResult result;
  std::string refused;  // why there was no search, or ""

  const Candidate* best() const {
    return result.candidates.empty() ? nullptr : &result.candidates.front();
  }
  /// Of the best layout.
  Bill bill(const PlanSearchOptions& options, const Cluster& cluster) const {
    return bill_of(options, cluster, result.ranks, best()->prediction);
  }
  double tokens_per_second_per_gpu() const { return best()->prediction.tokens_per_second_per_gpu; }
};

/// Rows of a step on `ranks`, if the first number of ranks has --global-batch of them.
int64_t batch_on(const PlanSearchOptions& options, int64_t ranks, int64_t first) {
  if (!options.weak) return *options.global_batch;
  VIADUCT_CHECK(ConfigError, *options.global_batch * ranks % first == 0,
                "viaduct plan --weak: {} on {} would not be a whole number of rows on {}",
                counted(*options.global_batch, "row"), counted(first, "rank"), ranks);
  return *options.global_batch * ranks / first;
}

/// Throughput of a GPU over that on the fewest ranks that a layout fits.
double efficiency(const std::vector<Point>& points, const Point& point) {
  for (const Point& first : points) {
    if (first.best()) return point.tokens_per_second_per_gpu() / first.tokens_per_second_per_gpu();
  }
  return 0;
}

/// What --deadline and --budget ask for; null: no number of GPUs qualifies.
class Answers {
 public:
  Answers(const PlanSearchOptions& options, const Cluster& cluster,
          const std::vector<Point>& points)
      : options_(options), cluster_(cluster), points_(points) {}

  const Point* fewest_in_time() const {
    return least([&](const Bill& bill) { return in_time(bill); }, [](const Bill&) { return 0; });
  }
  const Point* fastest_for_budget() const {
    return least([&](const Bill& bill) { return in_budget(bill); },
                 [](const Bill& bill) { return *bill.days; });
  }
  const Point* cheapest_in_time() const {
    return least([&](const Bill& bill) { return in_time(bill); },
                 [](const Bill& bill) { return *bill.usd; });
  }
  const Point* cheapest_in_both() const {
    return least([&](const Bill& bill) { return in_time(bill) && in_budget(bill); },
                 [](const Bill& bill) { return *bill.usd; });
  }

 private:
  bool in_time(const Bill& bill) const { return *bill.days <= *options_.deadline; }
  bool in_budget(const Bill& bill) const { return *bill.usd <= *options_.budget; }

  /// Of the points that qualify, the first with the least figure.
  const Point* least(FunctionRef<bool(const Bill&)> qualifies,
                     FunctionRef<double(const Bill&)> figure) const {
    const Point* found = nullptr;
    for (const Point& point : points_) {
      if (!point.best()) continue;
      const Bill bill = point.bill(options_, cluster_);
      if (qualifies(bill) && (!found || figure(bill) < figure(found->bill(options_, cluster_))))
        found = &point;
    }
    return found;
  }

  const PlanSearchOptions& options_;
  const Cluster& cluster_;
  const std::vector<Point>& points_;
};

/// Numbers of ranks that nothing divides do not stop the others; ConfigError if there are no
/// others.
void search_points(const PlanSearchOptions& options, std::vector<Point>& points) {
  SearchSettings settings = search_settings(options);
  if (!options.json) settings.rows = 1;  // the table shows the best of each
  for (Point& point : points) {
    try {
      point.result = search_layouts(point.request, settings);
    } catch (const ConfigError& error) {
      point.refused = error.what();
    }
  }
  if (std::ranges::none_of(points, [](const Point& point) { return point.refused.empty(); }))
    fail<ConfigError>("{}", points.front().refused);
}

std::string money_text(double usd) {
  return "$" + format_count(usd);
}

/// "128 GPUs, 25.0 days, $1.10M".
std::string bill_text(const Point& point, const Bill& bill) {
  return fmt::format("{}, {:.1f} days{}", counted(point.result.ranks, "GPU"), *bill.days,
                     bill.usd ? ", " + money_text(*bill.usd) : "");
}

void print_answers(const PlanSearchOptions& options, const Cluster& cluster,
                   const std::vector<Point>& points) {
  const Answers answers(options, cluster, points);
  const auto text = [&](const Point* point) {
    return point ? bill_text(*point, point->bill(options, cluster))
                 : "none of these numbers of GPUs qualifies";
  };
  const std::string within =
      !options.deadline
          ? ""
          : fmt::format("within {} {}", *options.deadline, *options.deadline == 1 ? "day" : "days");
  const std::string for_budget = options.budget ? "for at most " + money_text(*options.budget) : "";
  if (options.deadline && options.budget) {
    if (const Point* both = answers.cheapest_in_both())
      return fmt::print("cheapest that ends {} {}: {}\n", within, for_budget, text(both));
    fmt::print("no number of GPUs ends {} {}: the two contradict each other\n", within, for_budget);
    fmt::print("cheapest that ends {}: {}\n", within, text(answers.cheapest_in_time()));
  } else if (options.deadline) {
    fmt::print("fewest that end {}: {}\n", within, text(answers.fewest_in_time()));
  }
  if (options.budget)
    fmt::print("fastest {}: {}\n", for_budget, text(answers.fastest_for_budget()));
}

void print_table(const PlanSearchOptions& options, const Cluster& cluster,
                 const std::vector<Point>& points, const std::string& basis) {
  const auto searched =
      std::ranges::find_if(points, [](const Point& point) { return point.refused.empty(); });
  fmt::print("{} on {} ({}), rows of {} tokens, {} scaling, predicted from {}\n\n", options.model,
             cluster.gpu.name, cluster.name, searched->result.length,
             options.weak ? "weak" : "strong", basis);
  fmt::print("{:>7} {:>7} {:>10} {:>11} {:>9} {:>7} {:>10}{}  layout\n", "GPUs", "batch", "step",
             "tokens/s", "per GPU", "MFU", "efficiency",
             options.tokens ? "   days       cost" : "");
  for (const Point& point : points) {
    const SearchResult& result = point.result;
    fmt::print("{:>7} {:>7} ", result.ranks, result.global_batch);
    if (!point.best()) {
      fmt::print("{}\n", !point.refused.empty() ? point.refused
                         : result.left > 0      ? "no layout was found within the time limit"
                                                : "no layout fits");
      continue;
    }
    const Prediction& p = point.best()->prediction;
    const double per_gpu = p.tokens_per_second_per_gpu;
    std::string money;
    if (const Bill bill = point.bill(options, cluster); bill.days) {
      money = fmt::format(" {:>6.1f} {:>10}", *bill.days,
                          bill.usd ? "$" + format_count(*bill.usd) : "no price");
    }
    fmt::print("{:>10} {:>11} {:>9.0f} {:>5.1f} % {:>8.1f} %{}  {}{}\n",
               format_seconds(p.step_seconds),
               format_count(per_gpu * static_cast<double>(result.ranks)), per_gpu, 100 * p.mfu,
               100 * efficiency(points, point), money, describe(point.best()->layout),
               result.complete ? "" : " (the search was not complete)");
  }
  const auto found = std::ranges::find_if(points, &Point::best);
  fmt::print(
      "efficiency: throughput of a GPU over that of the first row with a layout{}\n",
      found == points.end() ? "" : "; MFU is of " + found->best()->prediction.peak.describe());
  print_answers(options, cluster, points);
}

void print_json(const PlanSearchOptions& options, const Cluster& cluster,
                const std::vector<Point>& points, const std::string& basis) {
  auto rows = nlohmann::ordered_json::array();
  for (const Point& point : points) {
    auto row = point.refused.empty()
                   ? search_document(options, point.request, point.result, basis)
                   : nlohmann::ordered_json{{"gpus", point.result.ranks},
                                            {"candidates", nlohmann::ordered_json::array()},
                                            {"refused", {{{"reason", point.refused}}}}};
    row["global_batch_size"] = point.result.global_batch;
    row["efficiency"] =
        point.best() ? nlohmann::ordered_json(efficiency(points, point)) : nlohmann::ordered_json();
    rows.push_back(std::move(row));
  }
  const auto gpus = [](const Point* point) {
    return point ? nlohmann::ordered_json(point->result.ranks) : nlohmann::ordered_json();
  };
  const Answers found(options, cluster, points);
  auto answers = nlohmann::ordered_json::object();
  if (options.deadline) answers["fewest_gpus_in_time"] = gpus(found.fewest_in_time());
  if (options.budget) answers["fastest_gpus_for_budget"] = gpus(found.fastest_for_budget());
  if (options.deadline && options.budget)
    answers["cheapest_gpus_in_time_and_budget"] = gpus(found.cheapest_in_both());
  const nlohmann::ordered_json document{{"model", options.model},
                                        {"cluster", cluster.name},
                                        {"gpu", cluster.gpu.name},
                                        {"scaling", options.weak ? "weak" : "strong"},
                                        {"points", std::move(rows)},
                                        {"answers", std::move(answers)},
                                        {"basis", basis}};
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

int run_plan_scaling(const PlanSearchOptions& options, const Cluster& cluster,
                     const std::vector<int64_t>& counts, const std::string& basis) {
  VIADUCT_CHECK(ConfigError, options.write.empty(),
                "viaduct plan --write: expected one number of ranks, found --ranks {}",
                options.ranks);
  VIADUCT_CHECK(ConfigError, options.tokens || (!options.deadline && !options.budget),
                "viaduct plan: --deadline and --budget need --tokens, the tokens of the training");
  VIADUCT_CHECK(ConfigError, options.price || cluster.gpu.price || !options.budget,
                "viaduct plan --budget: the catalog has no price of {}; give --price",
                cluster.gpu.name);
  // Every number is checked before the first search.
  std::vector<Point> points;
  for (const int64_t ranks : counts) {
    const int64_t rows = batch_on(options, ranks, counts.front());
    points.push_back({plan_request(options, cluster, ranks, rows), {}, {}});
    points.back().result.ranks = ranks, points.back().result.global_batch = rows;
  }
  search_points(options, points);
  options.json ? print_json(options, cluster, points, basis)
               : print_table(options, cluster, points, basis);
  for (const Point& point : points) {
    if (point.best()) return 0;
  }
  fail<Error>("viaduct plan: no layout of {} was found on any of {} × {}", options.model,
              options.ranks, cluster.gpu.name);
}

}  // namespace viaduct::cli
