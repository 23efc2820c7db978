#include "model/moe_fields.h"

#include <algorithm>

namespace viaduct {
namespace {
constexpr std::string_view kDropped = "different tokens are dropped from here on";
constexpr std::string_view kBalance = "routers are balanced by it from here on";

constexpr int64_t kMostBins = 1 << 16;
constexpr double kMostWidth = 1 << 22;

/// Whether nothing acts on the choice of experts but the losses, whose weights are all 0.
bool no_balancing(const MoeFields& fields) {
  const std::vector<double>& coefficients = fields.moe_aux_loss_coeff.values();
  return !fields.balances_by(BalanceKind::sinkhorn) &&
         !fields.balances_by(BalanceKind::quantile_balancing) &&
         std::ranges::all_of(coefficients, [](double coefficient) { return coefficient == 0; });
}

void add_sizes(FieldGroup& group, MoeFields& fields) {
  group
      .field("num_moe_experts", fields.num_moe_experts,
             "E: experts of a layer, which replace its feed-forward; null: every layer is dense.")
      .range(1, kMostExperts)
      .constraint("divisible by ep; no biases of the feed-forward, no post_sublayer_norm")
      .on_resume(resume::other_shapes);
  group.idle(
      [&fields] { return reason_if(fields.experts() == 0, "model.num_moe_experts = null"); });
  group
      .field("moe_ffn_hidden_size", fields.moe_ffn_hidden_size,
             "F of an expert; null: ffn_hidden_size.")
      .range(1, kMostWidth)
      .constraint("divisible by etp")
      .on_resume(resume::other_shapes);
  group
      .field("moe_layer_freq", fields.moe_layer_freq,
             "Which layers have experts: n for layers 0, n, 2n …, or a list of 1 (experts) and 0 "
             "(dense) for all layers.")
      .constraint("list of num_layers")
      .on_resume(resume::other_shapes);
  group
      .field("moe_shared_expert_intermediate_size", fields.moe_shared_expert_intermediate_size,
             "F of the expert that every token uses beside those it is routed to; null: none.")
      .range(1, kMostWidth)
      .constraint("divisible by tp")
      .on_resume(resume::other_shapes);
  group
      .field("moe_shared_expert_gate", fields.moe_shared_expert_gate,
             "The shared expert's output is multiplied by sigmoid(x · w), w a vector of its own.")
      .constraint("needs moe_shared_expert_intermediate_size");
}

void add_router(FieldGroup& group, MoeFields& fields) {
  group.field("moe_router_topk", fields.moe_router_topk, "k: experts of a token.")
      .range(1, kMostChosenExperts)
      .constraint("at most num_moe_experts");
  group.field(
      "moe_router_score_function", fields.moe_router_score_function,
      "Scores of experts from the router's logits. sigmoid, and sqrtsoftplus = √log(1 + e^x): "
      "the chosen scores are divided by their sum.");
  group
      .field("moe_router_norm_topk_prob", fields.moe_router_norm_topk_prob,
             "Chosen scores are divided by their sum if a token has more than one; false: they are "
             "the weights without that. With softmax moe_router_pre_softmax decides.")
      .constraint("false needs sigmoid or sqrtsoftplus")
      .idle([&fields] { return fields.moe_router_topk.value() == 1; }, "model.moe_router_topk = 1");
  group
      .field("moe_apply_probs_on_input", fields.moe_apply_probs_on_input,
             "A token's weight multiplies the input of its expert and not the result (Llama 4).")
      .constraint("true needs moe_router_topk=1, and no moe_shared_expert_overlap");
  group
      .field("moe_router_enable_expert_bias", fields.moe_router_enable_expert_bias,
             "A bias of each expert is added to its score for the choice alone (with softmax: to "
             "its probability among all experts). It is not a "
             "trained parameter: each update moves it by moe_router_bias_update_rate, down where "
             "the step "
             "chose the expert more often than the mean, else up; or sets it "
             "(moe_router_load_balancing_type=quantile_balancing, with which auto is true).")
      .constraint("true needs FP32 main gradients; with softmax no groups");
  group
      .field("moe_router_pre_softmax", fields.moe_router_pre_softmax,
             "Softmax over all experts, whose chosen values are the weights; false: softmax over "
             "the chosen ones.")
      .constraint(
          "true needs softmax; softmax with moe_router_topk=1 needs true, or "
          "moe_router_sparsemixer_eps");
  group
      .field(
          "moe_router_sparsemixer_eps", fields.moe_router_sparsemixer_eps,
          "e of SparseMixer (Phi 3.5 MoE): each weight is that of a softmax over the experts "
          "that were not chosen before and whose logit x is near the chosen one's m: "
          "(m - x) / max(|x|, m) is at most 2e. Experts are the best ones in training, too, where "
          "SparseMixer samples among those near. null: weights as "
          "moe_router_score_function says.")
      .positive()
      .constraint("needs softmax, and moe_router_pre_softmax=false");
  group
      .field("moe_router_topk_scaling_factor", fields.moe_router_topk_scaling_factor,
             "Factor on the weights of the chosen experts; null: 1.")
      .positive();
  group
      .field("moe_router_num_groups", fields.moe_router_num_groups,
             "Experts are chosen by groups first: this many groups of neighbouring experts; null: "
             "no groups.")
      .range(1, kMostExperts)
      .constraint("divides num_moe_experts; with moe_router_group_topk");
  group
      .field("moe_router_group_topk", fields.moe_router_group_topk,
             "Groups that a token's experts are chosen from.")
      .range(1, kMostChosenExperts)
      .constraint(
          "divides moe_router_topk unless moe_router_group_score_topk is set; their "
          "experts are at least moe_router_topk");
  group
      .field("moe_router_group_score_topk", fields.moe_router_group_score_topk,
             "Best scores of a group whose sum is the group's; null: moe_router_topk / "
             "moe_router_group_topk. DeepSeek-V2 has 1.")
      .range(1, kMostChosenExperts)
      .constraint("needs moe_router_num_groups; at most the experts of a group");
  group
      .field("moe_router_dtype", fields.moe_router_dtype,
             "fp32: the router's products read FP32 copies, in the backward, too; null: they read "
             "activations. Logits and weights are FP32 in both. fp64: copies, logits, scores and "
             "losses are FP64, and the weights of the experts' results are rounded to FP32 at the "
             "end; on the cpu by plain loops, which are slow.")
      .one_of({NumberFormat::fp32, NumberFormat::fp64})
      .on_resume(resume::other_rounding);
}

void add_losses(FieldGroup& group, MoeFields& fields) {
  group
      .field("moe_router_bias_update_rate", fields.moe_router_bias_update_rate,
             "Step of the experts' bias at each update; 0: the bias does not change.")
      .range(0)
      .on_resume(resume::said(kBalance))
      .idle([&fields] { return fields.balances_by(BalanceKind::quantile_balancing); },
            "model.moe_router_load_balancing_type = quantile_balancing sets the bias")
      .idle([&fields] { return !fields.moe_router_enable_expert_bias.value(); },
            "model.moe_router_enable_expert_bias = false");
  group
      .field("moe_router_load_balancing_type", fields.moe_router_load_balancing_type,
             "Load balancing. aux_loss: a loss for each layer and micro-batch, with the counts of "
             "the ranks that share its rows, so that it depends on micro_batch_size. seq_aux_loss: "
             "a loss for each layer and document (a row that is not packed), whatever the "
             "micro-batch. global_aux_loss: as aux_loss, with the counts of all ranks in all "
             "micro-batches of the step so far, so that it depends on micro_batch_size times "
             "data-parallel ranks. sinkhorn: no loss; in training a token's experts are chosen by "
             "logits that are scaled until all experts have equal weight over the tokens of the "
             "micro-batch, on all ranks that share its rows; elsewhere by the logits alone. "
             "Weights are the unscaled logits' sigmoid (moe_router_topk=1) or softmax over all "
             "experts. quantile_balancing: no loss; each update sets the bias of "
             "moe_router_enable_expert_bias so that, among the tokens of the step on all ranks, "
             "each expert would have been chosen by an equal share. A list of losses: all of them, "
             "each with its own moe_aux_loss_coeff.")
      .constraint(
          "sinkhorn: moe_router_score_function=sigmoid with moe_router_topk=1, else "
          "moe_router_pre_softmax=true; moe_aux_loss_coeff=0; no groups, expert bias, capacities, "
          "hybrid_context_parallel, nor reset_attention_mask where context_parallel_size > 1, nor "
          "conversations, whose rows have padding. "
          "quantile_balancing: moe_router_score_function=sigmoid, "
          "moe_router_enable_expert_bias=true, moe_router_topk below num_moe_experts; the rest as "
          "sinkhorn")
      .on_resume(resume::said(kBalance))
      .idle([&fields] { return no_balancing(fields); }, "model.moe_aux_loss_coeff = 0");
  group
      .field("moe_router_qb_num_bins", fields.moe_router_qb_num_bins,
             "quantile_balancing counts, for each expert, the biases that tokens need to choose it "
             "in this many equal bins over the range of the bias and 1 more on both sides. The "
             "new bias is exact to a bin's width; E · bins integers a layer are summed over ranks "
             "at each update.")
      .range(2, kMostBins)
      .on_resume(resume::said(kBalance))
      .idle([&fields] { return !fields.balances_by(BalanceKind::quantile_balancing); },
            "model.moe_router_load_balancing_type is not quantile_balancing");
  group
      .field("moe_aux_loss_coeff", fields.moe_aux_loss_coeff,
             "Weight of the balancing loss, a mean over all tokens of the global batch, in the "
             "gradient, or a list with one for each type of moe_router_load_balancing_type. The "
             "reported loss does not include it.")
      .range(0)
      .on_resume(resume::said(kBalance))
      .idle([&fields] { return fields.balances_by(BalanceKind::none); },
            "model.moe_router_load_balancing_type = none");
  group
      .field(
          "moe_z_loss_coeff", fields.moe_z_loss_coeff,
          "Weight in the gradient of the mean squared log-sum-exp of router logits over all tokens "
          "of the global batch; null: none.")
      .range(0)
      .on_resume(resume::said(kBalance));
  group
      .field("moe_input_jitter_eps", fields.moe_input_jitter_eps,
             "In training routers read tokens times noise, uniform in [1 - e, 1 + e]; null: none.")
      .range(0, 0.999)
      .on_resume(resume::said(kBalance));
  group
      .field("moe_router_force_load_balancing", fields.moe_router_force_load_balancing,
             "Random numbers in place of the router's logits, so that experts have about equal "
             "load, in every forward. For benchmarks alone: the model does not learn to route.")
      .on_resume(resume::said("experts are chosen differently from here on"));
}

void add_capacity(FieldGroup& group, MoeFields& fields) {
  group
      .field("moe_expert_capacity_factor", fields.moe_expert_capacity_factor,
             "Maximum tokens of an expert from a rank's micro-batch, as a multiple of an equal "
             "share; further ones are dropped: the expert adds nothing to them. Which ones "
             "depends on how tokens lie on ranks, as with no other setting but "
             "moe_expert_rank_capacity_factor. null: all tokens stay.")
      .positive()
      .on_resume(resume::said(kDropped));
  group
      .field(
          "moe_expert_rank_capacity_factor", fields.moe_expert_rank_capacity_factor,
          "Maximum choices that the micro-batch of a rank sends to each of the ep ranks, for all "
          "experts there together: this factor · its tokens · moe_router_topk / ep, rounded up; "
          "further ones are dropped as with moe_expert_capacity_factor, and after those where "
          "both are set. Thus a rank gets at most this multiple of an equal share; with ep = 1 "
          "a factor below 1 drops. Which choices are dropped depends on ep and on how tokens "
          "lie on ranks. null: no limit.")
      .positive()
      .constraint(
          "needs moe_token_dispatcher_type=flex, not with moe_flex_dispatcher_backend=deepep, nor "
          "with moe_pad_expert_input_to_capacity")
      .on_resume(resume::said(kDropped));
  group
      .field("moe_token_drop_policy", fields.moe_token_drop_policy,
             "Which tokens a full expert, or rank, keeps. probs: those with the largest weights; "
             "position: the first ones.")
      .on_resume(resume::said(kDropped))
      .idle(
          [&fields] {
            return !fields.moe_expert_capacity_factor && !fields.moe_expert_rank_capacity_factor;
          },
          "model.moe_expert_capacity_factor and moe_expert_rank_capacity_factor are null");
  group
      .field("moe_pad_expert_input_to_capacity", fields.moe_pad_expert_input_to_capacity,
             "Every expert gets rows for its whole capacity from every rank, so that their number "
             "is the same in every step; rows beyond its tokens do not count.")
      .constraint("needs moe_expert_capacity_factor; not with moe_expert_rank_capacity_factor")
      .on_resume(resume::free);
  group
      .field("moe_router_padding_for_quantization", fields.moe_router_padding_for_quantization,
             "Every expert gets from every rank rows of a multiple of 16 (MXFP8: 32), as quantized "
             "products on GPUs read them: those beyond its tokens are the rank's first token, "
             "count in scales and nowhere else. Without it products complete the last rows "
             "themselves.")
      .alias("moe_router_padding_for_fp8")
      .constraint("needs FP8 or FP4 products; not with moe_token_dispatcher_type=allgather")
      .on_resume(resume::other_rounding);
}

void add_dispatcher(FieldGroup& group, MoeFields& fields) {
  group
      .field("moe_shared_expert_overlap", fields.moe_shared_expert_overlap,
             "The shared expert runs while tokens are on their way to the ranks of their experts, "
             "and its backward while their gradients are.")
      .constraint(
          "needs moe_shared_expert_intermediate_size and moe_token_dispatcher_type=alltoall or "
          "flex")
      .on_resume(resume::free);
  group
      .field("moe_token_dispatcher_type", fields.moe_token_dispatcher_type,
             "How tokens reach the ranks of their experts. alltoall: rows sorted by expert, as "
             "many to each rank as it needs, in one exchange over ep and etp. allgather: every "
             "rank of ep and etp gets all their tokens and computes those of its own experts, and "
             "the results are summed by a reduce-scatter. flex: as alltoall, but the exchange "
             "reads and writes rows by number, without sorted copies; moe_flex_dispatcher_backend "
             "says how.")
      .constraint(
          "allgather: not with variable_seq_lengths, nor with reset_attention_mask or "
          "conversations where context_parallel_size > 1")
      .on_resume(resume::free);
  group
      .field("moe_flex_dispatcher_backend", fields.moe_flex_dispatcher_backend,
             "How flex sends. flat: rows to the ranks of their experts, with the bits of alltoall. "
             "hierarchical: a token once to each domain of dist.nvlink_domain_size ranks that has "
             "one of its experts, and from there to the ranks inside the domain; results are "
             "summed in "
             "each domain before they leave it. null: hierarchical where ep · etp ranks are "
             "several whole domains and rows are not padded to a capacity, else flat. deepep, "
             "hybridep, ncclep name kernels of GPUs, which send likewise: as null.")
      .constraint(
          "hierarchical: dist.nvlink_domain_size divides ep · etp and is a multiple of etp; not "
          "with moe_pad_expert_input_to_capacity")
      .on_resume(resume::free);
  group
      .field("moe_dispatch_fwd_dtype", fields.moe_dispatch_fwd_dtype,
             "Format in which tokens are sent to experts. mxfp8: E4M3 with a power of two for each "
             "32 elements of a token, about half the bytes of 16 bits; experts read the rounded "
             "tokens, also those that stay on their rank. null: that of activations.")
      .constraint("needs moe_token_dispatcher_type=flex; not with fp64")
      .on_resume(resume::other_rounding);
  group
      .field("moe_combine_bwd_dtype", fields.moe_combine_bwd_dtype,
             "Format in which gradients of experts' results are sent to experts. mxfp8: as "
             "moe_dispatch_fwd_dtype; hierarchical rounds them once for each of its two hops. "
             "null: that of activations.")
      .constraint("needs moe_token_dispatcher_type=flex; not with fp64")
      .on_resume(resume::other_rounding);
}

}  // namespace

int64_t MoeFields::experts() const {
  return num_moe_experts.is_auto() ? 0 : num_moe_experts.value().value_or(0);
}

void MoeFields::resolve() {
  num_moe_experts.resolve(std::nullopt);
  moe_ffn_hidden_size.resolve(std::nullopt);
  moe_layer_freq.resolve(OneOrList<int64_t>(1));
  moe_shared_expert_intermediate_size.resolve(std::nullopt);
  moe_shared_expert_gate.resolve(false);
  moe_router_topk.resolve(2);
  const bool sinkhorn = balances_by(BalanceKind::sinkhorn),
             quantile = balances_by(BalanceKind::quantile_balancing);
  const bool one = moe_router_topk.value() == 1;
  moe_router_score_function.resolve((sinkhorn && one) || quantile ? ScoreFunction::sigmoid
                                                                  : ScoreFunction::softmax);
  moe_router_pre_softmax.resolve(sinkhorn && !one);
  moe_router_sparsemixer_eps.resolve(std::nullopt);
  moe_router_topk_scaling_factor.resolve(std::nullopt);
  moe_router_num_groups.resolve(std::nullopt);
  moe_router_group_topk.resolve(std::nullopt);
  moe_router_group_score_topk.resolve(std::nullopt);
  moe_router_norm_topk_prob.resolve(true);
  moe_router_enable_expert_bias.resolve(quantile);
  moe_apply_probs_on_input.resolve(false);
}

void add_moe_fields(FieldGroup& group, MoeFields& fields) {
  add_sizes(group, fields);
  add_router(group, fields);
  add_losses(group, fields);
  add_capacity(group, fields);
  add_dispatcher(group, fields);
  group.idle({});
}

void take_moe(MoeFields& fields, const MoeConfig& moe) {
  const auto or_null = [](int64_t value) {
    return value > 0 ? std::optional(value) : std::nullopt;
  };
  fields.num_moe_experts.resolve(or_null(moe.experts));
  if (!moe.any()) return;
  fields.moe_ffn_hidden_size.resolve(or_null(moe.feed_forward));
  const bool everywhere = std::find(moe.layers.begin(), moe.layers.end(), 0) == moe.layers.end();
  fields.moe_layer_freq.resolve(everywhere ? OneOrList<int64_t>(1)
                                           : OneOrList<int64_t>(moe.layers));
  fields.moe_shared_expert_intermediate_size.resolve(or_null(moe.shared_feed_forward));
  fields.moe_shared_expert_gate.resolve(moe.shared_gate);
  const RoutingRule& routing = moe.routing;
  fields.moe_router_topk.resolve(routing.topk);
  fields.moe_router_score_function.resolve(routing.score);
  fields.moe_router_pre_softmax.resolve(routing.pre_softmax);
  fields.moe_router_sparsemixer_eps.resolve(
      routing.margin == 0 ? std::nullopt : std::optional(routing.margin / 2));
  fields.moe_router_topk_scaling_factor.resolve(
      routing.scaling == 1 ? std::nullopt : std::optional(routing.scaling));
  fields.moe_router_num_groups.resolve(or_null(routing.groups));
  fields.moe_router_group_topk.resolve(or_null(routing.group_topk));
  fields.moe_router_group_score_topk.resolve(or_null(routing.group_best));
  fields.moe_router_norm_topk_prob.resolve(routing.normalize);
  fields.moe_router_enable_expert_bias.resolve(moe.load_bias);
  fields.moe_apply_probs_on_input.resolve(moe.weighs_input);
}

namespace {

BalanceScope scope_of(BalanceKind kind) {
  if (kind == BalanceKind::seq_aux_loss) return BalanceScope::document;
  return kind == BalanceKind::global_aux_loss ? BalanceScope::step : BalanceScope::micro_batch;
}

/// Lists of different lengths are a problem that check_balancing reports.
std::vector<BalanceLoss> balance_losses(const MoeFields& fields) {
  const std::vector<BalanceKind>& types = fields.moe_router_load_balancing_type.values();
  const OneOrList<double>& coefficients = fields.moe_aux_loss_coeff;
  std::vector<BalanceLoss> losses;
  for (size_t i = 0; i < types.size(); ++i) {
    if (coefficients.is_list() && i >= coefficients.values().size()) break;
    const double coefficient = types[i] == BalanceKind::none ? 0 : coefficients.at(i);
    if (coefficient != 0) losses.push_back({coefficient, scope_of(types[i])});
  }
  return losses;
}

}  // namespace

bool MoeFields::balances_by(BalanceKind kind) const {
  const std::vector<BalanceKind>& types = moe_router_load_balancing_type.values();
  return std::find(types.begin(), types.end(), kind) != types.end();
}

MoeConfig to_moe_config(const MoeFields& fields, int64_t layers, int64_t feed_forward) {
  MoeConfig moe;
  moe.experts = fields.experts();
  if (!moe.any()) return moe;
  moe.feed_forward = fields.moe_ffn_hidden_size.value().value_or(feed_forward);
  const OneOrList<int64_t>& frequency = fields.moe_layer_freq.value();
  if (frequency.is_list()) {
    moe.layers = frequency.values();
  } else {
    for (int64_t layer = 0; layer < layers; ++layer)
      moe.layers.push_back(layer % std::max<int64_t>(1, frequency.at(0)) == 0 ? 1 : 0);
  }
  moe.shared_feed_forward = fields.moe_shared_expert_intermediate_size.value().value_or(0);
  moe.shared_gate = fields.moe_shared_expert_gate.value();
  moe.shared_overlap = fields.moe_shared_expert_overlap;
  RoutingRule& routing = moe.routing;
  routing.topk = fields.moe_router_topk.value();
  routing.score = fields.moe_router_score_function.value();
  routing.pre_softmax = fields.moe_router_pre_softmax.value();
  routing.margin = 2 * fields.moe_router_sparsemixer_eps.value().value_or(0);
  routing.scaling = fields.moe_router_topk_scaling_factor.value().value_or(1);
  routing.groups = fields.moe_router_num_groups.value().value_or(0);
  routing.group_topk = fields.moe_router_group_topk.value().value_or(0);
  routing.group_best = fields.moe_router_group_score_topk.value().value_or(0);
  // One score is not divided by itself.
  routing.normalize = fields.moe_router_norm_topk_prob.value() &&
                      (routing.topk > 1 || routing.score == ScoreFunction::softmax);
  moe.load_bias = fields.moe_router_enable_expert_bias.value();
  moe.weighs_input = fields.moe_apply_probs_on_input.value();
  moe.load_bias_rate = fields.moe_router_bias_update_rate;
  if (fields.moe_token_dispatcher_type == TokenDispatcher::allgather)
    moe.dispatch = ExpertDispatch::all_gather;
  if (fields.moe_token_dispatcher_type == TokenDispatcher::flex)
    moe.dispatch = ExpertDispatch::fused;
  moe.quantized_tokens = fields.moe_dispatch_fwd_dtype.has_value();
  moe.quantized_gradients = fields.moe_combine_bwd_dtype.has_value();
  if (fields.moe_router_dtype == NumberFormat::fp32) moe.router_format = RouterFormat::f32;
  if (fields.moe_router_dtype == NumberFormat::fp64) moe.router_format = RouterFormat::f64;
  moe.balance_losses = balance_losses(fields);
  moe.sinkhorn = routing.choose_logits = fields.balances_by(BalanceKind::sinkhorn);
  routing.choose_probabilities = moe.load_bias && routing.score == ScoreFunction::softmax;
  if (fields.balances_by(BalanceKind::quantile_balancing))
    moe.quantile_bins = fields.moe_router_qb_num_bins;
  moe.input_jitter = fields.moe_input_jitter_eps.value_or(0);
  moe.capacity_factor = fields.moe_expert_capacity_factor.value_or(0);
  moe.rank_capacity_factor = fields.moe_expert_rank_capacity_factor.value_or(0);
  moe.drop_policy = fields.moe_token_drop_policy;
  moe.pad_to_capacity = fields.moe_pad_expert_input_to_capacity;
  moe.pad_for_quantization = fields.moe_router_padding_for_quantization;
  moe.random_logits = fields.moe_router_force_load_balancing;
  moe.z_coefficient = fields.moe_z_loss_coeff.value_or(0);
  return moe;
}

}  // namespace viaduct
