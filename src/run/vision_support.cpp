#include "run/vision_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "config/choice.h"
#include "config/nearest_valid.h"
#include "pipeline/layer_map.h"
#include "precision/precision_config.h"
#include "run/refusals.h"
#include "run/setup.h"

namespace viaduct {

namespace {

constexpr std::string_view kImageModels = "for a model that reads images",
                           kTextAlone = "model.read_images=false for its text model alone";

/// What is cut over the tensor ranks.
void validate_tensor_ranks(const VisionConfig& vision, int64_t text_hidden,
                           const ParallelConfig& parallel, Problems& problems) {
  const int64_t tp = parallel.encoder_tensor();
  const char* const field =
      parallel.encoder_tensor_model_parallel_size > 0 ? "encoder_tensor" : "tensor";
  const std::pair<const char*, int64_t> sizes[] = {
      {"attention heads of the vision tower", vision.heads},
      {"feed-forward features of the vision tower", vision.feed_forward},
      {"features of the image projector", text_hidden}};
  int64_t common = 0;
  for (const auto& [what, size] : sizes) common = std::gcd(common, size);
  for (const auto& [what, size] : sizes) {
    if (size % tp == 0) continue;
    problems.add("model.{}_model_parallel_size: {} does not divide the {} {}; nearest: {}", field,
                 tp, size, what, nearest_divisor(tp, common));
  }
}

}  // namespace

void validate_image_products(const RunConfig& config, Problems& problems) {
  const VisionFields& vision = config.model.vision;
  if (!vision.folder_takes_images || !vision.read_images) return;
  const Scaling scaling = precision_recipe(config.mixed_precision).products.scaling;
  Refusals(problems, kImageModels, kTextAlone)
      .expect(scaling == Scaling::none, "mixed_precision.recipe",
              choice_name(config.mixed_precision.recipe),
              "fp32, bf16_mixed or another recipe without quantized products");
}

void validate_vision(const RunConfig& config, const ModelConfig& model, Problems& problems) {
  const VisionConfig& vision = model.vision;
  if (!vision.any()) return;
  if (vision.freeze_text && !vision.trains_features())
    problems.add(
        "model.freeze_language_model, freeze_vision_model, freeze_vision_projection: true, so that "
        "nothing trains; expected one of them to be false");
  try {
    with_tower({ChunkLayers{}}, vision.read_layers(),
               config.parallel.encoder_pipeline_model_parallel_size);
  } catch (const ConfigError& error) {
    problems.add_text(error.what());
  }
  validate_tensor_ranks(vision, model.hidden, config.parallel, problems);
  Refusals refuse(problems, kImageModels, kTextAlone);
  const ParallelConfig& parallel = config.parallel;
  if (parallel.context_parallel_size > 1 && vision.sees_ahead) {
    const auto& types = config.context_parallel.cp_comm_type.values();
    const auto other = std::ranges::find_if(
        types, [](ContextExchange type) { return type != ContextExchange::a2a; });
    if (other != types.end()) {
      refuse.expect(false, "model.cp_comm_type", choice_name(*other), "a2a",
                    "tokens of an image see those ahead of them, which other ranks may have");
    }
  }
  refuse.expect(!config.context_parallel.hybrid_context_parallel, "model.hybrid_context_parallel",
                true, false);
  const DeviceKind device = config.dist.device_kind();
  refuse.expect(device == DeviceKind::cpu, "dist.device", choice_name(device), "cpu");
  const DatasetConfig& data = config.dataset;
  refuse.expect(!data.packing.packed_sequence_size || !data.packing.packing_split,
                "dataset.packing_split", true, false);
  refuse.expect(data.fim_rate == 0, "dataset.fim_rate", data.fim_rate, 0);
  refuse.expect(!config.validation.sample_prompts, "validation.sample_prompts",
                config.validation.sample_prompts.value_or(""), "null");
  refuse.expect(!config.validation.tasks, "validation.tasks", config.validation.tasks.value_or(""),
                "null");
  const bool trains_patches =
      !vision.freeze_tower &&
      (!config.peft.adapts() ||
       config.peft.resolved.trained.contains("vision_tower.embeddings.patch_embedding"));
  refuse.expect(config.optimizer.optimizer != OptimizerKind::adafactor || !trains_patches,
                "optimizer.optimizer", "adafactor", "adam or model.freeze_vision_model=true",
                "the patches' weight has four dims");
}

std::optional<ImageRowSettings> image_rows(const ModelConfig& model) {
  const VisionConfig& vision = model.vision;
  if (!vision.any()) return std::nullopt;
  return ImageRowSettings{vision.channels, vision.image_size, vision.rows(),
                          static_cast<int32_t>(vision.image_token)};
}

int64_t images_of_row(const RunSetup& setup) {
  const auto& images = setup.config.dataset.images;
  if (!images) return 0;
  const int64_t found = setup.conversations ? setup.conversations->images : 1;
  return std::min(found, setup.config.model.seq_length.value() / images->rows);
}

std::string images_text(const RunSetup& setup) {
  const auto& images = setup.config.dataset.images;
  if (!images) return "";
  const int64_t count = images_of_row(setup), length = setup.config.model.seq_length.value();
  const char* gpus = setup.config.cuda_target
                         ? "; no run of such a model is on GPUs yet (dist.device), whose kernels "
                           "these figures are of"
                         : "";
  if (count > 0)
    return fmt::format("{} of {} in each row{}", count, counted(images->rows, "token"), gpus);
  if (setup.conversations && setup.conversations->images == 0)
    return fmt::format("none in the rows{}", gpus);
  return fmt::format("none: rows of {} have no room for one of {}{}", counted(length, "token"),
                     images->rows, gpus);
}

}  // namespace viaduct
