#include "nn/core_attention.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "nn/context_parallel/gathered_attention.h"
#include "nn/context_parallel/head_exchange.h"
#include "nn/context_parallel/layout.h"
#include "nn/encoder_rows.h"
#include "nn/image_attention.h"
#include "ops/attention_sink.h"

namespace viaduct {

CoreAttention::CoreAttention(AttentionSpec spec, std::string_view path,
                             std::shared_ptr<const Parameter> sinks,
                             std::shared_ptr<const Parameter> projection, RelativeBias relative)
    : spec_(spec),
      sinks_(std::move(sinks)),
      projection_(std::move(projection)),
      relative_(std::move(relative)),
      dropout_hash_(hash64(std::string(path) + ".core_attn")),
      alone_(make_self_communicator("cp.none")) {}

/// How this layer reaches the tokens of other ranks.
struct CoreAttention::Route {
  Communicator* gather = nullptr;  // all_gather over it; null: the other two, either may be alone
  Communicator* heads = nullptr;   // tokens are exchanged for heads in it
  Communicator* ring = nullptr;
  AttentionLayout layout;  // of the tokens that take part in the ring
};

namespace {

/// Chunks in place of documents.
void take_chunks(const Batch& batch, AttentionLayout& layout) {
  layout.offsets = batch.chunks.offsets;
  layout.max_document = batch.chunks.longest;
}

}  // namespace

CoreAttention::Route CoreAttention::route(RankContext& context, const Batch& batch) const {
  const ParallelGroups& groups = context.groups;
  Communicator* cp = batch.context_ranks != nullptr ? batch.context_ranks : &groups.cp();
  Route route{nullptr, alone_.get(), alone_.get(), {}};
  VIADUCT_CHECK(ShapeError, !spec_.chunked || batch.chunks.offsets,
                "attention of layer {}: the batch was not cut into chunks", spec_.layer);
  if (cp->size() == 1 || has_all_keys()) {
    route.layout.offsets = batch.document_offsets;
    route.layout.query_index = batch.token_index;
    route.layout.max_document = batch.max_document;
    if (spec_.chunked) take_chunks(batch, route.layout);
    return route;
  }
  VIADUCT_CHECK(ConfigError, !spec_.chunked || spec_.context_exchange == ContextExchange::a2a,
                "attention of layer {} in chunks over the {} ranks of {}: expected cp_comm_type "
                "a2a, found {}",
                spec_.layer, cp->size(), cp->name(), choice_name(spec_.context_exchange));
  VIADUCT_CHECK(ConfigError, !spec_.sees_ahead || spec_.context_exchange == ContextExchange::a2a,
                "attention of layer {} to tokens of images that are ahead, over the {} ranks of "
                "{}: expected cp_comm_type a2a, found {}",
                spec_.layer, cp->size(), cp->name(), choice_name(spec_.context_exchange));
  VIADUCT_CHECK(ShapeError, batch.context != nullptr,
                "attention of layer {}: the batch was not cut for the {} ranks of {}", spec_.layer,
                cp->size(), cp->name());
  VIADUCT_CHECK(ConfigError,
                bias_table() == nullptr || spec_.context_exchange == ContextExchange::all_gather,
                "attention of layer {} with a position bias of the scores over the {} ranks of {}: "
                "expected cp_comm_type all_gather, found {}",
                spec_.layer, cp->size(), cp->name(), choice_name(spec_.context_exchange));
  switch (spec_.context_exchange) {
    case ContextExchange::p2p:
      route.ring = cp;
      route.layout = batch.context->ring;
      break;
    case ContextExchange::all_gather:
      route.gather = cp;
      break;
    case ContextExchange::a2a:
      route.heads = cp;
      route.layout = batch.context->heads;
      if (spec_.chunked) take_chunks(batch, route.layout);
      break;
    case ContextExchange::a2a_p2p:
      route.heads = &groups.cp_inner();
      route.ring = &groups.cp_outer();
      route.layout = batch.context->levels;
      break;
  }
  return route;
}

bool CoreAttention::local(const Route& way) const {
  return way.gather == nullptr && (has_all_keys() || bias_table() != nullptr);
}

AttentionProblem CoreAttention::problem(const RankContext& context, const Batch& batch) const {
  AttentionProblem p;
  p.q_offsets = p.kv_offsets = batch.document_offsets;
  p.window = spec_.window;
  p.scale = spec_.scale;
  p.softcap = spec_.softcap;
  p.dropout = context.training ? spec_.dropout : 0;
  p.dropout_key = {context.settings.seed, dropout_hash_};
  p.first_head = spec_.first_head;
  p.query_index = batch.token_index;
  p.max_queries = p.max_keys = batch.max_document;
  p.causal = spec_.causal && !spec_.crosses;
  p.library = spec_.method.library;
  if (spec_.crosses) {
    const EncoderRows& from = encoder_rows(batch);
    p.q_offsets = from.q_offsets, p.kv_offsets = from.kv_offsets;
    p.max_queries = from.max_queries, p.max_keys = from.max_keys;
    p.visible_pairs = from.pairs;
  }
  if (!p.causal) return p;
  // The estimate from the longest document is exact where all have its length.
  const bool equal = batch.tokens() % std::max<int64_t>(1, batch.max_document) == 0 &&
                     batch.document_offsets.dim(0) - 1 ==
                         batch.tokens() / std::max<int64_t>(1, batch.max_document);
  if (!equal && p.window == 0 && batch.context == nullptr) p.visible_pairs = batch.causal_pairs;
  if (spec_.chunked && p.window == 0) p.visible_pairs = batch.chunks.causal_pairs;
  return p;
}

void CoreAttention::add_sinks(RankContext& context, const Tensor& out, const Tensor& lse,
                              int64_t first_head) const {
  if (!sinks_) return;
  const AcquiredWeight sinks(context.weights, *sinks_, WeightUse::elementwise);
  attention_sink(context.ops, {out, lse, sinks.tensor().slice(0, first_head, out.dim(1))});
}

void CoreAttention::add_sink_gradients(RankContext& context, const Tensor& lse, const Tensor& delta,
                                       int64_t first_head) const {
  if (!sinks_ || !sinks_->trained) return;
  const AcquiredWeight sinks(context.weights, *sinks_, WeightUse::elementwise);
  const Tensor gradient = context.gradients->gradient(*sinks_).tensor;  // [N], +=
  const int64_t heads = lse.dim(0);
  attention_sink_backward(context.ops, {lse, delta, sinks.tensor().slice(0, first_head, heads),
                                        gradient.slice(0, first_head, heads)});
  context.gradients->done(*sinks_);
}

Tensor CoreAttention::attend_cached(RankContext& context, const Batch& batch, const Tensor& q,
                                    const KeyValueCache::View& cached,
                                    const AttentionHeads& own) const {
  VIADUCT_CHECK(ConfigError, context.groups.cp().size() == 1,
                "generation with a context parallel size of {}: expected 1",
                context.groups.cp().size());
  AttentionProblem p = problem(context, batch);
  p.kv_offsets = cached.offsets;
  p.diagonal = cached.diagonal;
  p.max_keys = cached.max_keys;
  if (spec_.chunked) {
    p.q_offsets = cached.chunks.q_offsets;
    p.kv_offsets = cached.chunks.offsets;
    p.diagonal = cached.chunks.diagonal;
    p.max_keys = cached.chunks.max_keys;
  }
  // A score matrix has places for all rows of a sequence, those without a token too.
  if (!spec_.method.flash || bias_table() != nullptr)
    p.max_keys = cached.k.dim(0) / cached.diagonal.dim(0);
  AttentionResult result = attend_over(context, std::move(p), q, cached.k, cached.v);
  if (sees_ahead(batch)) {
    attend_ahead(context, spec_.method, problem(context, batch), batch.images.ahead, own, result);
  }
  return result.out;
}

Tensor CoreAttention::attend_kept(RankContext& context, const Batch& batch, const Tensor& q,
                                  const Tensor& k, const Tensor& v) const {
  return attend_over(context, problem(context, batch), q, k, v).out;
}

AttentionResult CoreAttention::attend_over(RankContext& context, AttentionProblem problem,
                                           const Tensor& q, const Tensor& k,
                                           const Tensor& v) const {
  AttentionForwardArgs args;
  args.problem = std::move(problem);
  args.q = q, args.k = k, args.v = v;
  args.out = context.activation({q.dim(0), q.dim(1), v.dim(2)});
  args.lse = context.statistic({spec_.heads, q.dim(0)});
  attend_biased(context, spec_.method, relative_, args);
  add_sinks(context, args.out, args.lse, 0);
  return {args.out, args.lse};
}

AttentionHeads CoreAttention::prepare(RankContext& context, const AttentionHeads& heads,
                                      const SavedStore& saved) const {
  // Cached keys and values are in the activation format.
  if (context.cache != nullptr || !attends_in_fp8(context, projection_.get())) return heads;
  return codes_of_heads(context, *projection_, heads, saved);
}

Operand CoreAttention::forward(RankContext& context, const Batch& batch,
                               const AttentionHeads& heads, SavedStore& saved) const {
  const auto rows = [](const Tensor& attended) {
    return attended.view({attended.dim(0), attended.dim(1) * attended.dim(2)});
  };
  // An encoder has nothing to keep: its rows are complete.
  if (context.cache != nullptr && spec_.causal) {
    const auto cached = context.cache->append(context.ops, spec_.layer, heads.k, heads.v);
    return rows(attend_cached(context, batch, heads.q, cached, heads));
  }
  const auto tensors = [](const HeadCodes& made) {
    return made.scale ? std::vector{made.values, made.scale} : std::vector{made.values};
  };
  const auto again = [](const CoreAttention& self, RankContext& rank, const Batch& tokens,
                        SavedStore& store, const std::vector<Tensor>& in) {
    const HeadCodes made = self.attend_all(rank, tokens, AttentionHeads::of(in), store);
    return made.scale ? std::vector{made.values, made.scale} : std::vector{made.values};
  };
  ReplayableUnit scope(saved, unit::core_attn, heads.tensors(), {*this, again});
  const HeadCodes attended = attend_all(context, batch, heads, saved);
  scope.made(tensors(attended));
  return attended.scale ? operand_of(context, attended) : Operand(rows(attended.values));
}

HeadCodes CoreAttention::attend_all(RankContext& context, const Batch& batch,
                                    const AttentionHeads& heads, SavedStore& saved) const {
  const Route way = route(context, batch);
  AttentionProblem base = problem(context, batch);
  base.scales = heads.scales;
  const bool hands_on = hands_on_fp8(context, projection_.get());
  AttentionMethod method = spec_.method;
  method.wide_output = hands_on;
  HeadCodes out;
  const auto hand_on = [&](const Tensor& values) {
    out.values = values;
    if (hands_on)
      out = codes_of(context, *projection_, LayerOperand::input, values, saved.tag(), saved);
  };
  const HeadExchange exchange(context.ops, *way.heads, way.layout);
  AttentionHeads mine = heads;
  AttentionResult result;
  if (local(way)) {
    result = local_forward(context, method, base, relative_, mine, saved);
    add_sinks(context, result.out, result.lse, 0);
    hand_on(result.out);
  } else if (way.gather != nullptr) {
    result = gathered_forward(context, *way.gather, *batch.context, method, base, mine, saved,
                              relative_);
    add_sinks(context, result.out, result.lse, 0);
    hand_on(result.out);
  } else {
    const auto exchanged = exchange.to_heads({heads.q, heads.k, heads.v}, saved.tag());
    mine = {exchanged[0], exchanged[1], exchanged[2], heads.scales};
    base.first_head += way.heads->rank() * mine.q.dim(1);
    result = ring_forward(context, *way.ring, way.layout, method, base, mine, saved);
    add_sinks(context, result.out, result.lse, way.heads->rank() * mine.q.dim(1));
    if (sees_ahead(batch)) attend_ahead(context, method, base, batch.images.ahead, mine, result);
    hand_on(result.out);
    out.values = exchange.to_tokens({out.values}, saved.tag()).front();
  }
  saved.keep(this, "q", mine.q);
  saved.keep(this, "k", mine.k);
  saved.keep(this, "v", mine.v);
  if (heads.scales) saved.keep(this, "scales", heads.scales);
  saved.keep(this, "out", out.values);
  if (out.scale) saved.keep(this, "out scale", out.scale);
  saved.keep_statistic(this, "lse", result.lse);
  return out;
}

AttendedGradient CoreAttention::begin_backward(RankContext& context, const Tensor& d_out,
                                               SavedStore& saved) const {
  AttendedGradient gradient{d_out, {}, {}};
  if (attends_in_fp8(context, projection_.get())) {
    const HeadCodes codes = codes_of(context, *projection_, LayerOperand::attended_gradient, d_out,
                                     MemoryTag::activations, saved);
    gradient.values = codes.values, gradient.scale = codes.scale;
  }
  gradient.delta = context.statistic({d_out.dim(1), d_out.dim(0)}, MemoryTag::activations);
  const Tensor out = saved.take(this, "out");
  const Tensor scale =
      hands_on_fp8(context, projection_.get()) ? saved.take(this, "out scale") : Tensor();
  attention_delta(context.ops, {out, gradient.values, gradient.delta, scale, gradient.scale});
  if (spec_.method.library && !gradient.scale) gradient.out = out;
  return gradient;
}

AttentionHeads CoreAttention::backward(RankContext& context, const Batch& batch,
                                       const AttendedGradient& d_out, SavedStore& saved) const {
  const Route way = route(context, batch);
  AttentionProblem base = problem(context, batch);
  const Tensor q = saved.take(this, "q"), k = saved.take(this, "k"), v = saved.take(this, "v"),
               lse = saved.take(this, "lse");
  if (d_out.scale) base.scales = saved.take(this, "scales");
  if (local(way)) {
    add_sink_gradients(context, lse, d_out.delta, 0);
    return local_backward(context, spec_.method, base, relative_, {q, k, v}, d_out, lse);
  }
  if (way.gather != nullptr) {
    add_sink_gradients(context, lse, d_out.delta, 0);
    return gathered_backward(context, *way.gather, *batch.context, spec_.method, base, {q, k, v},
                             d_out, lse, relative_);
  }
  const HeadExchange exchange(context.ops, *way.heads, way.layout);
  base.first_head += way.heads->rank() * q.dim(1);
  AttendedGradient d_heads{exchange.to_heads({d_out.values}).front(), d_out.scale,
                           exchange.per_query_to_heads(d_out.delta)};
  // The output is not exchanged once more for a library, whose backward needs it.
  if (way.heads->size() == 1) d_heads.out = d_out.out;
  add_sink_gradients(context, lse, d_heads.delta, way.heads->rank() * q.dim(1));
  const AttentionHeads d =
      ring_backward(context, *way.ring, way.layout, spec_.method, base, {q, k, v}, d_heads, lse);
  if (sees_ahead(batch))
    attend_ahead_backward(context, spec_.method, base, batch.images.ahead, {q, k, v}, d_heads, lse,
                          d);
  const auto mine = exchange.to_tokens({d.q, d.k, d.v}, MemoryTag::activations);
  return {mine[0], mine[1], mine[2]};
}

}  // namespace viaduct
