#pragma once
// gzip and zstd files for tests of readers.

#include <string>
#include <string_view>

namespace viaduct::test {

/// One member of a gzip file.
std::string gzip(std::string_view text);
/// One frame of a zstd file, with a checksum.
std::string zstd(std::string_view text);

}  // namespace viaduct::test
