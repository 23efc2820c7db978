#include "nn/moe/router.h"

#include "base/error.h"
#include "base/hash.h"
#include "nn/moe/router_log.h"
#include "ops/elementwise.h"
#include "ops/expert_capacity.h"
#include "ops/load_bias.h"
#include "ops/load_quantile.h"
#include "ops/random_rows.h"
#include "ops/sinkhorn.h"
#include "ops/step_scalars.h"

namespace viaduct {
namespace {

/// What a layer keeps for a balancing loss.
std::string_view counts_name(BalanceScope scope) {
  switch (scope) {
    case BalanceScope::micro_batch:
      return "counts";
    case BalanceScope::document:
      return "counts of documents";
    case BalanceScope::step:
      return "counts of the step";
  }
  return {};
}

}  // namespace

RouterSegment::RouterSegment(MoeConfig moe, ExpertPlace place, RouterInput input,
                             RouterProduct product, std::shared_ptr<const Parameter> load_bias,
                             int64_t block, const std::string& path)
    : moe_(std::move(moe)),
      place_(place),
      input_(std::move(input)),
      product_(std::move(product)),
      load_bias_(std::move(load_bias)),
      block_(block),
      jitter_path_(hash64(path + ".jitter")),
      logits_path_(hash64(path + ".random_logits")) {}

Edge RouterSegment::inputs(const RankContext& context, const Batch& batch) const {
  if (input_.beside)
    return {branch_input_edge(context, batch, input_.features, !input_.norm.has_value())};
  return {stream_edge(context, batch, input_.features)};
}

std::vector<std::string_view> RouterSegment::outputs() const {
  std::vector<std::string_view> names{moe_edge::tokens, moe_edge::probabilities};
  if (!input_.beside) names.insert(names.begin(), kHidden);
  if (place_.orders_later(moe_)) {
    names.push_back(moe_edge::choice);
  } else {
    names.insert(names.end(),
                 {moe_edge::sources, moe_edge::position, moe_edge::counts, moe_edge::sent_offsets});
  }
  return names;
}

TensorSet RouterSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                 SavedStore& saved) {
  const Tensor x = in.get(input_.beside ? kBranchInput : kHidden);  // [T, H], as tokens
  const Tensor tokens =
      input_.norm ? input_.norm->forward_unit(unit::mlp_norm, context, x, saved) : x;
  const Tensor logits = product_.forward(context, jittered(context, batch, tokens), saved);
  if (moe_.random_logits) {
    random_rows(
        context.ops,
        {logits, {context.settings.seed, logits_path_}, batch.stream_rows(batch.token_index)});
  }
  const MemoryTag tag = saved.output_tag();
  const Shape chosen{batch.stream_tokens, moe_.routing.topk};
  const Tensor probabilities = context.statistic(chosen, tag);
  const Tensor choice = context.ops.allocate(DType::i32, chosen, tag);
  choose(context, logits, probabilities, choice);
  const Tensor kept = moe_.drops() ? limited(context, choice, probabilities, tag) : choice;
  SortByExpertArgs order;
  if (!place_.orders_later(moe_)) order = order_rows(context, kept, tag, saved);

  saved.keep_statistic(this, "logits", logits);
  saved.keep_statistic(this, "choice", choice);
  std::vector<Tensor> balanced;
  // Without a backward there is no balancing.
  for (const BalanceLoss& loss : moe_.balance_losses) {
    if (context.gradients == nullptr) break;
    balanced.push_back(loss.scope == BalanceScope::step
                           ? counts_of_step(context, batch, choice, saved)
                           : balanced_counts(context, batch, choice, loss.scope));
    saved.keep_statistic(this, counts_name(loss.scope), balanced.back());
  }
  if (logs(context, saved)) log(context, batch, logits, choice, kept, balanced);
  TensorSet out(moe_edge::tokens, tokens);
  if (!input_.beside) out.set(kHidden, x);
  out.set(moe_edge::probabilities, probabilities);
  if (place_.orders_later(moe_)) {
    out.set(moe_edge::choice, kept);
    return out;
  }
  out.set(moe_edge::sources, order.token);
  out.set(moe_edge::position, order.position);
  out.set(moe_edge::counts, order.counts);
  out.set(moe_edge::sent_offsets, order.offsets);
  return out;
}

Tensor RouterSegment::jittered(RankContext& context, const Batch& batch,
                               const Tensor& tokens) const {
  if (!jitters(context)) return tokens;
  const Tensor noisy = context.activation(tokens.shape(), MemoryTag::saved);
  jitter(context.ops, {tokens,
                       noisy,
                       moe_.input_jitter,
                       {context.settings.seed, jitter_path_},
                       batch.stream_rows(batch.token_index)});
  return noisy;
}

Tensor RouterSegment::limited(RankContext& context, const Tensor& choice,
                              const Tensor& probabilities, MemoryTag tag) const {
  const int64_t tokens = choice.dim(0);
  const Tensor kept = context.ops.allocate(
      DType::i32, choice.shape(), place_.orders_later(moe_) ? tag : MemoryTag::activations);
  copy(context.ops, {choice, kept});
  LimitExpertsArgs limit{kept, probabilities, moe_.experts, moe_.capacity(tokens),
                         moe_.drop_policy};
  if (limit.capacity > 0) limit_experts(context.ops, limit);
  limit.experts_together = place_.experts_here(moe_);
  limit.capacity = moe_.rank_capacity(tokens, moe_.experts / limit.experts_together);
  if (limit.capacity > 0) limit_experts(context.ops, limit);
  return kept;
}

SortByExpertArgs RouterSegment::order_rows(RankContext& context, const Tensor& choice,
                                           MemoryTag tag, const SavedStore& saved) const {
  const int64_t count = choice.dim(0), places = choice.dim(1) * place_.copies;
  const int64_t destinations = moe_.experts * place_.copies;
  const auto integers = [&](const Shape& shape, DType dtype = DType::i32) {
    return context.ops.allocate(dtype, shape, tag);
  };
  SortByExpertArgs order;
  order.choice = choice;
  order.experts_per_rank = place_.experts_here(moe_);
  order.copies = place_.copies;
  if (moe_.pad_to_capacity) order.rows_each = moe_.padded(moe_.capacity(count));
  order.rows_multiple = moe_.rows_multiple;
  order.token = integers({sent_rows(moe_, place_, count)});
  order.position = integers({count, places});
  order.counts = integers({destinations}, DType::i64);
  order.offsets = integers({destinations + 1});
  if (logs(context, saved) && moe_.rows_multiple > 1) context.router_log->count_rows(block_, order);
  sort_by_expert(context.ops, order);
  return order;
}

void RouterSegment::log(RankContext& context, const Batch& batch, const Tensor& logits,
                        const Tensor& choice, const Tensor& kept,
                        const std::vector<Tensor>& balanced) const {
  RouterLog::Layer& layer = context.router_log->layer(block_);
  const WriteMode mode = layer.any ? WriteMode::accumulate : WriteMode::assign;
  layer.any = true;
  const auto count = [&](const Tensor& chosen, const Tensor& counts) {
    count_choices(
        context.ops,
        {.choice = chosen, .counts = counts, .mode = mode, .token_index = batch.padding_index()});
  };
  count(choice, layer.choices);
  count(kept, layer.kept);
  if (context.router_log->keeps_logits()) {
    layer.logits.push_back(host_tensor(logits.dtype(), logits.shape()));
    context.ops.device.copy_to_host(logits, layer.logits.back());
  }
  if (balanced.empty())
    router_loss(context.ops,
                {moe_.routing, logits, 0, {}, layer.sums.select(0), {}, 0, batch.padding_index()});
  for (size_t i = 0; i < balanced.size(); ++i) {
    const BalanceScope scope = moe_.balance_losses[i].scope;
    RouterLossArgs losses{moe_.routing, logits, balanced_tokens(context, batch, scope), balanced[i],
                          layer.sums.select(static_cast<int64_t>(i))};
    losses.token_index = batch.padding_index();
    if (scope == BalanceScope::document)
      losses.documents = batch.document_offsets, losses.first_token = batch.stream_begin;
    router_loss(context.ops, losses);
  }
}

void RouterSegment::choose(RankContext& context, const Tensor& logits, const Tensor& probabilities,
                           const Tensor& choice) const {
  RouteArgs args{moe_.routing, logits, Tensor(), probabilities, choice};
  const DType format = logits.dtype();
  if (probabilities.dtype() != format)
    args.probabilities =
        context.ops.allocate(format, probabilities.shape(), MemoryTag::activations);
  if (load_bias_ == nullptr) {
    args.bias = balancing_bias(context, logits);
    route(context.ops, args);
  } else {
    const AcquiredWeight bias(context.weights, *load_bias_, WeightUse::elementwise);
    args.bias = in_dtype(context, bias.tensor(), format);
    route(context.ops, args);
  }
  if (probabilities.dtype() != format) copy(context.ops, {args.probabilities, probabilities});
}

Tensor RouterSegment::balancing_bias(RankContext& context, const Tensor& logits) const {
  if (!moe_.sinkhorn || !context.training) return Tensor();
  Tensor together = logits;  // [N, E]
  for (Communicator* group : {&context.groups.tp(), &context.context_ranks()}) {
    if (group->size() == 1) continue;
    const Tensor own = together;
    together = context.ops.allocate(own.dtype(), {group->size() * own.dim(0), own.dim(1)},
                                    MemoryTag::workspace);
    group->all_gather(own, together).wait();
  }
  const Tensor bias = context.ops.allocate(logits.dtype(), {moe_.experts}, MemoryTag::activations);
  sinkhorn_bias(context.ops, {together, bias});
  return bias;
}

void RouterSegment::load_bias_backward(RankContext& context, const Batch& batch,
                                       const Tensor& logits, const Tensor& choice) const {
  const GradientAccess::Destination error = context.gradients->gradient(*load_bias_);
  if (moe_.quantile_bins > 0) {
    add_margins(context, batch, logits);
  } else {
    const Tensor counts = context.ops.allocate(DType::i64, {moe_.experts}, MemoryTag::workspace);
    count_choices(context.ops,
                  {.choice = choice, .counts = counts, .token_index = batch.padding_index()});
    load_error(context.ops, {counts, error.tensor, error.mode});
  }
  context.gradients->done(*load_bias_);
}

void RouterSegment::add_margins(RankContext& context, const Batch& batch,
                                const Tensor& logits) const {
  if (context.router_log == nullptr) return;  // without an update
  RouterLog::Layer& layer = context.router_log->layer(block_);
  layer.load_bias = load_bias_.get();
  const AcquiredWeight bias(context.weights, *load_bias_, WeightUse::elementwise);
  copy(context.ops, {bias.tensor(), layer.bias});
  count_margins(
      context.ops,
      {logits, in_dtype(context, bias.tensor(), logits.dtype()), layer.margins, moe_.routing.topk,
       layer.any_margins ? WriteMode::accumulate : WriteMode::assign, batch.padding_index()});
  layer.any_margins = true;
}

Tensor RouterSegment::balanced_counts(RankContext& context, const Batch& batch,
                                      const Tensor& choice, BalanceScope scope) const {
  CountChoicesArgs count{.choice = choice, .token_index = batch.padding_index()};
  if (scope == BalanceScope::document) {
    count.documents = batch.document_offsets, count.first_token = batch.stream_begin;
    count.counts = context.ops.allocate(DType::i64, {count.documents.dim(0) - 1, moe_.experts},
                                        MemoryTag::saved);
  } else {
    count.counts = context.ops.allocate(DType::i64, {moe_.experts}, MemoryTag::saved);
  }
  count_choices(context.ops, count);
  context.groups.tp().all_reduce(count.counts, ReduceOp::sum).wait();
  context.context_ranks().all_reduce(count.counts, ReduceOp::sum).wait();
  return count.counts;
}

Tensor RouterSegment::counts_of_step(RankContext& context, const Batch& batch, const Tensor& choice,
                                     const SavedStore& saved) const {
  VIADUCT_CHECK(ShapeError, context.router_log != nullptr,
                "router of layer {}: balances over the step, but has no log of the step", block_);
  RouterLog::Layer& layer = context.router_log->layer(block_);
  if (const auto first = layer.first_counts.extract(&saved)) return first.mapped();
  count_choices(context.ops, {.choice = choice,
                              .counts = layer.so_far,
                              .mode = layer.any_so_far ? WriteMode::accumulate : WriteMode::assign,
                              .token_index = batch.padding_index()});
  layer.any_so_far = true;
  const Tensor counts = context.ops.allocate(DType::i64, {moe_.experts}, MemoryTag::saved);
  copy(context.ops, {layer.so_far, counts});
  context.groups.tp().all_reduce(counts, ReduceOp::sum).wait();
  context.groups.dp_cp().all_reduce(counts, ReduceOp::sum).wait();
  if (!saved.keeps()) layer.first_counts.emplace(&saved, counts);
  return counts;
}

int64_t RouterSegment::balanced_tokens(const RankContext& context, const Batch& batch,
                                       BalanceScope scope) const {
  if (scope == BalanceScope::step || batch.padded) return 0;
  return batch.stream_tokens * context.groups.tp().size() * context.context_ranks().size();
}

std::vector<RouterLossTerms> RouterSegment::loss_terms(RankContext& context, const Batch& batch,
                                                       SavedStore& saved) const {
  std::vector<RouterLossTerms> terms(std::max<size_t>(1, moe_.balance_losses.size()));
  for (size_t i = 0; i < moe_.balance_losses.size(); ++i) {
    const BalanceLoss& loss = moe_.balance_losses[i];
    terms[i].balance = loss.coefficient;
    terms[i].counts = saved.take(this, counts_name(loss.scope));
    terms[i].tokens = balanced_tokens(context, batch, loss.scope);
    if (loss.scope == BalanceScope::document)
      terms[i].documents = batch.document_offsets, terms[i].first_token = batch.stream_begin;
  }
  terms.front().z = moe_.z_coefficient;
  for (RouterLossTerms& term : terms) {
    term.token_index = batch.padding_index();
    if (term.balance != 0 || term.z != 0)
      term.loss_scale = step_scalar(context.scalars, StepScalar::router_loss_scale);
  }
  return terms;
}

void RouterSegment::route_back(RankContext& context, const Tensor& d_probabilities,
                               const Tensor& choice, const Tensor& logits,
                               const std::vector<RouterLossTerms>& terms) const {
  const auto statistic = [&](const Shape& shape) {
    return context.ops.allocate(logits.dtype(), shape, MemoryTag::workspace);
  };
  Tensor of_more;  // [T, E]: the gradient of the losses after the first
  for (size_t i = 1; i < terms.size(); ++i) {
    const Tensor nothing = statistic(choice.shape()), d_logits = statistic(logits.shape());
    fill(context.ops, {nothing, 0});
    route_backward(context.ops, {moe_.routing, nothing, logits, choice, d_logits, terms[i]});
    if (of_more.defined()) add(context.ops, {of_more, d_logits, d_logits});
    of_more = d_logits;
  }
  route_backward(context.ops,
                 {moe_.routing, d_probabilities, logits, choice, logits, terms.front()});
  if (of_more.defined()) add(context.ops, {logits, of_more, logits});
}

TensorSet RouterSegment::backward_input(RankContext& context, const Batch& batch,
                                        const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_tokens = d_out.get(moe_edge::tokens);  // [T, H]
  const Tensor logits = saved.take(this, "logits");     // overwritten by its gradient
  const Tensor choice = saved.take(this, "choice");
  if (load_bias_ != nullptr && load_bias_->trained)
    load_bias_backward(context, batch, logits, choice);
  const Tensor d_probabilities =
      in_dtype(context, d_out.get(moe_edge::probabilities), logits.dtype());
  route_back(context, d_probabilities, choice, logits, loss_terms(context, batch, saved));
  Tensor d_normed;
  if (jitters(context)) {
    const Tensor nothing = context.activation(d_tokens.shape(), MemoryTag::activations);
    fill(context.ops, {nothing, 0});
    const Tensor d_noisy = product_.backward_input(context, logits, nothing, saved);
    const Tensor d_read = jittered(context, batch, d_noisy);
    d_normed = context.activation(d_tokens.shape(), MemoryTag::activations);
    add(context.ops, {d_tokens, d_read, d_normed});
  } else {
    d_normed = product_.backward_input(context, logits, d_tokens, saved);
  }
  if (!input_.norm) return TensorSet(kBranchInput, d_normed);
  const Tensor d_in = context.stream(d_tokens.shape(), MemoryTag::activations);
  // The stream's own gradient, where it passes through here.
  const Tensor d_stream = input_.beside ? Tensor() : d_out.get(kHidden);
  input_.norm->backward(context, d_normed, d_stream, d_in, saved);
  return TensorSet(input_.beside ? kBranchInput : kHidden, d_in);
}

void RouterSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  product_.backward_weight(context, saved);
}

std::vector<const Parameter*> RouterSegment::parameters() const {
  std::vector<const Parameter*> list;
  if (input_.norm) input_.norm->append_parameters(list);
  product_.append_parameters(list);
  if (load_bias_ != nullptr) list.push_back(load_bias_.get());
  return list;
}

}  // namespace viaduct
