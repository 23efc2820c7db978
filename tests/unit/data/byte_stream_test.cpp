// Compressed files and pipes, read in order.

#include "data/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "support/compress.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Words that compress to about half, so that compressed and uncompressed blocks end at different
// places.
std::string words(size_t bytes) {
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i)
    text += "word" + std::to_string(philox4x32(7, i, 0)[0]) + "\n";
  text.resize(bytes);
  return text;
}

class ByteStreams : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, std::string_view content) {
    write_file_atomically(folder_ / name, content);
    return folder_ / name;
  }
  static std::string read(const std::filesystem::path& path, size_t block) {
    const auto stream = open_stream(path);
    std::string text;
    while (true) {
      std::string part(block, '?');
      part.resize(stream->read(part));
      text += part;
      if (part.size() < block) break;
    }
    std::string after(1, '?');
    EXPECT_EQ(stream->read(after), 0u) << "reading after the end gives nothing";
    EXPECT_EQ(stream->consumed(), static_cast<int64_t>(std::filesystem::file_size(path)));
    return text;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ByteStreams, UnpackWhatWasPackedWhateverTheBlocks) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{65536}, size_t{300001}}) {
    const std::string text = words(bytes);
    const auto plain = write("plain", text), gz = write("a.gz", test::gzip(text)),
               zst = write("a.zst", test::zstd(text));
    for (const size_t block : {size_t{977}, size_t{65536}, size_t{1} << 20}) {
      EXPECT_EQ(read(plain, block), text) << bytes << " " << block;
      EXPECT_EQ(read(gz, block), text) << bytes << " " << block;
      EXPECT_EQ(read(zst, block), text) << bytes << " " << block;
    }
  }
}

TEST_F(ByteStreams, MembersAndFramesFollowEachOther) {
  const std::string a = words(100000), b = words(5);
  EXPECT_EQ(read(write("a.gz", test::gzip(a) + test::gzip("") + test::gzip(b)), 4096), a + b);
  const std::string skipped("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  EXPECT_EQ(read(write("a.zst", skipped + test::zstd(a) + test::zstd(b)), 4096), a + b);
}

TEST_F(ByteStreams, TruncatedAndDamagedFilesAreNamedWithTheOffset) {
  const std::string text = words(200000);
  for (const bool gz : {true, false}) {
    const std::string packed = gz ? test::gzip(text) : test::zstd(text);
    const char* kind = gz ? "gzip" : "zstd";
    for (const size_t size : {size_t{10}, packed.size() / 2, packed.size() - 1}) {
      const auto path = write("a", std::string_view(packed).substr(0, size));
      EXPECT_THAT([&] { read(path, 65536); },
                  ThrowsMessage<IoError>(
                      AllOf(HasSubstr(path.string()),
                            HasSubstr(std::string("the ") + kind + " data end early, at offset " +
                                      std::to_string(size)))));
    }
    std::string damaged = packed;
    for (size_t i = packed.size() / 2; i < packed.size() / 2 + 16; ++i) damaged[i] ^= '\x55';
    EXPECT_THAT([&] { read(write("a", damaged), 65536); },
                ThrowsMessage<IoError>(
                    HasSubstr(std::string("damaged ") + kind + " data at about offset ")));
    EXPECT_THAT([&] { read(write("a", packed + "more"), 65536); },
                ThrowsMessage<IoError>(HasSubstr(std::string("damaged ") + kind)));
  }
}

TEST_F(ByteStreams, KindsOfInput) {
  EXPECT_TRUE(input_kind(write("named.jsonl", test::gzip("x"))).stream) << "by its first bytes";
  EXPECT_FALSE(input_kind(write("a.txt", "plain")).stream);
  EXPECT_EQ(input_kind(folder_ / "a.txt").stored_bytes, 5);
  EXPECT_TRUE(input_kind("-").standard_input);
  EXPECT_THAT([&] { input_kind(write("a.txt.gz", "plain")); },
              ThrowsMessage<IoError>(HasSubstr("its name says gzip, but its first bytes are not")));
  EXPECT_THAT([&] { input_kind(folder_.path()); },
              ThrowsMessage<ConfigError>(HasSubstr("a folder")));
  EXPECT_THROW(input_kind(folder_ / "absent"), ConfigError);
  EXPECT_EQ(without_compression("a/b.jsonl.zst"), "a/b.jsonl");
  EXPECT_EQ(without_compression("a/b.txt"), "a/b.txt");
}

}  // namespace
}  // namespace viaduct
