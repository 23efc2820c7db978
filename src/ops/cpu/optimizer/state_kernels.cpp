// instruction sets: portable avx2 avx512
// Kernels of optimizer state, compiled per instruction set. Conversions of codes are plain loops
// without branches, which the compiler turns into vectors.

#include "ops/cpu/optimizer/state_kernels.h"
#include "ops/cpu/simd/simd_float8.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr int64_t kGroup = 64;  // kStateGroup

void expand_scaled_f16(const StateRun& run, int64_t begin, int64_t count, float* out) {
  const auto* from = static_cast<const float16*>(run.values) + begin;
  const float* scales = run.scales + begin / kGroup;
  for (int64_t at = 0; at < count; at += kGroup) {
    const Vec scale = set1(scales[at / kGroup]);
    const int64_t n = count - at < kGroup ? count - at : kGroup;
    for_row(n, [&](int64_t i, auto... mask) {
      store(out + at + i, mul(load(from + at + i, mask...), scale), mask...);
    });
  }
}

void expand_run(const StateRun& run, int64_t begin, int64_t count, float* out) {
  if (run.dtype == DType::f16) return expand_scaled_f16(run, begin, count, out);
  if (run.dtype == DType::e4m3) {
    const auto* from = static_cast<const uint8_t*>(run.values) + begin;
    for (int64_t at = 0; at < count; at += kGroup) {
      const float scale = run.scales[(begin + at) / kGroup];
      const int64_t end = count - at < kGroup ? count : at + kGroup;
      for (int64_t i = at; i < end; ++i) out[i] = decode_e4m3(from[i]) * scale;
    }
    return;
  }
  if (run.dtype == DType::i16) {
    const auto* low = static_cast<const int16_t*>(run.values) + begin;
    const uint16_t* high = run.weights + begin;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t rounded_up = low[i] < 0 ? 0x10000u : 0u;
      out[i] =
          float_of_bits(((uint32_t{high[i]} << 16) - rounded_up) | static_cast<uint16_t>(low[i]));
    }
    return;
  }
  const auto* from = static_cast<const bfloat16*>(run.values) + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = float_of_bits(uint32_t{from[i].bits} << 16);
}

/// The bits of the largest magnitude; those of infinities and NaNs are the largest.
float largest_magnitude(const float* in, int64_t count) {
  int32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<int32_t>(bits_of_float(in[i]) & 0x7fffffffu);
    most = bits > most ? bits : most;
  }
  return float_of_bits(static_cast<uint32_t>(most));
}

/// Codes of zero become 1 where the value is positive.
template <class Code>
void lift_zeros(Code* codes, int64_t count, const float* in) {
  for (int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<Code>(codes[i] | (in[i] > 0 && codes[i] == 0 ? 1 : 0));
}

void store_group(const StateRun& run, int64_t begin, int64_t count, const float* in,
                 float inverse) {
  if (run.dtype == DType::e4m3) {
    auto* to = static_cast<uint8_t*>(run.values) + begin;
    for (int64_t i = 0; i < count; ++i) to[i] = encode_e4m3(in[i] * inverse);
    if (run.lifts_zeros) lift_zeros(to, count, in);
    return;
  }
  auto* to = static_cast<float16*>(run.values) + begin;
  const Vec factor = set1(inverse);
  for_row(count, [&](int64_t i, auto... mask) {
    store(to + i, mul(load(in + i, mask...), factor), mask...);
  });
  if (run.lifts_zeros) lift_zeros(static_cast<uint16_t*>(run.values) + begin, count, in);
}

template <class T>
void store_plain(const StateRun& run, int64_t begin, int64_t count, const float* in) {
  auto* to = static_cast<T*>(run.values) + begin;
  for_row(count, [&](int64_t i, auto... mask) { store(to + i, load(in + i, mask...), mask...); });
}

void store_run(const StateRun& run, int64_t begin, int64_t count, const float* in,
               float (*scale_of)(float largest)) {
  if (run.dtype == DType::i16) {
    auto* low = static_cast<int16_t*>(run.values) + begin;
    uint16_t* high = run.weights + begin;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = bits_of_float(in[i]);
      low[i] = static_cast<int16_t>(bits & 0xffffu);
      high[i] = static_cast<uint16_t>((bits >> 16) + (bits >> 15 & 1u));
    }
    return;
  }
  if (run.dtype == DType::bf16) return store_plain<bfloat16>(run, begin, count, in);
  if (run.dtype == DType::f32) return store_plain<float>(run, begin, count, in);
  if (run.scales == nullptr) return store_plain<float16>(run, begin, count, in);
  for (int64_t at = 0; at < count; at += kGroup) {
    const int64_t n = count - at < kGroup ? count - at : kGroup;
    const float scale = scale_of(largest_magnitude(in + at, n));
    run.scales[(begin + at) / kGroup] = scale;
    store_group(run, begin + at, n, in + at, scale == 0 ? 0 : 1 / scale);
  }
}

template <class W>
void momentum_run(const MomentumRun& run, int64_t begin, int64_t end) {
  const Vec clip = set1(run.clip), lr = set1(run.lr), decay = set1(run.decay);
  const Vec momentum = set1(run.momentum), none = zero();
  const Vec beta1 = set1(run.beta1), rest1 = set1(run.one_minus_beta1);
  const Vec beta2 = set1(run.beta2), rest2 = set1(run.one_minus_beta2);
  W* weight = static_cast<W*>(run.weight);
  for_row(end - begin, [&](int64_t at, auto... mask) {
    const int64_t i = begin + at;
    Vec p = load(run.master + i, mask...), m = load(run.state + i, mask...);
    const Vec g = mul(load(run.gradient + i, mask...), clip);
    if (run.lion) {
      const Vec u = fma(beta1, m, mul(rest1, g));
      // lr with the sign of u, and nothing where u is 0.
      const Vec step = select(less(none, absolute(u)), copy_sign(lr, u), none);
      p = sub(fnma(decay, p, p), step);
      m = fma(beta2, m, mul(rest2, g));
    } else {
      m = fma(momentum, m, fma(decay, p, g));
      p = fnma(lr, m, p);
    }
    store(run.master + i, p, mask...);
    store(run.state + i, m, mask...);
    if (weight != nullptr) store(weight + i, p, mask...);
  });
}

void momentum(const MomentumRun& run, int64_t begin, int64_t end) {
  switch (run.weight_dtype) {
    case DType::bf16:
      return momentum_run<bfloat16>(run, begin, end);
    case DType::f16:
      return momentum_run<float16>(run, begin, end);
    default:
      return momentum_run<float>(run, begin, end);
  }
}

void muon_momentum(const MuonMomentumRun& run, int64_t begin, int64_t end) {
  const Vec clip = set1(run.clip), keep = set1(run.momentum), take = set1(run.one_minus_momentum);
  for_row(end - begin, [&](int64_t at, auto... mask) {
    const int64_t i = begin + at;
    const Vec g = mul(load(run.gradient + i, mask...), clip);
    const Vec m = fma(keep, load(run.state + i, mask...), mul(take, g));
    store(run.state + i, m, mask...);
    store(run.out + i, run.nesterov ? fma(keep, m, mul(take, g)) : m, mask...);
  });
}

template <class W>
void muon_update_run(const MuonUpdateRun& run, int64_t begin, int64_t end) {
  const Vec lr = set1(run.lr), decay = set1(run.decay);
  W* weight = static_cast<W*>(run.weight);
  for_row(end - begin, [&](int64_t at, auto... mask) {
    const int64_t i = begin + at;
    Vec p = load(run.master + i, mask...);
    p = fnma(lr, load(run.update + i, mask...), fnma(decay, p, p));
    store(run.master + i, p, mask...);
    if (weight != nullptr) store(weight + i, p, mask...);
  });
}

void muon_update(const MuonUpdateRun& run, int64_t begin, int64_t end) {
  switch (run.weight_dtype) {
    case DType::bf16:
      return muon_update_run<bfloat16>(run, begin, end);
    case DType::f16:
      return muon_update_run<float16>(run, begin, end);
    default:
      return muon_update_run<float>(run, begin, end);
  }
}

void multiply(float* x, int64_t count, float factor) {
  const Vec by = set1(factor);
  for_row(count,
          [&](int64_t i, auto... mask) { store(x + i, mul(load(x + i, mask...), by), mask...); });
}

}  // namespace

const StateKernels state_kernels{expand_run,    store_run,   momentum,
                                 muon_momentum, muon_update, multiply};

}  // namespace viaduct::cpu::VIADUCT_ISA
