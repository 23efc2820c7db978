#include "plan/variants.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"

namespace viaduct {
namespace {

/// Values to choose one from.
using Values = std::vector<Variant>;

struct NamedValues {
  std::string name;
  Values values;
};

const std::vector<NamedValues>& named_sets() {
  static const std::vector<NamedValues> kSets{
      {"states",
       {{"", {}},
        {"moments bf16",
         {"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=bf16",
          "optimizer.exp_avg_sq_dtype=bf16"}},
        {"moments fp8",
         {"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=fp8",
          "optimizer.exp_avg_sq_dtype=fp8"}},
        {"moments and gradients bf16",
         {"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=bf16",
          "optimizer.exp_avg_sq_dtype=bf16", "ddp.grad_reduce_in_fp32=false"}}}},
      {"units",
       {{"", {}},
        {"recompute of norms",
         {"model.recompute_granularity=selective", "model.recompute_modules=[layernorm]"}},
        {"recompute of mlp",
         {"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"}},
        {"recompute of norms and mlp",
         {"model.recompute_granularity=selective", "model.recompute_modules=[layernorm, mlp]"}}}},
      {"offload",
       {{"", {}},
        {"offload of mlp",
         {"model.fine_grained_activation_offloading=true", "model.offload_modules=[mlp]"}},
        {"offload of mlp and core_attn",
         {"model.fine_grained_activation_offloading=true",
          "model.offload_modules=[mlp, core_attn]"}}}}};
  return kSets;
}

std::string field_of(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

/// "section.field=a|b|c".
Values values_of_field(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string field = text.substr(0, equals);
  Values values;
  for (size_t begin = equals + 1; begin <= text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    const std::string setting = field + "=" + text.substr(begin, end - begin);
    VIADUCT_CHECK(ConfigError, end > begin, "viaduct plan --vary {}: a value is empty", text);
    values.push_back({setting, {setting}});
    begin = end + 1;
  }
  VIADUCT_CHECK(ConfigError, !values.empty(), "viaduct plan --vary {}: expected values", text);
  return values;
}

Values values_of(const std::string& text) {
  if (text.find('=') != std::string::npos) return values_of_field(text);
  std::vector<std::string> names;
  for (const NamedValues& set : named_sets()) {
    if (set.name == text) return set.values;
    names.push_back(set.name);
  }
  const auto nearest = nearest_name(text, names);
  fail<ConfigError>("viaduct plan --vary {}: expected section.field=value|value, or one of {}{}",
                    text, fmt::join(names, ", "), nearest ? "; nearest: " + *nearest : "");
}

void check_fields(const Values& values, const std::string& text, std::set<std::string>& taken) {
  std::set<std::string> fields;
  for (const Variant& value : values)
    for (const std::string& setting : value.overrides) fields.insert(field_of(setting));
  for (const std::string& field : fields) {
    VIADUCT_CHECK(ConfigError, taken.insert(field).second,
                  "viaduct plan --vary {}: {} is also varied by another --vary", text, field);
  }
}

}  // namespace

std::vector<std::shared_ptr<const Variant>> variants_of(const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  Values all{{"", {}}};
  std::set<std::string> taken;
  for (const std::string& text : texts) {
    const Values values = values_of(text);
    check_fields(values, text, taken);
    VIADUCT_CHECK(ConfigError, all.size() * values.size() <= kMostVariants,
                  "viaduct plan --vary: {} × {} combinations, expected at most {}", all.size(),
                  values.size(), kMostVariants);
    Values combined;
    for (const Variant& first : all) {
      for (const Variant& second : values) {
        Variant both = first;
        if (!both.name.empty() && !second.name.empty()) both.name += ", ";
        both.name += second.name;
        both.overrides.insert(both.overrides.end(), second.overrides.begin(),
                              second.overrides.end());
        combined.push_back(std::move(both));
      }
    }
    all = std::move(combined);
  }
  std::vector<std::shared_ptr<const Variant>> variants;
  for (Variant& variant : all) {
    if (variant.name.empty()) variant.name = "nothing varied";
    variants.push_back(std::make_shared<const Variant>(std::move(variant)));
  }
  return variants;
}

}  // namespace viaduct
