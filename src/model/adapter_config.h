#pragma once
// Section `peft`: low-rank adapters on a frozen model.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "nn/adapter_settings.h"

namespace viaduct {

enum class DropoutPosition { pre, post };
constexpr auto choice_names(DropoutPosition) {
  return std::to_array<std::string_view>({"pre", "post"});
}

enum class AdapterScheme {
  lora,            // W + s · B · A
  canonical_lora,  // the same: Megatron-Bridge's name of adapters that q, k, v have each
  dora,            // and a trained norm of each row of the sum
};
constexpr auto choice_names(AdapterScheme) {
  return std::to_array<std::string_view>({"lora", "canonical_lora", "dora"});
}

enum class LoraAInit { kaiming, xavier, normal };
constexpr auto choice_names(LoraAInit) {
  return std::to_array<std::string_view>({"kaiming", "xavier", "normal"});
}

enum class LoraBInit { zero };
constexpr auto choice_names(LoraBInit) {
  return std::to_array<std::string_view>({"zero"});
}

struct PeftConfig {
  std::optional<AdapterScheme> scheme;  // null: all weights are trained
  std::optional<std::string> adapter;   // a folder whose adapter the run begins from, or uses
  std::vector<std::string> target_modules{"all-linear"}, exclude_modules;
  int64_t dim = 16;
  double alpha = 32;
  bool rslora = false;
  Value rank_pattern, alpha_pattern;  // maps of a regular expression to a number
  LoraAInit lora_A_init_method = LoraAInit::kaiming;
  double lora_plus_ratio = 1;
  std::optional<BaseFormat> base_format;  // of the frozen linear layers; null: the recipe's
  double dropout = 0;
  DropoutPosition dropout_position = DropoutPosition::pre;
  std::vector<std::string> train;
  LoraBInit lora_B_init_method = LoraBInit::zero;  // planned

  /// What these settings or the adapter's files are for the run's model; no field. Empty until the
  /// model is known.
  AdapterSettings resolved;
  /// Prompts of the command name adapters (RunSetup::adapters); no field.
  bool prompts_choose = false;

  /// Whether the model itself has adapters.
  bool adapts() const { return scheme.has_value() || adapter.has_value(); }
  bool any() const { return adapts() || prompts_choose; }
};

/// Why fields do nothing that the files of an adapter say.
inline constexpr const char* kSaidByAdapter = "the files of peft.adapter say it";

FieldGroup peft_fields(PeftConfig& config);

}  // namespace viaduct
