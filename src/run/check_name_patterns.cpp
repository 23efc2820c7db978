#include "run/check_name_patterns.h"

#include <algorithm>

#include "model/model.h"
#include "run/run_config.h"
#include "sharding/name_patterns.h"

namespace viaduct {

void check_name_patterns(const RunConfig& config, const ModelConfig& model, Problems& problems) {
  const auto& patterns = config.ddp.fp32_accumulation_patterns.values();
  if (patterns.empty()) return;
  const auto device = make_sim_device();  // only names are needed, no memory
  const auto whole =
      build_model(*device, model, {.precision = precision_recipe(config.mixed_precision)},
                  config.model.seq_length.value());
  const auto parameters = whole->parameters();
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const Parameter* p) { return name_fits(pattern, *p); };
    if (std::any_of(parameters.begin(), parameters.end(), fits)) continue;
    problems.add(
        "ddp.param_name_patterns_for_fp32_local_accumulation: {} matches no parameter; names look "
        "like {}",
        pattern, parameters.back()->path);
  }
}

}  // namespace viaduct
