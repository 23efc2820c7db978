#include "checkpoint/adapter_description.h"

#include <algorithm>
#include <set>

#include "model/adapter_modules.h"
#include "model/image_adapters.h"

namespace viaduct {
namespace {

using Shapes = std::map<std::string, AdapterShape>;

/// The most frequent value.
template <class T, class F>
T most_frequent(const Shapes& shapes, F&& of) {
  std::map<T, int64_t> counts;
  for (const auto& [name, shape] : shapes) ++counts[of(shape)];
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

/// Last parts of names where these stand for exactly the adapted modules, else whole names.
/// Of a model with images always these: parts of it that nothing reads have the same ends.
std::vector<std::string> target_names(const AdapterSettings& settings, const ModelConfig& model) {
  std::set<std::string> ends, whole;
  for (const auto& [name, shape] : settings.modules) {
    ends.insert(last_part(name));
    whole.insert(name);
  }
  const std::vector<AdaptableModule> modules = adaptable_modules(model);
  const bool all = std::ranges::all_of(modules, [&](const AdaptableModule& module) {
    // Models of PEFT's have no layers of multi-token prediction.
    return module.further >= 0 || !ends.contains(last_part(module.name)) ||
           whole.contains(module.name);
  });
  const std::set<std::string>& names = all && !model.vision.any() ? ends : whole;
  std::vector<std::string> result;
  for (const std::string& name : names) result.push_back(peft_module_name(model, name));
  return result;
}

}  // namespace

AdapterDescription describe_adapter(const AdapterSettings& settings, const ModelConfig& model,
                                    const Shapes& parameters) {
  Shapes all = settings.modules;
  all.insert(parameters.begin(), parameters.end());
  AdapterDescription said;
  said.rank = most_frequent<int64_t>(all, [](const auto& s) { return s.rank; });
  said.alpha = most_frequent<double>(all, [](const auto& s) { return s.alpha; });
  said.rank_stabilized = all.begin()->second.rank_stabilized;
  for (const auto& [module, shape] : all) {
    const std::string name = peft_module_name(model, module);
    if (shape.rank != said.rank) said.ranks[name] = shape.rank;
    if (shape.alpha != said.alpha) said.alphas[name] = shape.alpha;
  }
  said.targets = target_names(settings, model);
  for (const std::string& module : settings.trained)
    said.trained.push_back(peft_module_name(model, module));
  for (const auto& [module, shape] : parameters)
    said.parameters.push_back(peft_module_name(model, module));
  return said;
}

}  // namespace viaduct
