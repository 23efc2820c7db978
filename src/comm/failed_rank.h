#pragma once
// How the failure of one rank of many is told.

#include <exception>

namespace viaduct {

/// Throws `exception` with "rank N: " before its message, or before each problem of a ConfigError;
/// as it is if its type cannot be made anew.
[[noreturn]] void rethrow_of_rank(int rank, const std::exception_ptr& exception);

}  // namespace viaduct
