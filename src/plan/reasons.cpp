#include "plan/reasons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"

namespace viaduct {
namespace {

// Parts below this share of the step are not mentioned, slack below this share of memory is scarce.
constexpr double kMentioned = 0.005, kScarce = 0.1;

/// What a part of a step is, in words.
std::string part_text(const std::string& part) {
  if (part == "bubble") return "the pipeline's bubble and waiting for other ranks";
  if (part == "host") return "the host's launches";
  if (part == "optimizer") return "the optimizer";
  if (part.starts_with("exposed ")) return "exposed communication of " + part.substr(8);
  return part;
}

std::string milliseconds(double seconds) {
  const double ms = 1e3 * std::abs(seconds);
  return ms >= 100 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.3g} ms", ms);
}

std::vector<std::string> what_binds(const Candidate& best) {
  const Prediction& p = best.prediction;
  auto parts = step_parts(p);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  std::string rest;
  for (const auto& [name, seconds] : parts) {
    if (seconds < kMentioned * p.step_seconds) continue;
    rest += fmt::format("{}{:.1f} % {}", rest.empty() ? "" : ", ", 100 * seconds / p.step_seconds,
                        part_text(name));
  }
  texts.push_back("the step is " + rest);
  const double slack = best.slack_bytes();
  texts.push_back(fmt::format("memory: {} of {} are left on the fullest GPU{}",
                              format_bytes(static_cast<int64_t>(slack)),
                              format_bytes(static_cast<int64_t>(p.capacity_bytes)),
                              slack < kScarce * p.capacity_bytes ? ", so memory binds too" : ""));
  return texts;
}

/// The parts that take longer in `other` than in `best`, largest first, and the shorter ones.
std::vector<std::string> losses(const Prediction& best, const Prediction& other) {
  std::map<std::string, double> difference;
  for (const auto& [name, seconds] : step_parts(other)) difference[name] += seconds;
  for (const auto& [name, seconds] : step_parts(best)) difference[name] -= seconds;
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, seconds] : difference)
    if (std::abs(seconds) >= kMentioned * best.step_seconds) sorted.emplace_back(seconds, name);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<std::string> texts;
  for (const auto& [seconds, name] : sorted)
    texts.push_back(fmt::format("{} {} in {}", milliseconds(seconds), seconds > 0 ? "more" : "less",
                                part_text(name)));
  return texts;
}

}  // namespace

std::vector<std::pair<std::string, double>> step_parts(const Prediction& prediction) {
  const auto stages = static_cast<double>(prediction.stages.size());
  std::map<std::string, double> exposed;
  double compute = 0, optimizer = 0, bubble = 0, host = 0;
  for (const StagePrediction& stage : prediction.stages) {
    compute += stage.time.compute / stages, optimizer += stage.time.optimizer / stages;
    bubble += stage.time.bubble / stages, host += stage.time.host / stages;
    for (const auto& [group, seconds] : stage.time.exposed)
      exposed["exposed " + group] += seconds / stages;
  }
  std::vector<std::pair<std::string, double>> parts{
      {"compute", compute}, {"optimizer", optimizer}, {"bubble", bubble}, {"host", host}};
  parts.insert(parts.end(), exposed.begin(), exposed.end());
  return parts;
}

std::vector<std::string> reasons_of(const SearchResult& result, size_t index,
                                    const SearchSettings& settings) {
  const Candidate &best = result.candidates.front(), &candidate = result.candidates[index];
  if (index == 0) return what_binds(best);
  std::vector<std::string> texts;
  const double slower = candidate.prediction.step_seconds / best.prediction.step_seconds - 1;
  std::string text = fmt::format("{:.1f} % slower than the best", 100 * slower);
  if (ties_with_best(result, candidate, settings.tie_share))
    text += fmt::format(", which is a tie: predictions closer than {:.0f} % are not distinguished",
                        100 * settings.tie_share);
  texts.push_back(text);
  const auto lost = losses(best.prediction, candidate.prediction);
  if (!lost.empty()) texts.push_back(fmt::format("{}", fmt::join(lost, ", ")));
  const auto memory = static_cast<int64_t>(candidate.slack_bytes() - best.slack_bytes());
  if (memory != 0)
    texts.push_back(fmt::format("{} {} of memory left than with the best",
                                format_bytes(std::abs(memory)), memory > 0 ? "more" : "less"));
  return texts;
}

std::vector<NearMiss> near_misses(const SearchResult& result, size_t most) {
  std::vector<NearMiss> misses;
  for (const Rejected& rejected : result.rejected) {
    const bool might_win = result.candidates.empty() ||
                           rejected.seconds < result.candidates.front().prediction.step_seconds;
    if (might_win) misses.push_back({rejected, rejected.bytes - result.capacity_bytes});
  }
  const size_t count = std::min(most, misses.size());
  std::partial_sort(
      misses.begin(), misses.begin() + static_cast<std::ptrdiff_t>(count), misses.end(),
      [](const NearMiss& a, const NearMiss& b) { return a.excess_bytes < b.excess_bytes; });
  misses.resize(count);
  return misses;
}

std::string text_of(const NearMiss& miss) {
  const Rejected& rejected = miss.rejected;
  std::string text =
      fmt::format("{}: needs {}{}, {} bytes ({}) more than available; its step takes {}{}",
                  describe(rejected.layout), rejected.exact_bytes ? "" : "at least ",
                  format_bytes(static_cast<int64_t>(rejected.bytes)),
                  static_cast<int64_t>(std::ceil(miss.excess_bytes)),
                  format_bytes(static_cast<int64_t>(miss.excess_bytes)),
                  rejected.exact_seconds ? "" : "at least ", format_seconds(rejected.seconds));
  if (rejected.neighbor)
    text += fmt::format(". It fits with {}",
                        fmt::join(differences(rejected.layout, *rejected.neighbor), ", "));
  return text;
}

}  // namespace viaduct
