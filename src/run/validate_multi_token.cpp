#include <fmt/ranges.h>

#include "model/family.h"
#include "run/validate_parallel.h"

namespace viaduct {

void validate_multi_token(const RunConfig& config, Problems& problems) {
  const auto& layers = config.model.mtp_num_layers;
  if (layers.is_auto() || layers.value().value_or(0) == 0) return;
  std::vector<std::string> named;
  for (const ModelFamily& family : model_families()) {
    if (!family.names.mtp_projection.empty()) named.push_back(family.model_type);
  }
  const auto& family = config.model.family;
  if (!family.is_auto() && std::find(named.begin(), named.end(), family.value()) == named.end()) {
    problems.add(
        "model.mtp_num_layers: family {} has no names for such layers; families with them: {}",
        family.value(), fmt::join(named, ", "));
  }
  const auto& length = config.model.seq_length;
  if (!length.is_auto() && *layers.value() >= length.value()) {
    problems.add(
        "model.mtp_num_layers: {} with rows of seq_length = {} tokens, where no token has one that "
        "far ahead; expected fewer layers",
        *layers.value(), length.value());
  }
}

}  // namespace viaduct
