#include "checkpoint/convert.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/write_shards.h"
#include "model/family.h"
#include "model/further_fields.h"
#include "model/hf_config.h"

namespace viaduct {
namespace {

bool is_absent_or_empty(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(folder))) return true;
  return std::filesystem::is_directory(folder) && std::filesystem::is_empty(folder);
}

/// A folder beside `to` that is renamed to `to` when complete, and removed otherwise.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const std::filesystem::path& to)
      : to_(to), path_(to.string() + ".tmp-" + std::to_string(::getpid())) {
    std::filesystem::remove_all(path_);
    create_folder(path_);
  }
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!finished_) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  void finish() {
    std::error_code error;
    sync_folder(path_);
    std::filesystem::rename(path_, to_, error);
    VIADUCT_CHECK(IoError, !error, "{}: cannot be put in place: {}", to_.string(), error.message());
    finished_ = true;
    sync_folder(to_.parent_path());
  }

 private:
  std::filesystem::path to_, path_;
  bool finished_ = false;
};

/// Hugging Face's name of the format of most weights.
std::optional<std::string> stored_format(const TensorSource& weights) {
  std::map<DType, int64_t> bytes;
  for (const TensorInfo& info : weights.tensors()) bytes[info.dtype] += info.bytes();
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == bytes.end()) return std::nullopt;
  switch (most->first) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    default:
      return std::nullopt;
  }
}

/// The text of a config.json with torch_dtype (dtype in newer files) set to the weights' format;
/// unchanged if it already is.
std::string with_stored_format(const std::string& config, const TensorSource& weights) {
  const auto format = stored_format(weights);
  if (!format) return config;
  auto json = nlohmann::ordered_json::parse(config);
  const char* name =
      json.contains("dtype") && !json.contains("torch_dtype") ? "dtype" : "torch_dtype";
  // A file without it means float32.
  const std::string said =
      json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "float32";
  if (said == *format) return config;
  json[name] = *format;
  if (std::string_view(name) == "torch_dtype" && json.contains("dtype")) json["dtype"] = *format;
  return json.dump(2) + "\n";
}

void write_hugging_face(const ModelFolder& from, const TensorSource& weights,
                        const std::filesystem::path& to, int64_t max_shard_bytes) {
  VIADUCT_CHECK(IoError, is_absent_or_empty(to),
                "{}: is there already and not empty; name a new folder", to.string());
  UnfinishedFolder unfinished(to);
  try {
    write_safetensors_folder(
        unfinished.path(), weights.tensors(),
        [&](const std::string& name) { return weights.tensor(name); }, max_shard_bytes);
  } catch (const IoError&) {
    weights.check_read();  // a write also fails if its source is gone
    throw;
  }
  weights.check_read();
  const std::string config = with_stored_format(read_config_text(from), weights);
  write_file_atomically(unfinished.path() / "config.json", config);
  const std::string further = HfConfig(config, "config.json").text(kFurtherFields, "");
  if (!further.empty()) {
    log_warning(
        "{}: config.json cannot express {} for its family; programs other than viaduct will read a "
        "different model",
        to.string(), further);
  }
  copy_model_side_files(from.path, unfinished.path());
  unfinished.finish();
}

void check_save_folder(const std::filesystem::path& save, int64_t step) {
  if (is_absent_or_empty(save)) return;
  VIADUCT_CHECK(IoError, std::filesystem::is_directory(save) && has_latest(save),
                "{}: is there already, and neither empty nor a save folder; name a new folder",
                save.string());
  VIADUCT_CHECK(IoError, latest_step(save) < step,
                "{}: holds step {}; the converted model would be step {}; name a new folder",
                save.string(), latest_step(save), step);
}

void write_checkpoint(const ModelFolder& from, const TensorSource& tensors, int64_t step,
                      const std::string& state, const std::filesystem::path& save,
                      const std::optional<ShardPlan>& plan) {
  check_save_folder(save, step);
  const bool fresh = is_absent_or_empty(save);
  RunLock lock(save);
  if (fresh) lock.remove_when_released();  // the result is not a run's folder
  CheckpointWriter writer(save, step, plan ? plan->shards : 1);
  if (plan) {
    write_shards(*plan, tensors, model_family(read_model_config(from).family).names,
                 writer.folder());
  } else {
    ShardWriter shard(writer.folder(), 0);
    for (const TensorInfo& info : tensors.tensors())
      shard.add(info.name, tensors.tensor(info.name));
    shard.finish();
    tensors.check_read();
  }
  writer.set_state(state);
  writer.add_file("config.json", read_config_text(from));
  for (const auto& file : model_side_files(from.path)) writer.copy_file(file);
  const std::filesystem::path run = from.path / "config.yaml";
  if (from.kind == ModelFolderKind::checkpoint && std::filesystem::exists(run))
    writer.copy_file(run);
  writer.commit(0, &lock);
}

}  // namespace

Converted convert_model(const ConvertSettings& settings) {
  const ModelFolder from = resolve_model_folder(settings.from);
  const auto weights = open_weights(from);
  const ModelConfig model = read_model_config(from);
  check_tensors_fit(model, *weights);
  const bool to_checkpoint =
      settings.format.value_or(from.kind == ModelFolderKind::checkpoint
                                   ? ModelFolderKind::hugging_face
                                   : ModelFolderKind::checkpoint) == ModelFolderKind::checkpoint;
  // "models/x/" is models/x.
  std::filesystem::path to = std::filesystem::absolute(settings.to).lexically_normal();
  if (!to.has_filename()) to = to.parent_path();
  // A symbolic link is kept, and its target folder is filled.
  if (std::filesystem::is_symlink(to) && std::filesystem::exists(to))
    to = std::filesystem::canonical(to);

  Converted result;
  result.notes = model.notes;
  if (!to_checkpoint && model.rotary.interleaved) {
    result.notes.push_back(fmt::format(
        "{}: rotary_interleaved is true: Viaduct reads it, Hugging Face's code does not and would "
        "compute pairs of halves",
        settings.to.string()));
  }
  for (const TensorInfo& info : weights->tensors()) {
    ++result.tensors;
    result.bytes += info.bytes();
  }
  VIADUCT_CHECK(
      ConfigError, to_checkpoint || !settings.plan,
      "convert: a Hugging Face folder has no layout of ranks, and {} shards are asked for",
      settings.plan->shards);
  if (!to_checkpoint) {
    write_hugging_face(from, *weights, to, settings.max_shard_bytes);
  } else if (from.kind == ModelFolderKind::checkpoint) {
    const CheckpointReader checkpoint(from.path);  // optimizer state too
    write_checkpoint(from, checkpoint, checkpoint.step(), checkpoint.state(), to, settings.plan);
  } else {
    write_checkpoint(from, *weights, 0, "{}", to, settings.plan);
  }
  result.folder = resolve_model_folder(to);
  return result;
}

}  // namespace viaduct
