#include "checkpoint/peft_folder.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "base/nearest.h"
#include "checkpoint/check_finite.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_contents.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/peft_form.h"
#include "checkpoint/peft_image_names.h"
#include "checkpoint/peft_settings.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/unfinished_folder.h"
#include "model/adapter_modules.h"
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

/// The folder of an adapter's files, and its tensors as stored.
struct AdapterFiles {
  std::filesystem::path folder;
  std::unique_ptr<TensorSource> tensors;
};

AdapterFiles open_files(const std::filesystem::path& given) {
  const std::filesystem::path folder =
      model_path("", given, "a folder of PEFT, or of a run with adapters");
  if (has(folder, kAdapterWeightsFile)) {
    VIADUCT_CHECK(IoError, has(folder, kAdapterConfigFile), "{}: {} without {}", folder.string(),
                  kAdapterWeightsFile, kAdapterConfigFile);
    return {folder, std::make_unique<SafetensorsFile>(folder / kAdapterWeightsFile)};
  }
  VIADUCT_CHECK(ConfigError, !has(folder, "adapter_model.bin"),
                "{}: adapter_model.bin is a pickle, which is not read; save it with PEFT as "
                "safetensors: model.save_pretrained(DIR, safe_serialization=True)",
                folder.string());
  VIADUCT_CHECK(IoError, !has(folder, kAdapterConfigFile) || has(folder, kCheckpointIndexFile),
                "{}: {} without {}", folder.string(), kAdapterConfigFile, kAdapterWeightsFile);
  check_inside_run(folder);
  const ModelFolder found = resolve_model_folder(folder);
  VIADUCT_CHECK(ConfigError, found.kind == ModelFolderKind::checkpoint && holds_adapter(found.path),
                "{}: holds a model and no adapter (expected {}, or the checkpoint of a run with "
                "peft.scheme)",
                folder.string(), kAdapterConfigFile);
  return {found.path, std::make_unique<CheckpointAdapter>(found.path)};
}

}  // namespace

bool holds_adapter(const std::filesystem::path& folder) {
  return has(folder, kAdapterConfigFile) && !has(folder, kAdapterWeightsFile);
}

std::filesystem::path adapter_folder(const std::filesystem::path& adapter) {
  return open_files(adapter).folder;
}

std::optional<std::filesystem::path> model_under_adapter(const std::filesystem::path& given) {
  std::filesystem::path folder = find_model(given).value_or(given);
  if (holds_hugging_face_model(folder)) return std::nullopt;
  if (!has(folder, kAdapterConfigFile)) folder = resolve_model_folder(folder).path;
  if (!has(folder, kAdapterConfigFile)) return std::nullopt;
  const std::string where = (folder / kAdapterConfigFile).string();
  const auto config = parse_json<nlohmann::json>(read_file(where, size_t{1} << 22), where);
  std::string base = string_member(config, "base_model_name_or_path", where);
  VIADUCT_CHECK(ConfigError, !base.empty(),
                "{}: names no model under the adapter; give it: --model MODEL --adapter {}", where,
                given.string());
  const std::string revision = string_member(config, "revision", where);
  if (!revision.empty() && !find_model(base)) base += "@" + revision;
  return model_path(where + ": base_model_name_or_path: ", base, "the model under the adapter");
}

int64_t adapter_vocabulary(const std::filesystem::path& given, const ModelConfig& model) {
  AdapterFiles files = open_files(given);
  files.tensors = with_own_names(std::move(files.tensors), model).tensors;
  const TensorNames& names = model_family(model.family).names;
  const auto rows_of = [&](const std::string& module) -> int64_t {
    const TensorInfo* info = files.tensors->find(kAdapterPrefix + module + ".weight");
    return info == nullptr || info->shape.rank() == 0 ? 0 : info->shape[0];
  };
  const int64_t table = rows_of(names.token_embedding);
  const int64_t head = model.tied_embeddings ? table : rows_of(names.head);
  int64_t rows = std::max({model.vocabulary, table, head});
  if (holds_adapter(files.folder) && has(files.folder, "config.json")) {
    const std::string text = read_config_text({ModelFolderKind::checkpoint, files.folder});
    const std::string where = (files.folder / "config.json").string();
    rows = std::max(rows, read_hf_config(text, where).vocabulary);
  }
  VIADUCT_CHECK(
      ConfigError, rows == model.vocabulary || (table == rows && head == rows),
      "{}: is the adapter of a model with {} tokens, and the model here has {}: the rows "
      "of the others are not all in the adapter (peft.train: the embedding and the head); "
      "give the model with these tokens, as viaduct convert --add-tokens writes it",
      files.folder.string(), rows, model.vocabulary);
  return rows;
}

PeftAdapter open_adapter(const std::filesystem::path& given, const ModelConfig& model) {
  AdapterFiles files = open_files(given);
  PeftAdapter adapter;
  OwnNames own = with_own_names(std::move(files.tensors), model);
  const std::filesystem::path place = adapter.folder = std::move(files.folder);
  adapter.config = read_file(place / kAdapterConfigFile, size_t{1} << 22);
  PeftSettings settings = read_peft_settings(adapter.config, (place / kAdapterConfigFile).string());
  const PeftModuleNames said(own, settings.targets, holds_adapter(place));
  settings.saved = own_saved_modules(std::move(settings.saved), own);
  adapter.tensors = std::move(own.tensors);
  adapter.settings.magnitudes = settings.magnitudes;
  adapter.settings.dropout = settings.dropout;

  const std::string where = adapter.tensors->where();
  SplitExperts split =
      split_expert_adapter(std::move(adapter.tensors), settings.target_parameters, model);
  adapter.tensors = std::move(split.tensors);
  adapter.settings.fused_experts = std::ranges::any_of(
      split.parameters, [](const auto& entry) { return is_expert_module(entry.first); });
  adapter.router_parameters = std::ranges::any_of(
      split.parameters, [](const auto& entry) { return !is_expert_module(entry.first); });
  const std::vector<AdaptableModule> modules = adaptable_modules(model);
  std::unordered_map<std::string_view, const AdaptableModule*> by_name;
  for (const AdaptableModule& module : modules) by_name[module.name] = &module;
  const PeftContents contents =
      peft_contents(*adapter.tensors, settings, model, holds_adapter(place));
  adapter.settings.trained = contents.trained;
  for (const auto& [name, factors] : contents.adapters) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      const TensorNames& own_names = model_family(model.family).names;
      VIADUCT_CHECK(ConfigError, name != own_names.head && name != own_names.token_embedding,
                    "{}: has an adapter of {}: those of embeddings and heads are not supported; "
                    "expected it in modules_to_save, which trains it whole",
                    where, shown_name(name));
      std::vector<std::string> names;
      for (const AdaptableModule& one : modules) names.push_back(one.name);
      const auto near = nearest_name(name, names);
      fail<IoError>("{}: has an adapter of {}, which is no linear layer of the model's blocks{}",
                    where, shown_name(name), near ? "; nearest: " + *near : "");
    }
    const auto parameter = split.parameters.find(name);
    const std::string matched =
        said.of(parameter == split.parameters.end() ? name : parameter->second);
    const std::string out =
        parameter == split.parameters.end() ? settings.targets.left_out_by(matched) : "";
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
                                 const std::filesystem::path& name,
                                 const std::map<std::string, std::string>& further) {
  // "models/x/" is models/x.
  std::filesystem::path to = std::filesystem::absolute(name).lexically_normal();
  if (!to.has_filename()) to = to.parent_path();
  std::error_code ignored;
  const bool fresh =
      !std::filesystem::exists(std::filesystem::symlink_status(to)) ||
      (std::filesystem::is_directory(to, ignored) && std::filesystem::is_empty(to, ignored));
  VIADUCT_CHECK(ConfigError, fresh, "{}: exists and is not empty; name a new folder", to.string());
  PeftForm form = peft_form(adapter, model);
  std::map<std::string, std::string> names;  // here, by those in the file
  for (TensorInfo& info : form.infos) {
    const std::string here = std::exchange(info.name, peft_file_name(model, info.name));
    names[info.name] = here;
  }
  UnfinishedFolder unfinished(to);
  write_safetensors(unfinished.path() / kAdapterWeightsFile, form.infos,
                    [&](const std::string& stored) {
                      const std::string& tensor = names.at(stored);
                      const auto made = form.made.find(tensor);
                      if (made != form.made.end()) return made->second;
                      const bool copy = tensor == form.copied_head;
                      return adapter.tensors->tensor(copy ? form.table : tensor);
                    });
  adapter.tensors->check_read();
  write_file_atomically(unfinished.path() / kAdapterConfigFile, form.config);
  for (const auto& [file, text] : further) {
    create_folder((unfinished.path() / file).parent_path());
    write_file_atomically(unfinished.path() / file, text);
  }
  unfinished.finish();
  WrittenAdapter written;
  for (const TensorInfo& info : form.infos) {
    ++written.tensors;
    written.bytes += info.bytes();
  }
  return written;
}

}  // namespace viaduct
