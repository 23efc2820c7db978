#include "run/vision_support.h"

#include "config/choice.h"
#include "precision/precision_config.h"
#include "run/refusals.h"

namespace viaduct {

void validate_vision(const RunConfig& config, const ModelConfig& model, Problems& problems) {
  const VisionConfig& vision = model.vision;
  if (!vision.any()) return;
  if (vision.freeze_text && !vision.trains_features())
    problems.add(
        "model.freeze_language_model, freeze_vision_model, freeze_vision_projection: true, so that "
        "nothing trains; expected one of them to be false");
  Refusals refuse(problems, "for a model that reads images",
                  "model.read_images=false for its text model alone");
  const ParallelConfig& parallel = config.parallel;
  refuse.expect(parallel.pipeline_model_parallel_size == 1, "model.pipeline_model_parallel_size",
                parallel.pipeline_model_parallel_size, 1);
  refuse.expect(parallel.context_parallel_size == 1, "model.context_parallel_size",
                parallel.context_parallel_size, 1);
  refuse.expect(!config.context_parallel.hybrid_context_parallel, "model.hybrid_context_parallel",
                true, false);
  refuse.expect(!parallel.sequence_parallel.value_or(false), "model.sequence_parallel", true,
                false);
  const DeviceKind device = config.dist.device_kind();
  refuse.expect(device == DeviceKind::cpu, "dist.device", choice_name(device), "cpu");
  const RecomputeConfig& recompute = config.recompute;
  refuse.expect(!recompute.recompute_granularity, "model.recompute_granularity",
                choice_name_or(recompute.recompute_granularity, "null"), "null");
  refuse.expect(!config.offload.cpu_offloading, "model.cpu_offloading", true, false);
  refuse.expect(!config.offload.fine_grained_activation_offloading,
                "model.fine_grained_activation_offloading", true, false);
  const DatasetConfig& data = config.dataset;
  refuse.expect(!data.packing.packed_sequence_size || !data.packing.packing_split,
                "dataset.packing_split", true, false);
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

std::optional<ImageRowSettings> image_rows(const ModelConfig& model) {
  const VisionConfig& vision = model.vision;
  if (!vision.any()) return std::nullopt;
  return ImageRowSettings{vision.channels, vision.image_size, vision.rows(),
                          static_cast<int32_t>(vision.image_token)};
}

}  // namespace viaduct
