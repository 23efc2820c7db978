#pragma once
// Checks that a file is text. Archives, Parquet and other binary content would otherwise become
// meaningless tokens.

#include <cstddef>
#include <string>
#include <string_view>

namespace viaduct {

/// Checks the first bytes of a file. IoError for a compressed file, for Parquet (with the command
/// that converts it to JSONL), and for a JSON file that is not read as JSONL (`jsonl` false).
void check_file_kind(const std::string& path, std::string_view content, bool jsonl);

/// Whether `text`, at byte `offset` of the file, is well-formed UTF-8. IoError with the offset of
/// the first bad byte if it holds a zero byte, or has ill-formed UTF-8 at more than eight places
/// and one in a thousand bytes. Fewer are accepted: web texts have them.
bool check_text(const std::string& path, std::string_view text, size_t offset);

/// What of a line is not UTF-8, and where, for a message: "1 ill-formed place, the first at byte 3
/// of the line; …"; "" if all of it is.
std::string ill_formed_places(std::string_view line);

}  // namespace viaduct
