#pragma once
// MD5 (RFC 1321), for names of files that other programs make by it. It protects against nothing.

#include <string>
#include <string_view>

namespace viaduct {

/// The digest as 32 hexadecimal digits.
std::string md5_hex(std::string_view text);

}  // namespace viaduct
