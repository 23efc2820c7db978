// Quantized types of GGUF files, bit by bit as llama.cpp's package computes their values.

#include "tensor/gguf_blocks.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_folder.h"
#include "model/hf_config.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr GgufTensorType kQuantized[] = {
    GgufTensorType::q4_0, GgufTensorType::q4_1, GgufTensorType::q5_0, GgufTensorType::q5_1,
    GgufTensorType::q8_0, GgufTensorType::q2_k, GgufTensorType::q3_k, GgufTensorType::q4_k,
    GgufTensorType::q5_k, GgufTensorType::q6_k, GgufTensorType::mxfp4};

std::filesystem::path quantized_model() {
  return test_data("gguf_blocks/model.gguf");
}

struct GoldenBlock {
  GgufTensorType type = GgufTensorType::f32;
  std::vector<std::byte> bytes;
  std::vector<uint32_t> values;
};

std::vector<GoldenBlock> golden_blocks() {
  std::ifstream file(test_data("gguf_blocks/blocks.txt"));
  std::vector<GoldenBlock> blocks;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, hex;
    words >> name >> hex;
    GoldenBlock& block = blocks.emplace_back();
    for (const GgufTensorType type : kQuantized)
      if (gguf_type_name(type) == name) block.type = type;
    for (size_t at = 0; at < hex.size(); at += 2)
      block.bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(at, 2), nullptr, 16)));
    for (std::string bits; words >> bits;)
      block.values.push_back(static_cast<uint32_t>(std::stoul(bits, nullptr, 16)));
  }
  return blocks;
}

TEST(GgufBlocks, EveryTypeHasThePackagesValues) {
  std::set<GgufTensorType> seen;
  for (const GoldenBlock& block : golden_blocks()) {
    const GgufType& type = gguf_type(block.type);
    ASSERT_EQ(static_cast<int64_t>(block.bytes.size()), type.bytes) << type.name;
    ASSERT_EQ(static_cast<int64_t>(block.values.size()), type.block) << type.name;
    std::vector<float> values(block.values.size());
    decode_gguf_elements(block.type, block.bytes.data(), 0, type.block, values.data());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), block.values[i]) << type.name << " " << i;
    seen.insert(block.type);
  }
  EXPECT_EQ(seen.size(), std::size(kQuantized));
}

TEST(GgufBlocks, RangesAreCutOutOfBlocks) {
  for (const GgufTensorType type : kQuantized) {
    std::vector<std::byte> bytes;
    for (const GoldenBlock& block : golden_blocks())
      if (block.type == type) bytes.insert(bytes.end(), block.bytes.begin(), block.bytes.end());
    const int64_t size = gguf_type(type).block;
    std::vector<float> whole(static_cast<size_t>(2 * size)), part(whole.size());
    decode_gguf_elements(type, bytes.data(), 0, 2 * size, whole.data());
    for (const auto& [begin, end] :
         {std::pair{int64_t{0}, int64_t{1}}, {size - 1, size + 1}, {3, 2 * size - 5}}) {
      decode_gguf_elements(type, bytes.data(), begin, end, part.data());
      EXPECT_EQ(std::memcmp(part.data(), whole.data() + begin,
                            static_cast<size_t>(end - begin) * sizeof(float)),
                0)
          << gguf_type_name(type);
    }
  }
}

// Slices of ranks are decoded without the rest, and are those of the whole tensor.
TEST(GgufBlocks, PiecesOfTensorsAreThoseOfTheWhole) {
  const auto weights = open_weights(resolve_model_folder(quantized_model()));
  std::set<GgufTensorType> types;
  for (const GgufTensor& tensor : GgufFile(quantized_model()).head().tensors)
    types.insert(tensor.type);
  EXPECT_EQ(types.size(), std::size(kQuantized) + 2);
  int64_t pieces = 0;
  for (const TensorInfo& info : weights->tensors()) {
    const Tensor whole = weights->tensor(info.name);
    const int64_t rows = info.shape[0];
    Box box = whole_box(info.shape);
    box.begin[0] = rows / 4;
    box.size[0] = rows / 2;
    if (info.shape.rank() == 2) {
      box.begin[1] = info.shape[1] / 2 - 1;
      box.size[1] = info.shape[1] / 2;
    }
    const int64_t elements = box.size.elements();
    for (const Piece& piece :
         {whole_piece(whole_box(info.shape)), whole_piece(box), Piece{box, 1, elements - 1},
          Piece{box, elements / 2, elements / 2}}) {
      const auto size = static_cast<size_t>(piece.elements() * dtype_bytes(info.dtype));
      std::vector<std::byte> found(size), expected(size);
      weights->read_into(info.name, piece, found.data());
      copy_shared(whole_piece(whole_box(info.shape)), static_cast<const std::byte*>(whole.raw()),
                  piece, expected.data(), dtype_bytes(info.dtype));
      EXPECT_EQ(found, expected) << info.name << " " << to_string(piece);
      ++pieces;
    }
    Piece beyond = whole_piece(box);
    beyond.box.begin[0] = rows;
    EXPECT_THROW(weights->read_into(info.name, beyond, nullptr), ShapeError) << info.name;
  }
  EXPECT_GT(pieces, 60);
}

// GPT-2's matrices are stored transposed.
TEST(GgufBlocks, PiecesOfTransposedMatricesAreThoseOfTheWhole) {
  test::TemporaryFolder folder;
  const ModelFolder from = resolve_model_folder(test_data("golden/gpt2/model"));
  write_gguf(folder / "m.gguf", "name", read_model_config(from), *open_weights(from), {},
             ExportFormat::q8_0);
  const auto weights = open_weights(resolve_model_folder(folder / "m.gguf"));
  for (const TensorInfo& info : weights->tensors()) {
    if (info.shape.rank() != 2) continue;
    const Tensor whole = weights->tensor(info.name);
    const Box box{{2, 5}, {info.shape[0] - 3, info.shape[1] - 7}};
    const Piece piece{box, 9, box.size.elements() - 4};
    const auto size = static_cast<size_t>(piece.elements() * dtype_bytes(info.dtype));
    std::vector<std::byte> found(size), expected(size);
    weights->read_into(info.name, piece, found.data());
    copy_shared(whole_piece(whole_box(info.shape)), static_cast<const std::byte*>(whole.raw()),
                piece, expected.data(), dtype_bytes(info.dtype));
    EXPECT_EQ(found, expected) << info.name;
  }
}

TEST(GgufBlocks, AFileIsAModelFolder) {
  const ModelFolder file = resolve_model_folder(quantized_model());
  EXPECT_EQ(file.kind, ModelFolderKind::gguf);
  EXPECT_EQ(read_model_config(file).hidden, 256);
  EXPECT_EQ(model_name(file), "quantized");
  EXPECT_EQ(type_of_weights(file), DType::f32);
  EXPECT_TRUE(has_tokenizer(file.path));
  const Tokenizer tokenizer = open_tokenizer(file.path);
  EXPECT_EQ(tokenizer.vocab_size(), 32);
  EXPECT_EQ(tokenizer.special_ids().eod, 0);
  const auto texts = model_side_texts(file.path);
  EXPECT_THAT(texts.at("chat_template.jinja"), HasSubstr("eos_token"));
  EXPECT_THAT(texts.at("tokenizer_config.json"), HasSubstr("\"eos_token\": \"<|end|>\""));
  EXPECT_TRUE(texts.contains("tokenizer.json"));
}

TEST(GgufBlocks, RefusesTypesAndPartsThatAreNotRead) {
  const std::string good = read_file(quantized_model());
  const std::string name = "blk.0.attn_q.weight";
  const size_t type = good.find(name) + name.size() + 4 + 2 * 8;
  const auto with_type = [&](uint32_t number) {
    std::string file = good;
    std::memcpy(file.data() + type, &number, sizeof(number));
    return GgufFile::from_memory(file, "F");
  };
  EXPECT_THAT([&] { with_type(16); }, ThrowsMessage<IoError>(HasSubstr(
                                          "F: tensor \"blk.0.attn_q.weight\" is IQ2_XXS, which "
                                          "is not read (types that are: F32, F16, BF16")));
  EXPECT_THAT([&] { with_type(34); }, ThrowsMessage<IoError>(HasSubstr("is TQ1_0")));
  EXPECT_THAT([&] { with_type(77); }, ThrowsMessage<IoError>(HasSubstr("unknown type 77")));
  // Its bytes would reach into the next tensor, or out of the file.
  EXPECT_THAT([&] { with_type(1); }, ThrowsMessage<IoError>(HasSubstr("of the data")));
  GgufHeadWriter head;
  head.add_u32("split.count", 3);
  EXPECT_THAT([&] { gguf_config_text(GgufFile::from_memory(head.head(), "F")); },
              ThrowsMessage<ConfigError>(HasSubstr("one of 3 files")));
}

TEST(PickledWeights, AreRefusedWithTheReasonAndWhatConverts) {
  test::TemporaryFolder folder;
  const auto refused = [&](const std::filesystem::path& path) {
    EXPECT_THAT(
        [&] { open_weights(resolve_model_folder(path)); },
        ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr("pickle"), HasSubstr("python3 -c"))))
        << path;
  };
  for (const char* name : {"a.bin", "b.pth", "c.pt", "d.ckpt"}) {
    write_file_atomically(folder / name, "x");
    refused(folder / name);
  }
  std::filesystem::create_directory(folder / "meta");
  write_file_atomically(folder / "meta/consolidated.00.pth", "x");
  refused(folder / "meta");
  std::filesystem::create_directory(folder / "shards");
  write_file_atomically(folder / "shards/config.json", "{}");
  write_file_atomically(folder / "shards/pytorch_model-00001-of-00002.bin", "x");
  refused(folder / "shards");
  std::filesystem::create_directory(folder / "files");
  write_file_atomically(folder / "files/b.gguf", "x");
  write_file_atomically(folder / "files/a.gguf", "x");
  EXPECT_THAT([&] { resolve_model_folder(folder / "files"); },
              ThrowsMessage<IoError>(HasSubstr((folder / "files/a.gguf").string())));
}

}  // namespace
}  // namespace viaduct
