#include "run/adapter_fields.h"

#include <fmt/format.h>

#include "checkpoint/adapter_description.h"

namespace viaduct {
namespace {

/// What adapter_config.json has as patterns: those of section peft.
template <class T>
Value pattern_values(const std::map<std::string, T>& patterns) {
  Value values;
  values.kind = Value::Kind::map;
  for (const auto& [pattern, number] : patterns)
    values.set(pattern, Value::of_scalar(fmt::format("{}", number)));
  return values;
}

}  // namespace

void take_adapter_fields(PeftConfig& config, const ModelConfig& model) {
  const AdapterSettings& adapter = config.resolved;
  const AdapterDescription said = describe_adapter(adapter, model);
  config.scheme = adapter.magnitudes ? AdapterScheme::dora : AdapterScheme::lora;
  config.target_modules = said.targets;
  config.exclude_modules.clear();
  config.dim = said.rank;
  config.alpha = said.alpha;
  config.rslora = said.rank_stabilized;
  config.rank_pattern = pattern_values(said.ranks);
  config.alpha_pattern = pattern_values(said.alphas);
  config.dropout = adapter.dropout;
  config.train = said.trained;
}

}  // namespace viaduct
