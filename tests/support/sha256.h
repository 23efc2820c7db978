#pragma once
// SHA-256: reference data contain digests of long outputs.

#include <string>
#include <string_view>

namespace viaduct::test {

/// The SHA-256 digest of the bytes (FIPS 180-4) in lower-case hexadecimal.
std::string sha256_hex(std::string_view bytes);

}  // namespace viaduct::test
