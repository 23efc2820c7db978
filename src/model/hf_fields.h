#pragma once
// What a field of a Hugging Face config.json means that no family reads: some cannot change the
// numbers, some change them at any but one value, the rest are not known.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// Describes files, software, tokens, generation, the heads of other tasks, or how (not what) is
/// computed. The lists and their reasons are in hf_fields.cpp.
bool cannot_change_numbers(std::string_view name);

struct NeutralField {
  bool neutral = false;  // the value is one at which nothing changes
  std::string expected;  // the values at which nothing changes, for messages
};

/// For a field that changes the computation at other values than those where it does nothing (which
/// are all that is supported); nothing for other names.
std::optional<NeutralField> neutral_field(std::string_view name, const nlohmann::json& value);

/// Whether an unknown field may be part of the computation: it holds a number or `true`, or its
/// name has a word of model sizes and formulas ("rope", "norm", "attn").
bool looks_numerical(std::string_view name, const nlohmann::json& value);

}  // namespace viaduct
