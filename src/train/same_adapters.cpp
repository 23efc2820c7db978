#include "train/same_adapters.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "model/adapter_modules.h"
#include "precision/recipe.h"

namespace viaduct {
namespace {

std::optional<AdapterSettings> resolved(const PeftConfig& peft, const ModelConfig& model) {
  try {
    return choose_adapters(peft, model);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

/// Whether `same` holds for each module that has an adapter in both.
template <class F>
bool for_common(const AdapterSettings& one, const AdapterSettings& other, F&& same) {
  return std::ranges::all_of(one.modules, [&](const auto& module) {
    const AdapterShape* shape = other.of(module.first);
    return shape == nullptr || same(module.second, *shape);
  });
}

bool same_modules(const AdapterSettings& one, const AdapterSettings& other) {
  return std::ranges::equal(one.modules, other.modules,
                            [](const auto& a, const auto& b) { return a.first == b.first; });
}

/// With another rank alpha is the same if it is the same number: the change of rank is said.
bool same_scale(const AdapterShape& a, const AdapterShape& b) {
  const bool same_words = a.alpha == b.alpha && a.rank_stabilized == b.rank_stabilized;
  return same_words || (a.rank == b.rank && a.scale() == b.scale());
}

/// The format that frozen weights have; none: the recipe's. A run that trains on the blocks of a
/// GGUF file leaves them so without being asked.
std::optional<BaseFormat> format_of(const RunConfig& config, bool leaves_blocks) {
  const auto& format = config.peft.base_format;
  if (leaves_blocks && (!format || *format == BaseFormat::blocks)) return BaseFormat::blocks;
  const bool as_recipe =
      format == BaseFormat::bf16 && precision_recipe(config.mixed_precision).weight == DType::bf16;
  return as_recipe ? std::nullopt : format;
}

}  // namespace

std::set<std::string> same_adapter_fields(const RunConfig& then, const RunConfig& now,
                                          const ModelConfig& model) {
  std::set<std::string> same;
  if (!then.peft.adapts() || !now.peft.adapts()) return same;
  const auto add = [&](bool is_same, std::initializer_list<const char*> fields) {
    for (const char* field : fields)
      if (is_same) same.insert(std::string("peft.") + field);
  };
  const AdapterSettings& here = now.peft.resolved;
  const bool leaves_blocks = here.base_format == BaseFormat::blocks;
  add(format_of(then, leaves_blocks) == format_of(now, leaves_blocks), {"base_format"});
  add(then.peft.dropout == 0 && here.dropout == 0, {"dropout_position"});
  const auto before = resolved(then.peft, model);
  if (!before) return same;
  add(before->magnitudes == here.magnitudes, {"scheme"});
  add(same_modules(*before, here), {"target_modules", "exclude_modules"});
  add(before->trained == here.trained, {"train"});
  add(for_common(*before, here, [](const auto& a, const auto& b) { return a.rank == b.rank; }),
      {"dim", "rank_pattern"});
  add(for_common(*before, here, same_scale), {"alpha", "rslora", "alpha_pattern"});
  return same;
}

}  // namespace viaduct
