// Every layer's backward compared with finite differences, in FP64: small models that together
// contain every term of the families. For each parameter the derivative of the loss along a random
// direction over all its elements is compared.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/engine.h"
#include "model/initialize.h"
#include "model/segment_walk.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "ops/optimizer.h"
#include "support/finite_differences.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::tiny_model;

/// The tiny models, with additional terms of the backward.
std::vector<test::TinyModel> variants() {
  ModelConfig biases = tiny_model("qwen2");
  biases.projection_bias = biases.up_bias = biases.down_bias = true;
  ModelConfig geglu = tiny_model("qwen3");
  geglu.activation = ActivationKind::gelu;
  ModelConfig windows = tiny_model("gemma2");
  windows.windows = {4, 0};
  windows.tied_embeddings = false;
  ModelConfig plain = tiny_model("gpt2");
  plain.embedding_dropout = plain.residual_dropout = plain.attention_dropout = 0;
  ModelConfig unfused = windows;
  unfused.attention_dropout = 0.2;
  unfused.flash_attention = unfused.rope_fusion = false;
  ModelConfig steps = unfused;
  steps.masked_softmax_fusion = false;
  ModelConfig neighbours = tiny_model("qwen3");
  neighbours.rotary.interleaved = true;
  ModelConfig first_dense = tiny_model("qwen3");  // and features that none of the families has
  first_dense.family = "qwen3_moe";
  first_dense.moe = tiny_model("mixtral").moe;
  first_dense.moe.layers = {0, 1};
  first_dense.moe.feed_forward = 10, first_dense.moe.shared_feed_forward = 8;
  first_dense.moe.routing.pre_softmax = true;
  first_dense.residual_dropout = 0.2;
  ModelConfig gate = first_dense;
  gate.moe.shared_gate = true;
  ModelConfig groups = tiny_model("mixtral");
  groups.moe.experts = 6;
  groups.moe.routing.score = ScoreFunction::sigmoid;
  groups.moe.routing.groups = 3, groups.moe.routing.group_topk = 2;
  groups.moe.routing.scaling = 1.5;
  ModelConfig bias = groups;
  bias.moe.routing = {.score = ScoreFunction::sqrt_softplus, .topk = 3, .normalize = false};
  bias.moe.load_bias = true;
  ModelConfig likely = tiny_model("mixtral");
  likely.moe.experts = 6, likely.moe.load_bias = true;
  likely.moe.routing.choose_probabilities = true;
  ModelConfig near = tiny_model("mixtral");  // weights against experts near the chosen ones
  near.family = "phimoe";
  near.moe.experts = 6, near.moe.routing = {.topk = 2, .scaling = 1.5, .margin = 1.2};
  near.norm = NormKind::layer_norm;
  near.qkv_bias = near.projection_bias = near.head_bias = true;
  ModelConfig full = tiny_model("mixtral");
  full.moe.capacity_factor = 0.75, full.moe.pad_to_capacity = true;
  full.moe.input_jitter = 0.3;
  ModelConfig first = full;
  first.moe.drop_policy = DropPolicy::position, first.moe.pad_to_capacity = false;
  ModelConfig rank = tiny_model("mixtral");  // one rank has all experts
  rank.moe.rank_capacity_factor = 0.7;
  ModelConfig scaled = tiny_model("mixtral");
  scaled.moe.sinkhorn = scaled.moe.routing.choose_logits = true;
  scaled.moe.routing.pre_softmax = true, scaled.moe.z_coefficient = 0;
  ModelConfig scaled_one = scaled;
  scaled_one.moe.routing = {.score = ScoreFunction::sigmoid, .topk = 1, .choose_logits = true};
  ModelConfig wide_norms = tiny_model("mixtral");
  wide_norms.family = "olmoe";
  wide_norms.qk_norm = true, wide_norms.qk_norm_per_head = false;
  ModelConfig sinks = tiny_model("mixtral");
  sinks.family = "gpt_oss";
  sinks.attention_sinks = sinks.router_bias = true;
  sinks.qkv_bias = sinks.projection_bias = sinks.up_bias = sinks.down_bias = true;
  sinks.activation = ActivationKind::quick_gelu;
  sinks.activation_clamp = 0.3, sinks.activation_offset = 1;
  sinks.windows = {4, 0};
  sinks.attention_dropout = 0.2;
  ModelConfig latent = first_dense;
  latent.family = "deepseek_v2";
  latent.latent = {.q_rank = 5, .kv_rank = 6, .plain_dim = 3, .rotary_dim = 4, .value_dim = 5};
  latent.qk_norm = true;
  latent.kv_heads = latent.heads, latent.head_dim = 7;
  latent.rotary.width = 4, latent.rotary.interleaved = true;
  ModelConfig direct = latent;
  direct.latent.q_rank = 0;
  direct.rotary.interleaved = direct.rope_fusion = direct.flash_attention = false;
  ModelConfig other_epsilon = latent;
  other_epsilon.norm_eps = 0.1, other_epsilon.latent.norm_eps = 0.3;
  ModelConfig after = tiny_model("qwen3");  // norms after branches only, over all heads
  after.family = "olmo3";
  after.input_norms = false, after.output_norms = true;
  after.qk_norm_per_head = false;
  after.windows = {4, 0};
  after.rotary = {.width = 6, .base = 100, .scaling = RopeScalingKind::linear, .factor = 2};
  after.window_rotary_base = 10;
  ModelConfig no_rope = tiny_model("llama");
  no_rope.family = "smollm3";
  no_rope.no_rope = {1, 0};
  ModelConfig factors = tiny_model("llama");
  factors.family = "granite";
  factors.embedding_scale = 3, factors.residual_scale = 0.6, factors.logit_scale = 0.7;
  factors.logit_softcap = 2;
  factors.residual_dropout = 0.2;
  ModelConfig expert_factors = tiny_model("mixtral");
  expert_factors.residual_scale = 0.6;
  ModelConfig fused = tiny_model("gpt2");  // gate and up, and q, k and v, of one tensor each
  fused.family = "phi3";
  fused.gated = true, fused.positions = PositionKind::rotary;
  fused.kv_heads = 2, fused.rotary.width = 2;
  ModelConfig half_neighbours = tiny_model("gemma2");
  half_neighbours.family = "glm4";
  half_neighbours.rotary = {.width = 4, .interleaved = true};
  ModelConfig layer_norms = tiny_model("gpt2");
  layer_norms.family = "starcoder2";
  layer_norms.positions = PositionKind::rotary, layer_norms.rotary.width = 4;
  layer_norms.kv_heads = 1;
  layer_norms.windows = {3, 3};
  ModelConfig plain_norms = tiny_model("llama");  // without weights
  plain_norms.family = "olmo";
  plain_norms.norm = NormKind::layer_norm, plain_norms.norm_bias = false;
  ModelConfig one_key = plain;  // of all heads, in one tensor with the queries
  one_key.family = "gpt_bigcode", one_key.kv_heads = 1;
  ModelConfig chunks = tiny_model("mixtral");
  chunks.family = "llama4_text";
  chunks.rotary.interleaved = chunks.qk_l2_norm = true;
  chunks.no_rope = {0, 1}, chunks.chunks = {3, 0};
  chunks.no_rope_temperature = temperature_without_rotary(0.5, 2);
  chunks.moe.routing = {.score = ScoreFunction::sigmoid, .topk = 1};
  chunks.moe.weighs_input = true;
  chunks.moe.layers = {1, 0};
  chunks.moe.feed_forward = chunks.moe.shared_feed_forward = 10;
  chunks.attention_dropout = 0.2;
  ModelConfig bloom = plain;  // queries, keys and values head by head, a norm of the embeddings
  bloom.family = "bloom";
  bloom.positions = PositionKind::linear_bias, bloom.embedding_norm = true;
  bloom.embedding_dropout = 0.2;
  ModelConfig mpt = plain;
  mpt.family = "mpt";
  mpt.positions = PositionKind::linear_bias, mpt.norm_bias = false;
  mpt.qkv_bias = mpt.projection_bias = mpt.up_bias = mpt.down_bias = false;
  ModelConfig distances = tiny_model("llama");  // slopes of heads, of three: not a power of two
  distances.positions = PositionKind::linear_bias;
  distances.heads = distances.kv_heads = 3;
  distances.attention_dropout = 0.2;
  ModelConfig distances_unfused = distances;
  distances_unfused.flash_attention = false;
  distances_unfused.kv_heads = 1, distances_unfused.linear_bias_exponent = 3;
  ModelConfig scaled_distances = distances;  // multiplied with the scores
  scaled_distances.family = "falcon", scaled_distances.gated = false;
  scaled_distances.linear_bias_scaled = true;
  ModelConfig later_positions = plain;  // rows before position 0, projections of their own
  later_positions.family = "opt";
  ModelConfig squares = tiny_model("llama");
  squares.family = "arcee";
  squares.gated = false, squares.activation = ActivationKind::squared_relu;
  ModelConfig full_heads = tiny_model("qwen3");  // other heads in the layer without a window
  full_heads.family = "gemma4_text";
  full_heads.windows = {4, 0};
  full_heads.full = {.head_dim = 8, .kv_heads = 1, .values_from_keys = true};
  full_heads.v_l2_norm = full_heads.output_scale = full_heads.output_norms = true;
  full_heads.rotary = {
      .width = 8, .base = 100, .scaling = RopeScalingKind::proportional, .factor = 2, .part = 0.5};
  full_heads.window_rotary_base = 10;
  ModelConfig normed_values = full_heads;
  normed_values.full = {.kv_heads = 4};
  normed_values.rotary.width = normed_values.head_dim;
  normed_values.flash_attention = normed_values.rope_fusion = false;
  ModelConfig behind = tiny_model("qwen3");  // norms of heads behind the rotation
  behind.family = "hunyuan_v1_dense";
  behind.qk_norm_after_rotary = true;
  behind.rotary.scaling = RopeScalingKind::dynamic, behind.rotary.alpha = 3;
  ModelConfig behind_composed = behind;
  behind_composed.rope_fusion = false;
  ModelConfig temperature = tiny_model("llama");
  temperature.family = "ministral3";
  temperature.temperature = {0.7, 2};
  ModelConfig temperature_composed = temperature;
  temperature_composed.rope_fusion = false;
  ModelConfig zero_centered = tiny_model("gpt2");  // layer norms stored minus one
  zero_centered.family = "nemotron";
  zero_centered.positions = PositionKind::rotary, zero_centered.rotary.width = 2;
  zero_centered.norm_weight_offset = 1;
  zero_centered.activation = ActivationKind::squared_relu;
  ModelConfig trained = tiny_model("llama");  // an activation with parameters
  trained.family = "apertus";
  trained.gated = false, trained.xielu = true;
  ModelConfig parallel = tiny_model("gpt2");  // each branch with a norm of its own
  parallel.family = "falcon";
  parallel.positions = PositionKind::rotary, parallel.rotary.width = 4;
  parallel.kv_heads = 2;
  parallel.parallel_block = true;
  ModelConfig one_norm = parallel;
  one_norm.family = "phi";
  one_norm.shared_norm = one_norm.head_bias = true;
  one_norm.tied_embeddings = false;
  one_norm.logit_scale = 0.7, one_norm.logit_softcap = 2;
  ModelConfig no_norm_bias = tiny_model("llama");
  no_norm_bias.family = "cohere";
  no_norm_bias.norm = NormKind::layer_norm, no_norm_bias.norm_bias = false;
  no_norm_bias.parallel_block = no_norm_bias.shared_norm = true;
  no_norm_bias.rotary.interleaved = no_norm_bias.tied_embeddings = true;
  ModelConfig parallel_output_norms = tiny_model("gemma2");
  parallel_output_norms.parallel_block = true;
  ModelConfig parallel_without_norms = parallel_output_norms;
  parallel_without_norms.input_norms = false;
  ModelConfig parallel_experts = tiny_model("mixtral");
  parallel_experts.parallel_block = true;
  ModelConfig parallel_experts_one_norm = first_dense;  // beside a dense layer
  parallel_experts_one_norm.parallel_block = parallel_experts_one_norm.shared_norm = true;
  ModelConfig own_weights = no_norm_bias;  // norms of heads, in one tensor
  own_weights.qk_norm = own_weights.qk_norm_own_weights = true;
  ModelConfig own_rms_weights = tiny_model("llama");  // the same, in a tensor of each head
  own_rms_weights.family = "stablelm";
  own_rms_weights.qk_norm = own_rms_weights.qk_norm_own_weights = true;
  ModelConfig own_zero_centered = own_rms_weights;
  own_zero_centered.norm_weight_offset = 1;
  return {{"norms_of_heads", own_weights},
          {"zero_centered_norms_of_heads", own_zero_centered},
          {"rms_norms_of_heads", own_rms_weights},
          {"parallel_block", parallel},
          {"parallel_block_shared_norm_head_bias", one_norm},
          {"parallel_block_no_norm_bias", no_norm_bias},
          {"parallel_block_experts", parallel_experts},
          {"parallel_block_experts_shared_norm", parallel_experts_one_norm},
          {"parallel_block_output_norms", parallel_output_norms},
          {"parallel_block_no_input_norms", parallel_without_norms},
          {"trained_activation", trained},
          {"full_heads_values_from_keys", full_heads},
          {"full_groups_normed_values", normed_values},
          {"norms_behind_rotation", behind},
          {"norms_behind_composed_rotation", behind_composed},
          {"temperature", temperature},
          {"temperature_composed_rotation", temperature_composed},
          {"zero_centered_layer_norms", zero_centered},
          {"norms_after_two_bases", after},
          {"layers_without_rotary", no_rope},
          {"factors", factors},
          {"expert_factors", expert_factors},
          {"fused_gate", fused},
          {"half_neighbours", half_neighbours},
          {"rotary_layer_norms", layer_norms},
          {"norms_without_weights", plain_norms},
          {"one_key", one_key},
          {"chunks_and_weighted_inputs", chunks},
          {"bloom", bloom},
          {"mpt", mpt},
          {"linear_bias", distances},
          {"linear_bias_unfused", distances_unfused},
          {"linear_bias_scaled", scaled_distances},
          {"rows_before_positions", later_positions},
          {"squares_without_gate", squares},
          {"mixtral", tiny_model("mixtral")},
          {"wide_norms", wide_norms},
          {"sinks_and_expert_biases", sinks},
          {"latent", latent},
          {"latent_direct_queries_unfused", direct},
          {"latent_norms_of_their_own_epsilon", other_epsilon},
          {"shared_expert_first_dense", first_dense},
          {"shared_expert_gate", gate},
          {"sigmoid_groups", groups},
          {"load_bias", bias},
          {"load_bias_of_softmax", likely},
          {"near_choices", near},
          {"scaled_choice", scaled},
          {"scaled_choice_of_one", scaled_one},
          {"full_experts", full},
          {"full_experts_first", first},
          {"full_rank", rank},
          {"rotary_neighbours", neighbours},
          {"gemma2_unfused", unfused},
          {"gemma2_unfused_steps", steps},
          {"llama", tiny_model("llama")},
          {"biases_tied_window", biases},
          {"qk_norm_geglu", geglu},
          {"gemma2", windows},
          {"gpt2", plain},
          {"gpt2_dropout", tiny_model("gpt2")}};
}

/// Two rows, the first packed from two documents; some tokens have weight 0.
HostBatch make_batch(int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(7);
  int64_t index = 100;
  for (const int length : {5, 3, 8}) {
    for (int i = 0; i < length; ++i) {
      batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
      batch.positions.push_back(i);
      const bool scored = i + 1 < length && random() % 5 != 0;
      batch.targets.push_back(
          scored ? static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)) : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(index++);
    }
    batch.end_document();
  }
  return batch;
}

class ModelGradient : public testing::TestWithParam<test::TinyModel> {};

TEST_P(ModelGradient, EqualsFiniteDifferences) {
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp64");
  run.positions = 16;
  Engine engine(*device, ops, GetParam().config, run);
  engine.initialize();
  OpContext context{*device, ops};
  // Norm weights and biases away from 1 and 0, so that no term vanishes.
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (const Parameter* p : engine.store().parameters()) {
    if (p->weight_gradient) continue;
    double* values = engine.store().master(*p).data<double>();
    for (int64_t i = 0; i < p->shape.elements(); ++i) values[i] += 0.2 * normal(random);
  }
  engine.store().publish_masters(context);

  const HostBatch batch = make_batch(GetParam().config.vocabulary);
  const auto loss = [&] {  // sum of the token losses, dropout on as in the step
    RankContext rank = engine.context(true, false);
    fill(rank.ops, {rank.loss_state, 0});
    SavedStore nothing(false);
    const Batch uploaded =
        upload(*device, batch, GetParam().config.vocabulary, 16, engine.batch_place());
    SegmentWalk(engine.model().chunks()[0], rank, uploaded, nothing).forward({}, {});
    const Tensor value = rank.ops.allocate(DType::f64, {1}, MemoryTag::other);
    sum_value(rank.ops, {rank.loss_state, value});
    return *value.data<double>();
  };
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  engine.finish_step(1, false);

  for (const Parameter* p : engine.store().parameters()) {
    if (p->load_bias_rate) {  // the choice has no slope; load errors add up to 0
      const int64_t n = p->shape.elements();
      const double* gradient = engine.store().main_gradient(*p).data<double>();
      EXPECT_EQ(std::accumulate(gradient, gradient + n, 0.0), 0);
      const bool moves = *p->load_bias_rate > 0;  // a fixed number has rate 0 and no errors
      EXPECT_EQ(std::any_of(gradient, gradient + n, [](double error) { return error != 0; }), moves)
          << p->path;
      continue;
    }
    test::expect_slope(engine, *p, random, loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelGradient, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
