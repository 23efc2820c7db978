#pragma once
// Messages for the failure of one of many ranks.

#include <exception>
#include <string>
#include <string_view>

namespace viaduct {

/// `message` with "rank N: " in front, unless it already names a rank, as when all ranks throw what
/// one rank found.
std::string of_rank(int rank, std::string_view message);

/// Throws `exception` with its message, or each problem of a ConfigError, changed by `of_rank`;
/// unchanged if its type cannot be constructed again.
[[noreturn]] void rethrow_of_rank(int rank, const std::exception_ptr& exception);

}  // namespace viaduct
