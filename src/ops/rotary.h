#pragma once
// Rotary position embedding (Su et al. 2021). R ≤ D is the rotated width (2 × columns of the
// tables). In the layout of Hugging Face, halves, element i of a head pairs with i + R/2:
//   x'[i]       = x[i] · cos(p, i) − x[i + R/2] · sin(p, i)
//   x'[i + R/2] = x[i + R/2] · cos(p, i) + x[i] · sin(p, i)
// In the paper's layout, interleaved, 2i pairs with 2i + 1, by the same formula. The tables hold
// cos and sin of position × frequency, scaled if the model scales them (YaRN), so any scaling rule
// is data.

#include "ops/dispatch.h"

namespace viaduct {

struct RotaryArgs {
  Tensor x;                  // [T, N, D], outer dims strided, floating; rotated in place
  Tensor positions;          // i32 [T], each in [0, P)
  Tensor cos, sin;           // f32 [P, R/2] (f64 for f64)
  bool inverse = false;      // rotate back: the gradient
  bool interleaved = false;  // pairs are neighbours instead of halves
};

void rotary(OpContext& context, const RotaryArgs& args);

}  // namespace viaduct
