// Builds layers and parameters from ModelConfig and the family's tensor names.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "model/block_modules.h"
#include "model/build_block.h"
#include "model/build_encoder.h"
#include "model/build_moe.h"
#include "model/build_vision.h"
#include "model/model.h"
#include "model/parameter_maker.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/encoded_parts.h"
#include "nn/encoder_rows.h"
#include "nn/latent_attention.h"
#include "nn/mlp.h"
#include "nn/multi_token.h"
#include "nn/output_scale.h"
#include "nn/parallel_block.h"
#include "ops/xielu.h"

namespace viaduct {
namespace {

using Maker = BlockMaker;

/// The pieces of the QKV layer: three logical tensors, or runs of a fused one.
std::vector<ParameterMaker::Piece> qkv_pieces(const Maker& m, int64_t layer) {
  const ModelConfig& c = m.config;
  const int64_t d = c.head_dim_of(layer), kv_heads = c.kv_heads_of(layer);
  const int64_t q = c.heads * d, kv = kv_heads * d;
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  if (m.names.qkv.empty()) {
    std::vector<ParameterMaker::Piece> pieces{{at(m.names.q), c.heads, d},
                                              {at(m.names.k), kv_heads, d}};
    if (!c.values_from_keys(layer)) pieces.push_back({at(m.names.v), kv_heads, d});
    return pieces;
  }
  const std::string fused = at(m.names.qkv);
  if (m.names.qkv_by_group) {
    const int64_t queries = c.heads / kv_heads;
    const int64_t all = q + 2 * kv, group = (queries + 2) * d;
    return {{fused, c.heads, d, 0, all, queries, group},
            {fused, kv_heads, d, queries * d, all, 1, group},
            {fused, kv_heads, d, (queries + 1) * d, all, 1, group}};
  }
  return {{fused, c.heads, d, 0, q + 2 * kv},
          {fused, kv_heads, d, q, q + 2 * kv},
          {fused, kv_heads, d, q + kv, q + 2 * kv}};
}

AttentionSpec attention_spec(const Maker& m, int64_t layer) {
  const ModelConfig& c = m.config;
  AttentionSpec spec;
  spec.layer = layer;
  spec.heads = c.heads / m.place.tp;
  spec.kv_heads = std::max<int64_t>(1, c.kv_heads_of(layer) / m.place.tp);
  spec.head_dim = c.head_dim_of(layer);
  spec.value_dim = c.value_dim(layer);
  spec.first_head = spec.heads * m.place.tp_rank;
  spec.scale = c.attention_scale;
  spec.softcap = c.attention_softcap;
  spec.window = c.window_of(layer);
  spec.chunked = c.chunk_of(layer) > 0;
  spec.causal = m.causal;
  spec.sees_ahead = m.causal && c.vision.any() && c.vision.sees_ahead;
  spec.dropout = c.attention_dropout;
  spec.method = {c.flash_attention, c.masked_softmax_fusion, c.softmax_in_fp32};
  spec.method.library = c.library_attention;
  if (m.causal && !m.settings.context_exchange.empty())
    spec.context_exchange = m.settings.context_exchange.at(static_cast<size_t>(layer));
  return spec;
}

RotaryEmbedding rotary_of(const Maker& m, int64_t layer, const RotaryTables& tables) {
  const ModelConfig& c = m.config;
  const auto& table = tables.windowed && c.window_of(layer) > 0 ? tables.windowed : tables.common;
  const bool rotates = c.rotates(layer);
  const auto& queries = rotates ? tables.queries : tables.no_rope_queries;
  return {rotates && table ? &*table : nullptr, c.rope_fusion, c.rotary.interleaved,
          queries ? &*queries : nullptr};
}

/// The pieces of the layer before the activation: gate, if there is one, and up; each a logical
/// tensor, or a half of a fused one.
std::vector<ParameterMaker::Piece> up_pieces(const Maker& m, int64_t layer) {
  const ModelConfig& c = m.config;
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  const int64_t features = c.feed_forward;
  if (!c.gated) return {{at(dense_up_name(m.names, false)), features, 1}};
  if (m.names.gate_up.empty())
    return {{at(m.names.gate), features, 1}, {at(m.names.up), features, 1}};
  const std::string fused = at(m.names.gate_up);
  return {{fused, features, 1, 0, 2 * features}, {fused, features, 1, features, 2 * features}};
}

/// The family's name for the norm of a branch, which may depend on whether the block has another.
const std::string& norm_name(const ModelConfig& c, const std::string& common,
                             const std::string& of_two) {
  return c.parallel_block && !c.shared_norm && !of_two.empty() ? of_two : common;
}

AttentionParts attention_parts(const Maker& m, int64_t layer, const RotaryTables& rotary) {
  const ModelConfig& c = m.config;
  const std::string path = m.path(layer) + ".attention";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  const auto norm = [&](const char* role, const std::string& name) {
    return m.make.norm(path + role, at(name), c.hidden, c.norm, stream_gradient(m.settings));
  };
  std::optional<Norm> input_norm;
  if (c.input_norms)
    input_norm = norm(".input_norm", norm_name(c, m.names.input_norm, m.names.parallel_input_norm));
  AttentionParts parts{
      std::move(input_norm),
      m.make.column_linear(LinearRole::qkv, path + ".qkv", qkv_pieces(m, layer), c.hidden,
                           c.qkv_bias, layer),
      std::nullopt,
      std::nullopt,
      std::nullopt,
      std::nullopt,
      rotary_of(m, layer, rotary),
      m.make.row_linear(LinearRole::proj, path + ".projection", at(m.names.projection), c.hidden,
                        c.heads * c.head_dim_of(layer), c.projection_bias, layer),
      std::nullopt,
      ResidualDropout(c.residual_dropout, path + ".dropout", c.residual_scale),
      nullptr};
  const int64_t head_dim = c.head_dim_of(layer);
  parts.norms_after_rotary = c.qk_norm && c.qk_norm_after_rotary;
  parts.linear_bias = m.linear_bias;
  parts.relative = m.relative;
  if (c.attention_sinks) parts.sinks = m.make.head_logits(path + ".sinks", at(m.names.sinks));
  if (c.qk_norm && !c.qk_norm_per_head) {
    const auto wide = [&](const char* role, const std::string& name, int64_t heads) {
      return WideNorm(m.make.norm(path + role, at(name), heads * head_dim, NormKind::rms_norm,
                                  ReplicaGradient::equal));
    };
    parts.q_wide_norm = wide(".q_norm", m.names.q_norm, c.heads);
    parts.k_wide_norm = wide(".k_norm", m.names.k_norm, c.kv_heads_of(layer));
  } else if (c.qk_norm && c.qk_norm_own_weights) {
    const auto own = [&](const char* role, const std::string& name, int64_t heads) {
      return HeadNorm(c.norm, c.norm_eps, c.norm_weight_offset,
                      m.make.head_norms(path + role, at(name), heads));
    };
    parts.q_head_norm = own(".q_norm", m.names.q_head_norm, c.heads);
    parts.k_head_norm = own(".k_norm", m.names.k_head_norm, c.kv_heads_of(layer));
  } else if (c.qk_norm) {  // each tensor rank has only the gradient of its own heads
    parts.q_norm = m.make.norm(path + ".q_norm", at(m.names.q_norm), head_dim, NormKind::rms_norm,
                               ReplicaGradient::partial);
    parts.k_norm = m.make.norm(path + ".k_norm", at(m.names.k_norm), head_dim, NormKind::rms_norm,
                               ReplicaGradient::partial);
  }
  if (c.qk_l2_norm && c.rotates(layer)) {
    parts.q_norm.emplace(NormSpec{.eps = c.norm_eps}, head_dim);
    parts.k_norm.emplace(NormSpec{.eps = c.norm_eps}, head_dim);
  }
  if (c.v_l2_norm) parts.v_norm.emplace(NormSpec{.eps = c.norm_eps}, head_dim);
  parts.values_from_keys = c.values_from_keys(layer);
  if (c.output_norms) parts.output_norm = norm(".output_norm", m.names.attention_output_norm);
  return parts;
}

std::unique_ptr<Segment> build_latent_attention(const Maker& m, int64_t layer,
                                                const RotaryTables& rotary) {
  const ModelConfig& c = m.config;
  const LatentSizes& sizes = c.latent;
  const std::string path = m.path(layer) + ".attention";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  const auto norm = [&](const char* role, const std::string& name, int64_t size, double epsilon) {
    return m.make.norm(path + role, at(name), size, c.norm, stream_gradient(m.settings), epsilon);
  };
  const auto columns = [&](const char* role, const std::string& name, int64_t of_head, int64_t in) {
    return m.make.column_linear(LinearRole::qkv, path + role, {{at(name), c.heads, of_head}}, in,
                                false, layer);
  };
  const bool compressed = sizes.q_rank > 0;
  std::vector<ParameterMaker::Rows> down{{at(m.names.kv_down), sizes.kv_rank + sizes.rotary_dim}};
  if (compressed) down.insert(down.begin(), {at(m.names.q_down), sizes.q_rank});
  std::optional<Norm> query_norm;
  if (compressed)
    query_norm = norm(".query_norm", m.names.q_down_norm, sizes.q_rank, sizes.norm_eps);
  LatentAttentionParts parts{
      norm(".input_norm", m.names.input_norm, c.hidden, 0),
      ReplicatedLinear(m.make.replicated_matrix(path + ".down", down, c.hidden),
                       m.make.replicated_terms(path + ".down", down, c.hidden)),
      std::move(query_norm),
      compressed ? columns(".query", m.names.q_up, c.head_dim, sizes.q_rank)
                 : columns(".query", m.names.q, c.head_dim, c.hidden),
      norm(".key_value_norm", m.names.kv_down_norm, sizes.kv_rank, sizes.norm_eps),
      columns(".key_value", m.names.kv_up, sizes.plain_dim + sizes.value_dim, sizes.kv_rank),
      rotary_of(m, layer, rotary),
      m.make.row_linear(LinearRole::proj, path + ".projection", at(m.names.projection), c.hidden,
                        c.heads * sizes.value_dim, c.projection_bias, layer),
      ResidualDropout(c.residual_dropout, path + ".dropout", c.residual_scale)};
  return std::make_unique<LatentAttentionSegment>(attention_spec(m, layer), std::move(parts), path);
}

MlpParts mlp_parts(const Maker& m, int64_t layer) {
  const ModelConfig& c = m.config;
  const std::string path = m.path(layer) + ".mlp";
  const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
  const auto norm = [&](const char* role, const std::string& name) {
    return m.make.norm(path + role, at(name), c.hidden, c.norm, stream_gradient(m.settings));
  };
  std::optional<Norm> input_norm;
  if (c.input_norms && !c.shared_norm)
    input_norm = norm(".input_norm", norm_name(c, m.names.mlp_norm, m.names.parallel_mlp_norm));
  MlpParts parts{std::move(input_norm),
                 m.make.column_linear(LinearRole::fc1, path + ".up", up_pieces(m, layer), c.hidden,
                                      c.up_bias, layer),
                 c.activation,
                 c.gated,
                 m.make.row_linear(LinearRole::fc2, path + ".down", at(m.names.down), c.hidden,
                                   c.feed_forward, c.down_bias, layer),
                 std::nullopt,
                 ResidualDropout(c.residual_dropout, path + ".dropout", c.residual_scale)};
  if (c.output_norms) parts.output_norm = norm(".output_norm", m.names.mlp_output_norm);
  if (c.xielu) {  // at start slopes of 0.8 on both sides, as in the paper
    parts.trained.emplace(
        m.make.shared_number(path + ".alpha_p", at(m.names.alpha_p), std::log(std::expm1(0.8))),
        m.make.shared_number(path + ".alpha_n", at(m.names.alpha_n),
                             std::log(std::expm1(0.8 - kXieluBeta))));
  }
  return parts;
}

/// Those of the heads of this tensor rank; null where positions are others.
std::shared_ptr<const LinearBiasTables> make_linear_bias(Device& device, const ModelConfig& c,
                                                         const ModelPlace& place, int64_t positions,
                                                         DType dtype) {
  if (c.positions != PositionKind::linear_bias) return nullptr;
  const std::vector<double> slopes = linear_bias_slopes(c.heads, c.linear_bias_exponent);
  const int64_t here = c.heads / place.tp;
  const auto first = slopes.begin() + here * place.tp_rank;
  if (c.linear_bias_scaled) {
    const int64_t kv_heads = std::max<int64_t>(1, c.kv_heads / place.tp);
    return std::make_shared<const LinearBiasTables>(
        make_rounded_bias_tables(device, {first, first + here}, kv_heads, positions, dtype));
  }
  // The factor of scores would take it away from the bias, which it does not multiply.
  return std::make_shared<const LinearBiasTables>(
      make_linear_bias_tables(device, {first, first + here}, c.attention_scale, positions, dtype));
}

/// Tables that no layer reads are not made.
RotaryTables make_rotary_tables(Device& device, const ModelConfig& c, int64_t positions,
                                DType dtype) {
  bool common = false, windowed = false, plain = false;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    plain = plain || !c.rotates(layer);
    if (!c.rotates(layer)) continue;
    (c.window_rotary_base > 0 && c.window_of(layer) > 0 ? windowed : common) = true;
  }
  RotaryTables tables;
  if (common) tables.common = make_rotary_table(device, c.rotary, positions, dtype);
  // Before its first step the factor is 1.
  if (c.temperature.any() && positions + c.temperature.first > c.temperature.length)
    tables.queries = make_rotary_table(device, c.rotary, positions, dtype, c.temperature);
  if (plain && c.no_rope_temperature.any())
    tables.no_rope_queries =
        make_temperature_table(device, c.no_rope_temperature, c.head_dim, positions, dtype);
  if (windowed) {
    const RotarySpec spec{.width = c.window_rotary_width(), .base = c.window_rotary_base};
    tables.windowed = make_rotary_table(device, spec, positions, dtype);
  }
  return tables;
}

/// Whether one rank has the first and the last layer: without a pipeline, and in a V.
bool has_both_ends(const std::vector<ChunkLayers>& chunks) {
  return std::ranges::any_of(chunks, &ChunkLayers::embedding) &&
         std::ranges::any_of(chunks, &ChunkLayers::head);
}

/// The pipeline ranks that hold the token table: those of its lookups (an encoder's, the decoder's,
/// multi-token prediction's), and that of a tied head.
std::vector<int> holders_of_tokens(const ModelConfig& c, const ModelPlace& place,
                                   const std::vector<ChunkLayers>& held) {
  if (!place.embedding_stages.empty()) return place.embedding_stages;
  const bool head_reads = c.tied_embeddings || c.mtp_layers > 0;
  return head_reads && !has_both_ends(held) ? std::vector{0, place.pp - 1} : std::vector{0};
}

/// A parameter that the stages `holders` have: each computes a part of its gradient, and the first
/// one's copy is the owner.
ParameterPointer held_by(const ParameterPointer& parameter, const ModelPlace& place,
                         const std::vector<int>& holders, GroupKind group) {
  if (holders.size() < 2) return parameter;
  auto held = std::make_shared<Parameter>(*parameter);
  held->holders = holders;
  held->holders_group = group;
  if (place.pp_rank != holders.front()) {
    for (Part& part : held->parts) part.owned = false;
  }
  return held;
}

/// What leaves a chunk without the head: a block, the decoder's embedding or the head comes next.
std::function<Edge(const RankContext&, const Batch&)> edge_behind(const Maker& m,
                                                                  const ChunkLayers& held) {
  const ModelConfig& c = m.config;
  if (held.ends_in_encoder() && held.encoder.of_images) {
    return [c, parts = m.place.split_parts, tower = held.encoder](const RankContext& context,
                                                                  const Batch& batch) {
      return edge_behind_tower(c, tower, parts, context, batch);
    };
  }
  const bool in_encoder = held.ends_in_encoder();
  const bool stream = !in_encoder || !held.encoder.norm;
  const bool encoded =
      in_encoder ? held.encoder.norm : c.encoder.any() && held.first_block + held.blocks < c.layers;
  const bool in_parts = in_encoder && encoded_in_parts(m), trains = encoded_needs_gradient(m);
  return [=, hidden = c.hidden](const RankContext& context, const Batch& batch) {
    Edge edge;
    if (stream) {
      edge.push_back(stream_edge(context, in_encoder ? encoder_rows(batch).rows : batch, hidden));
      edge.back().needs_gradient = !in_encoder || trains;
    }
    if (encoded && encoder_rows(batch).encodes()) {
      const Batch& rows = encoder_rows(batch).rows;
      edge.push_back(in_parts ? encoded_part_edge(context, rows, hidden, trains)
                              : encoded_edge(context, rows, hidden, trains));
    }
    return edge;
  };
}

void build_block(const Maker& m, int64_t i, const RotaryTables& rotary, Layer& layer) {
  const std::string path = m.path(i) + ".attention";
  const bool experts = m.config.moe.routes(m.config.kind_of(i));
  if (m.config.parallel_block && !experts) {
    layer.segments.push_back(std::make_unique<ParallelBlockSegment>(
        attention_spec(m, i), attention_parts(m, i, rotary), path, mlp_parts(m, i)));
    return;
  }
  if (m.config.latent.any()) {
    layer.segments.push_back(build_latent_attention(m, i, rotary));
  } else if (m.config.parallel_block) {
    layer.segments.push_back(std::make_unique<ParallelAttentionSegment>(
        attention_spec(m, i), attention_parts(m, i, rotary), path, m.config.shared_norm));
  } else {
    layer.segments.push_back(build_attention(m, i, rotary));
  }
  if (m.config.encoder.any()) layer.segments.push_back(build_cross_attention(m, i));
  if (!experts) {
    layer.segments.push_back(build_mlp(m, i));
    if (m.config.output_scale) {
      layer.segments.push_back(std::make_unique<OutputScaleSegment>(
          m.make.fixed_number(m.path(i) + ".output_scale",
                              ParameterMaker::at(m.names.output_scale, i), 1),
          m.config.hidden));
    }
    return;
  }
  layer.first_of_experts = static_cast<int>(layer.segments.size());
  for (auto& segment : build_moe({m.config, m.names, m.settings, m.place, m.make}, i))
    layer.segments.push_back(std::move(segment));
}

/// The layers of multi-token prediction (nn/multi_token.h). `norm`: the model's before its head,
/// whose weight is `head` and whose bias is `bias` (or null); `tokens`: its token table.
void build_multi_token(const Maker& m, const RotaryTables& rotary, const Norm& norm,
                       const ParameterPointer& tokens, const ParameterPointer& head,
                       const ParameterPointer& bias, std::vector<Layer>& layers) {
  const ModelConfig& c = m.config;
  VIADUCT_CHECK(ConfigError, c.mtp_layers == 0 || !m.names.mtp_projection.empty(),
                "model family {} has no names for multi-token prediction (model.mtp_num_layers)",
                c.family);
  Norm previous = norm;
  for (int64_t depth = 0; depth < c.mtp_layers; ++depth) {
    const int64_t block = c.layers + depth;
    const std::string path = "multi_token." + std::to_string(depth);
    const auto norm_of = [&](const char* role, const std::string& name) {
      return m.make.norm(path + role, ParameterMaker::at(name, block), c.hidden, c.norm,
                         stream_gradient(m.settings));
    };
    const auto add = [&](Layer layer) -> Layer& {
      layer.training_only = true;
      return layers.emplace_back(std::move(layer));
    };
    const std::vector<ParameterMaker::Rows> projection{
        {ParameterMaker::at(m.names.mtp_projection, block), c.hidden}};
    MultiTokenInputParts parts{
        std::move(previous),
        norm_of(".hidden_norm", m.names.mtp_hidden_norm),
        norm_of(".embedding_norm", m.names.mtp_embedding_norm),
        tokens,
        c.embedding_scale,
        ResidualDropout(c.embedding_dropout, path + ".embedding.dropout"),
        c.padding_token,
        ReplicatedLinear(m.make.replicated_matrix(path + ".projection", projection, 2 * c.hidden),
                         m.make.replicated_terms(path + ".projection", projection, 2 * c.hidden))};
    add({path + ".input", {}})
        .segments.push_back(
            std::make_unique<MultiTokenInputSegment>(static_cast<size_t>(depth), std::move(parts)));
    build_block(m, block, rotary, add({"blocks." + std::to_string(block), {}, block}));
    previous = norm_of(".head_norm", m.names.mtp_head_norm);
    add({path + ".head", {}})
        .segments.push_back(std::make_unique<MultiTokenHeadSegment>(
            static_cast<size_t>(depth), depth + 1 == c.mtp_layers, c.hidden,
            c.mtp_loss_scale / static_cast<double>(c.mtp_layers),
            HeadSegment({c.vocabulary, c.logit_softcap, c.logit_scale}, previous, head, bias)));
  }
}

}  // namespace

std::unique_ptr<Segment> build_attention(const BlockMaker& m, int64_t layer,
                                         const RotaryTables& rotary) {
  return std::make_unique<AttentionSegment>(
      attention_spec(m, layer), attention_parts(m, layer, rotary), m.path(layer) + ".attention");
}

std::unique_ptr<Segment> build_mlp(const BlockMaker& m, int64_t layer) {
  return std::make_unique<MlpSegment>(mlp_parts(m, layer));
}

std::unique_ptr<Model> build_model(Device& device, const ModelConfig& config,
                                   const LayerSettings& settings, int64_t positions,
                                   const ModelPlace& place) {
  check_model_config(config);
  check_model_place(config, place);
  VIADUCT_CHECK(ConfigError,
                positions <= config.max_positions || config.positions == PositionKind::relative,
                "sequence length {} is longer than the {} positions that the model allows",
                positions, config.max_positions);
  const TensorNames& names = model_family(config.family).names;
  const ParameterMaker make(config, names, settings, place, config.vision.freeze_text);
  Maker maker{config, names, settings, place, make};
  maker.linear_bias =
      make_linear_bias(device, config, place, positions, settings.precision.activation);
  if (config.positions == PositionKind::relative) {
    maker.relative = relative_bias(maker, "relative_positions");
    maker.relative.table =
        held_by(maker.relative.table, place, place.decoder_stages, GroupKind::decoder_positions);
  }
  std::vector<ChunkLayers> held = place.chunks;
  if (held.empty()) {
    const bool images = config.vision.any(), encodes = config.encoder.any() || images;
    const int64_t blocks = images ? config.vision.read_layers() : config.encoder.layers;
    held.push_back({true, 0, config.layers, true, {encodes, 0, blocks, encodes, images}});
  }
  RelativeBias of_encoder = encoder_bias(maker);
  if (of_encoder.table) {
    of_encoder.table =
        held_by(of_encoder.table, place, place.encoder_stages, GroupKind::encoder_positions);
  }

  auto rotary = std::make_unique<RotaryTables>(
      make_rotary_tables(device, config, positions, settings.precision.statistic));
  ParameterPointer tokens;  // the table that a tied head shares
  const auto token_table = [&] {
    if (tokens) return tokens;
    const bool multiplied = config.tied_embeddings && std::ranges::any_of(held, &ChunkLayers::head);
    tokens = held_by(make.vocabulary_table("embedding.tokens", names.token_embedding,
                                           config.vocabulary, config.hidden, multiplied),
                     place, holders_of_tokens(config, place, held), GroupKind::embedding);
    return tokens;
  };

  std::vector<ModelChunk> chunks;
  for (const ChunkLayers& layers : held) {
    ModelChunk chunk;
    chunk.holds = layers;
    if (layers.encoder.any() && layers.encoder.of_images) {
      build_vision(maker, layers.encoder, chunk.layers);
    } else if (layers.encoder.any()) {
      build_encoder(maker, layers.encoder, layers.encoder.embedding ? token_table() : nullptr,
                    of_encoder, *rotary, chunk.layers);
    }
    if (layers.embedding) {
      if (config.vision.any()) build_image_gather(maker, chunk.layers);
      if (encoded_in_parts(maker)) {
        chunk.layers.emplace_back(Layer{"encoder.parts", {}})
            .segments.push_back(std::make_unique<EncodedPartsSegment>(
                config.hidden, encoded_needs_gradient(maker)));
      }
      ParameterPointer position_table;
      if (config.positions == PositionKind::learned) {
        position_table =
            make.position_table("embedding.positions", names.position_embedding,
                                names.rows_before_positions + config.max_positions, config.hidden);
      }
      Layer& layer = chunk.layers.emplace_back(Layer{"embedding", {}});
      std::optional<Norm> norm;
      if (config.embedding_norm)
        norm = make.norm("embedding.norm", names.embedding_norm, config.hidden, config.norm,
                         stream_gradient(settings));
      layer.segments.push_back(std::make_unique<EmbeddingSegment>(EmbeddingParts{
          token_table(), position_table, names.rows_before_positions, config.embedding_scale,
          std::move(norm), ResidualDropout(config.embedding_dropout, "embedding.dropout"),
          config.padding_token, config.vision.any(), config.vision.trains_features()}));
    }
    for (int64_t i = layers.first_block; i < layers.first_block + layers.blocks; ++i) {
      Layer& layer = chunk.layers.emplace_back(Layer{"blocks." + std::to_string(i), {}, i});
      build_block(maker, i, *rotary, layer);
    }
    if (layers.head) {
      const Norm norm = make.norm("head.norm", names.final_norm, config.hidden, config.norm,
                                  stream_gradient(settings));
      const ParameterPointer weight =
          config.tied_embeddings ? token_table()
                                 : make.vocabulary_table("head.weight", names.head,
                                                         config.vocabulary, config.hidden, true);
      ParameterPointer bias;
      if (config.head_bias) bias = make.vocabulary_bias("head.bias", names.head, config.vocabulary);
      if (config.mtp_layers > 0)
        build_multi_token(maker, *rotary, norm, token_table(), weight, bias, chunk.layers);
      auto head = std::make_unique<HeadSegment>(
          HeadSpec{config.vocabulary, config.logit_softcap, config.logit_scale}, norm, weight,
          bias);
      chunk.head = head.get();
      Layer& layer = chunk.layers.emplace_back(Layer{"head", {}});
      layer.segments.push_back(std::move(head));
    } else {
      chunk.after = edge_behind(maker, layers);
    }
    chunks.push_back(std::move(chunk));
  }
  return std::make_unique<Model>(config, std::move(rotary), std::move(chunks));
}

}  // namespace viaduct
