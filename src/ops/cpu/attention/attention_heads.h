#pragma once
// From the tensors of an attention problem to the arguments of its kernels for one head.

#include <cmath>

#include "ops/attention.h"
#include "ops/attention_fp8.h"
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
  if (problem.scales) {
    const float* scales = problem.scales.data<float>();
    head.scale *= scales[0] * scales[1];
    head.probability_steps = 1 / kProbabilityScale;
  }
  return head;
}

/// The factors of codes in the backward.
inline void set_code_factors(const AttentionBackwardArgs& args, AttentionHead& head) {
  const float* scales = args.problem.scales.data<float>();
  const float q = scales[0], k = scales[1], v = scales[2], d = args.d_out_scale.data<float>()[0];
  const auto scale = static_cast<float>(args.problem.scale);
  head.gradient_unit = score_gradient_scale(v, d, head.value_width, head.dropout_factor,
                                            args.d_out.dtype() == DType::e5m2 ? 57344.0f : 448.0f);
  head.d_scale = d * v;
  head.dq_factor = scale * k * head.gradient_unit;
  head.dk_factor = scale * q * head.gradient_unit;
  head.dv_factor = d * kProbabilityScale;
}

/// The same with the outputs of the forward.
inline AttentionHead forward_head(const AttentionForwardArgs& args, int64_t d, int64_t kv_head) {
  AttentionHead head = attention_head(args.problem, args.q, args.k, args.v, args.lse, d, kv_head);
  const auto* q_offsets = args.problem.q_offsets.data<int32_t>();
  head.out = const_cast<void*>(tensor_at(args.out, q_offsets[d], kv_head * head.group));
  head.out_token = args.out.stride(0);
  head.out_head = args.out.stride(1);
  head.out_dtype = args.out.dtype();
  if (args.problem.scales) head.out_factor = args.problem.scales.data<float>()[2];
  return head;
}

}  // namespace viaduct::cpu
