#include "nn/rotary_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Scaled frequencies are computed in FP32, in the order of transformers (modeling_rope_utils.py):
// at position 131,071 the last bit of a frequency turns a query by up to 1e-2.

float scale_llama3(const RotarySpec& spec, float frequency) {
  const auto positions = static_cast<float>(spec.original_max_positions),
             factor = static_cast<float>(spec.factor),
             low = static_cast<float>(spec.low_frequency_factor),
             range = static_cast<float>(spec.high_frequency_factor - spec.low_frequency_factor);
  const float wavelength = static_cast<float>(kTwoPi) / frequency;
  if (wavelength < static_cast<float>(spec.original_max_positions / spec.high_frequency_factor))
    return frequency;
  if (wavelength > static_cast<float>(spec.original_max_positions / spec.low_frequency_factor))
    return frequency / factor;
  const float smooth = (positions / wavelength - low) / range;
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

/// base^(2i / width): the wavelength of pair `i` over 2π.
float rotary_wavelength(const RotarySpec& spec, size_t i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(spec.width);
  return static_cast<float>(std::pow(spec.base, static_cast<double>(exponent)));
}

/// The dim whose wavelength fits `rotations` times into the original context length.
double yarn_dim(const RotarySpec& spec, double rotations) {
  return static_cast<double>(spec.width) *
         std::log(static_cast<double>(spec.original_max_positions) / (rotations * kTwoPi)) /
         (2 * std::log(spec.base));
}

void scale_yarn(const RotarySpec& spec, std::vector<float>& frequencies) {
  double low = yarn_dim(spec, spec.beta_fast), high = yarn_dim(spec, spec.beta_slow);
  if (spec.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.width - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float kept = 1 - ramp;
    const float divided = 1.0f / (static_cast<float>(spec.factor) * rotary_wavelength(spec, i));
    frequencies[i] = divided * (1 - kept) + frequencies[i] * kept;
  }
}

void scale_longrope(const RotarySpec& spec, int64_t positions, std::vector<float>& frequencies) {
  const std::vector<double>& factors =
      positions > spec.original_max_positions ? spec.long_factors : spec.short_factors;
  VIADUCT_CHECK(ShapeError, factors.size() == frequencies.size(),
                "rotary positions: longrope has {} factors for {} pairs", factors.size(),
                frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = 1.0f / (static_cast<float>(factors[i]) * rotary_wavelength(spec, i));
}

/// The base that `alpha` raises, as in transformers' code of Hunyuan.
RotarySpec with_raised_base(RotarySpec spec) {
  if (spec.scaling != RopeScalingKind::dynamic || spec.alpha == 0) return spec;
  const auto width = static_cast<double>(spec.width);
  spec.base *= std::pow(spec.alpha, width / (width - 2));
  return spec;
}

/// cos and sin of position · frequency, times the factor of the position.
template <class Factor>
RotaryTable table_of_frequencies(Device& device, const std::vector<float>& frequencies,
                                 int64_t positions, DType dtype, const Factor& factor_at) {
  const auto pairs = static_cast<int64_t>(frequencies.size());
  const DType stored = dtype == DType::f64 ? DType::f64 : DType::f32;
  RotaryTable table{device.allocate(stored, {positions, pairs}, MemoryTag::other),
                    device.allocate(stored, {positions, pairs}, MemoryTag::other)};
  if (!device.executes()) return table;
  Tensor cosines = host_tensor(stored, {positions, pairs}),
         sines = host_tensor(stored, {positions, pairs});
  device.pool().run((positions + 63) / 64, [&](int64_t block, int) {
    for (int64_t p = block * 64; p < std::min(positions, block * 64 + 64); ++p) {
      const double factor = factor_at(p);
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle =
            static_cast<float>(p) * frequencies[static_cast<size_t>(i)];  // FP32 product
        const double c = std::cos(angle) * factor, s = std::sin(angle) * factor;
        if (stored == DType::f64) {
          cosines.data<double>()[p * pairs + i] = c, sines.data<double>()[p * pairs + i] = s;
        } else {
          cosines.data<float>()[p * pairs + i] = static_cast<float>(c);
          sines.data<float>()[p * pairs + i] = static_cast<float>(s);
        }
      }
    }
  });
  device.copy_from_host(cosines, table.cos);
  device.copy_from_host(sines, table.sin);
  return table;
}

}  // namespace

double AttentionTemperature::at(int64_t position) const {
  if (!any()) return 1;
  const auto steps = static_cast<double>((position + first) / length);
  return 1 + scale * std::log1p(steps);
}

std::vector<float> rotary_frequencies(const RotarySpec& given, int64_t positions) {
  const RotarySpec spec = with_raised_base(given);
  VIADUCT_CHECK(ShapeError, spec.width >= 2 && spec.width % 2 == 0,
                "rotary positions: expected an even width, got {}", spec.width);
  std::vector<float> frequencies(static_cast<size_t>(spec.width / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1.0f / rotary_wavelength(spec, i);
  }
  switch (spec.scaling) {
    case RopeScalingKind::none:
    case RopeScalingKind::dynamic:
      break;
    case RopeScalingKind::linear:
      for (float& f : frequencies) f = static_cast<float>(f / spec.factor);
      break;
    case RopeScalingKind::proportional: {
      const auto turning = static_cast<size_t>(spec.part * static_cast<double>(spec.width) / 2);
      for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = i < turning ? static_cast<float>(frequencies[i] / spec.factor) : 0.0f;
      break;
    }
    case RopeScalingKind::llama3:
      for (float& f : frequencies) f = scale_llama3(spec, f);
      break;
    case RopeScalingKind::yarn:
      scale_yarn(spec, frequencies);
      break;
    case RopeScalingKind::longrope:
      scale_longrope(spec, positions, frequencies);
      break;
  }
  return frequencies;
}

RotaryTable make_rotary_table(Device& device, const RotarySpec& spec, int64_t positions,
                              DType dtype, const AttentionTemperature& temperature) {
  return table_of_frequencies(device, rotary_frequencies(spec, positions), positions, dtype,
                              [&](int64_t p) { return spec.attention_factor * temperature.at(p); });
}

RotaryTable make_temperature_table(Device& device, const AttentionTemperature& temperature,
                                   int64_t width, int64_t positions, DType dtype) {
  VIADUCT_CHECK(ShapeError, width >= 2 && width % 2 == 0,
                "attention temperature: expected heads of an even width, got {}", width);
  const std::vector<float> still(static_cast<size_t>(width / 2));
  return table_of_frequencies(device, still, positions, dtype,
                              [&](int64_t p) { return temperature.at(p); });
}

}  // namespace viaduct
