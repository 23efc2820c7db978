// Part of attention_kernels.cpp: the forward over one block of rows, and the merge of two outputs.

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Running softmax of a block of rows.
struct Running {
  float largest[kRows], total[kRows], shrink[kRows];
};

/// Turns scores [keys][kRows] into exp(score − largest so far) and updates the running softmax:
/// earlier exponentials must be multiplied by `shrink`. Returns whether one of these is not 1.
/// kCodes: exponentials are relative to a power of two, and become the numbers of codes.
template <bool kCodes>
inline bool softmax_block(const AttentionHead& head, const RowBlock& rows, int64_t begin,
                          int64_t count, float* scores, Running& running) {
  const Vec hidden = set1(-__builtin_inff());
  const bool capped = head.softcap > 0, masked = !rows.sees_all(begin, begin + count);
  const Vec cap = set1(head.softcap), inverse_cap = set1(capped ? 1.0f / head.softcap : 0.0f);
  const Borders borders(rows, begin, count);
  for (int64_t r = 0; r < rows.padded; r += kLanes) {
    const Vec before = load(running.largest + r);
    Vec most = before;
    for (int64_t j = 0; j < count; ++j) {
      Vec s = load(scores + j * kRows + r);
      if (capped) s = mul(cap, tanh(mul(s, inverse_cap)));
      if (masked) s = borders.choose(r, j, s, hidden);
      if (capped || masked) store(scores + j * kRows + r, s);
      most = maximum(most, s);
    }
    // While a row has seen no key, exponentials are relative to a finite number: e^−inf = 0.
    const Vec base = maximum(set1(-3.0e38f), kCodes ? powers_above(most) : most);
    Vec total = zero();
    for (int64_t j = 0; j < count; ++j) {
      const Vec p = exp(sub(load(scores + j * kRows + r), base));
      store(scores + j * kRows + r, p);
      total = add(total, p);
    }
    if constexpr (kCodes) {
      total = zero();
      round_to_codes<E4m3>(scores + r, count, kLanes, head.probability_steps);
      for (int64_t j = 0; j < count; ++j) total = add(total, load(scores + j * kRows + r));
    }
    const Vec shrink = exp(sub(kCodes ? powers_above(before) : before, base));
    store(running.total + r, fma(load(running.total + r), shrink, total));
    store(running.largest + r, most);
    store(running.shrink + r, shrink);
  }
  bool changed = false;
  for (int64_t r = 0; r < rows.padded; ++r) changed |= running.shrink[r] != 1.0f;
  return changed;
}

inline void narrow_as(DType dtype, const float* from, int64_t size, void* to, int64_t offset) {
  if (dtype == DType::bf16) return narrow(from, size, static_cast<bfloat16*>(to) + offset);
  if (dtype == DType::f16) return narrow(from, size, static_cast<float16*>(to) + offset);
  narrow(from, size, static_cast<float*>(to) + offset);
}

template <class T>
void forward_rows(const AttentionHead& head, int64_t row, float* scratch) {
  const RowBlock rows(head, row);
  const int64_t width = head.width, value_width = head.value_width;
  float* q = scratch;                            // [D][kRows]
  float* out = q + kRows * width;                // [Dv][kRows]
  float* keys = out + kRows * value_width;       // [kKeys][D]
  float* values = keys + kKeys * width;          // [kKeys][Dv]
  float* scores = values + kKeys * value_width;  // [kKeys][kRows]
  float* line = scores + kKeys * kRows;          // one row of q or out
  pack_rows<T>(head, rows, head.q, head.q_token, head.q_head, width, head.scale, line, false, q);
  for (int64_t i = 0; i < kRows * value_width; ++i) out[i] = 0;
  Running running;
  for (int64_t r = 0; r < kRows; ++r) {
    running.largest[r] = -__builtin_inff();
    running.total[r] = 0;
  }
  alignas(64) float factors[kKeys * kRows];
  for (int64_t begin = rows.begin() / kKeys * kKeys; begin < rows.end(); begin += kKeys) {
    const int64_t count = smaller(kKeys, rows.end() - begin);
    widen_keys<T>(head.k, head.k_token, begin, count, width, keys);
    widen_keys<T>(head.v, head.v_token, begin, count, value_width, values);
    block_product<false>(count, rows.padded, width, keys, width, q, kRows, scores, kRows, false);
    if (head.bias != nullptr) add_bias(head, rows, begin, count, scores);
    if (softmax_block<kIsCode<T>>(head, rows, begin, count, scores, running)) {
      for (int64_t i = 0; i < value_width; ++i) {
        for (int64_t r = 0; r < rows.padded; r += kLanes) {
          float* o = out + i * kRows + r;
          store(o, mul(load(o), load(running.shrink + r)));
        }
      }
    }
    if (head.dropout) {
      draw_dropout(head, rows, begin, count, factors);
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t r = 0; r < rows.padded; r += kLanes) {
          float* s = scores + j * kRows + r;
          store(s, mul(load(s), load(factors + j * kRows + r)));
        }
      }
    }
    block_product<true>(value_width, rows.padded, count, values, value_width, scores, kRows, out,
                        kRows, true);
  }
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t query = rows.query(head, r), member = rows.member(head, r);
    const float total = running.total[r];
    // Not "total > 0": a NaN must propagate.
    const float inverse = total == 0 ? 0.0f : head.out_factor / total;
    for (int64_t i = 0; i < value_width; ++i) line[i] = out[i * kRows + r] * inverse;
    const int64_t to = query * head.out_token + member * head.out_head;
    if constexpr (kIsCode<T>) {
      narrow_as(head.out_dtype, line, value_width, head.out, to);
    } else {
      narrow(line, value_width, static_cast<T*>(head.out) + to);
    }
    float& lse = head.lse[member * head.lse_head + query];
    if (total == 0) {
      lse = -__builtin_inff();
    } else if constexpr (kIsCode<T>) {
      lse = power_above(running.largest[r]) + ::logf(total / head.probability_steps);
    } else {
      lse = running.largest[r] + ::logf(total);
    }
  }
}

template <class T, class Other>
void merge_tokens(const AttentionRows& rows, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t n = 0; n < rows.heads; ++n) {
      float& lse = rows.per_query[n * rows.tokens + t];
      const float other = rows.other_lse[n * rows.tokens + t];
      const float largest = lse < other ? other : lse;
      if (largest == -__builtin_inff()) continue;
      const float a = ::expf(lse - largest), b = ::expf(other - largest);
      const Vec keep = set1(a / (a + b)), take = set1(b / (a + b));
      T* out = static_cast<T*>(rows.out) + t * rows.out_token + n * rows.out_head;
      const Other* add_out =
          static_cast<const Other*>(rows.other) + t * rows.other_token + n * rows.other_head;
      int64_t i = 0;
      for (; i + kLanes <= rows.width; i += kLanes) {
        store(out + i, fma(load(add_out + i), take, mul(load(out + i), keep)));
      }
      if (i < rows.width) {
        const Mask k = first(rows.width - i);
        store(out + i, fma(load(add_out + i, k), take, mul(load(out + i, k), keep)), k);
      }
      lse = largest + ::logf(a + b);
    }
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
