// From ModelConfig and the family's tensor names to layers and parameters.

#include "base/error.h"
#include "model/model.h"
#include "model/parameter_maker.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/mlp.h"

namespace viaduct {
namespace {

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

  AttentionParts parts{make.norm(path + ".input_norm", at(n.input_norm), c.hidden, c.norm),
                       Linear(make.weight(path + ".qkv.weight", qkv, c.hidden, false),
                              make.bias(c.qkv_bias, path + ".qkv.bias", qkv)),
                       std::nullopt,
                       std::nullopt,
                       rotary,
                       Linear(make.weight(path + ".projection.weight", projection, q, true),
                              make.bias(c.projection_bias, path + ".projection.bias", projection)),
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
  MlpParts parts{make.norm(path + ".input_norm", at(n.mlp_norm), c.hidden, c.norm),
                 Linear(make.weight(path + ".up.weight", up, c.hidden, false),
                        make.bias(c.up_bias, path + ".up.bias", up)),
                 c.activation,
                 c.gated,
                 Linear(make.weight(path + ".down.weight", down, c.feed_forward, true),
                        make.bias(c.down_bias, path + ".down.bias", down)),
                 std::nullopt,
                 ResidualDropout(c.residual_dropout, path + ".dropout")};
  if (c.output_norms)
    parts.output_norm = make.norm(path + ".output_norm", at(n.mlp_output_norm), c.hidden, c.norm);
  return std::make_unique<MlpSegment>(std::move(parts));
}

}  // namespace

std::unique_ptr<Model> build_model(Device& device, const ModelConfig& config,
                                   const PrecisionRecipe& recipe, int64_t positions,
                                   const ModelPlace& place) {
  check_model_config(config);
  VIADUCT_CHECK(ConfigError, positions <= config.max_positions,
                "sequence length {} is longer than the {} positions that the model allows",
                positions, config.max_positions);
  const TensorNames& names = model_family(config.family).names;
  const ParameterMaker make(config, names, place);
  std::vector<ChunkLayers> held = place.chunks;
  if (held.empty()) held.push_back({true, 0, config.layers, true});

  std::unique_ptr<RotaryTable> rotary;
  if (config.positions == PositionKind::rotary) {
    rotary = std::make_unique<RotaryTable>(
        make_rotary_table(device, config.rotary, positions, recipe.statistic));
  }
  ParameterPointer tokens;  // the table that a tied head shares
  const auto token_table = [&] {
    if (!tokens)
      tokens =
          make.table("embedding.tokens", names.token_embedding, config.vocabulary, config.hidden);
    return tokens;
  };

  std::vector<ModelChunk> chunks;
  for (const ChunkLayers& layers : held) {
    ModelChunk chunk;
    chunk.holds = layers;
    if (layers.embedding) {
      ParameterPointer position_table;
      if (config.positions != PositionKind::rotary) {
        position_table = make.table("embedding.positions", names.position_embedding,
                                    config.max_positions, config.hidden);
      }
      Layer& layer = chunk.layers.emplace_back(Layer{"embedding", {}});
      layer.segments.push_back(std::make_unique<EmbeddingSegment>(
          token_table(), position_table, config.embedding_scale,
          ResidualDropout(config.embedding_dropout, "embedding.dropout"), config.padding_token));
    }
    for (int64_t i = layers.first_block; i < layers.first_block + layers.blocks; ++i) {
      Layer& layer = chunk.layers.emplace_back(Layer{"blocks." + std::to_string(i), {}});
      layer.segments.push_back(build_attention(config, names, make, i, rotary.get()));
      layer.segments.push_back(build_mlp(config, names, make, i));
    }
    if (layers.head) {
      auto head = std::make_unique<HeadSegment>(
          HeadSpec{config.vocabulary, config.logit_softcap},
          make.norm("head.norm", names.final_norm, config.hidden, config.norm),
          config.tied_embeddings
              ? token_table()
              : make.table("head.weight", names.head, config.vocabulary, config.hidden));
      chunk.head = head.get();
      Layer& layer = chunk.layers.emplace_back(Layer{"head", {}});
      layer.segments.push_back(std::move(head));
    }
    chunks.push_back(std::move(chunk));
  }
  return std::make_unique<Model>(config, std::move(rotary), std::move(chunks));
}

}  // namespace viaduct
