#pragma once
// Sizes of quantized products: the part of the rules of precision (precision.cpp) that others ask,
// too.

#include <string_view>
#include <vector>

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

/// Sizes of the quantized products that a rank computes, as far as they are known: they must be
/// multiples of what the recipe's formats need.
void validate_product_sizes(const RunConfig& config, Problems& problems);
/// Names that the linear layers of a block may have in a path, blocks.NUMBER.NAME. Whether
/// attention is latent may not be known yet.
std::vector<std::string_view> linear_layers(const ModelFields& model);
/// "FP8", "MXFP8", "NVFP4".
std::string_view product_format_name(Scaling scaling);

}  // namespace viaduct
