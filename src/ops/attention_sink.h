#pragma once
// Attention sinks: the softmax of each head has one more logit, which belongs to no key and has no
// value (OpenAI 2025, gpt-oss model card, section 2.2; Xiao et al. 2023, arXiv 2309.17453). The
// result of attention without a sink (ops/attention.h) is corrected afterwards, however it was
// computed: in blocks, over a ring, or composed of ops.

#include "ops/dispatch.h"

namespace viaduct {

/// For head n and query t:
///   lse'[n, t] = log(e^lse[n, t] + e^sink[n]),   out'[t, n] = out[t, n] · e^(lse[n, t] − lse'[n,
///   t])
/// A query without visible keys (lse = −inf) keeps out = 0. FP32 arithmetic (FP64 for f64).
struct AttentionSinkArgs {
  Tensor out;   // [Tq, N, Dv], outer dims strided, floating; changed
  Tensor lse;   // f32 [N, Tq] (f64 for f64), contiguous; changed
  Tensor sink;  // [N], contiguous, floating; f64 for f64
};
void attention_sink(OpContext& context, const AttentionSinkArgs& args);

/// d_sink[n] += −Σ_t e^(sink[n] − lse'[n, t]) · delta[n, t], with delta of attention_delta over the
/// corrected output. The sum over t is made in FP64, in the order of t.
struct AttentionSinkBackwardArgs {
  Tensor lse, delta;  // f32 [N, Tq] (f64 for f64), contiguous; lse is the corrected one
  Tensor sink;        // [N], contiguous, floating; f64 for f64
  Tensor d_sink;      // f32 [N] (f64 for f64), contiguous; +=
};
void attention_sink_backward(OpContext& context, const AttentionSinkBackwardArgs& args);

}  // namespace viaduct
