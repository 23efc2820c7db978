#pragma once
// NF4 (Dettmers et al. 2023, "QLoRA: Efficient finetuning of quantized LLMs", section 3 and
// appendix E), in the arithmetic of bitsandbytes: FP32, each operation rounded by itself.

#include <algorithm>
#include <array>
#include <cstdint>

namespace viaduct {

/// Consecutive elements with one absmax, and consecutive absmax with one scale.
inline constexpr int64_t kNf4Block = 64, kNf4Group = 256;

/// The values of the codes, for blocks whose largest magnitude is 1: quantiles of a normal
/// distribution, with a zero.
inline constexpr std::array<float, 16> kNf4Levels{
    -1.0f,           -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
    -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
    0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
    0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  1.0f};

namespace detail {

constexpr std::array<float, 15> nf4_midpoints() {
  std::array<float, 15> made{};
  for (size_t i = 0; i < made.size(); ++i) made[i] = (kNf4Levels[i] + kNf4Levels[i + 1]) / 2;
  return made;
}

/// Point i of n + 1 in [0.1, 1] at equal distances, counted from the nearer end, each rounded once.
constexpr float tenth_to_one(int i, int n) {
  const double step = (1.0f - 0.1f) / static_cast<float>(n);
  const double from_begin = static_cast<double>(0.1f) + step * i, from_end = 1.0 - step * (n - i);
  return static_cast<float>(i < (n + 1) / 2 ? from_begin : from_end);
}

/// 0, 1 and ± 10^(k − 6) · the middles of 2^k equal parts of [0.1, 1] for k = 0 … 6, sorted
/// (Dettmers et al. 2022, "8-bit optimizers via block-wise quantization", section 1.3).
constexpr std::array<float, 256> nf4_scale_map() {
  constexpr float kTens[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  std::array<float, 256> made{0.0f, 1.0f};
  size_t at = 2;
  for (int k = 0; k < 7; ++k) {
    const int parts = 1 << k;
    for (int i = 0; i < parts; ++i) {
      const float middle = (tenth_to_one(i, parts) + tenth_to_one(i + 1, parts)) / 2;
      made[at++] = kTens[k] * middle;
      made[at++] = -(kTens[k] * middle);
    }
  }
  std::sort(made.begin(), made.end());
  return made;
}

}  // namespace detail

/// A value belongs to the code that is the number of these that it is above; one that is equal to a
/// midpoint has the lower code.
inline constexpr std::array<float, 15> kNf4Midpoints = detail::nf4_midpoints();

/// The values of the codes of absmax.
inline constexpr std::array<float, 256> kNf4ScaleMap = detail::nf4_scale_map();

/// The code of the nearest of these, the lower one of two.
inline uint8_t nf4_scale_code(float value) {
  const auto above = std::lower_bound(kNf4ScaleMap.begin(), kNf4ScaleMap.end(), value);
  if (above == kNf4ScaleMap.begin()) return 0;
  const auto code = static_cast<uint8_t>(above - kNf4ScaleMap.begin());
  if (above == kNf4ScaleMap.end()) return static_cast<uint8_t>(code - 1);
  const double middle = (static_cast<double>(*(above - 1)) + *above) / 2;
  return static_cast<uint8_t>(value > middle ? code : code - 1);
}

/// What is multiplied with the levels of a block: two roundings, as there.
inline float nf4_absmax(uint8_t code, float scale, float offset) {
  const float difference = kNf4ScaleMap[code] * scale;
  return difference + offset;
}

}  // namespace viaduct
