#include "checkpoint/convert_adapter.h"

#include "base/error.h"
#include "checkpoint/adapter_base.h"
#include "checkpoint/adapter_tokenizer.h"
#include "checkpoint/gguf_adapter.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/peft_folder.h"

namespace viaduct {
namespace {

/// The options of a Hugging Face folder say nothing about an adapter's files.
void check_no_model_options(const ConvertSettings& settings, const char* written) {
  VIADUCT_CHECK(ConfigError, !settings.config_form,
                "convert: --transformers {} is the spelling of a model's config.json, and {} has "
                "none; leave it out",
                settings.config_form == ConfigForm::version4 ? 4 : 5, written);
  VIADUCT_CHECK(ConfigError, settings.max_shard_bytes == kDefaultShardBytes,
                "convert: --max-shard-bytes {} is for the files of a Hugging Face folder; {} is "
                "written as one; leave it out",
                settings.max_shard_bytes, written);
}

}  // namespace

Converted convert_adapter(const ConvertSettings& settings, const ModelFolder& from) {
  VIADUCT_CHECK(
      ConfigError,
      settings.format.value_or(is_gguf(settings.to) ? ModelFormat::gguf : ModelFormat::peft) ==
          ModelFormat::peft,
      "convert: {} holds an adapter, which is written as a folder of PEFT (--to-format "
      "peft); to merge it: --from MODEL --adapter {}",
      settings.from.string(), settings.from.string());
  VIADUCT_CHECK(
      ConfigError, !settings.adapter_only,
      "convert: --adapter-only needs the model that llama.cpp has: --from MODEL --adapter "
      "{} --to FILE.gguf --adapter-only",
      settings.from.string());
  VIADUCT_CHECK(ConfigError, !settings.new_tokens,
                "convert: --add-tokens is for a model, and {} holds an adapter; give the tokens to "
                "the model under it, and train with peft.train",
                settings.from.string());
  VIADUCT_CHECK(ConfigError, !settings.adapter,
                "convert: --from {} holds an adapter, and --adapter {} another; --from is the "
                "model that one is merged into",
                settings.from.string(), settings.adapter->string());
  VIADUCT_CHECK(ConfigError, !settings.dtype && !settings.plan,
                "convert: an adapter of PEFT is written as it is stored, in one file; leave out "
                "{}",
                settings.dtype ? "--dtype" : "the layout");
  check_no_model_options(settings, "an adapter of PEFT");
  ModelFolder whole = from;
  whole.images = ImageLayers::read;  // where the run read them
  const ModelConfig model = read_model_config(whole);
  const PeftAdapter adapter = open_adapter(from.path, model);
  const WrittenAdapter written =
      write_peft_folder(adapter, model, settings.to, model_side_texts(from.path));
  return {settings.to, written.tensors, written.bytes, {}, {}};
}

Converted convert_adapter_only(const ConvertSettings& settings, const ModelFolder& from) {
  VIADUCT_CHECK(ConfigError, settings.adapter,
                "convert: --adapter-only without --adapter DIR: expected the adapter to write");
  VIADUCT_CHECK(
      ConfigError,
      is_gguf(settings.to) && settings.format.value_or(ModelFormat::gguf) == ModelFormat::gguf,
      "convert: {}: --adapter-only writes llama.cpp's file of an adapter, whose name ends "
      "in .gguf; --from RUN --to DIR writes a run's adapter as a folder of PEFT",
      settings.to.string());
  VIADUCT_CHECK(ConfigError, !settings.dtype && !settings.plan && !settings.new_tokens,
                "convert: an adapter for llama.cpp is written in FP32, alone; leave out {}",
                settings.dtype  ? "--dtype"
                : settings.plan ? "the layout"
                                : "--add-tokens");
  check_no_model_options(settings, "an adapter for llama.cpp");
  std::error_code absent;
  const auto size = std::filesystem::file_size(settings.to, absent);
  VIADUCT_CHECK(ConfigError, absent || size == 0, "{}: exists and is not empty; name a new file",
                settings.to.string());
  const ModelConfig model = read_model_config(from);
  const PeftAdapter adapter = open_adapter(*settings.adapter, model);
  check_adapter_bases({adapter.folder}, {from});
  const WrittenAdapter written =
      write_gguf_adapter(settings.to, settings.to.stem().string(), model, adapter);
  Converted result{settings.to, written.tensors, written.bytes, {}, model.notes};
  if (const auto own = tokenizer_of_adapter(*settings.adapter, from.path)) {
    result.notes.push_back(fmt::format(
        "{}: the adapter has a tokenizer or chat template of its own, and llama.cpp takes those of "
        "the model's file; merged (without --adapter-only) the file has the adapter's",
        own->text()));
  }
  return result;
}

}  // namespace viaduct
