// From ModelConfig and the family's tensor names to layers and parameters.

#include <cmath>

#include "base/error.h"
#include "model/model.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/mlp.h"

namespace viaduct {
namespace {

using ParameterPointer = std::shared_ptr<const Parameter>;

/// Makes the parameters of one model: shapes, parts under Hugging Face's names, placements,
/// initialization.
class ParameterMaker {
 public:
  ParameterMaker(const ModelConfig& config, const TensorNames& names)
      : config_(config), names_(names) {}

  /// "{}" of a name replaced by the layer number.
  static std::string at(const std::string& pattern, int64_t layer) {
    const size_t place = pattern.find("{}");
    if (place == std::string::npos) return pattern;
    return pattern.substr(0, place) + std::to_string(layer) + pattern.substr(place + 2);
  }

  /// [rows, columns] table of embeddings.
  ParameterPointer table(std::string path, const std::string& name, int64_t rows,
                         int64_t columns) const {
    Parameter p = matrix(std::move(path), rows, columns);
    p.parts = {whole_part(name + ".weight", {rows, columns})};
    return std::make_shared<const Parameter>(std::move(p));
  }

  struct Piece {
    std::string name;  // without suffix
    int64_t rows;      // output features
  };
  /// The weight of a linear layer whose output features are the pieces one after the other.
  /// `output`: it writes to the residual stream, and starts smaller by sqrt(2 L) (GPT-2).
  ParameterPointer weight(std::string path, const std::vector<Piece>& pieces, int64_t in,
                          bool output, Placement tensor_axis) const {
    int64_t rows = 0;
    std::vector<Part> parts;
    for (const Piece& piece : pieces) {
      const Shape logical = names_.transposed ? Shape{in, piece.rows} : Shape{piece.rows, in};
      parts.push_back(whole_part(piece.name + ".weight", logical, names_.transposed));
      parts.back().storage_row = rows;
      rows += piece.rows;
    }
    Parameter p = matrix(std::move(path), rows, in);
    p.parts = std::move(parts);
    p.placements = {{Axis::tp, tensor_axis}};
    if (output)
      p.init.standard_deviation =
          config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.layers));
    return std::make_shared<const Parameter>(std::move(p));
  }

  /// The bias of the same pieces, or null.
  ParameterPointer bias(bool present, std::string path, const std::vector<Piece>& pieces,
                        Placement tensor_axis) const {
    if (!present) return nullptr;
    Parameter p = vector(std::move(path), 0, 0);
    int64_t rows = 0;
    for (const Piece& piece : pieces) {
      p.parts.push_back(whole_part(piece.name + ".bias", {piece.rows}));
      p.parts.back().storage_row = rows;
      rows += piece.rows;
    }
    p.shape = {rows};
    p.placements = {{Axis::tp, tensor_axis}};
    return std::make_shared<const Parameter>(std::move(p));
  }

  /// A norm over `size` features under the family's name for it.
  Norm norm(const std::string& path, const std::string& name, int64_t size, NormKind kind) const {
    Parameter weight = vector(path + ".weight", size, 1 - config_.norm_weight_offset);
    weight.parts = {whole_part(name + ".weight", {size})};
    weight.placements = {{Axis::tp, Placement::replicated_partial}};
    ParameterPointer bias;
    if (kind == NormKind::layer_norm) {
      Parameter b = vector(path + ".bias", size, 0);
      b.parts = {whole_part(name + ".bias", {size})};
      b.placements = weight.placements;
      bias = std::make_shared<const Parameter>(std::move(b));
    }
    return Norm({kind, config_.norm_eps, config_.norm_weight_offset},
                std::make_shared<const Parameter>(std::move(weight)), bias);
  }

 private:
  Parameter matrix(std::string path, int64_t rows, int64_t columns) const {
    Parameter p;
    p.path = std::move(path);
    p.shape = {rows, columns};
    p.init.standard_deviation = config_.init_std;
    return p;
  }
  Parameter vector(std::string path, int64_t size, double value) const {
    Parameter p;
    p.path = std::move(path);
    p.shape = {size};
    p.init = {InitKind::constant, 0, value};
    p.decay = p.weight_gradient = false;
    return p;
  }

  const ModelConfig& config_;
  const TensorNames& names_;
};

std::unique_ptr<Segment> build_attention(const ModelConfig& c, const TensorNames& n,
                                         const ParameterMaker& make, int64_t layer,
                                         const RotaryTable* rotary) {
  const std::string path = "blocks." + std::to_string(layer) + ".attention";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const std::vector<ParameterMaker::Piece> qkv =
      n.qkv.empty() ? std::vector<ParameterMaker::Piece>{{at(n.q), q}, {at(n.k), kv}, {at(n.v), kv}}
                    : std::vector<ParameterMaker::Piece>{{at(n.qkv), q + 2 * kv}};
  const std::vector<ParameterMaker::Piece> projection{{at(n.projection), c.hidden}};

  AttentionSpec spec;
  spec.layer = layer;
  spec.heads = c.heads, spec.kv_heads = c.kv_heads, spec.head_dim = c.head_dim;
  spec.scale = c.attention_scale;
  spec.softcap = c.attention_softcap;
  spec.window = c.windows.empty() ? 0 : c.windows[static_cast<size_t>(layer)];
  spec.dropout = c.attention_dropout;

  AttentionParts parts{
      make.norm(path + ".input_norm", at(n.input_norm), c.hidden, c.norm),
      Linear(make.weight(path + ".qkv.weight", qkv, c.hidden, false, Placement::sharded),
             make.bias(c.qkv_bias, path + ".qkv.bias", qkv, Placement::sharded)),
      std::nullopt,
      std::nullopt,
      rotary,
      Linear(make.weight(path + ".projection.weight", projection, q, true, Placement::sharded),
             make.bias(c.projection_bias, path + ".projection.bias", projection,
                       Placement::replicated_partial)),
      std::nullopt,
      ResidualDropout(c.residual_dropout, path + ".dropout")};
  if (c.qk_norm) {
    parts.q_norm = make.norm(path + ".q_norm", at(n.q_norm), c.head_dim, NormKind::rms_norm);
    parts.k_norm = make.norm(path + ".k_norm", at(n.k_norm), c.head_dim, NormKind::rms_norm);
  }
  if (c.output_norms)
    parts.output_norm =
        make.norm(path + ".output_norm", at(n.attention_output_norm), c.hidden, c.norm);
  return std::make_unique<AttentionSegment>(spec, std::move(parts), path);
}

std::unique_ptr<Segment> build_mlp(const ModelConfig& c, const TensorNames& n,
                                   const ParameterMaker& make, int64_t layer) {
  const std::string path = "blocks." + std::to_string(layer) + ".mlp";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  std::vector<ParameterMaker::Piece> up{{at(n.up), c.feed_forward}};
  if (c.gated) up.insert(up.begin(), {at(n.gate), c.feed_forward});
  const std::vector<ParameterMaker::Piece> down{{at(n.down), c.hidden}};
  MlpParts parts{
      make.norm(path + ".input_norm", at(n.mlp_norm), c.hidden, c.norm),
      Linear(make.weight(path + ".up.weight", up, c.hidden, false, Placement::sharded),
             make.bias(c.up_bias, path + ".up.bias", up, Placement::sharded)),
      c.activation,
      c.gated,
      Linear(make.weight(path + ".down.weight", down, c.feed_forward, true, Placement::sharded),
             make.bias(c.down_bias, path + ".down.bias", down, Placement::replicated_partial)),
      std::nullopt,
      ResidualDropout(c.residual_dropout, path + ".dropout")};
  if (c.output_norms)
    parts.output_norm = make.norm(path + ".output_norm", at(n.mlp_output_norm), c.hidden, c.norm);
  return std::make_unique<MlpSegment>(std::move(parts));
}

}  // namespace

std::unique_ptr<Model> build_model(Device& device, const ModelConfig& config,
                                   const PrecisionRecipe& recipe, int64_t positions) {
  check_model_config(config);
  VIADUCT_CHECK(ConfigError, positions <= config.max_positions,
                "sequence length {} is longer than the {} positions that the model allows",
                positions, config.max_positions);
  const TensorNames& names = model_family(config.family).names;
  const ParameterMaker make(config, names);

  std::unique_ptr<RotaryTable> rotary;
  ParameterPointer position_table;
  if (config.positions == PositionKind::rotary) {
    rotary = std::make_unique<RotaryTable>(
        make_rotary_table(device, config.rotary, positions, recipe.statistic));
  } else {
    position_table = make.table("embedding.positions", names.position_embedding,
                                config.max_positions, config.hidden);
  }
  const ParameterPointer tokens =
      make.table("embedding.tokens", names.token_embedding, config.vocabulary, config.hidden);
  const ParameterPointer head_weight =
      config.tied_embeddings
          ? tokens
          : make.table("head.weight", names.head, config.vocabulary, config.hidden);

  std::vector<Layer> layers(static_cast<size_t>(config.layers) + 2);
  layers.front().path = "embedding";
  layers.front().segments.push_back(std::make_unique<EmbeddingSegment>(
      tokens, position_table, config.embedding_scale,
      ResidualDropout(config.embedding_dropout, "embedding.dropout"), config.padding_token));
  for (int64_t i = 0; i < config.layers; ++i) {
    Layer& layer = layers[static_cast<size_t>(i) + 1];
    layer.path = "blocks." + std::to_string(i);
    layer.segments.push_back(build_attention(config, names, make, i, rotary.get()));
    layer.segments.push_back(build_mlp(config, names, make, i));
  }
  auto head = std::make_unique<HeadSegment>(
      HeadSpec{config.vocabulary, config.logit_softcap},
      make.norm("head.norm", names.final_norm, config.hidden, config.norm), head_weight);
  HeadSegment* head_pointer = head.get();
  layers.back().path = "head";
  layers.back().segments.push_back(std::move(head));
  return std::make_unique<Model>(config, std::move(rotary), std::move(layers), head_pointer);
}

}  // namespace viaduct
