#include "checkpoint/parameter_io.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "checkpoint/logical_values.h"
#include "model/family.h"
#include "model/model.h"

namespace viaduct {
namespace {

std::string strip(const std::string& name, const std::string& prefix) {
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool ignored(const std::string& name, const TensorNames& names, bool tied) {
  if (tied && (name == names.head + ".weight")) return true;
  return std::any_of(names.ignored_suffixes.begin(), names.ignored_suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

}  // namespace

std::string stored_name(const TensorSource& source, const std::string& name,
                        const TensorNames& names) {
  if (!source.contains(name) && source.contains(strip(name, names.optional_prefix)))
    return strip(name, names.optional_prefix);
  return name;
}

void check_tensors_fit(const ModelConfig& config, const TensorSource& source) {
  const TensorNames& names = model_family(config.family).names;
  const auto device = make_sim_device();  // structure alone: no memory
  const auto model = build_model(*device, config, precision_recipe("fp32"), 1);
  std::vector<std::string> problems;
  std::set<std::string> used;
  for (const Parameter* parameter : model->parameters()) {
    for (const Part& part : parameter->parts) {
      const std::string name = stored_name(source, part.name, names);
      const TensorInfo* info = source.find(name);
      used.insert(name);
      if (info == nullptr) {
        problems.push_back(fmt::format("{} is missing", part.name));
      } else if (!is_floating(info->dtype) || !(info->shape == part.logical_shape)) {
        problems.push_back(fmt::format("{} is {} {}, expected a floating tensor {}", part.name,
                                       dtype_name(info->dtype), to_string(info->shape),
                                       to_string(part.logical_shape)));
      }
    }
  }
  for (const TensorInfo& info : source.tensors()) {
    if (!used.contains(info.name) && !ignored(info.name, names, config.tied_embeddings)) {
      problems.push_back(fmt::format("{} belongs to no parameter of the model", info.name));
    }
  }
  if (problems.empty()) return;
  std::string text =
      fmt::format("{}: {} tensors do not fit the configuration: ", source.where(), problems.size());
  for (size_t i = 0; i < std::min<size_t>(problems.size(), 8); ++i)
    text += (i > 0 ? "; " : "") + problems[i];
  if (problems.size() > 8) text += "; …";
  throw IoError(text);
}

std::vector<StoredRun> stored_runs(const ParameterStore& store,
                                   FunctionRef<Tensor(const ShardRun&, size_t index)> values) {
  std::vector<StoredRun> runs;
  for (size_t i = 0; i < store.shard_runs().size(); ++i) {
    const ShardRun& run = store.shard_runs()[i];
    runs.push_back({{run.parameter, run.range.begin, run.range.end}, values(run, i)});
  }
  return runs;
}

void load_parameters(OpContext& context, ParameterStore& store, const TensorSource& source,
                     const ModelConfig& config) {
  check_tensors_fit(config, source);
  const TensorNames& names = model_family(config.family).names;
  fill_runs(context.device,
            stored_runs(store, [](const ShardRun& run, size_t) { return run.master; }), source,
            [&](const std::string& name) { return stored_name(source, name, names); });
  store.publish_masters(context);
}

}  // namespace viaduct
