#include "checkpoint/image_weights.h"

#include <map>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/expert_slices.h"
#include "model/vision_names.h"

namespace viaduct {
namespace {

/// One of the tensors of SigLIP's.
const std::string kPoolingHead = "vision_tower.head.probe";

}  // namespace

void heed_image_weights(VisionConfig& vision, const TensorSource& stored) {
  bool head = false;
  for (const TensorInfo& info : stored.tensors()) {
    if (auto prefix = tower_prefix_of(info.name)) vision.tower_prefix = *std::move(prefix);
    head = head || image_model_name(info.name) == kPoolingHead;
  }
  vision.pooling_head = vision.pooling_head && head;
}

void heed_pooling_head(VisionConfig& vision, const TensorSource& weights) {
  vision.pooling_head = vision.pooling_head && weights.contains(kPoolingHead);
}

std::unique_ptr<TensorSource> image_weights(std::unique_ptr<TensorSource> stored) {
  std::vector<ExpertSlice> renamed;
  std::map<std::string, std::string> stored_as;
  for (const TensorInfo& info : stored->tensors()) {
    const auto name = image_model_name(info.name);
    if (!name) continue;
    const auto [at, fresh] = stored_as.try_emplace(*name, info.name);
    VIADUCT_CHECK(IoError, fresh, "{}: \"{}\" and \"{}\" are the same tensor of the model",
                  stored->where(), shown_name(at->second), shown_name(info.name));
    renamed.push_back({.info = {*name, info.dtype, info.shape}, .stored = info.name});
  }
  return std::make_unique<ExpertSlices>(std::move(stored), renamed);
}

}  // namespace viaduct
