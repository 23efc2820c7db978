#include "checkpoint/convert.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "checkpoint/adapter_base.h"
#include "checkpoint/adapter_tokenizer.h"
#include "checkpoint/convert_adapter.h"
#include "checkpoint/fp8_blocks.h"
#include "checkpoint/fused_experts.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/heed_weights.h"
#include "checkpoint/merged_weights.h"
#include "checkpoint/own_experts.h"
#include "checkpoint/own_names.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/quantization_config.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/unfinished_folder.h"
#include "checkpoint/write_shards.h"
#include "config/choice.h"
#include "data/tokenizer/llama_pipeline.h"
#include "data/tokenizer/qwen2_pipeline.h"
#include "data/tokenizer/stored_configuration.h"
#include "model/family.h"
#include "model/further_fields.h"
#include "model/hf_config.h"
#include "model/vision_names.h"

namespace viaduct {
namespace {

bool is_absent_or_empty(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(folder))) return true;
  return std::filesystem::is_directory(folder) && std::filesystem::is_empty(folder);
}

/// The model to convert, from any kind of source.
struct Input {
  std::string name;  // the model's; "" if the input does not say
  ModelFolder folder;
  std::unique_ptr<TensorSource> weights;
  ModelConfig model;
  std::string config;                             // the text of a config.json of plain weights
  std::vector<std::string> side_files;            // names in the folder
  std::map<std::string, std::string> side_texts;  // further side files, by name
  bool texts_alone = false;                       // side_texts stand for those of the folder
  std::vector<std::string> notes;
};

Input read_folder(const ModelFolder& folder) {
  Input input;
  input.folder = folder;
  input.model = read_model_config(input.folder);
  input.weights = open_weights(input.folder);
  input.config =
      with_heeded_fields(without_quantization_config(read_config_text(input.folder)), input.model);
  input.name = model_name(input.folder);
  input.side_files = model_side_files(input.folder.path);
  return input;
}

Input read_gguf_file(const ModelFolder& file) {
  GgufModel read = read_gguf(file.path);
  Input input;
  input.folder = file;
  input.name = std::move(read.name);
  input.model = read_hf_config(read.config, file.path.string());
  input.weights = std::move(read.weights);
  input.config = std::move(read.config);
  input.side_texts = std::move(read.files);
  input.notes = std::move(read.notes);
  return input;
}

/// Hugging Face's name of a format; nothing for those that config.json cannot name.
std::optional<std::string> torch_name(DType dtype) {
  switch (dtype) {
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

/// The format of most weights.
std::optional<DType> stored_format(const std::vector<TensorInfo>& tensors) {
  std::map<DType, int64_t> bytes;
  for (const TensorInfo& info : tensors) bytes[info.dtype] += info.bytes();
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? std::nullopt : std::optional(most->first);
}

/// The text of a config.json with torch_dtype (dtype in newer files) set to the weights' format;
/// unchanged if it says so already.
std::string with_format(const std::string& config, std::optional<DType> dtype) {
  const auto format = dtype ? torch_name(*dtype) : std::nullopt;
  if (!format) return config;
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  const char* name =
      json.contains("dtype") && !json.contains("torch_dtype") ? "dtype" : "torch_dtype";
  if (json.contains(name) && json[name] == *format) return config;
  json[name] = *format;
  if (std::string_view(name) == "torch_dtype" && json.contains("dtype")) json["dtype"] = *format;
  return json.dump(2) + "\n";
}

std::string with_fp8_blocks(const std::string& config, const std::vector<std::string>& unchanged) {
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  json["quantization_config"] = fp8_block_config(unchanged);
  return json.dump(2) + "\n";
}

/// The files of a tokenizer of the input, by name.
std::map<std::string, std::string> tokenizer_texts(const Input& input) {
  std::map<std::string, std::string> texts = input.side_texts;
  for (const std::string& name : input.side_files)
    texts[name] = read_file(input.folder.path / name);
  if (input.folder.kind == ModelFolderKind::gguf || input.texts_alone) return texts;
  if (auto config = stored_tokenizer_configuration(TokenizerFiles(input.folder.path)))
    texts[kTokenizerConfigurationFile] = *std::move(config);
  return texts;
}

/// The same for who reads them.
TokenizerFiles tokenizer_files_of(const Input& input) {
  if (!input.texts_alone && input.folder.kind != ModelFolderKind::gguf)
    return TokenizerFiles(input.folder.path);
  std::map<std::string, std::string> texts = input.side_texts;
  if (input.folder.kind != ModelFolderKind::gguf) texts["config.json"] = input.config;
  return {input.folder.path, std::move(texts)};
}

/// The side files of the result, whatever the folder has.
void take_texts(std::map<std::string, std::string> texts, Input& input) {
  input.side_files.clear();
  input.side_texts = std::move(texts);
  input.texts_alone = true;
}

/// Gives the input further tokens; what that changed, for people.
std::string take_new_tokens(Input& input, const NewTokensRequest& request) {
  ExtendedModel extended =
      extend_vocabulary(request, std::move(input.weights), input.model, input.config,
                        tokenizer_texts(input), input.folder.path);
  input.weights = std::move(extended.weights);
  input.model = std::move(extended.model);
  input.config = std::move(extended.config);
  take_texts(std::move(extended.files), input);
  input.notes.insert(input.notes.end(), extended.notes.begin(), extended.notes.end());
  return extended.summary;
}

/// Gives the input the rows that an adapter has for further tokens. `own`: the adapter has a
/// tokenizer of its own.
void take_rows_of(const std::filesystem::path& adapter, bool own, Input& input) {
  const int64_t rows = adapter_vocabulary(adapter, input.model), before = input.model.vocabulary;
  if (rows == before) return;
  input.weights =
      grow_tables(std::move(input.weights), input.model, rows, rows_like_all(before, rows));
  input.model.vocabulary = rows;
  input.config = with_vocabulary(input.config, rows);
  input.notes.push_back(
      fmt::format("{}: has {} rows of tokens, and the model {}: the result has the adapter's{}",
                  adapter.string(), rows, before,
                  own ? ""
                      : ", and the tokenizer files of " + input.folder.path.string() +
                            ", which may lack these tokens"));
}

/// The number of tokens of an adapter's tokenizer; nothing for one that is copied and not read.
std::optional<int64_t> tokens_of(const AdapterTokenizer& tokenizer, const std::string& config) {
  try {
    return load_tokenizer(tokenizer.files(config)).vocab_size();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Gives the input the tokenizer and the chat templates of an adapter.
void take_tokenizer_of(AdapterTokenizer tokenizer, Input& input) {
  const auto tokens = tokens_of(tokenizer, input.config);
  VIADUCT_CHECK(ConfigError, !tokens || *tokens <= input.model.vocabulary,
                "{}: the adapter's tokenizer has {} tokens, and model and adapter have {} rows; "
                "give the model with these tokens, as viaduct convert --add-tokens writes it",
                tokenizer.folder.string(), tokens.value_or(0), input.model.vocabulary);
  input.notes.push_back(
      fmt::format("the result has the tokenizer and chat template of the adapter, {}, which "
                  "differ from those of {}",
                  tokenizer.text(), input.folder.path.string()));
  take_texts(std::move(tokenizer.texts), input);
}

/// "viaduct_fields" of a config.json, of a model with images those of its text model.
std::string further_fields_of(const std::string& config) {
  HfConfig outer(config, "config.json");
  constexpr const char* kText = "text_config";
  return (outer.has(kText) ? outer.object(kText) : std::move(outer)).text(kFurtherFields, "");
}

/// Without the field of checkpoints that says how names begin, as the names of a folder do.
std::string without_tower_prefix(const std::string& config) {
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  return json.erase(kTowerPrefixField) > 0 ? json.dump(2) + "\n" : config;
}

void write_hugging_face(const Input& from, const std::filesystem::path& to,
                        const ConvertSettings& settings, Converted& result) {
  VIADUCT_CHECK(ConfigError, is_absent_or_empty(to),
                "{}: exists and is not empty; name a new folder", to.string());
  const JoinedExperts joined(*from.weights,
                             fused_expert_names(model_family(from.model.family).names));
  const OwnExperts own(joined, from.model);
  ExportTensors tensors(own, from.model, settings.dtype);
  const VisionConfig& vision = from.model.vision;
  VIADUCT_CHECK(ConfigError, !vision.any() || settings.dtype != ExportFormat::fp8,
                "--dtype fp8 is not implemented for a model that takes images; expected fp32, bf16 "
                "or fp16");
  std::string config = with_format(
      without_tower_prefix(from.config),
      settings.dtype ? plain_dtype(*settings.dtype) : stored_format(from.weights->tensors()));
  if (settings.dtype == ExportFormat::fp8)
    config = with_fp8_blocks(config, tensors.unquantized_modules());
  // Before the weights are written: it may be refused.
  if (settings.config_form) config = in_config_form(config, *settings.config_form);
  std::vector<TensorInfo> written = tensors.tensors();
  std::map<std::string, std::string> names;  // here, by those in the folder
  for (TensorInfo& info : written) {
    const std::string here = info.name;
    if (vision.any()) info.name = stored_image_name(here, vision.tower_prefix);
    names[info.name] = here;
  }
  UnfinishedFolder unfinished(to);
  try {
    write_safetensors_folder(
        unfinished.path(), written,
        [&](const std::string& name) { return tensors.tensor(names.at(name)); },
        settings.max_shard_bytes);
  } catch (const IoError&) {
    from.weights->check_read();  // a write also fails if its source is gone
    throw;
  }
  from.weights->check_read();
  write_file_atomically(unfinished.path() / "config.json", config);
  const std::string further = further_fields_of(config);
  if (!further.empty()) {
    log_warning(
        "{}: config.json cannot express {} for its family; programs other than viaduct will read a "
        "different model{}",
        to.string(), further, own_names_text(from.model, config));
  }
  if (from.folder.kind != ModelFolderKind::gguf && !from.texts_alone)
    copy_model_side_files(from.folder.path, unfinished.path());
  for (const auto& [name, text] : from.side_texts) {
    const std::filesystem::path file = unfinished.path() / name;
    create_folder(file.parent_path());
    write_file_atomically(file, text);
  }
  unfinished.finish();
  for (const TensorInfo& info : tensors.tensors()) {
    ++result.tensors;
    result.bytes += info.bytes();
  }
  if (settings.dtype) result.rounding = tensors.rounding();
}

void check_save_folder(const std::filesystem::path& save, int64_t step) {
  if (is_absent_or_empty(save) || has_only_leftovers(save)) return;
  VIADUCT_CHECK(ConfigError, std::filesystem::is_directory(save) && has_latest(save),
                "{}: exists and is neither empty nor a save folder; name a new folder",
                save.string());
  VIADUCT_CHECK(ConfigError, latest_step(save) < step,
                "{}: holds step {}; the converted model would be step {}; name a new folder",
                save.string(), latest_step(save), step);
}

void write_checkpoint(const Input& from, const TensorSource& tensors, int64_t step,
                      const std::string& state, const std::filesystem::path& save,
                      const std::optional<ShardPlan>& plan) {
  check_save_folder(save, step);
  const bool fresh = is_absent_or_empty(save) || has_only_leftovers(save);
  RunLock lock(save);
  if (fresh) lock.remove_when_released();  // the result is not a run's folder
  CheckpointWriter writer(save, step, plan ? plan->shards : 1);
  if (plan) {
    write_shards(*plan, tensors, model_family(from.model.family).names, writer.folder());
  } else {
    ShardWriter shard(writer.folder(), 0);
    for (const TensorInfo& info : tensors.tensors())
      shard.add(info.name, tensors.tensor(info.name));
    shard.finish();
    tensors.check_read();
  }
  writer.set_state(state);
  writer.add_file("config.json", from.config);
  for (const auto& name : from.side_files) writer.copy_file(from.folder.path, name);
  for (const auto& [name, text] : from.side_texts) writer.add_file(name, text);
  if (from.folder.kind == ModelFolderKind::checkpoint) {
    constexpr const char* kRun = "config.yaml";
    if (std::filesystem::exists(from.folder.path / kRun)) writer.copy_file(from.folder.path, kRun);
  }
  writer.commit(0, &lock);
}

/// What Hugging Face's code would make of a model that its config.json cannot describe to it, and
/// of the tokenizer beside it.
void add_export_notes(const ModelConfig& model, const std::filesystem::path& to,
                      const TokenizerFiles& files, std::vector<std::string>& notes) {
  if (model.family == "qwen2") {
    if (std::string text = qwen2_pipeline_warning(files); !text.empty())
      notes.push_back(std::move(text));
  }
  if (std::string text = llama_pipeline_warning(files); !text.empty())
    notes.push_back(std::move(text));
  const RotaryPairs pairs = model_family(model.family).rotary_pairs;
  const bool neighbours = model.rotary.interleaved;
  if (model.positions == PositionKind::rotary && pairs != RotaryPairs::as_config_says &&
      neighbours != (pairs == RotaryPairs::neighbours)) {
    notes.push_back(fmt::format(
        "{}: {} is {}: Viaduct reads this field; Hugging Face's code of {} ignores it and would "
        "pair {}",
        to.string(), neighbours || !model.latent.any() ? "rotary_interleaved" : "rope_interleave",
        neighbours, model.family, neighbours ? "halves" : "neighbours"));
  }
  if (model.family == "kimi_k2") {
    notes.push_back(
        to.string() +
        ": model_type is kimi_k2, which transformers opens with its publisher's code "
        "alone (auto_map); as deepseek_v3, which is the same model, it opens it without");
  }
  const double scalar = 1 / (model.attention_scale * model.attention_scale);
  if (model.family.find("gemma") != std::string::npos && model.family != "gemma" &&
      std::abs(scalar - std::round(scalar)) >= 1e-9 * scalar) {
    notes.push_back(
        fmt::format("{}: query_pre_attn_scalar is {}: transformers 5 opens only whole numbers",
                    to.string(), scalar));
  }
}

/// Whether the result has the layers for images of a model that takes them: GGUF files have text
/// models alone, and further tokens are those of text models.
bool keeps_images(const ConvertSettings& settings) {
  const bool gguf = settings.format ? *settings.format == ModelFormat::gguf : is_gguf(settings.to);
  return !gguf && !settings.new_tokens;
}

ModelFormat output_format(const ConvertSettings& settings, const Input& from) {
  const bool folder_to_checkpoint =
      from.folder.kind == ModelFolderKind::hugging_face && !settings.adapter;
  const ModelFormat format =
      settings.format.value_or(is_gguf(settings.to)   ? ModelFormat::gguf
                               : folder_to_checkpoint ? ModelFormat::checkpoint
                                                      : ModelFormat::hugging_face);
  const bool checkpoint = format == ModelFormat::checkpoint;
  VIADUCT_CHECK(ConfigError, format != ModelFormat::peft,
                "convert: {} holds a model and no adapter; --to-format peft is for the checkpoint "
                "of a run with peft.scheme",
                settings.from.string());
  VIADUCT_CHECK(ConfigError, !checkpoint || !settings.adapter,
                "convert: a model with an adapter merged into it is written as a Hugging Face "
                "folder or a GGUF file (--to-format hf or gguf), not as a checkpoint");
  VIADUCT_CHECK(
      ConfigError,
      !checkpoint || !settings.new_tokens || from.folder.kind != ModelFolderKind::checkpoint,
      "convert: with --add-tokens the model of a checkpoint is written as a Hugging Face folder or "
      "a GGUF file (--to-format hf or gguf): moments and the place in the data are of the model "
      "without them; a run starts from the folder with checkpoint.pretrained_checkpoint");
  VIADUCT_CHECK(ConfigError, !settings.plan || !settings.new_tokens,
                "convert: --add-tokens writes one shard, and {} were requested: any layout loads "
                "it; leave out dist.ranks",
                settings.plan->shards);
  VIADUCT_CHECK(ConfigError, (format == ModelFormat::gguf) == is_gguf(settings.to),
                "convert: {} is written as {}; names of GGUF files, and no others, end in .gguf",
                settings.to.string(),
                format == ModelFormat::gguf ? "a GGUF file"
                : checkpoint                ? "a checkpoint"
                                            : "a Hugging Face folder");
  VIADUCT_CHECK(ConfigError, checkpoint || !settings.plan,
                "convert: a {} has no layout of ranks, but {} shards were requested",
                format == ModelFormat::gguf ? "GGUF file" : "Hugging Face folder",
                settings.plan->shards);
  VIADUCT_CHECK(ConfigError, !settings.config_form || format == ModelFormat::hugging_face,
                "convert: --transformers {} is for Hugging Face folders; {} is written as a {}",
                settings.config_form == ConfigForm::version4 ? 4 : 5, settings.to.string(),
                checkpoint ? "checkpoint" : "GGUF file");
  VIADUCT_CHECK(ConfigError, !checkpoint || !settings.dtype,
                "convert: --dtype {} is for exports (a Hugging Face folder or a GGUF file); a "
                "checkpoint keeps the stored format",
                export_format_name(*settings.dtype));
  return format;
}

}  // namespace

Converted convert_model(const ConvertSettings& settings) {
  ModelFolder given = resolve_model_folder(model_path(
      "--from ", settings.from, "a Hugging Face folder, a checkpoint, a save folder or FILE.gguf"));
  if (given.kind == ModelFolderKind::checkpoint && holds_adapter(given.path))
    return convert_adapter(settings, given);
  if (settings.adapter_only) return convert_adapter_only(settings, given);
  if (keeps_images(settings)) given.images = ImageLayers::read;
  Input from = given.kind == ModelFolderKind::gguf ? read_gguf_file(given) : read_folder(given);
  check_tensors_fit(from.model, *from.weights);
  const ModelFormat format = output_format(settings, from);
  if (settings.adapter) {
    // In FP32 where the export rounds: once.
    const auto wide = settings.dtype ? std::optional(DType::f32) : std::nullopt;
    auto tokenizer = tokenizer_of_adapter(*settings.adapter, given.path);
    take_rows_of(*settings.adapter, tokenizer.has_value(), from);
    if (tokenizer) take_tokenizer_of(*std::move(tokenizer), from);
    PeftAdapter adapter = open_adapter(*settings.adapter, from.model);
    check_adapter_bases({adapter.folder}, {given});
    if (const auto format = trained_base_format(adapter.folder))
      from.notes.push_back(fmt::format(
          "{}: the adapter was trained beside frozen weights in {} (peft.base_format), and is "
          "merged into those of {} as they are there, a model that differs a little from the "
          "trained one; --adapter {} peft.base_format={} is that one",
          adapter.folder.string(), choice_name(*format), given.path.string(),
          adapter.folder.string(), choice_name(*format)));
    from.weights = merge_adapter(std::move(from.weights), std::move(adapter), from.model, wide);
  }
  Converted result;
  if (settings.new_tokens) result.vocabulary = take_new_tokens(from, *settings.new_tokens);
  // "models/x/" is models/x.
  std::filesystem::path to = std::filesystem::absolute(settings.to).lexically_normal();
  if (!to.has_filename()) to = to.parent_path();
  // A symbolic link is kept, and its target folder is filled.
  if (std::filesystem::is_symlink(to) && std::filesystem::exists(to))
    to = std::filesystem::canonical(to);

  result.notes = from.model.notes;
  result.notes.insert(result.notes.end(), from.notes.begin(), from.notes.end());
  const TokenizerFiles side_files = tokenizer_files_of(from);
  if (format == ModelFormat::hugging_face)
    add_export_notes(from.model, settings.to, side_files, result.notes);
  if (format == ModelFormat::gguf) {
    std::error_code absent;
    const auto size = std::filesystem::file_size(to, absent);
    VIADUCT_CHECK(ConfigError, absent || size == 0, "{}: exists and is not empty; name a new file",
                  settings.to.string());
    const GgufWritten written = write_gguf(to, from.name.empty() ? to.stem().string() : from.name,
                                           from.model, *from.weights, side_files, settings.dtype);
    result.notes.insert(result.notes.end(), written.notes.begin(), written.notes.end());
    result.tensors = written.tensors;
    result.bytes = written.bytes;
    if (settings.dtype) result.rounding = written.rounding;
    result.path = to;
    return result;
  }
  if (format == ModelFormat::hugging_face) {
    write_hugging_face(from, to, settings, result);
  } else {
    for (const TensorInfo& info : from.weights->tensors()) {
      ++result.tensors;
      result.bytes += info.bytes();
    }
    if (from.folder.kind == ModelFolderKind::checkpoint) {
      const CheckpointReader checkpoint(from.folder.path);  // optimizer state too
      write_checkpoint(from, checkpoint, checkpoint.step(), checkpoint.state(), to, settings.plan);
    } else {
      write_checkpoint(from, *from.weights, 0, "{}", to, settings.plan);
    }
  }
  result.path = resolve_model_folder(to).path;
  return result;
}

}  // namespace viaduct
