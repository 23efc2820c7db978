// viaduct convert: Hugging Face folder to Viaduct checkpoint and back.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/convert.h"
#include "override_scope.h"
#include "subcommands.h"
#include "train/checkpoint_shards.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  ConvertSettings settings;
  std::string format;
  std::vector<std::string> overrides;
};

/// Fields that decide which pieces of the weights a rank saves.
OverrideScope scope() {
  return {
      "viaduct convert",
      {"ddp", "dist.ranks", "dist.use_tp_pp_dp_mapping", "model.tensor_model_parallel_size",
       "model.context_parallel_size", "model.pipeline_model_parallel_size",
       "model.virtual_pipeline_model_parallel_size",
       "model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split",
       "model.num_layers_in_first_pipeline_stage", "model.num_layers_in_last_pipeline_stage",
       "model.pipeline_model_parallel_layout", "model.sequence_parallel", "model.cp_comm_type",
       "train.global_batch_size", "train.micro_batch_size"}};
}

int run(Arguments& arguments) {
  scope().check(arguments.overrides);
  LoadedRunConfig loaded = load_run_config({}, arguments.overrides);
  VIADUCT_CHECK(ConfigError, arguments.overrides.empty() || loaded.config.dist.ranks > 1,
                "viaduct convert: the overrides say how a checkpoint is cut into shards, which "
                "needs dist.ranks above 1; without them it has one shard");
  if (!arguments.format.empty())
    arguments.settings.format =
        arguments.format == "hf" ? ModelFolderKind::hugging_face : ModelFolderKind::checkpoint;
  if (loaded.config.dist.ranks > 1) {
    arguments.settings.plan =
        checkpoint_shards(resolve_model_folder(arguments.settings.from), std::move(loaded));
  }
  const Converted result = convert_model(arguments.settings);
  for (const std::string& note : result.notes) log_warning("{}", note);
  fmt::print("{} tensors ({}) in {}\n", result.tensors, format_bytes(result.bytes),
             result.folder.path.string());
  return 0;
}

}  // namespace

Subcommand add_convert(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app =
      root.add_subcommand("convert", "Hugging Face folder to Viaduct checkpoint and back");
  app->add_option("--from", arguments->settings.from,
                  "Hugging Face folder, checkpoint or save folder")
      ->required();
  app->add_option("--to", arguments->settings.to,
                  "Folder to write, new or empty: a Hugging Face folder, or a save folder that "
                  "gets a step and latest")
      ->required();
  app->add_option("--to-format", arguments->format,
                  "hf or viaduct; by default the other one than --from")
      ->check(CLI::IsMember({"hf", "viaduct"}));
  app->add_option("--max-shard-bytes", arguments->settings.max_shard_bytes,
                  "Maximum size of a weight file in a Hugging Face folder")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("OVERRIDES", arguments->overrides, "section.field=value: " + scope().help());
  app->footer(
      "Every tensor keeps its name and its stored type, bit by bit: weights of a training run are "
      "its FP32 masters,\nas torch_dtype of an exported config.json states. The rest of "
      "config.json, "
      "tokenizer and generation files are copied as they are.\nOptimizer state stays in a "
      "checkpoint and is left "
      "out of a Hugging Face folder.\nWith dist.ranks and sizes of model parallelism among the "
      "overrides "
      "a checkpoint is cut into the shards that the\nranks of such a run save; any layout loads "
      "any checkpoint.\n\n"
      "Example:\n  viaduct convert --from models/llama --to runs/llama\n  viaduct convert --from "
      "runs/llama --to models/llama-tuned");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
