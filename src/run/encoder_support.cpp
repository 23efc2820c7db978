#include "run/encoder_support.h"

#include "base/error.h"
#include "config/choice.h"
#include "config/nearest_valid.h"
#include "precision/precision_config.h"

namespace viaduct {
namespace {

class Refusals {
 public:
  explicit Refusals(Problems& problems) : problems_(problems) {}

  /// `expected`: the value that is implemented.
  template <class Found, class Expected>
  void expect(bool holds, std::string_view field, const Found& found, const Expected& expected,
              std::string_view reason = "") {
    if (holds) return;
    problems_.add("{}: {} is not implemented with model.encoder_num_layers{}; expected {}", field,
                  found, reason, expected);
  }

 private:
  Problems& problems_;
};

}  // namespace

void validate_encoder(const RunConfig& config, Problems& problems) {
  if (config.model.encoder.encoder_num_layers.value_or(0) == 0) return;
  Refusals refuse(problems);
  const ParallelConfig& parallel = config.parallel;
  refuse.expect(parallel.pipeline_model_parallel_size == 1, "model.pipeline_model_parallel_size",
                parallel.pipeline_model_parallel_size, 1);
  refuse.expect(parallel.context_parallel_size == 1, "model.context_parallel_size",
                parallel.context_parallel_size, 1);
  const auto& length = config.model.encoder.encoder_seq_length;
  const int64_t tp = parallel.tensor_model_parallel_size;
  if (parallel.sequence_parallel.value_or(false) && !length.is_auto()) {
    const int64_t tokens = length.value() * config.train.micro_batch_rows();
    if (tokens % tp != 0) {
      problems.add(
          "model.sequence_parallel: the {} tokens of the encoder's rows of a micro-batch "
          "(encoder_seq_length · micro_batch_size = {} · {}) are not divisible by "
          "tensor_model_parallel_size = {}; nearest: {} tokens",
          tokens, length.value(), config.train.micro_batch_rows(), tp,
          nearest_multiple(tokens, tp));
    }
  }
  const DeviceKind device = config.dist.device.value_or(DeviceKind::cpu);
  refuse.expect(device == DeviceKind::cpu, "dist.device", choice_name(device), "cpu",
                " (GPUs have no kernel for its position bias)");
  const RecomputeConfig& recompute = config.recompute;
  refuse.expect(!recompute.recompute_granularity, "model.recompute_granularity",
                recompute.full() ? "full" : "selective", "null");
  refuse.expect(!config.offload.cpu_offloading, "model.cpu_offloading", true, false);
  refuse.expect(!config.offload.fine_grained_activation_offloading,
                "model.fine_grained_activation_offloading", true, false);
  const DatasetConfig& data = config.dataset;
  refuse.expect(!data.packing.packed_sequence_size, "dataset.packed_sequence_size",
                data.packing.packed_sequence_size.value_or(0), "null");
  refuse.expect(data.packing.answer_only_loss, "dataset.answer_only_loss", false, true);
  refuse.expect(data.fim_rate == 0, "dataset.fim_rate", data.fim_rate, 0);
  refuse.expect(!config.validation.sample_prompts, "validation.sample_prompts",
                config.validation.sample_prompts.value_or(""), "null");
  refuse.expect(!config.validation.tasks, "validation.tasks", config.validation.tasks.value_or(""),
                "null");
  const Scaling scaling = precision_recipe(config.mixed_precision).products.scaling;
  refuse.expect(scaling == Scaling::none, "mixed_precision.recipe",
                choice_name(config.mixed_precision.recipe),
                "fp32, bf16_mixed or another recipe without quantized products");
  refuse.expect(!config.peft.scheme && !config.peft.adapter, "peft.scheme",
                config.peft.scheme.value_or("an adapter"), "null");
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
                "implemented in {} yet; viaduct train, probe and convert have them",
                model.encoder.layers, model.family, what);
}

}  // namespace viaduct
