#include "nn/context_parallel/ring_attention.h"

#include "base/error.h"
#include "comm/comm_group.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// The problem of the queries of rank `me` against the keys and values of ring rank `source`.
AttentionProblem block_problem(const AttentionProblem& base, const AttentionLayout& layout, int me,
                               int source) {
  AttentionProblem p = base;
  p.q_offsets = p.kv_offsets = layout.offsets;
  p.query_index = layout.query_index;
  if (layout.key_position) p.key_position = layout.key_position.select(source);
  p.max_queries = p.max_keys = layout.max_document;
  if (source == me) return p;
  p.causal = false;
  p.visible_pairs = layout.half_pairs;
  if (source < me) {
    p.q_offsets = layout.all_none, p.kv_offsets = layout.halves;
    p.max_keys /= 2;
  } else {
    p.q_offsets = layout.halves, p.kv_offsets = layout.none_all;
    p.max_queries /= 2;
  }
  return p;
}

/// The ring of key-value blocks. `k()` and `v()` are the current block; `start_next` starts to send
/// it and to receive the next, `finish_next` makes the received one current.
class KeyValueRing {
 public:
  KeyValueRing(RankContext& context, Communicator& ring, const AttentionHeads& heads)
      : context_(context), ring_(ring), k_(heads.k), v_(heads.v), source_(ring.rank()) {
    if (ring.size() == 1) return;
    // One message per step: keys and values of a token side by side.
    hold(allocate());
    copy(context.ops, {heads.k, k_});
    copy(context.ops, {heads.v, v_});
  }

  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }
  /// The rank whose tokens are in the current block.
  int source() const { return source_; }
  int next() const { return (ring_.rank() + 1) % ring_.size(); }
  int previous() const { return (ring_.rank() + ring_.size() - 1) % ring_.size(); }

  void start_next() {
    arriving_ = allocate();
    CommGroup messages(ring_);
    messages.send(block_, next(), Flow::activations);
    messages.receive(arriving_, previous(), Flow::activations);
    moving_ = messages.start();
  }
  void finish_next() {
    moving_.wait();
    hold(arriving_);
    source_ = (source_ + ring_.size() - 1) % ring_.size();
  }

 private:
  Tensor allocate() {
    return context_.ops.allocate(k_.dtype(), {k_.dim(0), k_.dim(1) * (k_.dim(2) + v_.dim(2))},
                                 MemoryTag::activations);
  }
  void hold(const Tensor& block) {
    const Shape keys = k_.shape(), values = v_.shape();
    const int64_t key_width = keys[1] * keys[2];
    block_ = block;
    k_ = block.slice(1, 0, key_width).view(keys);
    v_ = block.slice(1, key_width, values[1] * values[2]).view(values);
  }

  RankContext& context_;
  Communicator& ring_;
  Tensor block_, arriving_;  // [I, K (D + Dv)]
  Tensor k_, v_;             // [I, K, D], [I, K, Dv]
  int source_;
  CommHandle moving_;
};

void check_window(const AttentionProblem& base, const Communicator& ring) {
  VIADUCT_CHECK(ConfigError, base.window == 0 || ring.size() == 1,
                "attention over the ring {} of {} ranks: a sliding window of {} needs cp_comm_type "
                "all_gather or a2a",
                ring.name(), ring.size(), base.window);
}

}  // namespace

Tensor allocate_attended(RankContext& context, const AttentionMethod& method, const Shape& shape,
                         MemoryTag tag) {
  return method.wide_output ? context.statistic(shape, MemoryTag::activations)
                            : context.activation(shape, tag);
}

AttentionResult ring_forward(RankContext& context, Communicator& ring,
                             const AttentionLayout& layout, const AttentionMethod& method,
                             const AttentionProblem& base, const AttentionHeads& heads,
                             const SavedStore& saved) {
  check_window(base, ring);
  // out [I, N, Dv], lse [N, I]
  const Shape shape{heads.q.dim(0), heads.q.dim(1), heads.v.dim(2)},
      per_query{heads.q.dim(1), heads.q.dim(0)};
  KeyValueRing blocks(context, ring, heads);
  AttentionResult whole;
  Tensor sum;  // running sum of outputs, not rounded to a 16-bit format in between
  for (int step = 0; step < ring.size(); ++step) {
    const bool more = step + 1 < ring.size();
    if (more) blocks.start_next();
    AttentionForwardArgs args;
    args.problem = block_problem(base, layout, ring.rank(), blocks.source());
    args.q = heads.q, args.k = blocks.k(), args.v = blocks.v();
    args.out =
        allocate_attended(context, method, shape, step == 0 ? saved.tag() : MemoryTag::activations);
    args.lse =
        context.statistic(per_query, step == 0 ? saved.statistic_tag() : MemoryTag::activations);
    attend(context.ops, method, args);
    if (step == 0) {
      whole = {args.out, args.lse};
      sum = args.out;
      if (more && args.lse.dtype() != sum.dtype()) {
        sum = context.statistic(shape, MemoryTag::activations);
        copy(context.ops, {args.out, sum});
      }
    } else {
      attention_merge(context.ops, {sum, whole.lse, args.out, args.lse});
    }
    if (more) blocks.finish_next();
  }
  if (sum.storage() != whole.out.storage()) copy(context.ops, {sum, whole.out});
  return whole;
}

AttentionHeads ring_backward(RankContext& context, Communicator& ring,
                             const AttentionLayout& layout, const AttentionMethod& method,
                             const AttentionProblem& base, const AttentionHeads& heads,
                             const AttendedGradient& d_out, const Tensor& lse) {
  check_window(base, ring);
  const auto statistic = [&](const Shape& shape) {
    return context.statistic(shape, MemoryTag::activations);
  };
  const int64_t keys = heads.k.elements(), values = heads.v.elements();
  const auto dk_of = [&](const Tensor& both) {
    return both.slice(0, 0, keys).view(heads.k.shape());
  };
  const auto dv_of = [&](const Tensor& both) {
    return both.slice(0, keys, values).view(heads.v.shape());
  };
  KeyValueRing blocks(context, ring, heads);
  AttentionBackwardArgs args;
  args.q = heads.q, args.lse = lse;
  args.d_out = d_out.values, args.d_out_scale = d_out.scale, args.delta = d_out.delta;
  args.out = d_out.out;
  args.dq = statistic(heads.q.shape());  // [I, N, D], += per block
  fill(context.ops, {args.dq, 0});
  Tensor mine, arriving, leaving;  // dk [I, K, D] and dv [I, K, Dv] of a block, one after the other
  CommHandle moving;
  for (int step = 0; step < ring.size(); ++step) {
    const bool more = step + 1 < ring.size();
    if (more) blocks.start_next();
    mine = statistic({keys + values});
    fill(context.ops, {mine, 0});
    args.problem = block_problem(base, layout, ring.rank(), blocks.source());
    args.k = blocks.k(), args.v = blocks.v();
    args.dk = dk_of(mine), args.dv = dv_of(mine);
    attend_backward(context.ops, method, args);
    moving.wait();  // the sum of earlier ranks' parts for this block
    if (step > 0) add(context.ops, {mine, arriving, mine});
    if (ring.size() > 1) {
      leaving = mine;
      arriving = statistic({keys + values});
      CommGroup messages(ring);
      messages.send(leaving, blocks.next(), Flow::gradients);
      messages.receive(arriving, blocks.previous(), Flow::gradients);
      moving = messages.start();
    }
    if (more) blocks.finish_next();
  }
  moving.wait();
  const Tensor gradients = ring.size() > 1 ? arriving : mine;
  return {args.dq, dk_of(gradients), dv_of(gradients)};
}

}  // namespace viaduct
