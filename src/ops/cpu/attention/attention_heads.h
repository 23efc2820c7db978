#pragma once
// From the tensors of an attention problem to the arguments of its kernels for one head.

#include <cmath>

#include "ops/attention.h"
#include "ops/cpu/attention/attention_kernels.h"

namespace viaduct::cpu {

/// Address of (token, head) of [T, N, …].
inline const void* tensor_at(const Tensor& x, int64_t token, int64_t head) {
  return static_cast<const char*>(x.raw()) +
         (token * x.stride(0) + head * x.stride(1)) * dtype_bytes(x.dtype());
}

/// The inputs of key-value head `kv_head` of document `d`.
inline AttentionHead attention_head(const AttentionProblem& problem, const Tensor& q,
                                    const Tensor& k, const Tensor& v, const Tensor& lse, int64_t d,
                                    int64_t kv_head) {
  const auto* q_offsets = problem.q_offsets.data<int32_t>();
  const auto* kv_offsets = problem.kv_offsets.data<int32_t>();
  AttentionHead head;
  head.dtype = q.dtype();
  head.queries = q_offsets[d + 1] - q_offsets[d];
  head.keys = kv_offsets[d + 1] - kv_offsets[d];
  head.group = q.dim(1) / k.dim(1);
  head.width = q.dim(2);
  head.value_width = v.dim(2);
  const int64_t token = q_offsets[d], first = kv_head * head.group;
  head.q = tensor_at(q, token, first);
  head.k = tensor_at(k, kv_offsets[d], kv_head);
  head.v = tensor_at(v, kv_offsets[d], kv_head);
  head.q_token = q.stride(0);
  head.q_head = q.stride(1);
  head.k_token = k.stride(0);
  head.v_token = v.stride(0);
  head.causal = problem.causal;
  head.window = problem.window;
  head.diagonal = problem.diagonal ? problem.diagonal.data<int32_t>()[d] : 0;
  head.scale = static_cast<float>(problem.scale);
  head.softcap = static_cast<float>(problem.softcap);
  if (problem.dropout > 0) {
    head.dropout = true;
    head.dropout_threshold = static_cast<int32_t>(std::ceil(problem.dropout * 0x1p23 - 0.5));
    head.dropout_factor = static_cast<float>(1 / (1 - problem.dropout));
    head.dropout_key = philox_key(problem.dropout_key);
    head.query_index = problem.query_index.data<int64_t>() + token;
    if (problem.key_position)
      head.key_position = problem.key_position.data<int32_t>() + kv_offsets[d];
    head.first_head = problem.first_head + first;
  }
  head.lse = lse.data<float>() + first * q.dim(0) + token;
  head.lse_head = q.dim(0);
  return head;
}

/// The same with the outputs of the forward.
inline AttentionHead forward_head(const AttentionForwardArgs& args, int64_t d, int64_t kv_head) {
  AttentionHead head = attention_head(args.problem, args.q, args.k, args.v, args.lse, d, kv_head);
  const auto* q_offsets = args.problem.q_offsets.data<int32_t>();
  head.out = const_cast<void*>(tensor_at(args.out, q_offsets[d], kv_head * head.group));
  head.out_token = args.out.stride(0);
  head.out_head = args.out.stride(1);
  return head;
}

}  // namespace viaduct::cpu
