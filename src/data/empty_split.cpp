#include "data/empty_split.h"

#include <fmt/format.h>

namespace viaduct {
namespace {

/// "larger parts (dataset.split=90,10,0), ", or "" where one sequence cannot be divided.
std::string split_advice(int64_t count) {
  for (const char* split : {"90,10,0", "50,50,0"}) {
    const SplitFractions parts = parse_split(split);
    if (split_range(*parts[0], count).size() > 0 && split_range(*parts[1], count).size() > 0)
      return fmt::format("larger parts (dataset.split={}), ", split);
  }
  return "";
}

}  // namespace

std::string empty_split_advice(Split split, DocumentRange range, int64_t count) {
  if (range.size() == count) return "";
  const std::string advice = fmt::format(
      "; expected {}data for each split (dataset.blend_per_split)", split_advice(count));
  if (split == Split::train) return advice;
  return advice + ", or a training without evaluation (validation.eval_iters=0)";
}

}  // namespace viaduct
