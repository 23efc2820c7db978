#pragma once
// MD5 (RFC 1321), for file names that other programs derive from it. Not for security.

#include <string>
#include <string_view>

namespace viaduct {

/// The digest as 32 hexadecimal digits.
std::string md5_hex(std::string_view text);

}  // namespace viaduct
