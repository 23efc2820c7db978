#pragma once
// Is a file the text that it is taken for? Archives, Parquet and other binary content would
// otherwise become tokens without sense.

#include <cstddef>
#include <string>
#include <string_view>

namespace viaduct {

/// Looks at the first bytes of a file. IoError for a compressed file, for Parquet (with the command
/// that makes JSONL of it), and for a file of JSON that is not read as JSONL (`jsonl` false).
void check_file_kind(const std::string& path, std::string_view content, bool jsonl);

/// IoError with the offset of the first bad byte if `text`, which stands at byte `offset` of the
/// file, holds a zero byte, or is not UTF-8 at more than eight places and one in a thousand bytes.
/// Fewer are passed on: texts of the web have them.
void check_text(const std::string& path, std::string_view text, size_t offset);

}  // namespace viaduct
