// With any number of writers, a rank opens only the shards and parses only the index lines that it
// needs.

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/checkpoint_writer.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kRanks = 16384, kPiecesPerTensor = 64, kElements = 32;

std::string tensor_name(int64_t number) {
  return fmt::format("model.layers.{}.weight", number);
}

std::string shard_name(int64_t rank) {
  return fmt::format("rank_{:05}.bin", rank);
}

/// Rank r holds piece r % 64 of tensor r / 64.
Tensor values_of(int64_t rank) {
  return patterned(DType::f32, {kElements}, static_cast<uint64_t>(rank));
}

CheckpointIndex index_of_all_ranks() {
  CheckpointIndex index;
  index.step = 7;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const uint64_t checksum = hash64(bytes_of(values_of(rank)));
    index.shards.push_back(
        {shard_name(rank), kElements * static_cast<int64_t>(sizeof(float)), checksum});
    StoredTensor& tensor = index.tensors[tensor_name(rank / kPiecesPerTensor)];
    tensor.dtype = DType::f32;
    tensor.shape = {kElements * kPiecesPerTensor};
    const int64_t begin = kElements * (rank % kPiecesPerTensor);
    tensor.pieces.push_back({{whole_box(tensor.shape), begin, begin + kElements},
                             static_cast<size_t>(rank),
                             0,
                             checksum});
  }
  return index;
}

class ManyRanks : public testing::Test {
 protected:
  ManyRanks() {
    const DirectoryTexts texts = format_directory(index_of_all_ranks());
    write_file_atomically(folder / "index.json", texts.index);
    write_file_atomically(folder / "pieces.jsonl", texts.pieces);
  }
  /// Only these shards exist: opening another one would fail.
  void make_shards(const std::vector<int64_t>& ranks) {
    for (const int64_t rank : ranks)
      write_file_atomically(folder / shard_name(rank), bytes_of(values_of(rank)));
  }
  static std::string read(const CheckpointReader& reader, int64_t tensor, int64_t begin,
                          int64_t end) {
    const Tensor values = host_tensor(DType::f32, {end - begin});
    reader.read_into(tensor_name(tensor), {whole_box({kElements * kPiecesPerTensor}), begin, end},
                     static_cast<std::byte*>(values.raw()));
    return bytes_of(values);
  }

  TemporaryFolder folder;
};

TEST_F(ManyRanks, ARankOpensItsOwnShardInTheSameLayout) {
  constexpr int kRank = 9000;
  make_shards({kRank});
  const CheckpointReader reader(folder.path(), {kRank, kRanks});
  EXPECT_EQ(reader.opened_shards(), 0);
  EXPECT_EQ(reader.tensors().size(), static_cast<size_t>(kRanks / kPiecesPerTensor));
  const int64_t begin = kElements * (kRank % kPiecesPerTensor);
  EXPECT_EQ(read(reader, kRank / kPiecesPerTensor, begin, begin + kElements),
            bytes_of(values_of(kRank)));
  EXPECT_EQ(reader.opened_shards(), 1);
  // Lines of the index: the tensor's line and those of 256 of 320 shards.
  EXPECT_EQ(reader.parsed_lines(), 2);
}

TEST_F(ManyRanks, ARankOpensTheShardsItNeedsInAnother) {
  // The last 40 elements of tensor 3 are in the shards of two ranks; rank 5 of 8192 checks the
  // sizes of two other shards, which may be missing.
  const int64_t last = 4 * kPiecesPerTensor - 1;
  make_shards({5, 5 + kRanks / 2, last - 1, last});
  const CheckpointReader reader(folder.path(), {5, kRanks / 2});
  const int64_t end = kElements * kPiecesPerTensor;
  const std::string both = bytes_of(values_of(last - 1)) + bytes_of(values_of(last));
  EXPECT_EQ(read(reader, 3, end - 40, end), both.substr(both.size() - 40 * sizeof(float)));
  EXPECT_EQ(reader.opened_shards(), 2);
}

TEST_F(ManyRanks, SizesOfShardsAreLookedAtByRanksInTurn) {
  make_shards({77});
  EXPECT_NO_THROW(CheckpointReader(folder.path(), {77, kRanks}));
  EXPECT_THAT(
      [&] {
        CheckpointReader(folder.path(), {78, kRanks});
      },
      ThrowsMessage<IoError>(AllOf(HasSubstr("rank_00078.bin"), HasSubstr("No such file"))));
  std::filesystem::resize_file(folder / shard_name(77), 1);
  EXPECT_THAT(
      [&] {
        CheckpointReader(folder.path(), {77, kRanks});
      },
      ThrowsMessage<IoError>(HasSubstr("truncated")));
}

TEST(OldVersion, IsReadWhole) {
  TemporaryFolder save;
  const Tensor weight = patterned(DType::f32, {7, 9}, 1);
  {
    CheckpointWriter writer(save.path(), 3);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", weight);
    shard.finish();
    writer.set_state(R"({"samples":12})");
    writer.add_file("config.json", "{}");
    writer.commit();
  }
  // As in a folder of version 1: everything in index.json.
  const auto step = save / "step_00000003";
  write_file_atomically(step / "index.json",
                        format_checkpoint_index(open_checkpoint(save.path())->index()));
  std::filesystem::remove(step / "pieces.jsonl");
  const auto reader = open_checkpoint(save.path());
  reader->verify();
  EXPECT_EQ(reader->step(), 3);
  EXPECT_EQ(reader->state(), R"({"samples":12})");
  EXPECT_EQ(reader->files().size(), 1u);
  EXPECT_EQ(bytes_of(reader->tensor("w")), bytes_of(weight));
  EXPECT_EQ(reader->index().shards.size(), 1u);
}

}  // namespace
}  // namespace viaduct
