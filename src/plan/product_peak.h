#pragma once
// The peak that MFU of a run on a catalogued GPU is measured against.

#include "hardware/cluster.h"
#include "hardware/matmul_peak.h"
#include "precision/recipe.h"

namespace viaduct {

/// The format of the recipe's products by its name in the catalogue: "f32", "bf16", "fp8", "fp4".
std::string product_format(const PrecisionRecipe& recipe);

/// The GPU's dense peak for that format, or for BF16 if it has no such rate (FP8 products run in
/// BF16 then).
MatmulPeak product_peak(const Gpu& gpu, const PrecisionRecipe& recipe);

}  // namespace viaduct
