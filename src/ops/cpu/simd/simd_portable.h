#pragma once
// Part of simd.h: vectors of 8 floats in the compiler's own vector types, for processors without
// kernels of their own (aarch64). Each function has the arithmetic of its AVX2 twin, lane by lane
// and in the same order, so that results have the bits of the AVX2 kernels
// (tests/unit/ops/cpu/instruction_sets_test.cpp).

namespace viaduct::cpu::VIADUCT_ISA {

inline constexpr int kLanes = 8;

// The registers of NEON; wider vectors of the compiler would live in memory there.
using Four = float __attribute__((vector_size(16)));
using FourWords = uint32_t __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));
using FourHalves = uint16_t __attribute__((vector_size(8)));

struct Vec {
  Four low, high;
  friend Vec operator+(Vec a, Vec b) { return {a.low + b.low, a.high + b.high}; }
  friend Vec operator-(Vec a, Vec b) { return {a.low - b.low, a.high - b.high}; }
  friend Vec operator*(Vec a, Vec b) { return {a.low * b.low, a.high * b.high}; }
  friend Vec operator/(Vec a, Vec b) { return {a.low / b.low, a.high / b.high}; }
};
struct Mask {  // all ones in active lanes
  FourInts low, high;
};

/// The value of one type whose bytes are those of another.
template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
template <class V, class T>
inline V load_as(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class T>
inline void store_as(T* p, V v) {
  __builtin_memcpy(static_cast<void*>(p), &v, sizeof v);
}

inline Vec zero() {
  return {Four{}, Four{}};
}
inline Vec set1(float x) {
  return {Four{x, x, x, x}, Four{x, x, x, x}};
}
inline Vec load(const float* p) {
  return {load_as<Four>(p), load_as<Four>(p + 4)};
}
inline void store(float* p, Vec v) {
  store_as(p, v.low);
  store_as(p + 4, v.high);
}
/// The first `n` < kLanes elements, the rest zero; memory beyond them is not accessed.
inline Mask first(int64_t n) {
  const auto count = static_cast<int32_t>(n);
  const FourInts counts{count, count, count, count};
  return {FourInts{0, 1, 2, 3} < counts, FourInts{4, 5, 6, 7} < counts};
}
/// The number of leading lanes in a mask made by `first`.
inline int lanes_in(Mask m) {
  const FourInts sums = m.low + m.high;
  return -(sums[0] + sums[1] + sums[2] + sums[3]);
}
inline Vec load(const float* p, Mask m) {
  float lanes[kLanes] = {};
  for (int i = 0, n = lanes_in(m); i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
inline void store(float* p, Vec v, Mask m) {
  float lanes[kLanes];
  store(lanes, v);
  for (int i = 0, n = lanes_in(m); i < n; ++i) p[i] = lanes[i];
}

inline Four widen_bf16(FourHalves x) {
  return (Four)(__builtin_convertvector(x, FourWords) << 16);
}
inline FourHalves narrow_bf16(Four v) {  // round to nearest even, NaN stays NaN
  const FourWords u = (FourWords)v, nan = (FourWords)(v != v);
  const FourWords rounded = u + (((u >> 16) & 1u) + 0x7fffu);
  const FourWords r = (nan & (u | 0x400000u)) | (~nan & rounded);
  return __builtin_convertvector(r >> 16, FourHalves);
}
inline Vec load(const bfloat16* p) {
  return {widen_bf16(load_as<FourHalves>(p)), widen_bf16(load_as<FourHalves>(p + 4))};
}
inline void store(bfloat16* p, Vec v) {
  store_as(p, narrow_bf16(v.low));
  store_as(p + 4, narrow_bf16(v.high));
}
inline Vec load(const float16* p) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<float>(p[i]);
  return load(lanes);
}
inline void store(float16* p, Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<float16>(lanes[i]);
}
/// The same for the first lanes of 16-bit numbers.
template <class T>
inline Vec load(const T* p, Mask m) {
  uint16_t bits[kLanes] = {};
  __builtin_memcpy(bits, p, sizeof(T) * static_cast<size_t>(lanes_in(m)));
  T lanes[kLanes];
  __builtin_memcpy(static_cast<void*>(lanes), bits, sizeof lanes);
  return load(lanes);
}
template <class T>
inline void store(T* p, Vec v, Mask m) {
  T lanes[kLanes];
  store(lanes, v);
  __builtin_memcpy(static_cast<void*>(p), lanes, sizeof(T) * static_cast<size_t>(lanes_in(m)));
}

inline Four fma(Four a, Four b, Four c) {
  Four r;
  for (int i = 0; i < 4; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
inline Vec fma(Vec a, Vec b, Vec c) {  // a · b + c
  return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
inline Vec fnma(Vec a, Vec b, Vec c) {  // c − a · b
  return {fma(-a.low, b.low, c.low), fma(-a.high, b.high, c.high)};
}
// As on x86, the second operand where one is NaN.
inline Vec maximum(Vec a, Vec b) {
  return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
inline Vec minimum(Vec a, Vec b) {
  return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}
/// f of each lane.
template <class F>
inline Vec each(Vec a, F&& f) {
  Vec r;
  for (int i = 0; i < 4; ++i) r.low[i] = f(a.low[i]);
  for (int i = 0; i < 4; ++i) r.high[i] = f(a.high[i]);
  return r;
}
inline Vec sqrt(Vec a) {
  return each(a, [](float x) { return __builtin_sqrtf(x); });
}
inline Vec round_nearest(Vec a) {
  return each(a, [](float x) { return __builtin_rintf(x); });
}
inline Vec absolute(Vec a) {
  return {(Four)((FourWords)a.low & 0x7fffffffu), (Four)((FourWords)a.high & 0x7fffffffu)};
}
inline Mask less(Vec a, Vec b) {
  return {a.low < b.low, a.high < b.high};
}
inline Vec select(Mask m, Vec yes, Vec no) {
  return {m.low < 0 ? yes.low : no.low, m.high < 0 ? yes.high : no.high};
}
inline Four copy_sign(Four magnitude, Four sign) {
  return (Four)(((FourWords)magnitude & 0x7fffffffu) | ((FourWords)sign & 0x80000000u));
}
inline Vec copy_sign(Vec magnitude, Vec sign) {
  return {copy_sign(magnitude.low, sign.low), copy_sign(magnitude.high, sign.high)};
}
inline Four scale_by_power(Four v, Four n) {
  const FourInts whole = __builtin_convertvector(n, FourInts), half = whole >> 1;
  return v * (Four)((half + 127) << 23) * (Four)((whole - half + 127) << 23);
}
/// v · 2^n for integral n in [−252, 252] (two steps, so that results near the smallest normal
/// number stay correct).
inline Vec scale_by_power(Vec v, Vec n) {
  return {scale_by_power(v.low, n.low), scale_by_power(v.high, n.high)};
}
inline float sum(Vec v) {
  const Four four = v.low + v.high;
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float largest(Vec v) {
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  const Four four = v.low > v.high ? v.low : v.high;
  return larger(larger(four[0], four[2]), larger(four[1], four[3]));
}

}  // namespace viaduct::cpu::VIADUCT_ISA
