#pragma once
// Rules of quantized products (section `mixed_precision`).

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

void validate_precision(const RunConfig& config, Problems& problems);
/// Of these, sizes of the products that a rank computes, as far as they are known: they must be
/// multiples of what the recipe's formats need. Evaluated again when the model has resolved them.
void validate_product_sizes(const RunConfig& config, Problems& problems);

}  // namespace viaduct
