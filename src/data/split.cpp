#include "data/split.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace viaduct {
namespace {

// numpy.sum of float64: sequential below 8 elements, eight interleaved sums up to 128, halves (of a
// multiple of 8) above.
double numpy_sum(const double* values, size_t count) {
  if (count < 8) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += values[i];
    return sum;
  }
  if (count <= 128) {
    double part[8];
    for (size_t k = 0; k < 8; ++k) part[k] = values[k];
    size_t i = 8;
    for (; i < count - count % 8; i += 8) {
      for (size_t k = 0; k < 8; ++k) part[k] += values[i + k];
    }
    double sum =
        ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < count; ++i) sum += values[i];
    return sum;
  }
  const size_t half = count / 2 - count / 2 % 8;
  return numpy_sum(values, half) + numpy_sum(values + half, count - half);
}

double parse_weight(std::string_view text, std::string_view whole) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  VIADUCT_CHECK(
      ConfigError,
      error == std::errc{} && end == text.data() + text.size() && value >= 0 &&
          std::isfinite(value),
      "dataset.split: '{}' in '{}' is not a weight; expected up to three numbers >= 0, for "
      "example 99,1,0",
      text, whole);
  return value;
}

}  // namespace

std::string_view split_name(Split split) {
  constexpr std::string_view kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<int>(split)];
}

Split parse_split_name(std::string_view name) {
  if (name == "train") return Split::train;
  if (name == "valid" || name == "validation") return Split::valid;
  if (name == "test") return Split::test;
  fail<ConfigError>("'{}' is not a split; expected train, valid or test", name);
}

std::vector<double> normalize_weights(const std::vector<double>& weights) {
  const double sum = numpy_sum(weights.data(), weights.size());
  std::vector<double> normalized;
  for (const double weight : weights) normalized.push_back(weight / sum);
  return normalized;
}

SplitFractions parse_split(std::string_view text) {
  std::vector<double> weights;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    weights.push_back(parse_weight(rest.substr(0, comma), text));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  VIADUCT_CHECK(ConfigError, weights.size() <= kSplitCount,
                "dataset.split: '{}' has {} weights, expected at most 3", text, weights.size());
  weights.resize(kSplitCount, 0.0);
  VIADUCT_CHECK(ConfigError, weights[0] + weights[1] + weights[2] > 0,
                "dataset.split: all weights of '{}' are 0", text);
  const std::vector<double> normalized = normalize_weights(weights);
  SplitFractions fractions;
  double begin = 0;
  for (int i = 0; i < kSplitCount; ++i) {
    const double end = begin + normalized[static_cast<size_t>(i)];
    if (end > begin) fractions[static_cast<size_t>(i)] = {begin, end};
    begin = end;
  }
  return fractions;
}

DocumentRange split_range(const std::array<double, 2>& fractions, int64_t count) {
  const auto border = [&](double fraction) {
    return std::min(count,
                    static_cast<int64_t>(std::nearbyint(fraction * static_cast<double>(count))));
  };
  return {border(fractions[0]), border(fractions[1])};
}

}  // namespace viaduct
