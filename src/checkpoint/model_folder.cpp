#include "checkpoint/model_folder.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "checkpoint/fused_experts.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/gguf_tokenizer.h"
#include "checkpoint/heed_weights.h"
#include "checkpoint/image_weights.h"
#include "checkpoint/peft_folder.h"
#include "checkpoint/pickled_weights.h"
#include "checkpoint/quantized_weights.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/separate_experts.h"
#include "checkpoint/text_half_weights.h"
#include "data/tokenizer/stored_configuration.h"
#include "data/tokenizer/tokenizer_files.h"
#include "model/family.h"
#include "model/text_half.h"

namespace viaduct {
namespace {

constexpr const char* kTokenizerPlaces = "a folder with tokenizer files, or FILE.gguf";

bool has(const std::filesystem::path& folder, const char* name) {
  std::error_code ignored;
  return std::filesystem::exists(folder / name, ignored);
}

bool names_gguf_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return is_gguf(path) && !std::filesystem::is_directory(path, ignored);
}

bool has_weights(const ModelFolder& folder) {
  return folder.kind != ModelFolderKind::hugging_face || has_safetensors(folder.path);
}

/// The step folder that SAVE/latest or SAVE/best names; nothing for any other path.
std::optional<std::filesystem::path> named_step(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool latest = path.filename() == "latest";
  if ((!latest && path.filename() != "best") || !std::filesystem::is_regular_file(path, ignored))
    return std::nullopt;
  const std::filesystem::path save = path.has_parent_path() ? path.parent_path() : ".";
  if (latest) return save / step_folder_name(latest_step(save));
  const std::optional<int64_t> best = best_step(save);
  VIADUCT_CHECK(IoError, best, "{}: names no step that is there (steps there: {})", path.string(),
                names_of_steps(save));
  return save / step_folder_name(*best);
}

/// Where the tokenizer files are that `given` means: of a save folder in its latest step.
std::filesystem::path tokenizer_place(const std::filesystem::path& given) {
  const std::filesystem::path path = find_model(given).value_or(given);
  if (const auto step = named_step(path)) return *step;
  const bool save = has_latest(path) && tokenizer_files(path).empty();
  return save ? path / step_folder_name(latest_step(path)) : path;
}

/// As it is there, of a model that takes images too with their fields.
std::string stored_config_text(const ModelFolder& folder) {
  if (folder.kind == ModelFolderKind::gguf) return gguf_config_text(GgufFile(folder.path));
  constexpr size_t kLargestConfig = size_t{1} << 20;
  return read_file(folder.path / "config.json", kLargestConfig);
}

/// Whether the folder, whose config.json is `text`, is read with its layers for images.
bool reads_images(const ModelFolder& folder, const std::string& text, const std::string& where) {
  return folder.images == ImageLayers::read && read_vision_config(text, where).has_value();
}

struct OwnedCheckpoint {
  const CheckpointReader checkpoint;
};

// The weights of a checkpoint, together with the checkpoint itself.
class OpenedWeights : private OwnedCheckpoint, public CheckpointWeights {
 public:
  explicit OpenedWeights(const std::filesystem::path& folder)
      : OwnedCheckpoint{CheckpointReader(folder)}, CheckpointWeights(checkpoint) {}
};

}  // namespace

ModelFolder resolve_model_folder(const std::filesystem::path& given) {
  const std::filesystem::path folder =
      model_path("", given, "a Hugging Face folder, FILE.gguf, a checkpoint or a save folder");
  const std::string name = folder.string();
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (is_gguf(folder) && !std::filesystem::is_directory(status))
    return {ModelFolderKind::gguf, folder};
  if (const auto step = named_step(folder)) return {ModelFolderKind::checkpoint, *step};
  refuse_pickle(folder);
  VIADUCT_CHECK(
      ConfigError, std::filesystem::is_directory(status),
      "{}: not a folder (expected a Hugging Face folder, FILE.gguf, a checkpoint or a save "
      "folder)",
      name);
  if (has(folder, kCheckpointIndexFile)) return {ModelFolderKind::checkpoint, folder};
  if (has_latest(folder))
    return {ModelFolderKind::checkpoint, folder / step_folder_name(latest_step(folder))};
  // A step folder without its index is not a Hugging Face folder, although it holds config.json.
  const bool step_name = parse_step_folder_name(folder.filename().string()).has_value();
  VIADUCT_CHECK(IoError, !step_name || has_safetensors(folder),
                "{}: a checkpoint without {}: it is damaged", name, kCheckpointIndexFile);
  refuse_adapter_as_model(folder);
  if (has(folder, "config.json")) return {ModelFolderKind::hugging_face, folder};

  VIADUCT_CHECK(IoError, name.find(".tmp-") == std::string::npos,
                "{}: an unfinished checkpoint: its save was interrupted", name);
  VIADUCT_CHECK(IoError, !has_safetensors(folder), "{}: safetensors weights without config.json",
                name);
  VIADUCT_CHECK(IoError, saved_steps(folder).empty(),
                "{}: holds steps, but no file \"latest\" that names the newest complete one; name "
                "a step folder",
                name);
  if (const std::string file = first_gguf(folder); !file.empty()) {
    fail<IoError>("{}: not a model, but a folder with GGUF files; name one of them: {}", name,
                  (folder / file).string());
  }
  refuse_pickle(folder);
  fail<IoError>(
      "{}: not a model: has neither config.json (Hugging Face folder), nor {} (checkpoint), nor "
      "\"latest\" (save folder){}",
      name, kCheckpointIndexFile, complete_snapshot_text(folder));
}

bool holds_hugging_face_model(const std::filesystem::path& folder) {
  return has(folder, "config.json") && has_safetensors(folder) && !has_latest(folder);
}

std::unique_ptr<TensorSource> open_weights(const ModelFolder& folder) {
  if (folder.kind == ModelFolderKind::checkpoint) {
    refuse_adapter_as_model(folder.path);
    std::unique_ptr<TensorSource> weights = std::make_unique<OpenedWeights>(folder.path);
    if (!has(folder.path, "config.json")) return weights;
    const std::string where = (folder.path / "config.json").string();
    const std::string text = stored_config_text(folder);
    const bool text_alone = text_half(text, where) && !reads_images(folder, text, where);
    return text_alone ? text_half_weights(std::move(weights)) : std::move(weights);
  }
  if (folder.kind == ModelFolderKind::gguf) {
    GgufFile file(folder.path);
    const std::string config = gguf_config_text(file);
    return gguf_model_weights(std::move(file), config);
  }
  if (!has_safetensors(folder.path)) {
    refuse_pickle(folder.path);
    if (const std::string file = first_gguf(folder.path); !file.empty()) {
      fail<IoError>("{}: has no safetensors; its weights are GGUF files: name one of them: {}",
                    folder.path.string(), (folder.path / file).string());
    }
    VIADUCT_CHECK(IoError, hub_repository(folder.path).empty(), "{}: has no safetensors{}",
                  folder.path.string(), complete_snapshot_text(folder.path));
  }
  std::unique_ptr<TensorSource> weights = std::make_unique<SafetensorsFolder>(folder.path);
  if (!has(folder.path, "config.json")) return weights;
  std::string text = stored_config_text(folder);
  const std::string where = (folder.path / "config.json").string();
  if (const auto quantization = read_quantization_config(text, where))
    weights = std::make_unique<QuantizedWeights>(std::move(weights), *quantization);
  if (auto half = text_half(text, where)) {
    weights = reads_images(folder, text, where) ? image_weights(std::move(weights))
                                                : text_half_weights(std::move(weights));
    text = std::move(half->config);
  }
  HfConfig config(text, where);
  if (!config.has("model_type")) return weights;
  const TensorNames& names = model_family(config.text("model_type")).names;
  if (const auto fused = fused_expert_names(names); !fused.empty())
    return split_experts(std::move(weights), fused);
  if (experts_are_together(*weights, names)) return separate_experts(std::move(weights), names);
  return weights;
}

DType type_of_weights(const ModelFolder& folder) {
  if (!has_weights(folder)) return DType::f32;
  const std::unique_ptr<TensorSource> weights = open_weights(folder);
  std::map<DType, int64_t> values;
  for (const TensorInfo& info : weights->tensors()) values[info.dtype] += info.shape.elements();
  const auto of = [&](DType type) { return values.contains(type) ? values.at(type) : 0; };
  const int64_t full = of(DType::f32) + of(DType::f64);
  if (of(DType::bf16) > std::max(full, of(DType::f16))) return DType::bf16;
  return of(DType::f16) > full ? DType::f16 : DType::f32;
}

std::string read_config_text(const ModelFolder& folder) {
  std::string text = stored_config_text(folder);
  if (folder.kind == ModelFolderKind::gguf) return text;
  const std::string where = (folder.path / "config.json").string();
  auto half = text_half(text, where);
  return half && !reads_images(folder, text, where) ? std::move(half->config) : text;
}

ModelConfig read_model_config(const ModelFolder& folder) {
  const std::string text = stored_config_text(folder);
  if (folder.kind == ModelFolderKind::gguf) return read_hf_config(text, folder.path.string());
  const std::string where = (folder.path / "config.json").string();
  if (folder.kind == ModelFolderKind::hugging_face)
    (void)read_quantization_config(text, where);  // refused before anything is built
  ModelConfig config = read_hf_config(text, where, folder.images);
  const bool weighs = has_weights(folder) &&
                      !(folder.kind == ModelFolderKind::checkpoint && holds_adapter(folder.path));
  if (config.vision.any() && weighs) {
    if (folder.kind == ModelFolderKind::hugging_face) {
      heed_image_weights(config.vision, SafetensorsFolder(folder.path));
    } else {
      heed_pooling_head(config.vision, *open_weights(folder));
    }
  }
  // Checkpoints are written as their configuration says, except converted ones.
  const bool may_differ = folder.kind == ModelFolderKind::hugging_face || config.mtp_layers > 0;
  if (may_differ && weighs) heed_weights(config, *open_weights(folder), where);
  return config;
}

std::string model_name(const ModelFolder& folder) {
  if (folder.kind == ModelFolderKind::gguf) {
    const std::string name = GgufFile(folder.path).head().keys.text("general.name", "");
    return name.empty() ? folder.path.stem().string() : name;
  }
  if (folder.kind == ModelFolderKind::hugging_face) {
    const std::string where = (folder.path / "config.json").string();
    const auto config = parse_json<nlohmann::json>(stored_config_text(folder), where);
    const std::filesystem::path said = string_member(config, "_name_or_path", where);
    const std::string name = (said.has_filename() ? said : said.parent_path()).filename().string();
    if (!name.empty() && name != "." && name != "..") return name;
  }
  if (const std::string name = hub_repository(folder.path); !name.empty())
    return std::filesystem::path(name).filename().string();
  const std::filesystem::path path = std::filesystem::weakly_canonical(folder.path);
  const bool step = parse_step_folder_name(path.filename().string()).has_value();
  return (step ? path.parent_path() : path).filename().string();
}

TokenizerFiles open_tokenizer_files(const std::filesystem::path& given) {
  const std::filesystem::path path = model_path("", given, kTokenizerPlaces);
  if (!names_gguf_file(path)) return TokenizerFiles(tokenizer_place(path));
  const GgufFile file(path);
  std::vector<std::string> notes;
  auto texts = tokenizer_of_gguf(file.head().keys, notes);
  // Without a configuration beside it a text of notes says why there is no tokenizer.
  VIADUCT_CHECK(ConfigError, notes.empty(), "{}", notes.front());
  texts["config.json"] = gguf_config_text(file);
  return {path, std::move(texts)};
}

Tokenizer open_tokenizer(const std::filesystem::path& given) {
  const std::filesystem::path path = model_path("", given, kTokenizerPlaces);
  return names_gguf_file(path) ? load_tokenizer(open_tokenizer_files(path))
                               : load_tokenizer(tokenizer_place(path));
}

bool has_tokenizer(const std::filesystem::path& given) {
  const std::filesystem::path path = find_model(given).value_or(given);
  if (!names_gguf_file(path)) return !tokenizer_files(tokenizer_place(path)).empty();
  std::vector<std::string> notes;
  tokenizer_of_gguf(GgufFile(path).head().keys, notes);
  return notes.empty();
}

std::map<std::string, std::string> model_side_texts(const std::filesystem::path& given) {
  const std::filesystem::path path = find_model(given).value_or(given);
  if (names_gguf_file(path)) {
    std::vector<std::string> notes;
    return tokenizer_of_gguf(GgufFile(path).head().keys, notes);
  }
  std::map<std::string, std::string> texts;
  const std::filesystem::path folder = tokenizer_place(path);
  for (const auto& name : model_side_files(folder)) texts[name] = read_file(folder / name);
  const TokenizerFiles files(folder);
  if (auto config = stored_tokenizer_configuration(files))
    texts[kTokenizerConfigurationFile] = *std::move(config);
  if (auto config = stored_generation_configuration(files))
    texts[kGenerationFile] = *std::move(config);
  return texts;
}

const std::vector<std::string>& model_side_file_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all(std::begin(kTokenizerFiles), std::end(kTokenizerFiles));
    all.insert(all.end(), {"chat_template.jinja", "chat_template.json", kGenerationFile,
                           "preprocessor_config.json", "processor_config.json"});
    return all;
  }();
  return names;
}

std::vector<std::string> model_side_files(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const auto& name : model_side_file_names())
    if (has(folder, name.c_str())) files.push_back(name);
  std::error_code error;
  std::filesystem::directory_iterator at(folder / kTemplatesFolder, error);
  const size_t plain = files.size();
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.ends_with(kTemplateEnd) && at->is_regular_file(ignored))
      files.push_back(std::string(kTemplatesFolder) + "/" + name);
  }
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(plain), files.end());
  return files;
}

void copy_model_side_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  create_folder(to);
  for (const auto& name : model_side_files(from)) {
    create_folder((to / name).parent_path());
    write_file_atomically(to / name, read_file(from / name));
  }
  if (const auto config = stored_tokenizer_configuration(TokenizerFiles(from)))
    write_file_atomically(to / "tokenizer_config.json", *config);
}

}  // namespace viaduct
