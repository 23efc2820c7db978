#include "run/unplanned_causes.h"

#include <fmt/ranges.h>

#include <vector>

#include "run/setup.h"

namespace viaduct {

std::string unplanned_causes(const RunSetup& setup) {
  const DatasetConfig& data = setup.config.dataset;
  std::vector<std::string_view> causes;
  if (setup.model.moe.any()) causes.push_back("experts that get more tokens than an even share");
  // A plan has the same number in each row; their tower's rows are most of what a row adds.
  if (data.images) causes.push_back("rows with other numbers of pictures");
  if ((setup.conversations && !data.images) || data.reset_attention_mask)
    causes.push_back("documents of other lengths");
  return fmt::format("{}", fmt::join(causes, ", "));
}

}  // namespace viaduct
