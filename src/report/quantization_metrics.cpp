#include "report/quantization_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Measured = MeasuredOperand;
using Json = nlohmann::json;

Json numbers_of(const QuantizationError& e) {
  return {e.elements, e.nonzero,      e.underflows, e.overflows,   e.not_finite,
          e.square,   e.error_square, e.amax,       e.least_scale, e.most_scale};
}

std::string to_text(const QuantizationLog::Tensors& tensors) {
  Json object = Json::object();
  for (const auto& [name, e] : tensors)
    object[name] = {numbers_of(e.all), e.worst_expert, numbers_of(e.worst)};
  return object.dump();
}

QuantizationLog::Tensors from_text(const std::string& text) {
  QuantizationLog::Tensors tensors;
  if (text.empty()) return tensors;
  const Json object = parse_json<Json>(text, "measurements of the ranks");
  // JSON has no NaN and no infinity: both are written as null. The least scale of no element is
  // infinite, other figures are not numbers where elements are not.
  const auto number = [](const Json& value,
                         double missing = std::numeric_limits<double>::quiet_NaN()) {
    return value.is_null() ? missing : value.get<double>();
  };
  constexpr double kNoScale = std::numeric_limits<double>::infinity();
  const auto measured = [&](const Json& e) {
    return QuantizationError{number(e[0]),           number(e[1]), number(e[2]), number(e[3]),
                             number(e[4]),           number(e[5]), number(e[6]), number(e[7]),
                             number(e[8], kNoScale), number(e[9])};
  };
  for (const auto& [name, e] : object.items())
    tensors[name] = {measured(e[0]), e[1].get<int64_t>(), measured(e[2])};
  return tensors;
}

std::string merge_texts(std::string lower, const std::string& upper) {
  QuantizationLog::Tensors tensors = from_text(lower);
  for (const auto& [name, other] : from_text(upper)) tensors[name].merge(other);
  return to_text(tensors);
}
}  // namespace

double underflow_share(const QuantizationError& e) {
  return e.nonzero > 0 ? e.underflows / e.nonzero : 0;
}

QuantizationLog::Tensors quantization_of_ranks(HostGroup& host,
                                               const QuantizationLog::Tensors& mine) {
  return from_text(host.merge_on_rank_0(to_text(mine), merge_texts));
}

std::string quantization_table(const QuantizationLog::Tensors& tensors, size_t rows) {
  std::vector<std::pair<std::string, Measured>> worst(tensors.begin(), tensors.end());
  std::ranges::stable_sort(
      worst, [](const auto& a, const auto& b) { return is_worse(a.second.all, b.second.all); });
  worst.resize(std::min(rows, worst.size()));
  size_t width = 6;
  for (const auto& [name, e] : worst) width = std::max(width, name.size());
  std::string text = fmt::format("{:<{}}  {:>9}  {:>9}  {:>9}  {:>10}  {:>14}\n", "tensor", width,
                                 "amax", "underflow", "overflow", "not finite", "relative error");
  for (const auto& [name, measured] : worst) {
    const QuantizationError& e = measured.all;
    text +=
        fmt::format("{:<{}}  {:>9.3g}  {:>8.2f}%  {:>9}  {:>10}  {:>13.2f}%", name, width, e.amax,
                    100 * underflow_share(e), e.overflows, e.not_finite, 100 * e.relative_error());
    if (measured.worst_expert >= 0)
      text += fmt::format("  worst: expert {}, {:.2f}%", measured.worst_expert,
                          100 * measured.worst.relative_error());
    text += "\n";
  }
  return text;
}

}  // namespace viaduct
