#pragma once
// What a search varies in addition to the layout: fields of a configuration with the values to
// choose from.

#include <memory>
#include <string>
#include <vector>

#include "plan/layout.h"

namespace viaduct {

/// All combinations of the values that `texts` name. Each text is "section.field=a|b|c", or one of
/// the sets below, whose first value is the configuration as it is given:
///
///   states   moments in BF16, in FP8, and BF16 gradients (they change the numbers of the run)
///   units    recompute of single units instead of layers: norms, feed-forwards, both
///   offload  of what the feed-forwards keep, of that and attention's, to the host's memory
///
/// ConfigError for other texts, for a field in two of them, and for more than `kMostVariants`.
/// Empty for no texts.
std::vector<std::shared_ptr<const Variant>> variants_of(const std::vector<std::string>& texts);

inline constexpr size_t kMostVariants = 64;

}  // namespace viaduct
