#include "run/gpu_boost.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/run_program.h"

namespace viaduct {
namespace {

constexpr size_t kLongestText = 400;

/// In one line, with single spaces; of several lines those that have `word`.
std::string one_line(const std::string& output, std::string_view word = "") {
  std::string text, line, part;
  std::istringstream lines(output);
  while (std::getline(lines, line)) {
    if (line.find(word) == std::string::npos) continue;
    std::istringstream parts(line);
    while (parts >> part) text += (text.empty() ? "" : " ") + part;
  }
  return text.size() > kLongestText ? text.substr(0, kLongestText) + " …" : text;
}

/// The sliders as nvidia-smi lists them: "; now: …"; "" if it does not.
std::string listed(double seconds) {
  const ProgramOutcome list = run_program({"nvidia-smi", "boost-slider", "-l"}, seconds);
  const std::string text = list.succeeded() ? one_line(list.output, "vboost") : "";
  return text.empty() ? "" : "; now: " + text;
}

}  // namespace

BoostOutcome move_boost_slider(int position, double seconds) {
  const std::string number = std::to_string(position);
  const std::string call = "nvidia-smi boost-slider --vboost " + number;
  try {
    const ProgramOutcome outcome =
        run_program({"nvidia-smi", "boost-slider", "--vboost", number}, seconds);
    if (!outcome.in_time) return {false, fmt::format("{}: no answer after {:g} s", call, seconds)};
    const std::string said = one_line(outcome.output);
    if (outcome.status != 0) {
      return {false, fmt::format("{}: exit status {}{}{}", call, outcome.status,
                                 said.empty() ? "" : ": ", said)};
    }
    return {true, call + (said.empty() ? "" : ": " + said) + listed(seconds)};
  } catch (const IoError& error) {
    return {false, fmt::format("{}: {}", call, error.what())};
  }
}

void boost_gpus(const DistConfig& config, const Launch& launch) {
  if (!config.vboost || local_rank(launch, launch.rank) != 0) return;
  const BoostOutcome outcome = move_boost_slider(*config.vboost);
  if (outcome.moved)
    log_info("dist.vboost = {}: {}", *config.vboost, outcome.text);
  else
    log_warning("dist.vboost = {}: the boost slider was not moved: {}", *config.vboost,
                outcome.text);
}

}  // namespace viaduct
