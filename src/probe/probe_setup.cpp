#include "probe/probe_setup.h"

#include <algorithm>

#include "base/error.h"
#include "base/given_path.h"
#include "base/units.h"
#include "checkpoint/adapter_base.h"
#include "checkpoint/grown_tables.h"
#include "checkpoint/peft_folder.h"
#include "config/problems.h"
#include "model/model_from_fields.h"
#include "run/adapter_setup.h"
#include "run/longrope_note.h"
#include "run/no_effect.h"
#include "run/packed_weights.h"
#include "run/parallel_settings.h"
#include "run/resolved_run.h"
#include "run/validate.h"
#include "run/vision_support.h"

namespace viaduct {
namespace {

RunConfig probe_defaults(const ProbeRequest& request, int64_t steps, int64_t rows) {
  RunConfig defaults;
  defaults.dist = request.dist;
  defaults.checkpoint.pretrained_checkpoint = request.model.string();
  defaults.peft.adapter = request.adapter;
  defaults.mixed_precision.recipe = RecipeName::fp32;
  defaults.scheduler.lr_decay_style = DecayStyle::constant;
  defaults.scheduler.lr_warmup_iters = 0;
  defaults.train.train_iters = steps;
  defaults.train.global_batch_size = rows;
  defaults.train.micro_batch_size = rows;
  return defaults;
}

/// Tokens of a row of the model, of its decoder where it has an encoder.
int64_t row_length(const SafetensorsFile& batch, const TensorInfo& ids, bool train,
                   const ModelConfig& model) {
  if (!model.encoder.any()) return ids.shape.dim(-1);
  const std::string name = train ? "batch.labels" : "labels";
  const TensorInfo* labels = batch.find(name);
  VIADUCT_CHECK(IoError, labels != nullptr && labels->shape.rank() == ids.shape.rank(),
                "{}: {} {}, expected {} of what the decoder is to say: the model has an encoder",
                batch.where(), name,
                labels == nullptr ? "is missing" : "is " + to_string(labels->shape),
                train ? "[N, B, D]" : "[B, D]");
  return labels->shape.dim(-1);
}

/// The checkpoint's architecture with the overrides of section `model`; resolves all dependent
/// values.
ModelConfig resolve_model(const ModelConfig& model, RunConfig& config, const ConfigOutcome& outcome,
                          int64_t length, int64_t encoder_length) {
  const auto& given = config.model.seq_length;
  VIADUCT_CHECK(ConfigError, given.is_auto() || given.value() == length,
                "model.seq_length: {}, but the rows of the batch have {}", given.value(),
                counted(length, "token"));
  take_architecture(config.model, model);
  config.model.vision.folder_takes_images = model.vision.any();
  config.model.seq_length.resolve(length);
  config.model.encoder.encoder_seq_length.resolve(encoder_length);
  config.model.resolve();
  resolve_parallel(config);
  config.fusion.resolve(config.model.activation_func.value(), kept_logits_bytes(config));
  resolve_packed_weights(config);
  Problems problems;
  validate(config, outcome, problems);
  problems.throw_if_any();
  const ModelConfig resolved = to_model_config(config.model, model);
  validate_vision(config, resolved, problems);
  problems.throw_if_any();
  check_rotary_order(model, resolved);
  check_head(model, resolved);
  return resolved;
}

}  // namespace

ProbeSetup prepare_probe(const ProbeRequest& request) {
  ProbeSetup setup;
  ModelFolder folder = resolve_model_folder(request.model);
  check_given_path("--batch ", request.batch, "a safetensors file");
  setup.batch = std::make_unique<SafetensorsFile>(request.batch);

  const std::string ids_name = request.train ? "batch.input_ids" : "input_ids";
  const TensorInfo* ids = setup.batch->find(ids_name);
  const int rank = request.train ? 3 : 2;
  VIADUCT_CHECK(IoError, ids != nullptr, "{}: {} is missing{}", request.batch.string(), ids_name,
                setup.batch->contains("input_ids")         ? " (without --train it is input_ids)"
                : setup.batch->contains("batch.input_ids") ? " (it holds batch.*: use --train)"
                                                           : "");
  VIADUCT_CHECK(IoError, ids->shape.rank() == rank && ids->shape.elements() > 0,
                "{}: {} is {}, expected {}", request.batch.string(), ids_name,
                to_string(ids->shape), request.train ? "[N, B, S]" : "[B, S]");
  const int64_t steps = request.train ? ids->shape[0] : 1, rows = ids->shape[rank - 2];

  LoadedRunConfig loaded =
      load_run_config({}, request.overrides, probe_defaults(request, steps, rows));
  setup.config = std::move(loaded.config);
  RunConfig& config = setup.config;
  folder.images = config.model.vision.layers();
  const ModelConfig model = read_model_config(folder);
  setup.weights = open_weights(folder);
  VIADUCT_CHECK(ConfigError, !config.context_parallel.hybrid_context_parallel,
                "model.hybrid_context_parallel: true, but probe cuts whole rows, not documents");
  VIADUCT_CHECK(
      ConfigError, !config.train.micro_batch_size.is_auto(),
      "train.micro_batch_size: auto is found by viaduct train; expected a number of rows");
  VIADUCT_CHECK(ConfigError, config.train.global_batch_size == rows,
                "train.global_batch_size: {}, but the batch has {}", config.train.global_batch_size,
                counted(rows, "row"));
  if (config.peft.adapter && config.model.vocab_size.is_auto())
    config.model.vocab_size.resolve(adapter_vocabulary(*config.peft.adapter, model));
  const int64_t length = row_length(*setup.batch, *ids, request.train, model);
  setup.model = resolve_model(model, config, loaded.outcome, length, ids->shape.dim(-1));
  config.optimizer.resolve();
  setup.notes = resolve_adapters(config, setup.model);
  if (const int64_t tokens = setup.model.vocabulary; tokens > model.vocabulary) {
    setup.weights = grow_tables(std::move(setup.weights), model, tokens,
                                rows_like_all(model.vocabulary, tokens));
    setup.notes.push_back(
        fmt::format("model.vocab_size: {}, and the model has {}: the rows beyond are the mean of "
                    "all rows",
                    tokens, model.vocabulary));
  }
  note_longrope(setup.model.rotary, "rows of", length, setup.notes);
  if (config.peft.adapter) {
    PeftAdapter adapter = open_adapter(*config.peft.adapter, setup.model);
    check_adapter_bases({adapter.folder}, {folder});
    setup.settings.adapter = std::move(adapter.tensors);
    setup.settings.router_parameters = adapter.router_parameters;
  }
  if (!request.train && config.peft.lora_plus_ratio != 1)
    setup.notes.emplace_back(
        "peft.lora_plus_ratio has no effect here: without --train no step is taken");
  // A probe resolves what a step needs, and no more: the other rules are of whole runs.
  ConfigOutcome of_adapters = loaded.outcome;
  std::erase_if(of_adapters.given,
                [](const auto& given) { return !given.first.starts_with("peft."); });
  for (std::string& note : settings_without_effect(config, of_adapters))
    setup.notes.push_back(std::move(note));
  config.scheduler.resolve(config.train.train_iters, config.optimizer.weight_decay);

  ProbeSettings& settings = setup.settings;
  settings.run = resolve_run(config, setup.model);
  settings.micro_batch_size =
      loaded.outcome.is_given("train.micro_batch_size") ? config.train.micro_batch_rows() : 0;
  settings.loss_scaler = loss_scaler_settings(config.mixed_precision);
  if (request.train)
    settings.schedules =
        schedules(config.optimizer, config.scheduler, config.train.train_iters, rows);
  settings.train = request.train;
  settings.hidden = request.hidden;
  settings.weights = request.weights;
  return setup;
}

}  // namespace viaduct
