// viaduct convert: a model between Hugging Face folder, Viaduct checkpoint and GGUF file.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/convert.h"
#include "number_checks.h"
#include "override_scope.h"
#include "subcommands.h"
#include "train/checkpoint_shards.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  ConvertSettings settings;
  std::string format, dtype, new_row_start;
  int transformers = 0;
  std::filesystem::path new_tokens;
  std::vector<std::string> overrides;
};

const std::map<std::string, ModelFormat> kFormats{{"hf", ModelFormat::hugging_face},
                                                  {"viaduct", ModelFormat::checkpoint},
                                                  {"gguf", ModelFormat::gguf},
                                                  {"peft", ModelFormat::peft}};

/// Fields that decide which pieces of the weights a rank saves.
OverrideScope scope() {
  return {"viaduct convert",
          {"ddp",
           "dist.ranks",
           "dist.use_tp_pp_dp_mapping",
           "model.tensor_model_parallel_size",
           "model.context_parallel_size",
           "model.expert_model_parallel_size",
           "model.expert_tensor_parallel_size",
           "model.pipeline_model_parallel_size",
           "model.encoder_pipeline_model_parallel_size",
           "model.encoder_tensor_model_parallel_size",
           "model.virtual_pipeline_model_parallel_size",
           "model.account_for_embedding_in_pipeline_split",
           "model.account_for_loss_in_pipeline_split",
           "model.num_layers_in_first_pipeline_stage",
           "model.num_layers_in_last_pipeline_stage",
           "model.pipeline_model_parallel_layout",
           "model.sequence_parallel",
           "model.tensor_parallel_num_weight_shards",
           "model.cp_comm_type",
           "train.global_batch_size",
           "train.micro_batch_size"}};
}

int run(Arguments& arguments) {
  scope().check(arguments.overrides);
  RunConfig defaults;  // the folder says what the layout must fit
  defaults.checkpoint.pretrained_checkpoint = arguments.settings.from.string();
  LoadedRunConfig loaded = load_run_config({}, arguments.overrides, defaults);
  VIADUCT_CHECK(ConfigError, arguments.overrides.empty() || loaded.config.dist.ranks > 1,
                "viaduct convert: the overrides say how a checkpoint is cut into shards, which "
                "needs dist.ranks above 1; without them it has one shard");
  if (!arguments.format.empty()) arguments.settings.format = kFormats.at(arguments.format);
  if (!arguments.dtype.empty()) arguments.settings.dtype = export_format(arguments.dtype);
  if (arguments.transformers != 0)
    arguments.settings.config_form =
        arguments.transformers == 4 ? ConfigForm::version4 : ConfigForm::version5;
  VIADUCT_CHECK(ConfigError, arguments.new_row_start.empty() || !arguments.new_tokens.empty(),
                "viaduct convert: --add-tokens-init {} without --add-tokens FILE",
                arguments.new_row_start);
  if (!arguments.new_tokens.empty()) {
    const bool all = arguments.new_row_start == "all";
    arguments.settings.new_tokens =
        NewTokensRequest{arguments.new_tokens, all ? NewRowStart::all : NewRowStart::pieces};
  }
  if (loaded.config.dist.ranks > 1) {
    ModelFolder from = resolve_model_folder(arguments.settings.from);
    from.images = ImageLayers::read;  // a checkpoint keeps them
    arguments.settings.plan = checkpoint_shards(from, std::move(loaded));
  }
  const Converted result = convert_model(arguments.settings);
  for (const std::string& note : result.notes) log_warning("{}", note);
  if (!result.vocabulary.empty()) fmt::print("{}\n", result.vocabulary);
  if (result.rounding) fmt::print("{}: {}\n", arguments.dtype, result.rounding->text());
  fmt::print("{} ({}) in {}\n", counted(result.tensors, "tensor"), format_bytes(result.bytes),
             result.path.string());
  return 0;
}

}  // namespace

Subcommand add_convert(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand(
      "convert", "Convert a model between Hugging Face folder, Viaduct checkpoint and GGUF file");
  app->add_option(
         "--from", arguments->settings.from,
         "Hugging Face folder, checkpoint, save folder or FILE.gguf, or the name of a model "
         "of the Hugging Face Hub in the local cache (ORG/NAME[@REVISION])")
      ->required();
  app->add_option("--to", arguments->settings.to,
                  "What to write: a new or empty folder (a Hugging Face folder, or a save folder "
                  "that gets a step and latest), or FILE.gguf")
      ->check(new_path())
      ->required();
  app->add_option(
         "--to-format", arguments->format,
         "hf, viaduct, gguf or peft (of a run with adapters: adapter_config.json and "
         "adapter_model.safetensors); default: gguf for FILE.gguf, peft where --from is "
         "such a run, viaduct where it is a Hugging Face folder and there is no --adapter, "
         "else hf")
      ->check(CLI::IsMember({"hf", "viaduct", "gguf", "peft"}));
  app->add_option("--adapter", arguments->settings.adapter,
                  "Folder of an adapter, as PEFT or a run with adapters writes it, that is merged "
                  "into the weights: computed in FP32, rounded once")
      ->check(not_empty());
  app->add_flag("--adapter-only", arguments->settings.adapter_only,
                "With --adapter and --to FILE.gguf: only the adapter, as the file that llama.cpp "
                "reads beside the model (--lora FILE.gguf)");
  app->add_option("--add-tokens", arguments->new_tokens,
                  "Tokens that model and tokenizer get: FILE.jsonl with objects {\"content\", "
                  "\"special\"}, or any other file with one token a line")
      ->check(not_empty());
  app->add_option("--add-tokens-init", arguments->new_row_start,
                  "What the rows of new tokens start as: pieces (default), the mean of the rows of "
                  "the tokens into which the tokenizer cut their text so far; all, the mean of all "
                  "rows")
      ->check(CLI::IsMember({"pieces", "all"}));
  app->add_option("--dtype", arguments->dtype,
                  "Number format of an export: fp32, bf16, fp16, fp8 (Hugging Face: 128 × 128 "
                  "blocks with scales), or of a GGUF file " +
                      gguf_format_names() + "; by default each tensor keeps its own");
  app->add_option("--transformers", arguments->transformers,
                  "The version of Hugging Face's transformers whose spelling of config.json a "
                  "Hugging Face folder gets: 4 (rope_theta and rope_scaling, torch_dtype) or 5 "
                  "(rope_parameters, dtype); default: that of the folder that the model came "
                  "from, and for models that came from none one that both read")
      ->check(CLI::IsMember({4, 5}));
  app->add_option("--max-shard-bytes", arguments->settings.max_shard_bytes,
                  "Maximum size of a weight file in a Hugging Face folder")
      ->check(positive())
      ->capture_default_str();
  app->add_option("OVERRIDES", arguments->overrides, "section.field=value: " + scope().help());
  app->footer(
      "Without --dtype every tensor keeps its stored type, bit by bit: weights of a training run "
      "are "
      "its FP32 masters,\nas torch_dtype of an exported config.json states. With it, elements are "
      "rounded to nearest even, and a finite one\nthat the format cannot hold is an error; the "
      "quantized formats of GGUF files have scales and minimums that are\nsearched for the least "
      "squared error, and wider types for the output and some matrices, as in llama.cpp. FP8 and "
      "MX weights of Hugging Face folders are read as BF16. The rest of "
      "config.json, "
      "tokenizer and generation files are copied unchanged.\nOptimizer state stays in a "
      "checkpoint and is left "
      "out of a Hugging Face folder.\nWith dist.ranks and sizes of model parallelism among the "
      "overrides "
      "a checkpoint is cut into the shards that the\nranks of such a run save; any layout loads "
      "any checkpoint.\n\n"
      "Example:\n  viaduct convert --from models/llama --to runs/llama\n  viaduct convert --from "
      "runs/llama --to models/llama-tuned --dtype bf16\n  viaduct convert --from runs/llama --to "
      "llama.gguf --dtype q4_k_m\n  viaduct convert --from Qwen/Qwen3-0.6B --to models/qwen3-more "
      "--to-format hf --add-tokens words.txt");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
