#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using test::test_data;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> names(const TensorSource& source) {
  std::vector<std::string> names;
  for (const auto& info : source.tensors()) names.push_back(info.name);
  return names;
}

// A file with this header, its length in front, and `data_bytes` zeros.
std::string file_with(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\0');
}

void expect_refused(const std::string& content, const std::string& reason) {
  EXPECT_THAT(([&] { SafetensorsFile::from_memory(content, "F"); }),
              ThrowsMessage<IoError>(testing::AllOf(testing::StartsWith("F: "), HasSubstr(reason))))
      << content;
}

/// Bytes of mapped files in this process's memory.
int64_t resident_of_files() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssFile:")) return std::stoll(line.substr(8)) * 1024;
  return 0;
}

TEST(Safetensors, ReadsAFileOfTheReference) {
  const SafetensorsFile file(test_data("golden/llama_tied/model/model.safetensors"));
  EXPECT_THAT(file.metadata(), ElementsAre(testing::Pair("format", "pt")));
  const TensorInfo* info = file.find("model.embed_tokens.weight");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->dtype, DType::f32);
  EXPECT_EQ(info->shape, (Shape{320, 64}));
  int64_t elements = 0;
  for (const auto& tensor : file.tensors()) elements += tensor.shape.elements();
  EXPECT_EQ(elements, 168512);
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);
}

TEST(Safetensors, ShardedBf16FolderHoldsTheSameWeights) {
  const SafetensorsFolder whole(test_data("golden/llama_tied/model"));
  const SafetensorsFolder sharded(test_data("golden/llama_tied/model_sharded_bf16"));
  ASSERT_THAT(names(sharded), testing::UnorderedElementsAreArray(names(whole)));
  for (const auto& info : whole.tensors()) {
    const Tensor wide = whole.tensor(info.name), narrow = sharded.tensor(info.name);
    ASSERT_EQ(narrow.dtype(), DType::bf16);
    ASSERT_EQ(narrow.shape(), wide.shape());
    for (int64_t i = 0; i < wide.elements(); ++i)
      ASSERT_EQ(wide.data<float>()[i], static_cast<float>(narrow.data<bfloat16>()[i]))
          << info.name << " " << i;
  }
}

TEST(Safetensors, TensorsOutliveTheirFile) {
  Tensor tensor;
  {
    const SafetensorsFile file(test_data("golden/llama_tied/model/model.safetensors"));
    tensor = file.tensor("model.norm.weight");
  }
  EXPECT_NEAR(tensor.data<float>()[0], 1.0f, 0.5f);  // norm weights are 1 + 0.1 n
}

TEST(Safetensors, EveryDtypeAndOddShapesComeBack) {
  TemporaryFolder folder;
  std::map<std::string, Tensor> tensors;
  int first = 1;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32,
                      DType::i16, DType::i8, DType::u8, DType::u16}) {
    const std::string name(dtype_name(dtype));
    tensors[name] = patterned(dtype, {3, 5, 7}, first++);
    tensors[name + ".scalar"] = patterned(dtype, {}, first++);
    tensors[name + ".empty"] = patterned(dtype, {4, 0}, first++);
  }
  tensors["\"quoted\" \xC3\xA9"] = patterned(DType::u8, {3}, 9);
  write_safetensors(folder / "all.safetensors", tensors);
  const SafetensorsFile file(folder / "all.safetensors");
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor read = file.tensor(name);
    EXPECT_EQ(read.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(read.shape(), tensor.shape()) << name;
    EXPECT_EQ(bytes_of(read), bytes_of(tensor)) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read.raw()) % dtype_bytes(read.dtype()), 0u) << name;
  }
}

TEST(Safetensors, StridedTensorsAreWrittenRowMajor) {
  TemporaryFolder folder;
  const Tensor columns = patterned(DType::i32, {4, 6, 2}, 3).slice(1, 2, 3);
  write_safetensors(folder / "a", {{"x", columns}});
  EXPECT_EQ(bytes_of(SafetensorsFile(folder / "a").tensor("x")), bytes_of(columns));
  const Tensor row = patterned(DType::i32, {4, 6, 2}, 3).select(1).slice(0, 2, 3);
  EXPECT_EQ(bytes_of(columns.select(1)), bytes_of(row));
}

TEST(Safetensors, TheFileDependsOnTheSetOfTensorsOnly) {
  TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{{"a", patterned(DType::u8, {3}, 1)},
                                              {"b", patterned(DType::f32, {2}, 2)},
                                              {"c", patterned(DType::bf16, {5}, 3)}};
  std::vector<TensorInfo> infos;
  for (const char* name : {"c", "a", "b"})
    infos.push_back({name, tensors.at(name).dtype(), tensors.at(name).shape()});
  write_safetensors(folder / "1", tensors);
  write_safetensors(folder / "2", infos, [&](const std::string& name) { return tensors.at(name); });
  EXPECT_EQ(read_file(folder / "1"), read_file(folder / "2"));
  EXPECT_THAT(names(SafetensorsFile(folder / "1")), ElementsAre("b", "c", "a"));
}

TEST(Safetensors, MisalignedTensorsAreCopied) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[],"data_offsets":[1,5]}})";
  std::string content = file_with(header, 5);
  const float value = 2.5f;
  std::memcpy(content.data() + content.size() - 4, &value, 4);
  const auto file = SafetensorsFile::from_memory(content, "F");
  const Tensor b = file.tensor("b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.raw()) % 4, 0u);
  EXPECT_EQ(*b.data<float>(), value);
}

TEST(Safetensors, BoolIsReadAsBytes) {
  const auto file = SafetensorsFile::from_memory(
      file_with(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}  )", 2), "F");
  EXPECT_EQ(file.tensor("m").dtype(), DType::u8);
}

TEST(Safetensors, AMissingTensorNamesTheNearest) {
  const SafetensorsFile file(test_data("golden/llama_tied/model/model.safetensors"));
  EXPECT_THAT([&] { file.tensor("model.norm.weigth"); },
              ThrowsMessage<IoError>(testing::AllOf(HasSubstr("model.norm.weigth"),
                                                    HasSubstr("\"model.norm.weight\""))));
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const auto one = [](const std::string& fields) { return "{\"x\":{" + fields + "}}"; };
  expect_refused("", "too few");
  expect_refused(file_with("{}", 0).substr(0, 9), "truncated");
  expect_refused(std::string(8, '\xff') + "{}", "limit");
  expect_refused(file_with("{", 0), "not valid JSON");
  expect_refused(file_with("[]", 0), "not a JSON object");
  expect_refused(file_with(std::string("{}\0{", 4), 0), "zero byte");
  expect_refused(file_with("{} {}", 0), "not valid JSON");
  expect_refused(file_with(std::string(1000, '['), 0), "nested deeper");
  expect_refused(file_with("{}", 1), "the file holds 1");
  expect_refused(file_with(R"({"x":1})", 0), "not an object");
  expect_refused(file_with(one(R"("shape":[],"data_offsets":[0,4])"), 4), "no \"dtype\"");
  expect_refused(file_with(one(R"("dtype":"F31","shape":[],"data_offsets":[0,4])"), 4), "\"F31\"");
  expect_refused(file_with(one(R"("dtype":7,"shape":[],"data_offsets":[0,4])"), 4), "not a string");
  expect_refused(file_with(one(R"("dtype":"F32","shape":3,"data_offsets":[0,4])"), 4),
                 "not an array");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4),
                 "not a count");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4),
                 "not a count");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4),
                 "7 dims");
  expect_refused(
      file_with(one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), 0),
      "overflow");
  expect_refused(
      file_with(one(R"("dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0])"), 0),
      "overflow");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[],"data_offsets":[0])"), 4), "pair");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[],"data_offsets":[4,0])"), 4), "rising");
  expect_refused(
      file_with(one(R"("dtype":"F32","shape":[],"data_offsets":[0,18446744073709551615])"), 4),
      "rising");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 4),
                 "holds only 4");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
                 "expected 8");
  expect_refused(file_with(one(R"("dtype":"F32","shape":[],"data_offsets":[4,8])"), 8), "a gap");
  expect_refused(file_with(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                           3),
                 "overlaps");
  expect_refused(file_with(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                           2),
                 "\"x\" appears twice");
  expect_refused(file_with(R"({"__metadata__":{"a":1}})", 0), "not a string");
  std::string many = "0";
  for (int i = 0; i < 100; ++i) many += ",0";
  expect_refused(file_with(one("\"shape\":[" + many + "]"), 0), "more than 64");
}

TEST(SafetensorsFolder, IsWrittenInShardsAsHuggingFaceCuts) {
  TemporaryFolder folder;
  const SafetensorsFolder source(test_data("golden/llama_tied/model_sharded_bf16"));
  const auto get = [&](const std::string& name) { return source.tensor(name); };
  write_safetensors_folder(folder.path(), source.tensors(), get, 120000);
  EXPECT_TRUE(std::filesystem::exists(folder / "model-00001-of-00003.safetensors"));
  EXPECT_THAT(read_file(folder / "model.safetensors.index.json"),
              HasSubstr("\"total_size\": 337024"));
  const SafetensorsFolder copy(folder.path());
  ASSERT_EQ(copy.tensors().size(), source.tensors().size());
  for (const auto& info : source.tensors())
    EXPECT_EQ(bytes_of(copy.tensor(info.name)), bytes_of(source.tensor(info.name))) << info.name;

  // A second save to the same file replaces the first completely.
  write_safetensors_folder(folder.path(), source.tensors(), get);
  std::vector<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    left.push_back(file.path().filename());
  EXPECT_THAT(left, ElementsAre("model.safetensors"));
  EXPECT_EQ(SafetensorsFolder(folder.path()).tensors().size(), source.tensors().size());
}

TEST(SafetensorsFolder, ATensorLargerThanAShardHasItsOwn) {
  TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{{"a", patterned(DType::u8, {10}, 1)},
                                              {"b", patterned(DType::u8, {100}, 2)},
                                              {"c", patterned(DType::u8, {10}, 3)}};
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors) infos.push_back({name, DType::u8, tensor.shape()});
  write_safetensors_folder(
      folder.path(), infos, [&](const std::string& name) { return tensors.at(name); }, 20);
  EXPECT_TRUE(std::filesystem::exists(folder / "model-00003-of-00003.safetensors"));
  EXPECT_EQ(bytes_of(SafetensorsFolder(folder.path()).tensor("b")), bytes_of(tensors.at("b")));
}

TEST(SafetensorsFolder, DamagedFoldersAreRefused) {
  TemporaryFolder folder;
  const auto open = [&] { SafetensorsFolder{folder.path()}; };
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("no weights")));
  const auto index = [&](const std::string& map) {
    write_file_atomically(folder / "model.safetensors.index.json", "{\"weight_map\":" + map + "}");
  };
  index(R"({"a":"s1","b":"s2"})");
  write_safetensors(folder / "s1", {{"a", patterned(DType::u8, {2}, 1)}});
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("shard s2 is missing")));
  write_safetensors(folder / "s2", {{"c", patterned(DType::u8, {2}, 1)}});
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("\"c\" of shard s2 is not listed")));
  write_safetensors(folder / "s2", {{"a", patterned(DType::u8, {2}, 1)}});
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("in an earlier shard")));
  write_safetensors(folder / "s2", std::map<std::string, Tensor>{});
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("\"b\" is not in its shard s2")));
  for (const char* name : {"../s1", "/etc/passwd", "..", "", "a\\\\b"}) {
    index(R"({"a":")" + std::string(name) + R"("})");
    EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("plain name"))) << name;
  }
  index("[]");
  EXPECT_THAT(open, ThrowsMessage<IoError>(HasSubstr("weight_map")));
}

TEST(SafetensorsWriter, WrongTensorsAndNamesLeaveNothingBehind) {
  TemporaryFolder folder;
  const Tensor tensor = patterned(DType::u8, {2}, 1);
  const auto get = [&](const std::string&) { return tensor; };
  EXPECT_THAT(
      [&] {
        write_safetensors(folder / "x", {{"a", DType::u8, {3}}}, get);
      },
      ThrowsMessage<ShapeError>(HasSubstr("u8 [3] was announced")));
  EXPECT_THROW(write_safetensors(folder / "x", {{"a", DType::u8, {2}}, {"a", DType::u8, {2}}}, get),
               IoError);
  EXPECT_THROW(write_safetensors(folder / "x", {{"__metadata__", DType::u8, {2}}}, get), IoError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A model that fits memory once must not be there twice while it is read.
TEST(Safetensors, PagesThatWereReadLeaveTheProcess) {
  constexpr int64_t kBytes = int64_t{16} << 20;
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "model.safetensors", std::ios::binary) << file_with(
      R"({"w":{"dtype":"F32","shape":[4096,1024],"data_offsets":[0,16777216]}})", kBytes);
  const SafetensorsFolder source(folder.path());
  std::vector<std::byte> copied(kBytes);
  const int64_t before = resident_of_files();
  source.read_into("w", whole_piece(whole_box({4096, 1024})), copied.data());
  EXPECT_LT(resident_of_files() - before, kBytes / 4);
  const Tensor view = source.tensor("w");
  std::memcpy(copied.data(), view.raw(), kBytes);
  EXPECT_GT(resident_of_files() - before, kBytes / 2);
  source.check_read();
  EXPECT_LT(resident_of_files() - before, kBytes / 4);
  EXPECT_EQ(view.data<float>()[4096 * 1024 - 1], 0);  // comes back
}

}  // namespace
}  // namespace viaduct
