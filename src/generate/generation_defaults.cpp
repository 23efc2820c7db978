#include "generate/generation_defaults.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "config/problems.h"

namespace viaduct {
namespace {

using nlohmann::json;

std::optional<double> number_member(const json& object, std::string_view name,
                                    const std::string& where) {
  const json* value = find_member(object, name);
  if (value == nullptr) return std::nullopt;
  VIADUCT_CHECK(IoError, value->is_number(), "{}: {}: expected a number, found {}", where, name,
                value->dump().substr(0, 80));
  return value->get<double>();
}

std::optional<int64_t> count_member(const json& object, std::string_view name,
                                    const std::string& where) {
  const json* value = find_member(object, name);
  if (value == nullptr) return std::nullopt;
  const auto count = json_count(*value);
  VIADUCT_CHECK(IoError, count.has_value(), "{}: {}: expected a count, found {}", where, name,
                value->dump().substr(0, 80));
  return count;
}

}  // namespace

SamplingOptions GivenSampling::over(const SamplingOptions& otherwise) const {
  return {temperature.value_or(otherwise.temperature), top_k.value_or(otherwise.top_k),
          top_p.value_or(otherwise.top_p),
          repetition_penalty.value_or(otherwise.repetition_penalty)};
}

GenerationDefaults read_generation_defaults(const TokenizerFiles& files) {
  const std::string name = "generation_config.json";
  const auto document = files.object(name);
  if (!document) return {};
  GenerationDefaults defaults{.where = files.where(name)};
  GivenSampling& sampling = defaults.sampling;
  sampling = {number_member(*document, "temperature", defaults.where),
              number_member(*document, "top_p", defaults.where),
              number_member(*document, "repetition_penalty", defaults.where),
              count_member(*document, "top_k", defaults.where)};
  if (!bool_member(*document, "do_sample", defaults.where, true)) sampling.temperature = 0;
  defaults.max_new_tokens = count_member(*document, "max_new_tokens", defaults.where);
  try {
    check(sampling.over({}));
  } catch (const ConfigError& error) {
    Problems problems;
    for (const std::string& problem : error.problems())
      problems.add("{}: {}", defaults.where, problem);
    problems.throw_if_any();
  }
  return defaults;
}

std::string sampling_text(const SamplingOptions& sampling) {
  std::string text =
      sampling.temperature == 0 ? "greedy" : fmt::format("temperature {}", sampling.temperature);
  const bool samples = sampling.temperature != 0;
  if (samples && sampling.top_k > 0) text += fmt::format(", top-k {}", sampling.top_k);
  if (samples && sampling.top_p < 1) text += fmt::format(", top-p {}", sampling.top_p);
  if (sampling.repetition_penalty != 1)
    text += fmt::format(", repetition penalty {}", sampling.repetition_penalty);
  return text;
}

}  // namespace viaduct
