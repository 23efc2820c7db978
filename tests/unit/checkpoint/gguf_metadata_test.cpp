// The header of GGUF files.

#include "checkpoint/gguf_metadata.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/gguf_file.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string small_file() {
  GgufHeadWriter head;
  head.add_text("general.architecture", "llama");
  head.add_u32("llama.block_count", 2);
  head.add_f32("llama.eps", 1e-5);
  head.add_flag("flag", true);
  head.add_texts("texts", {"a", "", "bc"});
  head.add_i32s("whole", {-1, 7});
  head.add_f32s("numbers", {0.5f});
  head.add_tensor({"one", GgufTensorType::f32, {3}});
  head.add_tensor({"two", GgufTensorType::bf16, {2, 3}});
  std::string file = head.head();
  file.resize(file.size() + 32 + 12, '\x40');  // no byte behind the last tensor
  return file;
}

template <class T>
std::string with(std::string file, size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof(value));
  return file;
}

void expect_refused(const std::string& file, const std::string& reason) {
  EXPECT_THAT([&] { parse_gguf(file, "F"); }, ThrowsMessage<IoError>(testing::AllOf(
                                                  testing::StartsWith("F: "), HasSubstr(reason))));
}

TEST(GgufMetadata, ReadsWhatItWrites) {
  const GgufHead head = parse_gguf(small_file(), "F");
  EXPECT_EQ(head.keys.text("general.architecture"), "llama");
  EXPECT_EQ(head.keys.integer("llama.block_count"), 2);
  EXPECT_EQ(head.keys.number("llama.eps"), 1e-5);  // the decimal number, not FP32's 9.99999975e-06
  EXPECT_TRUE(head.keys.flag("flag", false));
  EXPECT_THAT(head.keys.texts("texts"), ElementsAre("a", "", "bc"));
  EXPECT_THAT(head.keys.integers("whole"), ElementsAre(-1, 7));
  EXPECT_THAT(head.keys.numbers("numbers"), ElementsAre(0.5));
  EXPECT_EQ(head.keys.integer("absent", 5), 5);
  EXPECT_THAT([&] { return head.keys.integer("absent"); },
              ThrowsMessage<IoError>(HasSubstr("F: the key \"absent\" is missing")));
  EXPECT_THAT([&] { return head.keys.integer("texts"); },
              ThrowsMessage<IoError>(HasSubstr("\"texts\" is not an integer")));
  ASSERT_EQ(head.tensors.size(), 2u);
  EXPECT_EQ(head.tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(head.tensors[1].offset, 32);
  EXPECT_EQ(head.data_begin % 32, 0);
  const GgufFile file = GgufFile::from_memory(small_file(), "F");
  EXPECT_EQ(file.tensor("two").dtype(), DType::bf16);
  EXPECT_EQ(file.tensor("two").data<bfloat16>()[0].bits, 0x4040);
  EXPECT_THAT([&] { file.tensor("three"); }, ThrowsMessage<IoError>(HasSubstr("\"three\"")));
}

TEST(GgufMetadata, RefusesDamage) {
  const std::string good = small_file();
  expect_refused("", "not a GGUF file");
  expect_refused("GGML" + good.substr(4), "not a GGUF file");
  expect_refused(with<uint32_t>(good, 4, 1), "version 1 is not supported");
  expect_refused(with<uint32_t>(good, 4, 0x03000000), "is not supported");
  expect_refused(with<uint64_t>(good, 8, uint64_t{1} << 60), "tensors, but only");
  expect_refused(with<uint64_t>(good, 16, uint64_t{1} << 60), "keys, but only");
  expect_refused(with<uint64_t>(good, 24, ~uint64_t{0}), "a key of");
  expect_refused(with<uint32_t>(good, 24 + 8 + 20, 13), "unknown type 13");
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(parse_gguf(std::string_view(good).substr(0, length), "F"), IoError) << length;

  const auto place = [&](const char* name) { return good.find(name) + 3; };
  const size_t dims = place("two");  // dims, sizes, type, offset
  expect_refused(with<uint32_t>(good, dims, 5), "5 dims, expected 1 to 4");
  expect_refused(with<uint64_t>(good, dims + 4, uint64_t{1} << 57), "zero or overflow");
  expect_refused(with<uint64_t>(good, dims + 4, 0), "zero or overflow");
  expect_refused(with<uint32_t>(good, dims + 20, 23), "is IQ4_XS, which is not read");
  expect_refused(with<uint32_t>(good, dims + 20, 8), "rows of Q8_0 are multiples of 32");
  expect_refused(with<uint64_t>(good, dims + 24, 0), "expected a multiple of 32 from 12 on");
  expect_refused(with<uint64_t>(good, dims + 24, 33), "expected a multiple of 32");
  expect_refused(with<uint64_t>(good, dims + 24, 4096), "ends at byte 4108 of the data");
  std::string twice = good;
  twice.replace(place("two") - 3, 3, "one");
  expect_refused(twice, "\"one\" appears twice");
}

}  // namespace
}  // namespace viaduct
