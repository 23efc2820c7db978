#pragma once
// The orthogonal factor of a matrix by Newton–Schulz iterations.

#include "ops/dispatch.h"

namespace viaduct {

/// x [R, C] (f32, contiguous) becomes about U Vᵀ of its singular value decomposition: x is divided
/// by its Frobenius norm, and then `steps` times, with the smaller side first,
///
///   A = X Xᵀ,   X ← a X + (b A + c A²) X,   (a, b, c) = (3.4445, −4.7750, 2.0315)
///
/// (Jordan et al. 2024, "Muon"; the quintic coefficients: singular values end in about 0.7 … 1.2).
void newton_schulz(OpContext& context, const Tensor& x, int steps);

}  // namespace viaduct
