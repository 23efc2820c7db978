#include "plan_score.h"

#include <fmt/core.h>

#include <thread>

#include "base/file.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/units.h"
#include "before_ranks.h"
#include "plan/score/score.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Null without rows.
Json summary_json(const std::optional<ErrorSummary>& summary) {
  if (!summary) return {};
  return {{"mape", summary->mape},
          {"median", summary->median},
          {"p90", summary->p90},
          {"bias", summary->bias}};
}

Json parts_json(const MemoryParts& parts) {
  return {{"staying_bytes", parts.staying}, {"passing_bytes", parts.passing}};
}

Json memory_json(const JudgedMemory& row) {
  return {{"id", row.id},
          {"predicted_bytes", row.predicted.peak()},
          {"published_bytes", row.published_bytes ? Json(*row.published_bytes) : Json()},
          {"predicted", parts_json(row.predicted)},
          {"published", row.published ? parts_json(*row.published) : Json()},
          {"library_bytes", row.library_bytes},
          {"capacity_bytes", row.capacity_bytes},
          {"fits", row.fits()},
          {"published_fits", row.published_fits}};
}

Json score_json(const Score& score) {
  Json rows = Json::array(), memory = Json::array(), unsupported = Json::array();
  for (const ScoredRow& row : score.rows)
    rows.push_back({{"id", row.id},
                    {"predicted", row.predicted},
                    {"published", row.published},
                    {"error", row.error()},
                    {"note", row.note},
                    {"fits", row.fits},
                    {"gpu", row.gpu}});
  for (const JudgedMemory& row : score.memory) memory.push_back(memory_json(row));
  for (const UnsupportedEntry& row : score.unsupported)
    unsupported.push_back({{"id", row.id}, {"reason", row.reason}});
  const auto summary = summary_of(score.rows);
  const auto figure = [&](double ErrorSummary::*of) {
    return summary ? Json((*summary).*of) : Json();
  };
  const auto part = [&](double MemoryParts::*of) {
    return summary_json(summary_of(errors_of(score.memory, of)));
  };
  return {{"unit", score.kind == PublishedKind::memory ? "bytes" : "tokens/s a GPU"},
          {"rows", std::move(rows)},
          {"mape", figure(&ErrorSummary::mape)},
          {"median", figure(&ErrorSummary::median)},
          {"p90", figure(&ErrorSummary::p90)},
          {"bias", figure(&ErrorSummary::bias)},
          {"staying", part(&MemoryParts::staying)},
          {"passing", part(&MemoryParts::passing)},
          {"unsupported", std::move(unsupported)},
          {"memory", std::move(memory)}};
}

void print_summary(std::string_view of, size_t rows, const std::optional<ErrorSummary>& summary) {
  if (!summary) return;
  fmt::print(
      "{}{}: mean error {:.1f} %, median {:.1f} %, 90 % of rows within {:.1f} %, bias {:+.1f} "
      "%\n",
      of, counted(static_cast<int64_t>(rows), "row"), 100 * summary->mape, 100 * summary->median,
      100 * summary->p90, 100 * summary->bias);
}

void print_score(const Score& score) {
  const bool bytes = score.kind == PublishedKind::memory;
  const auto figure = [&](double value) {
    return bytes ? format_bytes(static_cast<int64_t>(value)) : fmt::format("{:.1f}", value);
  };
  fmt::print("{:<26} {:>12} {:>12} {:>9}\n", bytes ? "peak of memory" : "tokens/s a GPU",
             "predicted", "published", "error");
  for (const ScoredRow& row : score.rows)
    fmt::print("{:<26} {:>12} {:>12} {:>+7.1f} %{}\n", row.id, figure(row.predicted),
               figure(row.published), 100 * row.error(), row.note.empty() ? "" : "  " + row.note);
  print_summary("", score.rows.size(), summary_of(score.rows));
  for (const auto& [name, part] : {std::pair("what stays between steps, ", &MemoryParts::staying),
                                   std::pair("what a step adds, ", &MemoryParts::passing)}) {
    const std::vector<double> errors = errors_of(score.memory, part);
    print_summary(name, errors.size(), summary_of(errors));
  }
  int64_t fitting = 0, wrongly = 0, failed = 0, missed = 0;
  for (const JudgedMemory& row : score.memory) {
    (row.published_fits ? fitting : failed) += 1;
    if (row.fits() != row.published_fits) (row.published_fits ? wrongly : missed) += 1;
  }
  if (!score.memory.empty())
    fmt::print("memory: {}, predicted not to fit: {}; {} out of memory, predicted to fit: {}\n",
               counted(fitting, "row ran", "rows ran"), wrongly,
               counted(failed, "row ran", "rows ran"), missed);
  if (!score.unsupported.empty())
    fmt::print("not predicted, {}:\n", counted(std::ssize(score.unsupported), "row"));
  for (const UnsupportedEntry& row : score.unsupported)
    fmt::print("{:<26} {}\n", row.id, row.reason);
}

}  // namespace

int score_published(const std::string& table, const std::string& constants, bool json) {
  const Score score = before_ranks([&] {
    check_given_path("--score ", table, "a table of published runs (CSV)");
    ScoreSettings settings;
    settings.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (!constants.empty()) {
      check_given_path("--constants ", constants, "a YAML file with step_share");
      settings.constants = parse_score_constants(read_file(constants), constants);
    }
    return score_table(parse_csv(read_file(table), table), table, settings);
  });
  if (json)
    fmt::print("{}\n", score_json(score).dump(2));
  else
    print_score(score);
  return 0;
}

}  // namespace viaduct::cli
