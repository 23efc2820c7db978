#pragma once
// The launch of attention's backward, for all kernels: how it is cut into tasks, the arguments of a
// head, and the sum of the parts of dq.

#include "ops/cpu/attention/attention_bias.h"
#include "ops/cpu/attention/attention_heads.h"
#include "ops/cpu/attention/attention_launch.h"

namespace viaduct::cpu {

/// Keys that kernels of the backward take at a time: tasks begin at multiples of it.
inline constexpr int64_t kBackwardKeys = 64;

/// How the backward is cut: the keys of a document go to `chunks` tasks per key-value head, each
/// with its own part of dq, so that few heads still use all threads. Depends on shapes alone.
struct BackwardCut {
  int64_t chunks, slots, queries, row;  // row: elements of dq of a query
  int64_t tasks;
  int64_t bias_floats, bias_sums;  // of the scores' bias and, for each task, of its gradient
  bool trimmed;

  explicit BackwardCut(const AttentionBackwardArgs& args)
      : queries(args.q.dim(0)),
        row(args.q.dim(1) * args.q.dim(2)),
        bias_floats(HeadBiases::floats(args.problem)),
        bias_sums(args.d_bias ? bias_distances(args.problem.relative) : 0) {
    const int64_t heads = std::max<int64_t>(1, attention_documents(args.problem) * args.k.dim(1));
    chunks = std::clamp<int64_t>(16 / heads, 1, 4);
    if (args.problem.max_keys > 0) chunks = std::min(chunks, (args.problem.max_keys + 255) / 256);
    tasks = attention_documents(args.problem) * args.k.dim(1) * chunks;
    slots = std::min(kAttentionSlots, heads * chunks);
    trimmed = args.problem.causal && !args.problem.diagonal &&
              attention_documents(args.problem) == 1 && queries == args.k.dim(0);
  }

  /// Keys of a chunk, in a document of this many.
  int64_t keys_of_chunk(int64_t keys) const {
    return round_up_to((keys + chunks - 1) / chunks, kBackwardKeys);
  }
  /// The first query that sees a key of the chunk, in a single document whose query i sees the keys
  /// up to i; rounded down to whole blocks of the kernels. Its part of dq begins there. 0 where it
  /// does not follow from shapes.
  int64_t first_query(int64_t chunk) const {
    constexpr int64_t kBlock = 128;
    return trimmed ? std::min(queries, chunk * keys_of_chunk(queries)) / kBlock * kBlock : 0;
  }
  /// Where the part of dq of a chunk after the first begins among the parts; of `chunks`: the end.
  int64_t part_begin(int64_t chunk) const {
    int64_t begin = 0;
    for (int64_t c = 1; c < chunk; ++c) begin += round_up_to((queries - first_query(c)) * row, 16);
    return begin;
  }

  /// Bytes of workspace with `scratch_floats` for each slot.
  int64_t bytes(int64_t scratch_floats) const {
    return (slots * scratch_floats + part_begin(chunks) + bias_floats) * 4 + tasks * bias_sums * 8;
  }
};

/// Key-value head `kv_head` of document d, whose dq goes to `dq` (as args.dq).
inline AttentionHead backward_head(const AttentionBackwardArgs& args, int64_t d, int64_t kv_head,
                                   float* dq) {
  const int64_t kv_heads = args.k.dim(1), group = args.q.dim(1) / kv_heads;
  const int64_t token = args.problem.q_offsets.data<int32_t>()[d];
  const int64_t key = args.problem.kv_offsets.data<int32_t>()[d];
  AttentionHead head = attention_head(args.problem, args.q, args.k, args.v, args.lse, d, kv_head);
  head.d_out = tensor_at(args.d_out, token, kv_head * group);
  head.out_token = args.d_out.stride(0);
  head.out_head = args.d_out.stride(1);
  head.delta = args.delta.data<float>() + kv_head * group * args.q.dim(0) + token;
  head.dq_token = args.q.dim(1) * head.width;
  head.dq_head = head.width;
  head.dk_token = kv_heads * head.width;
  head.dv_token = kv_heads * head.value_width;
  head.dq = dq + token * head.dq_token + kv_head * group * head.width;
  head.dk = args.dk.data<float>() + key * head.dk_token + kv_head * head.width;
  head.dv = args.dv.data<float>() + key * head.dv_token + kv_head * head.value_width;
  head.out_dtype = args.d_out.dtype();
  if (args.problem.scales) set_code_factors(args, head);
  return head;
}

/// Adds the parts of dq of the chunks after the first, in their order.
inline void add_dq_parts(ThreadPool& pool, const AttentionBackwardArgs& args,
                         const BackwardCut& cut, const float* parts) {
  if (cut.chunks == 1) return;
  const int64_t rows = std::max<int64_t>(1, 16384 / cut.row);
  pool.run((cut.queries + rows - 1) / rows, [&](int64_t run, int) {
    for (int64_t q = run * rows, end = std::min(cut.queries, q + rows); q < end; ++q) {
      const float* part[4] = {};  // null: no key of the chunk is seen
      for (int64_t c = 1; c < cut.chunks; ++c) {
        const int64_t first = cut.first_query(c);
        if (q >= first) part[c] = parts + cut.part_begin(c) + (q - first) * cut.row;
      }
      float* dq = args.dq.data<float>() + q * cut.row;
      for (int64_t i = 0; i < cut.row; ++i) {
        float sum = part[1] != nullptr ? part[1][i] : 0.0f;
        for (int64_t c = 2; c < cut.chunks; ++c) sum += part[c] != nullptr ? part[c][i] : 0.0f;
        dq[i] += sum;
      }
    }
  });
}

/// Adds the sums of every task, in order, to the gradient of the bias.
inline void add_bias_sums(ThreadPool& pool, const AttentionBackwardArgs& args,
                          const BackwardCut& cut, double* sums) {
  if (!args.d_bias || cut.tasks == 0) return;
  const int64_t of_head = cut.chunks * cut.bias_sums, heads = args.k.dim(1);
  pool.run(heads, [&](int64_t n, int) {
    double* total = sums + n * of_head;
    for (int64_t d = 0; d < attention_documents(args.problem); ++d) {
      for (int64_t chunk = d == 0 ? 1 : 0; chunk < cut.chunks; ++chunk) {
        const double* part = sums + (d * heads + n) * of_head + chunk * cut.bias_sums;
        for (int64_t at = 0; at < cut.bias_sums; ++at) total[at] += part[at];
      }
    }
    add_bias_gradient(args.problem.relative, total, n, args.d_bias);
  });
}

/// Calls f(head, d, kv_head, first, end, scratch) for the keys [first, end) of every task, then
/// adds up dq and the gradient of a bias. `workspace`: cut.bytes(scratch_floats), aligned as the
/// scratch has to be.
template <class F>
void run_attention_backward(ThreadPool& pool, const AttentionBackwardArgs& args,
                            const BackwardCut& cut, int64_t scratch_floats, void* workspace,
                            F&& f) {
  const int64_t kv_heads = args.k.dim(1);
  float* parts = static_cast<float*>(workspace) + cut.slots * scratch_floats;
  float* bias = parts + cut.part_begin(cut.chunks);
  auto* sums = reinterpret_cast<double*>(bias + cut.bias_floats);
  std::fill_n(sums, cut.tasks * cut.bias_sums, 0.0);
  const HeadBiases biases(pool, args.problem, bias);
  run_on_attention_slots(
      pool, cut.tasks, cut.slots, scratch_floats, workspace, [&](int64_t task, float* scratch) {
        const int64_t chunk = task % cut.chunks, kv_head = task / cut.chunks % kv_heads;
        const int64_t d = task / cut.chunks / kv_heads;
        // Kernels count queries from 0; before the first one of its part they write nothing.
        const int64_t first_query = chunk == 0 ? 0 : cut.first_query(chunk);
        float* dq = chunk == 0 ? args.dq.data<float>()
                               : parts + (cut.part_begin(chunk) - first_query * cut.row);
        AttentionHead head = backward_head(args, d, kv_head, dq);
        biases.give(head, kv_head);
        if (args.d_bias) head.d_bias = sums + task * cut.bias_sums;
        if (chunk > 0) {
          for (int64_t i = first_query; i < head.queries; ++i)
            std::fill_n(head.dq + i * head.dq_token, head.group * head.width, 0.0f);
        }
        const int64_t step = cut.keys_of_chunk(head.keys);
        const int64_t first = chunk * step, end = std::min(head.keys, first + step);
        if (first < end) f(head, d, kv_head, first, end, scratch);
      });
  add_dq_parts(pool, args, cut, parts);
  add_bias_sums(pool, args, cut, sums);
}

}  // namespace viaduct::cpu
