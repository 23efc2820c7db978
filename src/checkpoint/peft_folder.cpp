#include "checkpoint/peft_folder.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "base/json_reader.h"
#include "base/nearest.h"
#include "checkpoint/check_finite.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/peft_form.h"
#include "checkpoint/peft_settings.h"
#include "checkpoint/round_tensor.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/unfinished_folder.h"
#include "model/adapter_modules.h"
#include "model/adapter_trained.h"
#include "model/expert_adapters.h"
#include "model/family.h"

namespace viaduct {
namespace {

bool has(const std::filesystem::path& folder, const char* name) {
  std::error_code ignored;
  return std::filesystem::exists(folder / name, ignored);
}

// A checkpoint and its weights.
struct OwnedCheckpoint {
  const CheckpointReader checkpoint;
};
class CheckpointAdapter : private OwnedCheckpoint, public CheckpointWeights {
 public:
  explicit CheckpointAdapter(const std::filesystem::path& folder)
      : OwnedCheckpoint{CheckpointReader(folder)}, CheckpointWeights(checkpoint) {}
};

/// A folder inside a run that is no step of it: the run itself has the adapters.
void check_inside_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(folder, ignored);
  const std::filesystem::path run = whole.parent_path();
  const bool inside = std::filesystem::is_directory(whole, ignored) && has_latest(run) &&
                      !has(whole, kCheckpointIndexFile) && !has(whole, kAdapterConfigFile) &&
                      !has(whole, "config.json") && !has_latest(whole);
  if (!inside) return;
  const bool best = best_step(run).has_value();
  fail<ConfigError>(
      "{}: a folder of the run {}, and no adapter; expected {} (its newest step), {}{}",
      folder.string(), run.string(), run.string(),
      best ? (run / "best").string() + " (its best one), or " : "or ",
      (run / step_folder_name(latest_step(run))).string());
}

/// The tensors of a module's adapter.
struct Factors {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
  const TensorInfo* m = nullptr;  // magnitudes
};

/// The module of a tensor's name, and which of its tensors that is; nothing for other names.
std::optional<std::pair<std::string, const TensorInfo * Factors::*>> module_of(
    const std::string& name) {
  const std::string_view prefix = kAdapterPrefix;
  if (!name.starts_with(prefix)) return std::nullopt;
  for (const auto& [suffix, factor] :
       {std::pair(std::string_view(kAdapterA), &Factors::a),
        std::pair(std::string_view(kAdapterB), &Factors::b),
        std::pair(std::string_view(kAdapterMagnitude), &Factors::m)}) {
    if (name.ends_with(suffix) && name.size() > prefix.size() + suffix.size())
      return std::pair(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()),
                       factor);
  }
  return std::nullopt;
}

void refuse_tensor(const TensorInfo& info, const std::string& where) {
  const char* what = info.name.find("lora_embedding_") != std::string::npos
                         ? "the adapter of an embedding, which is not built yet"
                         : "nothing that adapter_config.json explains";
  fail<IoError>("{}: {} ({} {}) is {}", where, shown_name(info.name), dtype_name(info.dtype),
                to_string(info.shape), what);
}

/// What tensors of the source are: of adapters, or of modules of the model that trained beside
/// them.
struct Contents {
  std::map<std::string, Factors> adapters;
  std::set<std::string> trained;
};

/// Whether `settings` says that a module was saved whole; a tied table also as the head.
bool says_saved(const std::string& module, const PeftSettings& settings, const ModelConfig& model) {
  const std::string& head = model_family(model.family).names.head;
  const bool shared = settings.ties_saved && is_tied_table(model, module);
  return std::ranges::any_of(settings.saved, [&](const std::string& end) {
    return module.ends_with(end) || (shared && head.ends_with(end));
  });
}

/// The module of a tensor that `settings` says was saved whole; "" for others.
std::string saved_module(const std::string& tensor, const PeftSettings& settings,
                         const std::vector<std::string>& trainable, const ModelConfig& model) {
  const std::string name = without_adapter_prefix(tensor);
  if (name == tensor) return "";
  const std::string module = module_of_parameter(name);
  const bool said = says_saved(module, settings, model);
  return said && std::ranges::find(trainable, module) != trainable.end() ? module : "";
}

/// PEFT trains a saved token table and the head that shares it as one only if its file has both.
void check_tied(const TensorSource& source, const std::string& table, bool ties_saved,
                const ModelConfig& model) {
  const std::string name = kAdapterPrefix + table + ".weight",
                    head = kAdapterPrefix + model_family(model.family).names.head + ".weight";
  VIADUCT_CHECK(ConfigError, ties_saved && source.contains(head),
                "{}: modules_to_save has {}, which the model's head shares, and not the head ({}): "
                "PEFT trained one of them apart from the other, which such a model cannot hold; "
                "train with ensure_weight_tying=True{}",
                source.where(), table, head,
                table.ends_with("embed_tokens") ? "" : " and modules_to_save=[\"lm_head\"]");
  const Tensor one = in_fp32(source.tensor(name)), other = in_fp32(source.tensor(head));
  const bool same =
      one.shape() == other.shape() &&
      std::equal(one.data<float>(), one.data<float>() + one.elements(), other.data<float>());
  VIADUCT_CHECK(ConfigError, same,
                "{}: {} and {} differ, but the model has one tensor for both (tied): PEFT trained "
                "them apart",
                source.where(), name, head);
}

Contents contents_of(const TensorSource& source, const PeftSettings& settings,
                     const ModelConfig& model, bool of_run) {
  const std::vector<std::string> trainable =
      settings.saved.empty() ? std::vector<std::string>() : trainable_modules(model);
  const std::string head = model_family(model.family).names.head;
  Contents contents;
  for (const TensorInfo& info : source.tensors()) {
    if (const auto module = module_of(info.name)) {
      contents.adapters[module->first].*(module->second) = &info;
      continue;
    }
    const std::string module = saved_module(info.name, settings, trainable, model);
    const bool tied_copy = settings.ties_saved && model.tied_embeddings &&
                           info.name == kAdapterPrefix + head + ".weight";
    if (module.empty() && !tied_copy) refuse_tensor(info, source.where());
    if (!module.empty()) contents.trained.insert(module);
  }
  VIADUCT_CHECK(IoError, !contents.adapters.empty(),
                "{}: holds no adapter: it has no tensors of one", source.where());
  for (const std::string& module : contents.trained) {
    // A checkpoint of a run has the table alone.
    if (!of_run && is_tied_table(model, module))
      check_tied(source, module, settings.ties_saved, model);
  }
  for (const std::string& end : settings.saved) {
    const bool there = std::ranges::any_of(
        contents.trained, [&](const std::string& module) { return module.ends_with(end); });
    VIADUCT_CHECK(IoError,
                  there || (model.tied_embeddings && settings.ties_saved && head.ends_with(end)),
                  "{}: has no tensor of {}, which adapter_config.json has in modules_to_save",
                  source.where(), shown_name(end));
  }
  return contents;
}

/// The rank of a module's adapter, whose tensors fit the model.
int64_t rank_of(const std::string& name, const Factors& factors, const AdaptableModule& module,
                bool magnitudes, const std::string& where) {
  const auto demand = [&](const TensorInfo* info, const char* suffix) {
    VIADUCT_CHECK(IoError, info != nullptr, "{}: {}{}{} is missing", where, kAdapterPrefix,
                  shown_name(name), suffix);
  };
  demand(factors.a, kAdapterA);
  demand(factors.b, kAdapterB);
  if (magnitudes) demand(factors.m, kAdapterMagnitude);
  VIADUCT_CHECK(IoError, magnitudes || factors.m == nullptr,
                "{}: {} has the magnitudes of DoRA, but adapter_config.json has no use_dora", where,
                shown_name(name));
  VIADUCT_CHECK(
      IoError,
      !magnitudes || (factors.m->shape == Shape{module.out} && is_floating(factors.m->dtype)),
      "{}: the magnitudes of {} are {} {}, but the model's weight has {} rows: it is of "
      "another model",
      where, shown_name(name), dtype_name(factors.m->dtype), to_string(factors.m->shape),
      module.out);
  const Shape &a = factors.a->shape, &b = factors.b->shape;
  const int64_t rank = a.rank() == 2 ? a[0] : 0;
  const bool fits = rank > 0 && a == Shape{rank, module.in} && b == Shape{module.out, rank} &&
                    is_floating(factors.a->dtype) && is_floating(factors.b->dtype);
  VIADUCT_CHECK(IoError, fits,
                "{}: the adapter of {} is {} {} and {} {}, but the model's weight is [{}, {}]: "
                "expected floating [r, {}] and [{}, r]: it is of another model",
                where, shown_name(name), dtype_name(factors.a->dtype), to_string(a),
                dtype_name(factors.b->dtype), to_string(b), module.out, module.in, module.in,
                module.out);
  return rank;
}

}  // namespace

bool holds_adapter(const std::filesystem::path& folder) {
  return has(folder, kAdapterConfigFile) && !has(folder, kAdapterWeightsFile);
}

PeftAdapter open_adapter(const std::filesystem::path& folder, const ModelConfig& model) {
  check_given_path("", folder, "a folder of PEFT, or of a run with adapters");
  PeftAdapter adapter;
  std::filesystem::path place = folder;
  if (has(folder, kAdapterWeightsFile)) {
    VIADUCT_CHECK(IoError, has(folder, kAdapterConfigFile), "{}: {} without {}", folder.string(),
                  kAdapterWeightsFile, kAdapterConfigFile);
    adapter.tensors = std::make_unique<SafetensorsFile>(folder / kAdapterWeightsFile);
  } else {
    VIADUCT_CHECK(ConfigError, !has(folder, "adapter_model.bin"),
                  "{}: adapter_model.bin is a pickle, which is not read; save it with PEFT as "
                  "safetensors: model.save_pretrained(DIR, safe_serialization=True)",
                  folder.string());
    VIADUCT_CHECK(IoError, !has(folder, kAdapterConfigFile) || has(folder, kCheckpointIndexFile),
                  "{}: {} without {}", folder.string(), kAdapterConfigFile, kAdapterWeightsFile);
    check_inside_run(folder);
    const ModelFolder found = resolve_model_folder(folder);
    VIADUCT_CHECK(ConfigError,
                  found.kind == ModelFolderKind::checkpoint && holds_adapter(found.path),
                  "{}: holds a model and no adapter (expected {}, or the checkpoint of a run with "
                  "peft.scheme)",
                  folder.string(), kAdapterConfigFile);
    place = found.path;
    adapter.tensors = std::make_unique<CheckpointAdapter>(place);
  }
  adapter.folder = place;
  adapter.config = read_file(place / kAdapterConfigFile, size_t{1} << 22);
  const PeftSettings settings =
      read_peft_settings(adapter.config, (place / kAdapterConfigFile).string());
  adapter.settings.magnitudes = settings.magnitudes;
  adapter.settings.dropout = settings.dropout;

  const std::string where = adapter.tensors->where();
  SplitExperts split =
      split_expert_adapter(std::move(adapter.tensors), settings.target_parameters, model);
  adapter.tensors = std::move(split.tensors);
  adapter.settings.fused_experts = std::ranges::any_of(
      split.parameters, [](const auto& entry) { return is_expert_module(entry.first); });
  const std::vector<AdaptableModule> modules = adaptable_modules(model);
  std::unordered_map<std::string_view, const AdaptableModule*> by_name;
  for (const AdaptableModule& module : modules) by_name[module.name] = &module;
  const Contents contents = contents_of(*adapter.tensors, settings, model, holds_adapter(place));
  adapter.settings.trained = contents.trained;
  for (const auto& [name, factors] : contents.adapters) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      std::vector<std::string> names;
      for (const AdaptableModule& one : modules) names.push_back(one.name);
      const auto near = nearest_name(name, names);
      fail<IoError>("{}: has an adapter of {}, which is no linear layer of the model's blocks{}",
                    where, shown_name(name), near ? "; nearest: " + *near : "");
    }
    const auto parameter = split.parameters.find(name);
    const std::string& matched = parameter == split.parameters.end() ? name : parameter->second;
    const std::string out =
        parameter == split.parameters.end() ? settings.targets.left_out_by(name) : "";
    VIADUCT_CHECK(IoError, out.empty(),
                  "{}: has {}{}{}, but {} of {} leaves that layer out: they are not of one adapter",
                  where, kAdapterPrefix, shown_name(name), kAdapterA, out, kAdapterConfigFile);
    adapter.settings.modules.emplace(
        name,
        settings.shape_of(
            matched, rank_of(name, factors, *found->second, settings.magnitudes, where), where));
  }
  check_magnitudes(adapter.settings, model, where + ": DoRA (use_dora)");
  check_finite(*adapter.tensors);
  return adapter;
}

WrittenAdapter write_peft_folder(const PeftAdapter& adapter, const ModelConfig& model,
                                 const std::filesystem::path& name) {
  // "models/x/" is models/x.
  std::filesystem::path to = std::filesystem::absolute(name).lexically_normal();
  if (!to.has_filename()) to = to.parent_path();
  std::error_code ignored;
  const bool fresh =
      !std::filesystem::exists(std::filesystem::symlink_status(to)) ||
      (std::filesystem::is_directory(to, ignored) && std::filesystem::is_empty(to, ignored));
  VIADUCT_CHECK(ConfigError, fresh, "{}: exists and is not empty; name a new folder", to.string());
  const PeftForm form = peft_form(adapter, model);
  UnfinishedFolder unfinished(to);
  write_safetensors(unfinished.path() / kAdapterWeightsFile, form.infos,
                    [&](const std::string& tensor) {
                      const auto made = form.made.find(tensor);
                      if (made != form.made.end()) return made->second;
                      const bool copy = tensor == form.copied_head;
                      return adapter.tensors->tensor(copy ? form.table : tensor);
                    });
  adapter.tensors->check_read();
  write_file_atomically(unfinished.path() / kAdapterConfigFile, form.config);
  unfinished.finish();
  WrittenAdapter written;
  for (const TensorInfo& info : form.infos) {
    ++written.tensors;
    written.bytes += info.bytes();
  }
  return written;
}

}  // namespace viaduct
