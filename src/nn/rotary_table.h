#pragma once
// Tables of cos and sin for rotary positions, with the published scalings of the frequencies.

#include <cstdint>
#include <optional>
#include <vector>

#include "device/device.h"

namespace viaduct {

enum class RopeScalingKind {
  none,
  linear,  // positions divided by factor
  llama3,  // by wavelength: kept, blended, divided (Llama 3.1)
  yarn,    // by wavelength with a ramp, and attention scaled (Peng et al. 2023)
  /// Each wavelength times a factor of its own, of two lists: for rows up to the original length,
  /// and for longer ones (Ding et al. 2024, arXiv 2402.13753).
  longrope,
  /// The first pairs of a head turn, `part` of them, with the frequencies that they have in the
  /// whole head, divided by factor; the others do not (Gemma 4).
  proportional,
  /// Rows longer than the model's positions raise the base (NTK by length). No row is longer here,
  /// so nothing is scaled, except that `alpha`, where it is given, raises the base at any length:
  /// base · alpha^(width / (width − 2)) (Hunyuan).
  dynamic,
};

/// Factor on queries by their position p: 1 + scale · ln(1 + ⌊(p + first) / length⌋) (Llama 4 and
/// Ministral 3, after Nakanishi 2025, arXiv 2501.19399): with more keys in a softmax each gets
/// less.
struct AttentionTemperature {
  double scale = 0;    // 0: none
  int64_t length = 1;  // tokens between its steps
  int64_t first = 0;   // the number of position 0

  bool any() const { return scale != 0; }
  bool operator==(const AttentionTemperature&) const = default;
  double at(int64_t position) const;
};
/// That of layers without rotary positions (Llama 4), where positions count from 1.
inline AttentionTemperature temperature_without_rotary(double scale, int64_t length) {
  return {scale, length, 1};
}

struct RotarySpec {
  int64_t width = 0;  // rotated dims of a head (even)
  double base = 10000;
  RopeScalingKind scaling = RopeScalingKind::none;
  double factor = 1;
  double alpha = 0;  // dynamic; 0: none
  double part = 1;   // proportional
  int64_t original_max_positions = 0;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;                        // yarn
  /// Multiplies cos and sin (yarn, longrope); the family computes its default.
  double attention_factor = 1;
  std::vector<double> short_factors = {}, long_factors = {};  // longrope, width / 2 each
  /// yarn in DeepSeek's configurations, 0: not given. attention_factor follows from both, the scale
  /// of latent attention from the second (families.h).
  double mscale = 0, mscale_all_dim = 0;
  bool truncate = true;      // yarn: bounds of the ramp rounded outwards to whole dims
  bool interleaved = false;  // pairs are neighbours instead of halves (ops/rotary.h)
};

/// Frequencies of the width / 2 pairs, computed in FP32 as Hugging Face does, so that large
/// positions agree with it; for rows of up to `positions` tokens, which longrope asks for.
/// ShapeError for an odd width, or lists of another length.
std::vector<float> rotary_frequencies(const RotarySpec& spec, int64_t positions = 0);

/// cos and sin [positions, width / 2] on a device, f32 (or f64 for `dtype` f64).
struct RotaryTable {
  Tensor cos, sin;
};
/// Those of a model's layers; absent where no layer reads one.
struct RotaryTables {
  std::optional<RotaryTable> common, windowed;  // of layers with a sliding window, if they differ
  std::optional<RotaryTable> queries;           // with a temperature; `common` is of keys then
  std::optional<RotaryTable> no_rope_queries;   // of layers whose heads are not rotated
};
/// With a temperature cos and sin of a position have its factor: they rotate and scale queries.
RotaryTable make_rotary_table(Device& device, const RotarySpec& spec, int64_t positions,
                              DType dtype, const AttentionTemperature& temperature = {});
/// The factors alone, for heads of `width` dims: a table that turns no pair. ShapeError for an odd
/// width.
RotaryTable make_temperature_table(Device& device, const AttentionTemperature& temperature,
                                   int64_t width, int64_t positions, DType dtype);

}  // namespace viaduct
