#include "model/build_encoder.h"

#include <algorithm>
#include <utility>

#include "model/family.h"
#include "model/frozen_encoder.h"
#include "model/frozen_segments.h"
#include "nn/cross_attention.h"
#include "nn/embedding.h"
#include "nn/encoded_parts.h"
#include "nn/encoder_output.h"

namespace viaduct {

RelativeBias relative_bias(const BlockMaker& maker, const std::string& path) {
  const RelativePositions& positions = maker.config.relative;
  return {
      maker.make.relative_table(maker.stack + path, maker.names.relative_table, positions.buckets),
      positions.of(!maker.causal)};
}

std::unique_ptr<Segment> build_cross_attention(const BlockMaker& m, int64_t layer) {
  const ModelConfig& c = m.config;
  const std::string path = m.path(layer) + ".cross_attention";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  AttentionSpec spec;
  spec.layer = layer;
  spec.heads = c.heads / m.place.tp;
  spec.kv_heads = std::max<int64_t>(1, c.kv_heads / m.place.tp);
  spec.head_dim = spec.value_dim = c.head_dim;
  spec.first_head = spec.heads * m.place.tp_rank;
  spec.scale = c.attention_scale;
  spec.causal = false;
  spec.crosses = true;
  spec.dropout = c.attention_dropout;
  spec.method = {c.flash_attention, c.masked_softmax_fusion, c.softmax_in_fp32};
  spec.method.library = c.library_attention;
  CrossAttentionParts parts{
      m.make.norm(path + ".input_norm", at(m.names.cross_norm), c.hidden, c.norm,
                  stream_gradient(m.settings)),
      m.make.column_linear(LinearRole::qkv, path + ".query",
                           {{at(m.names.cross_q), c.heads, c.head_dim}}, c.hidden, c.qkv_bias,
                           layer),
      m.make.column_linear(LinearRole::qkv, path + ".key_value",
                           {{at(m.names.cross_k), c.kv_heads, c.head_dim},
                            {at(m.names.cross_v), c.kv_heads, c.head_dim}},
                           c.hidden, c.qkv_bias, layer),
      m.make.row_linear(LinearRole::proj, path + ".projection", at(m.names.cross_projection),
                        c.hidden, c.heads * c.head_dim, c.projection_bias, layer),
      ResidualDropout(c.residual_dropout, path + ".dropout", c.residual_scale),
      encoded_needs_gradient(m)};
  return std::make_unique<CrossAttentionSegment>(spec, std::move(parts), path,
                                                 layer + 1 == c.layers);
}

namespace {

BlockMaker encoder_maker(const BlockMaker& decoder) {
  const ModelConfig& c = decoder.config;
  return {c,
          model_family(c.family).encoder_names,
          decoder.settings,
          decoder.place,
          decoder.make,
          "encoder.",
          false};
}

/// The segment, of which nothing is kept. Each of a layer by itself, so that the weights of one are
/// expanded or gathered at a time.
std::unique_ptr<Segment> forward_alone(std::unique_ptr<Segment> segment, const std::string& path) {
  const auto names = segment->outputs();
  std::vector<std::string> outputs(names.begin(), names.end());
  Layer layer{path, {}};
  layer.segments.push_back(std::move(segment));
  return std::make_unique<FrozenSegments>(std::move(layer), std::move(outputs));
}

}  // namespace

bool encoded_needs_gradient(const BlockMaker& maker) {
  return !encoder_is_frozen(maker.config, maker.settings.adapters);
}

RelativeBias encoder_bias(const BlockMaker& decoder) {
  if (!decoder.config.encoder.any()) return {};
  return relative_bias(encoder_maker(decoder), "relative_positions");
}

bool encoded_in_parts(const BlockMaker& maker) {
  return maker.config.encoder.any() && maker.place.split_parts > 1 &&
         !maker.settings.sequence_parallel;
}

void build_encoder(const BlockMaker& decoder, const EncoderChunk& held,
                   const ParameterPointer& tokens, const RelativeBias& relative,
                   const RotaryTables& rotary, std::vector<Layer>& layers) {
  const ModelConfig& c = decoder.config;
  BlockMaker maker = encoder_maker(decoder);
  maker.relative = relative;
  const bool trains = encoded_needs_gradient(decoder);
  const auto add = [&](std::string path) -> Layer& {
    Layer& layer = layers.emplace_back(Layer{std::move(path), {}});
    layer.of_encoder = true;
    return layer;
  };
  const auto add_segment = [&](Layer& layer, std::unique_ptr<Segment> segment) {
    layer.segments.push_back(trains ? std::move(segment)
                                    : forward_alone(std::move(segment), layer.path));
  };
  if (held.embedding) {
    add_segment(
        add("encoder.embedding"),
        std::make_unique<EmbeddingSegment>(EmbeddingParts{
            tokens, nullptr, 0, c.embedding_scale, std::nullopt,
            ResidualDropout(c.embedding_dropout, "encoder.embedding.dropout"), c.padding_token}));
  }
  for (int64_t i = held.first_block; i < held.first_block + held.blocks; ++i) {
    Layer& layer = add(maker.path(i));
    layer.block = c.layers + c.mtp_layers + i;
    layer.encoder_block = i;
    add_segment(layer, build_attention(maker, i, rotary));
    add_segment(layer, build_mlp(maker, i));
  }
  if (!held.norm) return;
  add("encoder.norm")
      .segments.push_back(std::make_unique<EncoderOutputSegment>(
          maker.make.norm("encoder.norm", maker.names.final_norm, c.hidden, c.norm,
                          stream_gradient(maker.settings)),
          trains));
  if (encoded_in_parts(decoder)) {
    add("encoder.part").segments.push_back(std::make_unique<EncodedPartSegment>(c.hidden, trains));
  }
}

}  // namespace viaduct
