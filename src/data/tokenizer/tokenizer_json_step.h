#pragma once
// A step around the model in a `tokenizer.json`: an object with a type, or a sequence of steps.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace viaduct {

/// Most steps of a sequence.
inline constexpr size_t kMostTokenizerSteps = 32;

/// The "type" of a step. `what` ("the normalizer") and `source` are for messages. IoError if it has
/// none.
std::string tokenizer_step_type(const nlohmann::json& step, std::string_view what,
                                std::string_view source);

/// Calls `visit(step)` for the step itself or, one after the other, for those of a (nested)
/// sequence, which has them in the list `list`. IoError for a sequence without that list and for a
/// step without its members (`check_step_members`), ConfigError for a sequence with too many steps.
void for_each_tokenizer_step(const nlohmann::json& value, std::string_view what,
                             std::string_view list, std::string_view source,
                             FunctionRef<void(const nlohmann::json& step)> visit);

}  // namespace viaduct
