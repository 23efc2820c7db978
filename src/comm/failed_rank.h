#pragma once
// How the failure of one rank of many is told.

#include <exception>
#include <string>
#include <string_view>

namespace viaduct {

/// `message` with "rank N: " before it, unless it names a rank so already: what one rank found and
/// all threw.
std::string of_rank(int rank, std::string_view message);

/// Throws `exception` with its message, or each problem of a ConfigError, as `of_rank` has it; as
/// it is if its type cannot be made anew.
[[noreturn]] void rethrow_of_rank(int rank, const std::exception_ptr& exception);

}  // namespace viaduct
