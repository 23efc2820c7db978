#include "checkpoint/adapter_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_adapter.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/save_folder.h"

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

/// Names of the folders inside that hold an adapter, as programs write one for each save.
std::vector<std::string> adapters_inside(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (has(at->path(), kAdapterConfigFile)) names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// NAME=DIR, which names one of several adapters, in the place of the folder of the only one.
void check_has_no_name(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::string text = folder.string();
  const size_t at = text.find('=');
  if (at == std::string::npos || std::filesystem::exists(folder, ignored)) return;
  const std::string after = text.substr(at + 1);
  VIADUCT_CHECK(ConfigError, !std::filesystem::is_directory(after, ignored),
                "{}: no such folder; expected that of one adapter, without a name: {} (NAME=DIR is "
                "for generate, chat and eval, which have several)",
                text, after);
}

/// A file of an adapter in the place of its folder, or a folder of no kind, with what was looked
/// for in it.
void check_known_kind(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path name = folder.filename();
  const bool is_file = std::filesystem::is_regular_file(folder, ignored) &&
                       (name == kAdapterWeightsFile || name == kAdapterConfigFile);
  VIADUCT_CHECK(ConfigError, !is_file,
                "{}: a file of an adapter; expected the folder that it is in", folder.string());
  if (!std::filesystem::is_directory(folder, ignored) || has(folder, kCheckpointIndexFile) ||
      has(folder, "config.json") || has_latest(folder) || !saved_steps(folder).empty())
    return;
  const std::vector<std::string> inside = adapters_inside(folder);
  constexpr size_t kShown = 5;
  const std::vector<std::string> shown(
      inside.begin(),
      inside.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, inside.size())));
  const std::string more =
      inside.size() > kShown ? fmt::format(" and {} more", inside.size() - kShown) : "";
  VIADUCT_CHECK(ConfigError, inside.empty(),
                "{}: holds no adapter itself, but folders that do: {}{}; name one of them, such as "
                "{}",
                folder.string(), fmt::join(shown, ", "), more, (folder / inside.back()).string());
  fail<ConfigError>(
      "{}: holds no adapter: has neither {} (a folder of PEFT) nor \"latest\" (a run "
      "with peft.scheme){}",
      folder.string(), kAdapterConfigFile, complete_snapshot_text(folder));
}

}  // namespace

AdapterFiles open_adapter_files(const std::filesystem::path& given) {
  check_has_no_name(given);
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
  check_known_kind(folder);
  if (std::error_code none; is_gguf(folder) && !std::filesystem::is_directory(folder, none))
    refuse_gguf_adapter(GgufFile(folder));
  const ModelFolder found = resolve_model_folder(folder);
  VIADUCT_CHECK(ConfigError, found.kind == ModelFolderKind::checkpoint && holds_adapter(found.path),
                "{}: holds a model and no adapter (expected {}, or the checkpoint of a run with "
                "peft.scheme)",
                folder.string(), kAdapterConfigFile);
  return {found.path, std::make_unique<CheckpointAdapter>(found.path)};
}

bool holds_adapter(const std::filesystem::path& folder) {
  return has(folder, kAdapterConfigFile) && !has(folder, kAdapterWeightsFile);
}

void refuse_adapter_as_model(const std::filesystem::path& folder) {
  const bool of_run = has(folder, kCheckpointIndexFile);
  if (!has(folder, kAdapterConfigFile) || has_safetensors(folder) ||
      (!of_run && has(folder, "config.json") && !has(folder, kAdapterWeightsFile)))
    return;
  const std::string where = (folder / kAdapterConfigFile).string();
  const auto config = parse_json<nlohmann::json>(read_file(where, size_t{1} << 22), where);
  const std::string base = string_member(config, "base_model_name_or_path", where);
  fail<ConfigError>(
      "{}: holds an adapter ({}) and not the model under it{}; give that model here, and the "
      "adapter beside it: --adapter {} (in a configuration peft.adapter)",
      folder.string(), kAdapterConfigFile, base.empty() ? "" : ", " + shown_name(base),
      folder.string());
}

std::filesystem::path adapter_folder(const std::filesystem::path& adapter) {
  return open_adapter_files(adapter).folder;
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
  const bool relative = std::filesystem::path(base).is_relative();
  return model_path(
      where + ": base_model_name_or_path: ", base,
      fmt::format("the model under the adapter ({}--model MODEL --adapter {} gives it)",
                  relative ? "a relative path begins in the folder that the command runs in; " : "",
                  given.string()));
}

}  // namespace viaduct
