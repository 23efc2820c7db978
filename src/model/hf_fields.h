#pragma once
// Classifies fields of a Hugging Face config.json that no family reads: some cannot change the
// numbers, some change them unless they have a neutral value, the rest are unknown.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// Describes files, software, tokens, generation, the heads of other tasks, or how (not what) is
/// computed. The lists and their reasons are in hf_fields.cpp.
bool cannot_change_numbers(std::string_view name);

struct NeutralField {
  bool neutral = false;  // the value is neutral
  std::string expected;  // the neutral values, for messages
};

/// For a field that changes the computation unless it has a neutral value (only these are
/// supported); nothing for other names.
std::optional<NeutralField> neutral_field(std::string_view name, const nlohmann::json& value);

/// Whether an unknown field may be part of the computation: it holds a number or `true`, or its
/// name has a word of model sizes and formulas ("rope", "norm", "attn").
bool looks_numerical(std::string_view name, const nlohmann::json& value);

}  // namespace viaduct
