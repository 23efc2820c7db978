#include "run/encoder_support.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "config/choice.h"
#include "config/nearest_valid.h"
#include "optim/state_config.h"
#include "precision/precision_config.h"
#include "run/graph_config.h"
#include "run/parallel_settings.h"
#include "run/refusals.h"
#include "tensor/state_formats.h"

namespace viaduct {
namespace {

/// The encoder's own stages.
void validate_stages(const RunConfig& config, Problems& problems) {
  const ParallelConfig& sizes = config.parallel;
  const int stages = sizes.encoder_pipeline_model_parallel_size,
            tensor = sizes.encoder_tensor_model_parallel_size,
            tp = sizes.tensor_model_parallel_size;
  constexpr const char* kStages = "model.encoder_pipeline_model_parallel_size";
  constexpr const char* kTensor = "model.encoder_tensor_model_parallel_size";
  if (stages == 0) {
    if (tensor > 0) {
      problems.add(
          "{}: {} needs encoder_pipeline_model_parallel_size above 0, which is 0: the encoder is "
          "on "
          "the decoder's first stage, with its tensor ranks; expected 0",
          kTensor, tensor);
    }
    return;
  }
  // Of a folder that is not read yet.
  const bool unknown = (config.checkpoint.pretrained_checkpoint || config.model.hf_config) &&
                       config.model.encoder.encoder_num_layers.is_auto();
  const int64_t layers = encoder_layers(config);
  const VisionFields& vision = config.model.vision;
  // How many blocks of a tower are read is known with the model (validate_vision).
  const bool images = vision.folder_takes_images && vision.read_images;
  if (layers == 0 && !images && !unknown) {
    problems.add("{}: {} needs a model with an encoder, and {}; expected 0", kStages, stages,
                 vision.folder_takes_images
                     ? "model.read_images = false leaves the vision tower out"
                     : "encoder_num_layers is 0");
    return;
  }
  if (layers > 0 && layers % stages != 0) {
    problems.add("{}: {} does not divide encoder_num_layers = {}; nearest: {}", kStages, stages,
                 layers, nearest_divisor(stages, layers));
  }
  const int own = sizes.encoder_tensor();
  if (own != tp && !unknown) {
    if (own % tp != 0 && tp % own != 0) {
      problems.add(
          "{}: {}: neither it nor tensor_model_parallel_size = {} divides the other; nearest: {}",
          kTensor, tensor, tp, nearest_divisor(own, tp));
    }
    if (config.pipeline.variable_seq_lengths) {
      problems.add(
          "model.variable_seq_lengths: true is not implemented with {} = {}, other than "
          "tensor_model_parallel_size = {}; expected false",
          kTensor, tensor, tp);
    }
  }
  if (config.dist.use_tp_pp_dp_mapping) {
    problems.add(
        "dist.use_tp_pp_dp_mapping: true is not implemented with "
        "encoder_pipeline_model_parallel_size = {}: the ranks of the encoder come first; expected "
        "false",
        stages);
  }
}

/// The token table of an encoder whose tensor ranks are not as many as the decoder's: both sides
/// update their copies, cut in different places, and they must stay the same.
void validate_own_tensor_ranks(const RunConfig& config, Problems& problems) {
  const ParallelConfig& sizes = config.parallel;
  if (encoder_layers(config) == 0 || sizes.encoder_tensor() == sizes.tensor_model_parallel_size)
    return;
  Refusals refuse(problems, "with model.encoder_tensor_model_parallel_size other than tp",
                  "the same number of tensor ranks");
  constexpr const char* kCopies = "the two cuts of the token table would drift apart";
  const OptimizerKind kind = config.optimizer.optimizer;
  refuse.expect(kind != OptimizerKind::adafactor, "optimizer.optimizer", choice_name(kind), "adam",
                kCopies);
  refuse.expect(!config.ddp.shares_state(), "ddp.outer_dp_sharding_strategy",
                choice_name(config.ddp.outer_dp_sharding_strategy), "no_shard",
                "shards of the token table go over all instances");
  PrecisionRecipe recipe = precision_recipe(config.mixed_precision);
  apply_state_formats(config.optimizer_state, recipe);
  const int64_t multiple = config.model.make_vocab_size_divisible_by,
                row = config.model.hidden_size.value_or(kStateGroup);
  if (recipe.scaled_state() && multiple * row % kStateGroup != 0) {
    const int64_t step = kStateGroup / std::gcd(kStateGroup, row);
    problems.add(
        "model.make_vocab_size_divisible_by: {} rows of {} features cut groups of {} elements of "
        "the optimizer's state, which has a scale for each, and encoder_tensor_model_parallel_size "
        "differs from tensor_model_parallel_size; nearest: {}",
        multiple, row, kStateGroup, nearest_multiple(multiple, step));
  }
}

}  // namespace

void validate_encoder(const RunConfig& config, Problems& problems) {
  validate_stages(config, problems);
  validate_own_tensor_ranks(config, problems);
  if (config.model.encoder.encoder_num_layers.value_or(0) == 0) return;
  if (config.model.encoder.encoder_seq_length.value_or(1) == 0) {
    problems.add("model.encoder_seq_length: 0, and the encoder has {} layers; expected at least 1",
                 config.model.encoder.encoder_num_layers.value());
    return;
  }
  Refusals refuse(problems, "with model.encoder_num_layers");
  const ParallelConfig& parallel = config.parallel;
  if (const int cp = parallel.context_parallel_size; cp > 1) {
    const auto& types = config.context_parallel.cp_comm_type.values();
    const auto other = std::ranges::find_if(
        types, [](ContextExchange type) { return type != ContextExchange::all_gather; });
    if (other != types.end()) {
      refuse.expect(false, "model.cp_comm_type", choice_name(*other), "all_gather",
                    "positions are a bias of the scores");
    }
  }
  refuse.expect(!config.context_parallel.hybrid_context_parallel, "model.hybrid_context_parallel",
                true, false);
  const int64_t tokens = encoder_tokens(config), tp = most_tensor_ranks(parallel);
  if (parallel.sequence_parallel.value_or(false) && tokens % tp != 0) {
    const int64_t length = config.model.encoder.encoder_seq_length.value();
    problems.add(
        "model.sequence_parallel: the {} tokens of the encoder's rows of a micro-batch "
        "(encoder_seq_length · rows of a context rank = {} · {}) are not divisible by "
        "{}tensor_model_parallel_size = {}; nearest: {} tokens",
        tokens, length, tokens / length,
        tp == parallel.tensor_model_parallel_size ? "" : "encoder_", tp,
        nearest_multiple(tokens, tp));
  }
  refuse.expect(!captures_layers(config) && !captures_steps(config), "model.cuda_graph_impl",
                choice_name(config.graph.cuda_graph_impl), "none");
  const DatasetConfig& data = config.dataset;
  refuse.expect(!data.packing.packed_sequence_size, "dataset.packed_sequence_size",
                data.packing.packed_sequence_size.value_or(0), "null");
  refuse.expect(data.packing.answer_only_loss, "dataset.answer_only_loss", false, true);
  refuse.expect(data.fim_rate == 0, "dataset.fim_rate", data.fim_rate, 0);
  refuse.expect(!config.validation.tasks, "validation.tasks", config.validation.tasks.value_or(""),
                "null");
  const Scaling scaling = precision_recipe(config.mixed_precision).products.scaling;
  refuse.expect(scaling == Scaling::none, "mixed_precision.recipe",
                choice_name(config.mixed_precision.recipe),
                "fp32, bf16_mixed or another recipe without quantized products");
  refuse.expect(!config.peft.base_format, "peft.base_format",
                choice_name_or(config.peft.base_format, "a format"), "null");
  refuse.expect(config.peft.dropout == 0 || parallel.context_parallel_size == 1, "peft.dropout",
                config.peft.dropout, "0 beside context_parallel_size above 1",
                "layers that read the encoder's output have the tokens of all context ranks");
}

std::optional<PairSettings> pair_settings(const ModelConfig& model) {
  if (!model.encoder.any()) return std::nullopt;
  PairSettings settings{.encoder_length = model.encoder.row_length,
                        .start_token = static_cast<int32_t>(model.encoder.start_token),
                        .padding_token = static_cast<int32_t>(model.encoder.padding_token)};
  if (!model.end_tokens.empty())
    settings.end_token = static_cast<int32_t>(model.end_tokens.front());
  return settings;
}

void refuse_encoder(const ModelConfig& model, std::string_view what) {
  VIADUCT_CHECK(ConfigError, !model.encoder.any(),
                "model.encoder_num_layers: {}: models with an encoder (family {}) are not "
                "implemented in {} yet; viaduct train, eval, generate, probe and convert have them",
                model.encoder.layers, model.family, what);
}

}  // namespace viaduct
