#pragma once
// The guides' prefixes: classes of Megatron-Bridge and NeMo, and recipe paths, that denote a
// section.

#include <span>
#include <string_view>

namespace viaduct {

struct SectionPrefix {
  std::string_view prefix, section;
};

/// The longest match wins; a field that the section does not have is then searched in the others,
/// because the guides write some fields under a class that does not own them
/// (recipe.model.config.use_precision_aware_optimizer).
std::span<const SectionPrefix> section_prefixes();

}  // namespace viaduct
