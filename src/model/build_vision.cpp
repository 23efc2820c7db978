#include "model/build_vision.h"

#include <utility>

#include "base/error.h"
#include "model/frozen_segments.h"
#include "model/kept_parameters.h"
#include "model/vision_names.h"
#include "nn/encoder_rows.h"
#include "nn/feature_tap.h"
#include "nn/image_gather.h"
#include "nn/image_parts.h"
#include "nn/image_projector.h"
#include "nn/patch_embedding.h"
#include "nn/pooled_projector.h"
#include "nn/split_rows.h"

namespace viaduct {
namespace {

const std::string kTower = "vision_tower.", kProjector = "multi_modal_projector.";

/// What the layers of a tower are made from. Parameters without a reader are frozen.
struct TowerMaker {
  const VisionConfig& vision;
  const BlockMaker& blocks;  // of the tower
  const ParameterMaker& unread;
  int64_t first_block;  // number of the first block among all of the model
  EncoderChunk held;
};

void check_place(const VisionConfig& vision, int64_t text_hidden, int tp) {
  std::vector<std::string> problems;
  const auto divides = [&](const char* what, int64_t size) {
    if (size % tp != 0)
      problems.push_back(fmt::format(
          "model.tensor_model_parallel_size: {} {} do not divide by {} tensor-parallel ranks", size,
          what, tp));
  };
  divides("attention heads of the vision tower", vision.heads);
  divides("feed-forward features of the vision tower", vision.feed_forward);
  divides("features of the image projector", text_hidden);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

std::unique_ptr<Segment> build_patches(const TowerMaker& m) {
  const VisionConfig& v = m.vision;
  const BlockMaker& b = m.blocks;
  const bool clip = v.tower == TowerKind::clip;
  const std::string path = "vision.patches", names = kTower + "embeddings.",
                    patches = names + "patch_embedding.";
  PatchEmbeddingParts parts;
  parts.patches = b.make.whole_tensor(path + ".weight", patches + "weight",
                                      {v.hidden, v.channels, v.patch_size, v.patch_size});
  if (!clip) parts.bias = b.make.whole_tensor(path + ".bias", patches + "bias", {v.hidden});
  if (clip)
    parts.class_token =
        b.make.whole_tensor(path + ".class_token", names + "class_embedding", {v.hidden});
  parts.positions =
      b.make.position_table(path + ".positions", b.names.position_embedding, v.tokens(), v.hidden);
  if (clip)
    parts.norm = b.make.norm(path + ".norm", b.names.embedding_norm, v.hidden, b.config.norm,
                             stream_gradient(b.settings));
  return std::make_unique<PatchEmbeddingSegment>(std::move(parts));
}

std::string feature_name(size_t index) {
  return "vision_features." + std::to_string(index);
}

/// Whether the chunk makes the features that are read after `depth` blocks.
bool taps(const EncoderChunk& held, int64_t depth) {
  return depth == 0 ? held.embedding
                    : depth > held.first_block && depth <= held.first_block + held.blocks;
}

/// The features that are read after `depth` blocks. `deepest`: of all.
void add_taps(const VisionConfig& vision, int64_t depth, int64_t deepest, Layer& layer) {
  size_t left = 0;  // taps of the last place that are not made yet
  for (const int64_t at : vision.feature_layers) left += at == deepest ? 1 : 0;
  for (size_t i = 0; i < vision.feature_layers.size(); ++i) {
    if (vision.feature_layers[i] != depth) continue;
    const bool last = depth == deepest && --left == 0;
    layer.segments.push_back(
        std::make_unique<FeatureTapSegment>(feature_name(i), vision.hidden, last));
  }
}

/// Patches and the blocks that are read, those that the chunk has, each a layer.
std::vector<Layer> build_tower(const TowerMaker& m) {
  const RotaryTables no_rotation;
  const int64_t deepest = m.vision.read_layers();
  std::vector<Layer> layers;
  if (m.held.embedding) {
    layers.push_back(Layer{"vision.patches", {}});
    layers.back().segments.push_back(build_patches(m));
    add_taps(m.vision, 0, deepest, layers.back());
  }
  for (int64_t i = m.held.first_block; i < m.held.first_block + m.held.blocks; ++i) {
    Layer& layer = layers.emplace_back(Layer{m.blocks.path(i), {}});
    layer.block = m.first_block + i;
    layer.encoder_block = i;
    layer.segments.push_back(build_attention(m.blocks, i, no_rotation));
    layer.segments.push_back(build_mlp(m.blocks, i));
    add_taps(m.vision, i + 1, deepest, layer);
  }
  for (Layer& layer : layers) layer.of_encoder = true;
  return layers;
}

/// SigLIP's pooling by attention of one learned query.
void add_pooling_head(const TowerMaker& m, std::vector<ParameterPointer>& list) {
  const int64_t h = m.vision.hidden, f = m.vision.feed_forward;
  const std::pair<const char*, Shape> tensors[] = {{"probe", {1, 1, h}},
                                                   {"attention.in_proj_weight", {3 * h, h}},
                                                   {"attention.in_proj_bias", {3 * h}},
                                                   {"attention.out_proj.weight", {h, h}},
                                                   {"attention.out_proj.bias", {h}},
                                                   {"layernorm.weight", {h}},
                                                   {"layernorm.bias", {h}},
                                                   {"mlp.fc1.weight", {f, h}},
                                                   {"mlp.fc1.bias", {f}},
                                                   {"mlp.fc2.weight", {h, f}},
                                                   {"mlp.fc2.bias", {h}}};
  for (const auto& [name, shape] : tensors) {
    const std::string full = std::string("head.") + name;
    list.push_back(m.unread.whole_tensor("vision." + full, kTower + full, shape));
  }
}

/// After all blocks.
Norm final_norm(const BlockMaker& tower, const ParameterMaker& make) {
  return make.norm("vision.norm", tower.names.final_norm, tower.config.hidden, tower.config.norm,
                   stream_gradient(tower.settings));
}

/// Blocks behind the last one that is read, the norm after all blocks unless it is read, and a
/// pooling head.
std::unique_ptr<Segment> build_unread(const TowerMaker& m) {
  const BlockMaker& b = m.blocks;
  const BlockMaker frozen{b.config, b.names, b.settings, b.place, m.unread, b.stack, b.causal};
  const RotaryTables no_rotation;
  std::vector<std::unique_ptr<Segment>> segments;
  for (int64_t i = m.vision.read_layers(); i < m.vision.layers; ++i) {
    segments.push_back(build_attention(frozen, i, no_rotation));
    segments.push_back(build_mlp(frozen, i));
  }
  std::vector<Norm> norms;
  if (m.vision.projector != ProjectorKind::pooled) norms.push_back(final_norm(b, m.unread));
  std::vector<ParameterPointer> others;
  if (m.vision.pooling_head) add_pooling_head(m, others);
  return std::make_unique<KeptParameters>(std::move(segments), std::move(norms), std::move(others));
}

/// `make`: of the projector.
std::unique_ptr<Segment> build_pooled(const TowerMaker& m, int64_t text_hidden,
                                      const ParameterMaker& make) {
  const VisionConfig& v = m.vision;
  const std::string path = "vision.projector";
  return std::make_unique<PooledProjectorSegment>(PooledProjectorParts{
      feature_name(0), v.image_size / v.patch_size, v.pooled_side, !v.freeze_tower,
      final_norm(m.blocks, m.blocks.make),
      make.norm(path + ".norm", kProjector + "mm_soft_emb_norm", v.hidden, NormKind::rms_norm,
                ReplicaGradient::equal),
      ReplicatedLinear(make.whole_tensor(path + ".weight",
                                         kProjector + "mm_input_projection_weight",
                                         {v.hidden, text_hidden}, true))});
}

std::unique_ptr<Segment> build_projector(const VisionConfig& v, int64_t text_hidden,
                                         const ParameterMaker& make) {
  const std::string path = "vision.projector";
  std::vector<std::string> inputs;
  for (size_t i = 0; i < v.feature_layers.size(); ++i) inputs.push_back(feature_name(i));
  const int64_t width = static_cast<int64_t>(inputs.size()) * v.hidden;
  return std::make_unique<ImageProjectorSegment>(ImageProjectorParts{
      std::move(inputs), v.hidden, v.tokens(), v.tokens() - v.rows(), !v.freeze_tower,
      make.column_linear(LinearRole::fc1, path + ".up", {{kProjector + "linear_1", text_hidden, 1}},
                         width, v.projector_bias),
      make.row_linear(LinearRole::fc2, path + ".down", kProjector + "linear_2", text_hidden,
                      text_hidden, v.projector_bias),
      v.projector_activation});
}

}  // namespace

void build_vision(const BlockMaker& text, const EncoderChunk& held, std::vector<Layer>& layers) {
  const VisionConfig& vision = text.config.vision;
  check_place(vision, text.config.hidden, text.place.tp);
  const ModelConfig tower = tower_blocks(vision, text.config);
  const TensorNames names = tower_names(vision.tower);
  // Of Gemma's norms the weight is stored minus one.
  ModelConfig pooled = tower;
  pooled.norm_weight_offset = 1;
  const bool pools = vision.projector == ProjectorKind::pooled;
  LayerSettings settings = text.settings;
  settings.sequence_parallel = false;  // an image's rows are no multiple of anything (nn/batch.h)
  const auto maker = [&](bool frozen, const ModelConfig& config) {
    return ParameterMaker(config, names, settings, text.place, frozen);
  };
  const ParameterMaker of_tower = maker(vision.freeze_tower, tower), unread = maker(true, tower),
                       of_projector = maker(vision.freeze_projector, pools ? pooled : tower);
  const BlockMaker blocks{tower, names, settings, text.place, of_tower, "vision.", false};
  const TowerMaker make{vision, blocks, unread, text.config.layers + text.config.mtp_layers, held};
  const auto add = [&](Layer layer) {
    layer.of_encoder = true;
    layers.push_back(std::move(layer));
  };
  const auto add_segment = [&](std::string path, std::unique_ptr<Segment> segment) {
    Layer layer{std::move(path), {}};
    layer.segments.push_back(std::move(segment));
    add(std::move(layer));
  };
  std::vector<Layer> of_images = build_tower(make);
  std::unique_ptr<Segment> projector;
  if (held.norm)
    projector = pools ? build_pooled(make, text.config.hidden, of_projector)
                      : build_projector(vision, text.config.hidden, of_projector);
  if (vision.freeze_tower) {
    Layer whole{"vision.tower", {}};
    std::vector<std::string> outputs;
    for (Layer& layer : of_images)
      for (auto& segment : layer.segments) whole.segments.push_back(std::move(segment));
    for (size_t i = 0; i < vision.feature_layers.size(); ++i)
      if (taps(held, vision.feature_layers[i])) outputs.push_back(feature_name(i));
    if (!held.norm) outputs.emplace_back(kHidden);
    if (projector && !vision.trains_features()) {
      whole.segments.push_back(std::move(projector));
      outputs = {std::string(kImageFeatures)};
    }
    add_segment("vision.tower",
                std::make_unique<FrozenSegments>(std::move(whole), std::move(outputs)));
  } else {
    for (Layer& layer : of_images) add(std::move(layer));
  }
  if (projector) add_segment("vision.projector", std::move(projector));
  if (!held.norm) return;
  if (text.place.split_parts > 1)
    add_segment("vision.part",
                std::make_unique<ImagePartSegment>(vision.tokens(), vision.rows(),
                                                   text.config.hidden, vision.trains_features()));
  if (auto unread_parts = build_unread(make); !unread_parts->parameters().empty())
    add_segment("vision.unread", std::move(unread_parts));
}

void build_image_gather(const BlockMaker& text, std::vector<Layer>& layers) {
  const int64_t hidden = text.config.hidden;
  const bool trains = text.config.vision.trains_features();
  Layer& layer = layers.emplace_back(Layer{"vision.gather", {}});
  if (text.place.split_parts > 1)
    layer.segments.push_back(std::make_unique<ImagePartsSegment>(hidden, trains));
  layer.segments.push_back(std::make_unique<ImageGatherSegment>(hidden, trains));
}

Edge edge_behind_tower(const ModelConfig& text, const EncoderChunk& held, int split_parts,
                       const RankContext& context, const Batch& batch) {
  const VisionConfig& vision = text.vision;
  const Batch& rows = encoder_rows(batch).rows;
  if (held.norm) {
    const int64_t all = rows.stream_tokens / vision.tokens() * vision.rows();
    EdgeTensor features =
        image_features_edge(context, split_parts > 1 ? split_rows(context, all) : all, text.hidden);
    features.needs_gradient = vision.trains_features();
    return {features};
  }
  EdgeTensor stream = stream_edge(context, rows, vision.hidden);
  stream.needs_gradient = !vision.freeze_tower;
  Edge edge{stream};
  for (size_t i = 0; i < vision.feature_layers.size(); ++i) {
    if (vision.feature_layers[i] > held.first_block + held.blocks) continue;
    edge.push_back(stream);
    edge.back().name = feature_name(i);
  }
  return edge;
}

}  // namespace viaduct
