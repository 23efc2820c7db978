#pragma once
// Formats in which optimizer state is stored more narrowly than FP32, in exact host code.
//
//   f32, f64   as they are
//   bf16       rounded to nearest even
//   f16, e4m3  scaled: kStateGroup elements in a row share an FP32 scale, their largest magnitude
//              over 32752 (f16) or 448 (e4m3); a value is its code times the scale
//   i16        remainders: the low 16 bits of an FP32 master whose high half is a BF16 weight
//
// Groups begin at the first element of a parameter's storage. Scales are rounded so that a code
// times its scale is exact in FP32, and so that such values, stored again, give the same codes and
// scales: what is decoded to FP32 and back has not changed.

#include <cstdint>

#include "tensor/tensor.h"

namespace viaduct {

/// Elements that share a scale.
inline constexpr int64_t kStateGroup = 64;

/// True for formats of state whose groups have scales.
bool has_state_scales(DType dtype);
/// Groups of a run of this many elements; the last one may be shorter.
inline constexpr int64_t state_groups(int64_t elements) {
  return (elements + kStateGroup - 1) / kStateGroup;
}
/// The scale of a group whose largest magnitude is `largest`: 0 for 0, and what is not finite where
/// that is not finite, so that the group's values are not finite either.
float state_scale(float largest, DType dtype);

/// An FP32 master as BF16 weight and remainder: the weight is the upper half, rounded to nearest (a
/// tie away from zero), and the remainder the lower half as a signed number, negative where the
/// weight was rounded up.
struct SplitMaster {
  uint16_t weight = 0;  // bits of a bfloat16
  int16_t remainder = 0;

  bool operator==(const SplitMaster&) const = default;
};
SplitMaster split_master(float master);
/// Exactly the master that was split, whatever its bits.
float join_master(SplitMaster split);

/// A flat run of state in its stored format.
struct StateValues {
  Tensor values;
  Tensor scales;   // f32 [state_groups], of scaled formats
  Tensor weights;  // bf16, beside remainders

  StateValues() = default;
  StateValues(Tensor plain) : values(std::move(plain)) {}  // NOLINT: state that is not coded
  StateValues(Tensor stored, Tensor group_scales, Tensor upper)
      : values(std::move(stored)), scales(std::move(group_scales)), weights(std::move(upper)) {}

  /// False where `values` are the values themselves, in a floating format.
  bool coded() const { return scales.defined() || weights.defined(); }
  /// Elements [begin, begin + length); `begin` starts a group.
  StateValues slice(int64_t begin, int64_t length) const;
};

/// FP32 values of a coded run in host memory.
Tensor decoded_state(const StateValues& host);
/// Stores FP32 values, as many as the run has, in a coded run in host memory: values and scales, or
/// remainders and weights.
void encode_state(const Tensor& values, const StateValues& host);

}  // namespace viaduct
