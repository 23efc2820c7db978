#pragma once
// The rotation of operands of weight gradients: each 16 elements x along the contracted dim become
// x · S · H / 4, with Sylvester's 16 × 16 Hadamard matrix H (element i, j is −1 to the number of
// bits that i and j share) and signs S on the diagonal. It is orthogonal, so the product of two
// rotated operands is that of the operands, and it spreads a large element over its 16, which a
// narrow format represents better (NVIDIA 2025, "Pretraining large language models with NVFP4",
// appendix C). The signs are a constant of the recipe: those that Transformer Engine uses
// (get_wgrad_sign_vector).

namespace viaduct {

inline constexpr int kRotated = 16;  // elements that are rotated together
inline constexpr float kRotationSigns[kRotated] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                                   -1, -1, -1, 1,  -1, 1,  -1, -1};

}  // namespace viaduct
