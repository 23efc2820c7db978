#include "checkpoint/peft_folder.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/nearest.h"
#include "checkpoint/adapter_files.h"
#include "checkpoint/check_finite.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_contents.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/peft_form.h"
#include "checkpoint/peft_image_names.h"
#include "checkpoint/peft_missing.h"
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

[[noreturn]] void fail_unknown_module(const std::string& name, const ModelConfig& model,
                                      const std::vector<AdaptableModule>& modules,
                                      const std::string& where) {
  const TensorNames& own = model_family(model.family).names;
  VIADUCT_CHECK(ConfigError, name != own.head && name != own.token_embedding,
                "{}: has an adapter of {}: those of embeddings and heads are not supported; "
                "expected it in modules_to_save, which trains it whole",
                where, shown_name(name));
  std::vector<std::string> names;
  for (const AdaptableModule& one : modules) names.push_back(one.name);
  const auto near = nearest_name(name, names);
  fail<IoError>("{}: has an adapter of {}, which is no linear layer of the model's blocks{}", where,
                shown_name(name), near ? "; nearest: " + *near : "");
}

}  // namespace

int64_t adapter_vocabulary(const std::filesystem::path& given, const ModelConfig& model) {
  AdapterFiles files = open_adapter_files(given);
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
  AdapterFiles files = open_adapter_files(given);
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
  for (const auto& [name, factors] : contents.adapters)
    if (!by_name.contains(name)) fail_unknown_module(name, model, modules, where);
  check_complete(contents,
                 {settings, said, split.parameters, model.moe.any(), holds_adapter(place)}, modules,
                 where);
  for (const auto& [name, factors] : contents.adapters) {
    const auto found = by_name.find(name);
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
  write_safetensors(
      unfinished.path() / kAdapterWeightsFile, form.infos, [&](const std::string& stored) {
        const std::string& tensor = names.at(stored);
        const auto made = form.made.find(tensor);
        if (made != form.made.end()) return made->second;
        const auto copy = form.copies.find(tensor);
        return adapter.tensors->tensor(copy == form.copies.end() ? tensor : copy->second);
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
