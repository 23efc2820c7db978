#include "data/text_check.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

struct Compression {
  std::string_view magic;
  const char *name, *command;
};
constexpr Compression kCompressions[] = {{"\x1f\x8b", "gzip", "gunzip -k"},
                                         {"\x28\xb5\x2f\xfd", "zstd", "unzstd -k"},
                                         {"BZh", "bzip2", "bunzip2 -k"},
                                         {"\xfd\x37\x7a\x58\x5a", "xz", "unxz -k"},
                                         {"PK\x03\x04", "zip", "unzip"}};

constexpr size_t kJsonLimitBytes = size_t{1} << 20;

bool is_json_object(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' && is_json<nlohmann::json>(text);
}

}  // namespace

void check_file_kind(const std::string& path, std::string_view content, bool jsonl) {
  for (const Compression& c : kCompressions) {
    VIADUCT_CHECK(IoError, !content.starts_with(c.magic),
                  "{}: compressed by {}, expected text or JSONL; `{} {}` unpacks it", path, c.name,
                  c.command, path);
  }
  VIADUCT_CHECK(
      IoError, !content.starts_with("PAR1"),
      "{0}: a Parquet file, expected text or JSONL; this converts it to JSONL: python3 -c "
      "\"import pandas; pandas.read_parquet('{0}').to_json('{0}.jsonl', "
      "orient='records', lines=True, force_ascii=False)\"",
      path);
  if (jsonl) return;
  const bool json = is_json_object(content.substr(0, content.find('\n'))) ||
                    (content.size() <= kJsonLimitBytes && is_json_object(content));
  VIADUCT_CHECK(IoError, !json,
                "{}: its first line is a JSON object, but it would be read as one document of "
                "text; name it .jsonl, or give --json-key",
                path);
}

bool check_text(const std::string& path, std::string_view text, size_t offset) {
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail<IoError>("{}: a zero byte at offset {}: binary content, expected text in UTF-8", path,
                  offset + zero);
  constexpr size_t kFew = 8, kBytesForOne = 1000;
  if (is_valid_utf8(text)) return true;
  const IllFormed bad = ill_formed_utf8(text);
  VIADUCT_CHECK(IoError, bad.count <= kFew || bad.count * kBytesForOne <= text.size(),
                "{}: not UTF-8 at {} within {}, the first at offset {}: binary content or another "
                "encoding (`iconv -f LATIN1 -t UTF-8` converts one)",
                path, counted(static_cast<int64_t>(bad.count), "place"),
                counted(static_cast<int64_t>(text.size()), "byte"), offset + bad.first);
  return false;
}

std::string ill_formed_places(std::string_view line) {
  const IllFormed bad = ill_formed_utf8(line);
  if (bad.count == 0) return "";
  return fmt::format(
      "{}, the first at byte {} of the line; `iconv -f LATIN1 -t UTF-8` converts another encoding",
      counted(static_cast<int64_t>(bad.count), "ill-formed place"), bad.first + 1);
}

}  // namespace viaduct
