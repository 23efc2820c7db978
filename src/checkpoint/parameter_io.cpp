#include "checkpoint/parameter_io.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "checkpoint/logical_values.h"
#include "model/family.h"
#include "model/model.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

std::string strip(const std::string& name, const std::string& prefix) {
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// The layers from `first` on that `source` has for multi-token prediction, by the start of their
/// tensors' names.
std::vector<std::string> further_layers(const TensorSource& source, const TensorNames& names,
                                        int64_t first) {
  std::vector<std::string> prefixes;
  if (names.mtp_projection.empty()) return prefixes;
  for (int64_t layer = first;; ++layer) {
    const std::string name = ParameterMaker::at(names.mtp_projection, layer) + ".weight";
    if (!source.contains(stored_name(source, name, names))) return prefixes;
    prefixes.push_back(
        name.substr(0, name.find(std::to_string(layer)) + std::to_string(layer).size() + 1));
  }
}

/// Whether a tensor is the copy of a shared table in a layer of multi-token prediction.
bool copies_table(const std::string& name, const TensorNames& names, const ModelConfig& config) {
  for (int64_t layer = config.layers; layer < config.layers + config.mtp_layers; ++layer) {
    for (const std::string& table : {names.mtp_token_embedding, names.mtp_head})
      if (name == ParameterMaker::at(table, layer) + ".weight") return true;
  }
  return false;
}

constexpr std::string_view kExcess = " belongs to no parameter of the model";

/// Reads blocks of rows of a part (FrozenWeights::ReadBlocks).
void read_blocks(const TensorSource& source, const std::string& name, const Part& part,
                 GgufTensorType type, int64_t first, const Tensor& to) {
  VIADUCT_CHECK(IoError, source.block_type(name) == type,
                "{}: {} is not stored in the blocks of {} that it had when the run began",
                source.where(), name, gguf_type_name(type));
  const int out = part.transposed ? 1 : 0, in = 1 - out;
  auto* bytes = static_cast<std::byte*>(to.raw());
  for (int64_t row = 0; row < to.dim(0); ++row)
    source.read_blocks(name, part.box.begin[out] + first + row, part.box.begin[in],
                       part.box.size[in], bytes + row * to.dim(1));
  source.check_read();
}

/// At most `most` of the problems, one after the other.
void add_some(std::string& text, const std::vector<std::string>& problems, size_t most) {
  for (size_t i = 0; i < std::min(problems.size(), most); ++i)
    text += (i > 0 ? "; " : "") + problems[i];
  if (problems.size() > most) text += "; …";
}

bool ignored(const std::string& name, const TensorNames& names, bool copies_head) {
  if (copies_head && name == names.head + ".weight") return true;
  if (is_unread(name, names)) return true;
  return std::any_of(names.ignored_suffixes.begin(), names.ignored_suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

}  // namespace

bool is_unread(const std::string& name, const TensorNames& names) {
  return std::any_of(names.unread_prefixes.begin(), names.unread_prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

std::string stored_name(const TensorSource& source, const std::string& name,
                        const TensorNames& names) {
  if (!source.contains(name) && source.contains(strip(name, names.optional_prefix)))
    return strip(name, names.optional_prefix);
  return name;
}

std::vector<std::string> logical_names(const ModelConfig& config) {
  const auto device = make_sim_device();  // only structure, no memory
  const auto model =
      build_model(*device, config, {.precision = precision_recipe(RecipeName::fp32)}, 1);
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Parameter* parameter : model->parameters()) {
    for (const Part& part : parameter->parts)
      if (seen.insert(part.name).second) names.push_back(part.name);
  }
  return names;
}

TensorFit tensor_fit(const ModelConfig& config, const TensorSource& source,
                     const std::vector<TensorKind>& kinds, const AdapterSettings& adapters,
                     bool may_copy_head) {
  const TensorNames& names = model_family(config.family).names;
  const auto device = make_sim_device();  // only structure, no memory
  const LayerSettings settings{.precision = precision_recipe(RecipeName::fp32),
                               .adapters = adapters};
  const auto model = build_model(*device, config, settings, 1);
  TensorFit fit;
  std::set<std::string> used;
  for (const Parameter* parameter : model->parameters()) {
    if (!parameter->trained && adapters.freezes()) continue;
    for (const Part& part : parameter->parts) {
      for (const auto& [kind, has, shape] : kinds) {
        if (!kind.empty() && !parameter->trained) continue;
        if (has != nullptr && !has(*parameter)) continue;
        if (!kind.empty() && parameter->load_bias_rate) continue;  // no optimizer moves it
        const std::string name =
            kind.empty() ? stored_name(source, part.name, names) : kind + part.name;
        const TensorInfo* info = source.find(name);
        const Shape wanted = shape == nullptr ? part.logical_shape : shape(part.logical_shape);
        used.insert(name);
        if (info == nullptr) {
          fit.lacking.push_back(kind + part.name + " is missing");
        } else if (!is_floating(info->dtype) || !(info->shape == wanted)) {
          fit.wrong.push_back(fmt::format("{} is {} {}, expected a floating tensor {}",
                                          kind + part.name, dtype_name(info->dtype),
                                          to_string(info->shape), to_string(wanted)));
        }
      }
    }
  }
  // A model configured with fewer layers of multi-token prediction ignores the others.
  const auto left_out = further_layers(source, names, config.layers + config.mtp_layers);
  const auto unused = [&](const std::string& name) {
    return copies_table(name, names, config) ||
           std::any_of(left_out.begin(), left_out.end(), [&](const std::string& prefix) {
             return name.starts_with(prefix) ||
                    name.starts_with(strip(prefix, names.optional_prefix));
           });
  };
  for (const TensorInfo& info : source.tensors()) {
    const size_t cut = info.name.find('/') + 1;
    const bool wanted = std::any_of(kinds.begin(), kinds.end(), [&](const TensorKind& kind) {
      return kind.prefix == info.name.substr(0, cut);
    });
    if (wanted && !used.contains(info.name) &&
        !ignored(info.name.substr(cut), names, config.tied_embeddings && may_copy_head) &&
        !unused(info.name.substr(cut)))
      fit.additional.push_back(fmt::format("{}{} ({} {})", shown_name(info.name), kExcess,
                                           dtype_name(info.dtype), to_string(info.shape)));
  }
  return fit;
}

std::vector<std::string> check_fit(const TensorFit& fit, const std::string& where,
                                   Strictness strictness) {
  std::vector<std::string> problems = fit.wrong, warnings;
  const auto add = [](std::vector<std::string>& to, const std::vector<std::string>& texts) {
    to.insert(to.end(), texts.begin(), texts.end());
  };
  const bool all = strictness == Strictness::raise_all || strictness == Strictness::log_all;
  if (strictness == Strictness::raise_all || strictness == Strictness::raise_unexpected) {
    add(problems, fit.lacking);
    if (all) add(problems, fit.additional);
  } else if (strictness != Strictness::assume_ok_unexpected) {
    add(warnings, fit.lacking);
    if (all) add(warnings, fit.additional);
  }
  if (problems.empty()) return warnings;
  std::string text =
      fmt::format("{}: {} the configuration: ", where,
                  counted(std::ssize(problems), "tensor does not fit", "tensors do not fit"));
  // Where tensors are missing, what is there instead explains it best.
  const bool both = !fit.lacking.empty() && !fit.additional.empty();
  if (both) {
    problems.erase(std::find(problems.begin(), problems.end(), fit.additional.front()),
                   problems.end());
  }
  add_some(text, problems, both ? 5 : 8);
  if (both) {
    std::vector<std::string> found;
    for (std::string one : fit.additional)
      found.push_back(one.replace(one.find(kExcess), kExcess.size(), ""));
    text += fmt::format("; tensors of no parameter that are there ({}): ", found.size());
    add_some(text, found, 5);
  }
  throw IoError(text);
}

void check_tensors_fit(const ModelConfig& config, const TensorSource& source) {
  check_fit(tensor_fit(config, source), source.where(), Strictness::raise_all);
}

std::vector<StoredRun> stored_runs(const ParameterStore& store,
                                   FunctionRef<StateValues(const ShardRun&, size_t index)> values,
                                   std::shared_ptr<RunCursor> cursor) {
  std::vector<StoredRun> runs;
  std::function<StateValues(const StateValues&)> bring;
  if (store.offloaded() != nullptr) {
    if (!cursor) cursor = std::make_shared<RunCursor>(store.offloaded(), BlockCursor::Access::read);
    bring = [cursor](const StateValues& state) { return cursor->at(state); };
  }
  for (size_t i = 0; i < store.shard_runs().size(); ++i) {
    const ShardRun& run = store.shard_runs()[i];
    StoredRun& stored = runs.emplace_back();
    stored.run = {run.parameter, run.range.begin, run.range.end};
    stored.state = values(run, i);
    stored.bring = bring;
  }
  return runs;
}

void load_parameters(OpContext& context, ParameterStore& store, const TensorSource& source,
                     const ModelConfig& config) {
  check_tensors_fit(config, source);
  const TensorNames& names = model_family(config.family).names;
  const auto cursor = std::make_shared<RunCursor>(store.offloaded(), BlockCursor::Access::change);
  std::vector<StoredRun> runs = stored_runs(
      store, [](const ShardRun& run, size_t) { return run.master_state(); }, cursor);
  std::erase_if(runs, [](const StoredRun& stored) { return stored.run.parameter->adapter; });
  for (const ShardRun& run : store.frozen_runs()) {
    StoredRun& stored = runs.emplace_back();
    stored.run = {run.parameter, run.range.begin, run.range.end};
    stored.state = run.master_state();
  }
  const auto name_of = [&](const std::string& name) {
    return stored_name(source, without_adapter_prefix(name), names);
  };
  fill_runs(context.device, runs, source, name_of);
  store.write_stored([](const Parameter&) { return true; },
                     [&](const ShardRun& run) {
                       const ParameterRun part{run.parameter, run.range.begin, run.range.end};
                       fill_runs(context.device, {{part, run.master_state()}}, source, name_of);
                     });
  store.write_blocks([&](const Part& part, GgufTensorType type, int64_t first, const Tensor& to) {
    read_blocks(source, name_of(part.name), part, type, first, to);
  });
  cursor->finish();
  store.publish_masters(context);
}

void load_adapter(OpContext& context, ParameterStore& store, const TensorSource& source) {
  const auto cursor = std::make_shared<RunCursor>(store.offloaded(), BlockCursor::Access::change);
  // What trains is what its files have.
  const std::vector<StoredRun> runs = stored_runs(
      store, [](const ShardRun& run, size_t) { return run.master_state(); }, cursor);
  fill_runs(context.device, runs, source, [](const std::string& name) { return name; });
  cursor->finish();
  store.publish_masters(context);
}

}  // namespace viaduct
