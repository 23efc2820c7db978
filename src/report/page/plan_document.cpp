#include "report/page/plan_document.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

double sum_of(const Json& seconds, std::string_view prefix) {
  double sum = 0;
  for (const auto& [name, value] : seconds.items())
    if (value.is_number() && std::string_view(name).substr(0, prefix.size()) == prefix)
      sum += value.get<double>();
  return sum;
}

}  // namespace

Json read_plan_document(const std::filesystem::path& path) {
  Json document = read_json<Json>(path);
  const auto has = [&](const char* name) {
    return document.is_object() && document.contains(name) && document[name].is_array();
  };
  VIADUCT_CHECK(IoError, has("stages") || has("candidates"),
                "{}: expected the output of viaduct plan --json: one configuration (stages), or a "
                "search on one number of GPUs (candidates)",
                path.string());
  return document;
}

std::optional<PlannedRun> planned_run(const Json& document) {
  PlannedRun run;
  const auto peak = [](const Json& predicted) {
    int64_t most = 0;
    for (const Json& bytes : predicted.at("peak_memory_bytes"))
      most = std::max(most, bytes.get<int64_t>());
    return most;
  };
  if (document.contains("stages")) {
    const Json& predicted = document.at("predicted");
    run.step_seconds = predicted.at("step_seconds").get<double>();
    run.peak_memory_bytes = peak(predicted);
    for (const Json& stage : document.at("stages")) {
      const Json& seconds = stage.at("seconds");
      run.communication_seconds =
          std::max(run.communication_seconds, seconds.at("bubble").get<double>() +
                                                  sum_of(seconds.at("exposed_communication"), ""));
    }
    return run;
  }
  if (document.at("candidates").empty()) return std::nullopt;
  const Json& predicted = document.at("candidates").front().at("predicted");
  run.step_seconds = predicted.at("step_seconds").get<double>();
  run.peak_memory_bytes = peak(predicted);
  run.communication_seconds = predicted.at("seconds").at("bubble").get<double>() +
                              sum_of(predicted.at("seconds"), "exposed ");
  return run;
}

}  // namespace viaduct
