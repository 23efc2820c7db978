#pragma once
// Quantities in human-readable form.

#include <cstdint>
#include <string>
#include <string_view>

namespace viaduct {

/// "1.50 GiB", "12.0 KiB", "17 B": powers of 1024.
std::string format_bytes(int64_t bytes);
/// "124.4M", "1.2k", "17": powers of 1000.
std::string format_count(double count);
/// "1 document", "2 documents", "0 documents"; `many` is given where it is not `one` + "s".
std::string counted(int64_t count, std::string_view one, std::string_view many = "");
/// "1h02m", "3m07s", "12.3s", "450ms".
std::string format_seconds(double seconds);
/// " (9.51 GiB in 31.2s, 312 MiB/s)".
std::string transfer_text(int64_t bytes, double seconds);

}  // namespace viaduct
