#include "run/adapter_fields.h"

#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/peft_folder.h"

namespace viaduct {
namespace {

/// A member of an adapter's configuration, whose patterns are those of section peft.
Value pattern_values(const nlohmann::json& patterns) {
  Value values;
  values.kind = Value::Kind::map;
  for (const auto& [pattern, number] : patterns.items())
    values.set(pattern, Value::of_scalar(number.dump()));
  return values;
}

std::vector<std::string> names(const nlohmann::json& list) {
  return list.is_null() ? std::vector<std::string>() : list.get<std::vector<std::string>>();
}

}  // namespace

void take_adapter_fields(PeftConfig& config, const ModelConfig& model) {
  const AdapterSettings& adapter = config.resolved;
  const auto said =
      parse_json<nlohmann::json>(peft_config_text(adapter, model, ""), "adapter_config.json");
  config.scheme = adapter.magnitudes ? AdapterScheme::dora : AdapterScheme::lora;
  config.target_modules = names(said.at("target_modules"));
  config.exclude_modules.clear();
  config.dim = said.at("r").get<int64_t>();
  config.alpha = said.at("lora_alpha").get<double>();
  config.rslora = said.at("use_rslora").get<bool>();
  config.rank_pattern = pattern_values(said.at("rank_pattern"));
  config.alpha_pattern = pattern_values(said.at("alpha_pattern"));
  config.dropout = adapter.dropout;
  config.train = names(said.at("modules_to_save"));
}

}  // namespace viaduct
