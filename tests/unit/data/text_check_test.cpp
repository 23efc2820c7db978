// Files that are not text are refused before they become tokens.

#include "data/text_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/document_reader.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TextCheck, KindsOfFilesThatAreNoText) {
  const auto refused = [](const std::string& content, bool jsonl, const char* expected) {
    EXPECT_THAT([&] { check_file_kind("f", content, jsonl); },
                ThrowsMessage<IoError>(HasSubstr(expected)));
  };
  refused("\x1f\x8b\x08", false, "f: compressed by gzip, expected text or JSONL; `gunzip -k f`");
  refused("\x28\xb5\x2f\xfd", true, "compressed by zstd");
  refused("PAR1\x15\x04", false, "pandas.read_parquet('f').to_json('f.jsonl'");
  refused("{\"text\": \"a\"}\n{\"text\": \"b\"}\n", false, "name it .jsonl, or give --json-key");
  refused("{\n\"text\": \"a\"\n}\n", false, "a JSON object");
  EXPECT_NO_THROW(check_file_kind("f", "{\"text\": \"a\"}\n", true));
  EXPECT_NO_THROW(check_file_kind("f", "{braces} in a text\n", false));
  EXPECT_NO_THROW(check_file_kind("f", "", false));
}

TEST(TextCheck, BinaryContentIsNamedByItsFirstBadByte) {
  EXPECT_THAT([] { check_text("f", "abc\0def"s, 1000); },
              ThrowsMessage<IoError>(HasSubstr("f: a zero byte at offset 1003")));
  const std::string latin = "caf\xe9 ";
  std::string many;
  for (int i = 0; i < 9; ++i) many += latin;
  EXPECT_THAT(
      [&] { check_text("f", many, 10); },
      ThrowsMessage<IoError>(HasSubstr("not UTF-8 at 9 places within 45 bytes, the first at "
                                       "offset 13")));
  EXPECT_NO_THROW(check_text("f", many + std::string(9000, 'a'), 0)) << "one in a thousand";
  EXPECT_NO_THROW(check_text("f", latin, 0)) << "a single byte";
  EXPECT_NO_THROW(check_text("f", "caf\xc3\xa9", 0));
}

TEST(TextCheck, ReadersAsk) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "a.gz", "\x1f\x8b\x08");
  EXPECT_THROW(DocumentReader({folder / "a.gz"}, false).next(), IoError);
  write_file_atomically(folder / "b.txt", "abc\0def"s);
  const auto piece = DocumentReader({folder / "b.txt"}, false).next();
  EXPECT_THAT(
      [&] { for_each_document(*piece, "text", [](std::string_view, const DocumentPlace&) {}); },
      ThrowsMessage<IoError>(HasSubstr("a zero byte at offset 3")));
}

}  // namespace
}  // namespace viaduct
