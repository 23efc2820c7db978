#pragma once
// Optimizer state in its stored formats (tensor/state_formats.h), to and from FP32.

#include "ops/dispatch.h"

namespace viaduct {

/// out (f32, flat) = the values that are stored. `values`: bf16; f16 or e4m3 with `scales`; or
/// remainders (i16) with `weights` (bf16). Flat and contiguous.
struct ExpandStateArgs {
  Tensor values, scales, weights;
  Tensor out;
};
void expand_state(OpContext& context, const ExpandStateArgs& args);

/// Stores `in` (f32, flat; undefined: zeros) in these formats: values with their scales, or
/// remainders and the weights that they belong to.
struct StoreStateArgs {
  Tensor in;
  Tensor values, scales, weights;
};
void store_state(OpContext& context, const StoreStateArgs& args);

/// `tensor` is state of `elements` elements in one of these formats, f32 or f64, with the scales
/// and weights that the format has, and no others. ShapeError otherwise.
void check_state_format(std::string_view op, std::string_view argument, const Tensor& tensor,
                        const Tensor& scales, const Tensor& weights, int64_t elements);

}  // namespace viaduct
