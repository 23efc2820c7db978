// Part of attention_kernels.cpp: the backward over a run of keys, and delta.

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Scores and d_probabilities [keys][kRows] become probabilities (times dropout) and d_scores;
/// kCodes: the numbers of their codes, of probabilities before dropout.
template <bool kCodes>
inline void backward_block(const AttentionHead& head, const RowBlock& rows, const float* lse,
                           const float* delta, int64_t begin, int64_t count, float* scores,
                           float* gradients, const float* factors) {
  const bool capped = head.softcap > 0, masked = !rows.sees_all(begin, begin + count);
  const Vec cap = set1(head.softcap), inverse_cap = set1(capped ? 1.0f / head.softcap : 0.0f);
  const Borders borders(rows, begin, count);
  for (int64_t r = 0; r < rows.padded; r += kLanes) {
    const Vec lse_r = load(lse + r), delta_r = load(delta + r);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t at = j * kRows + r;
      Vec s = load(scores + at), slope = set1(1.0f);
      if (capped) {
        const SoftCapped at_cap = soft_capped(mul(s, inverse_cap));
        slope = at_cap.slope;
        s = mul(cap, at_cap.tanh);
      }
      Vec p = exp(sub(s, lse_r));
      if (masked) p = borders.choose(r, j, p, zero());
      const Vec d = load(gradients + at);
      const ScoreGradient gradient = factors != nullptr
                                         ? score_gradient(p, d, delta_r, load(factors + at))
                                         : score_gradient(p, d, delta_r);
      store(scores + at, kCodes ? p : gradient.used);
      store(gradients + at, capped ? mul(gradient.d, slope) : gradient.d);
    }
  }
  if constexpr (kCodes) {
    round_to_codes<E4m3>(scores, count, rows.padded, head.probability_steps);
    round_to_codes<E5m2>(gradients, count, rows.padded, 1 / head.gradient_unit);
    if (factors == nullptr) return;
    for (int64_t j = 0; j < count; ++j)
      for (int64_t r = j * kRows; r < j * kRows + rows.padded; ++r) scores[r] *= factors[r];
  }
}

/// Gradient: elements of d_out.
template <class T, class Gradient = T>
void backward_keys(const AttentionHead& head, int64_t first_key, int64_t end_key, float* scratch) {
  const int64_t width = head.width, value_width = head.value_width;
  float* q_t = scratch;                          // [D][kRows]
  float* d_out_t = q_t + kRows * width;          // [Dv][kRows]
  float* q = d_out_t + kRows * value_width;      // [kRows][D], times scale
  float* d_out = q + kRows * width;              // [kRows][Dv]
  float* dq = d_out + kRows * value_width;       // [D][kRows]
  float* keys = dq + kRows * width;              // [kKeys][D]
  float* values = keys + kKeys * width;          // [kKeys][Dv]
  float* scores = values + kKeys * value_width;  // [kKeys][kRows]
  float* gradients = scores + kKeys * kRows;     // [kKeys][kRows]
  float* factors = gradients + kKeys * kRows;    // [kKeys][kRows]
  float lse[kRows], delta[kRows];
  for (int64_t row = 0; row < head.rows(); row += kRows) {
    const RowBlock rows(head, row);
    const int64_t begin_key = larger_of(first_key, rows.begin() / kKeys * kKeys);
    const int64_t last_key = smaller(end_key, rows.end());
    if (begin_key >= last_key) continue;
    pack_rows<T>(head, rows, head.q, head.q_token, head.q_head, width, head.scale, q, true, q_t);
    pack_rows<Gradient>(head, rows, head.d_out, head.out_token, head.out_head, value_width,
                        head.d_scale, d_out, true, d_out_t);
    if constexpr (kIsCode<T>) {
      scale_lines(rows.count * width, head.dk_factor / head.scale, q);
      scale_lines(rows.count * value_width, head.dv_factor / head.d_scale, d_out);
    }
    for (int64_t r = 0; r < rows.padded; ++r) {
      // Rows without visible keys, and the padding, get probability e^−inf = 0.
      lse[r] = __builtin_inff();
      delta[r] = 0;
      if (r >= rows.count) continue;
      const int64_t at = rows.member(head, r) * head.lse_head + rows.query(head, r);
      if (head.lse[at] != -__builtin_inff()) {
        lse[r] = head.lse[at];
        delta[r] = head.delta[at];
      }
    }
    for (int64_t i = 0; i < kRows * width; ++i) dq[i] = 0;
    for (int64_t begin = begin_key; begin < last_key; begin += kKeys) {
      const int64_t count = smaller(kKeys, last_key - begin);
      widen_keys<T>(head.k, head.k_token, begin, count, width, keys);
      widen_keys<T>(head.v, head.v_token, begin, count, value_width, values);
      block_product<false>(count, rows.padded, width, keys, width, q_t, kRows, scores, kRows,
                           false);
      block_product<false>(count, rows.padded, value_width, values, value_width, d_out_t, kRows,
                           gradients, kRows, false);
      if (head.bias != nullptr) add_bias(head, rows, begin, count, scores);
      if (head.dropout) draw_dropout(head, rows, begin, count, factors);
      backward_block<kIsCode<T>>(head, rows, lse, delta, begin, count, scores, gradients,
                                 head.dropout ? factors : nullptr);
      if (head.d_bias != nullptr) add_bias_gradients(head, rows, begin, count, gradients);
      block_product<false>(count, value_width, rows.count, scores, kRows, d_out, value_width,
                           head.dv + begin * head.dv_token, head.dv_token, true);
      block_product<false>(count, width, rows.count, gradients, kRows, q, width,
                           head.dk + begin * head.dk_token, head.dk_token, true);
      block_product<true>(width, rows.padded, count, keys, width, gradients, kRows, dq, kRows,
                          true);
    }
    for (int64_t r = 0; r < rows.count; ++r) {
      float* to =
          head.dq + rows.query(head, r) * head.dq_token + rows.member(head, r) * head.dq_head;
      const float factor = kIsCode<T> ? head.dq_factor : head.scale;
      for (int64_t i = 0; i < width; ++i) to[i] += factor * dq[i * kRows + r];
    }
  }
}

template <class T>
void delta_tokens(const AttentionRows& rows, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t n = 0; n < rows.heads; ++n) {
      const T* a = static_cast<const T*>(rows.out) + t * rows.out_token + n * rows.out_head;
      const T* b = static_cast<const T*>(rows.other) + t * rows.other_token + n * rows.other_head;
      Vec total = zero();
      int64_t i = 0;
      for (; i + kLanes <= rows.width; i += kLanes) total = fma(load(a + i), load(b + i), total);
      if (i < rows.width) {
        const Mask k = first(rows.width - i);
        total = fma(load(a + i, k), load(b + i, k), total);
      }
      rows.per_query[n * rows.tokens + t] = sum(total);
    }
  }
}

/// `count` elements of any format at `from` + `offset`, as FP32.
inline void widen_as(DType dtype, const void* from, int64_t offset, int64_t count, float* to) {
  switch (dtype) {
    case DType::bf16:
      return widen(static_cast<const bfloat16*>(from) + offset, 1.0f, count, to);
    case DType::f16:
      return widen(static_cast<const float16*>(from) + offset, 1.0f, count, to);
    case DType::e4m3:
      return widen(static_cast<const E4m3*>(from) + offset, 1.0f, count, to);
    case DType::e5m2:
      return widen(static_cast<const E5m2*>(from) + offset, 1.0f, count, to);
    default:
      return widen(static_cast<const float*>(from) + offset, 1.0f, count, to);
  }
}

/// The same with codes instead of one of them, or of both.
void delta_of_codes(const AttentionRows& rows, int64_t begin, int64_t end) {
  constexpr int64_t kPiece = 64;
  alignas(64) float a[kPiece], b[kPiece];
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t n = 0; n < rows.heads; ++n) {
      Vec total = zero();
      for (int64_t i = 0; i < rows.width; i += kPiece) {
        const int64_t count = smaller(kPiece, rows.width - i);
        for (int64_t j = count; j < kPiece; ++j) a[j] = b[j] = 0;
        widen_as(rows.dtype, rows.out, t * rows.out_token + n * rows.out_head + i, count, a);
        widen_as(rows.other_dtype, rows.other, t * rows.other_token + n * rows.other_head + i,
                 count, b);
        for (int64_t j = 0; j < kPiece; j += kLanes) total = fma(load(a + j), load(b + j), total);
      }
      rows.per_query[n * rows.tokens + t] = rows.factor * sum(total);
    }
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
