// Checkpoints written and read by one rank and by several, in the stored layout and in others.

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/save_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The elements of a piece of `whole`, densely.
Tensor cut(const Tensor& whole, const Piece& piece) {
  Tensor part = host_tensor(whole.dtype(), {piece.elements()});
  copy_shared(whole_piece(whole_box(whole.shape())), static_cast<const std::byte*>(whole.raw()),
              piece, static_cast<std::byte*>(part.raw()), dtype_bytes(whole.dtype()));
  return part;
}

// The pieces of a grid over dim 0 and 1, each box cut into `ranges` flat ranges.
std::vector<Piece> grid(const Shape& shape, int64_t rows, int64_t columns, int64_t ranges) {
  std::vector<Piece> pieces;
  const auto border = [](int64_t size, int64_t part, int64_t parts) { return size * part / parts; };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      Box box = whole_box(shape);
      box.begin[0] = border(shape[0], r, rows);
      box.size[0] = border(shape[0], r + 1, rows) - box.begin[0];
      box.begin[1] = border(shape[1], c, columns);
      box.size[1] = border(shape[1], c + 1, columns) - box.begin[1];
      const int64_t elements = box.size.elements();
      for (int64_t i = 0; i < ranges; ++i)
        pieces.push_back({box, border(elements, i, ranges), border(elements, i + 1, ranges)});
    }
  }
  return pieces;
}

TEST(Checkpoint, OneRankRoundTrip) {
  TemporaryFolder save;
  const Tensor weight = patterned(DType::bf16, {7, 9}, 1), scalar = patterned(DType::f64, {}, 2);
  const Tensor moment = patterned(DType::f32, {7, 9}, 3);
  {
    CheckpointWriter writer(save.path(), 10);
    ShardWriter shard(writer.folder(), 0);
    shard.add("model.weight", weight);
    shard.add("optimizer.exp_avg/model.weight", moment);
    shard.add("scale", scalar);
    shard.add("empty", host_tensor(DType::u8, {0, 3}));
    shard.finish();
    writer.set_state(R"({"samples": 320, "scaler": 0.1, "name": "x"})");
    writer.add_file("config.json", "{}");
    EXPECT_FALSE(has_latest(save.path()));
    writer.commit();
  }
  EXPECT_EQ(read_file(save / "latest"), "step_00000010\n");
  const auto reader = open_checkpoint(save.path());
  reader->verify();
  EXPECT_EQ(reader->step(), 10);
  EXPECT_EQ(reader->state(), R"({"name":"x","samples":320,"scaler":0.1})");
  EXPECT_EQ(reader->tensors().size(), 4u);
  EXPECT_EQ(bytes_of(reader->tensor("model.weight")), bytes_of(weight));
  EXPECT_EQ(reader->tensor("model.weight").dtype(), DType::bf16);
  EXPECT_EQ(bytes_of(reader->tensor("optimizer.exp_avg/model.weight")), bytes_of(moment));
  EXPECT_EQ(bytes_of(reader->tensor("scale")), bytes_of(scalar));
  EXPECT_EQ(reader->tensor("empty").shape(), (Shape{0, 3}));
  EXPECT_FALSE(is_weight_name("optimizer.exp_avg/model.weight"));

  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(save / "step_00000010"))
    names.push_back(file.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("config.json", "index.json", "pieces.jsonl",
                                                   "rank_00000.bin"));
}

TEST(Checkpoint, EqualContentGivesEqualFiles) {
  TemporaryFolder save;
  for (const char* run : {"a", "b"}) {
    CheckpointWriter writer(save / run, 3);
    ShardWriter shard(writer.folder(), 0);
    shard.add("x", patterned(DType::f32, {5}, 1));
    shard.finish();
    writer.commit();
  }
  for (const char* file :
       {"step_00000003/index.json", "step_00000003/pieces.jsonl", "step_00000003/rank_00000.bin"})
    EXPECT_EQ(read_file(save / "a" / file), read_file(save / "b" / file)) << file;
}

TEST(Checkpoint, TensorsOutliveTheReader) {
  TemporaryFolder save;
  const Tensor weight = patterned(DType::f32, {64}, 1);
  {
    CheckpointWriter writer(save.path(), 1);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", weight);
    shard.finish();
    writer.commit();
  }
  const Tensor read = open_checkpoint(save.path())->tensor("w");
  EXPECT_EQ(bytes_of(read), bytes_of(weight));
}

TEST(Checkpoint, AnyLayoutReadsWhatAnyLayoutWrote) {
  TemporaryFolder save;
  const Tensor whole = patterned(DType::f32, {11, 13, 3}, 5);
  const TensorInfo info{"w", whole.dtype(), whole.shape()};
  int64_t step = 0;
  for (const auto& [rows, columns, ranges] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {4, 1, 1}, {1, 3, 1}, {2, 2, 3}, {1, 1, 7}}) {
    const auto pieces = grid(whole.shape(), rows, columns, ranges);
    const int ranks = 3;
    CheckpointWriter writer(save.path(), ++step, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      ShardWriter shard(checkpoint_temporary_folder(save.path(), step), rank);
      for (size_t i = static_cast<size_t>(rank); i < pieces.size(); i += ranks)
        shard.add({info, pieces[i]}, cut(whole, pieces[i]));
      shard.finish();
    }
    writer.commit();

    const auto reader = open_checkpoint(save.path());
    ASSERT_EQ(reader->step(), step);
    EXPECT_EQ(bytes_of(reader->tensor("w")), bytes_of(whole));
    for (const auto& wanted : {grid(whole.shape(), 2, 1, 1), grid(whole.shape(), 1, 5, 2),
                               grid(whole.shape(), 3, 2, 4)}) {
      for (const Piece& piece : wanted) {
        Tensor part = host_tensor(DType::f32, {piece.elements()});
        reader->read_into("w", piece, static_cast<std::byte*>(part.raw()));
        ASSERT_EQ(bytes_of(part), bytes_of(cut(whole, piece)))
            << to_string(piece) << " of step " << step;
      }
    }
    const Box box{{2, 3, 1}, {5, 6, 2}};
    EXPECT_EQ(bytes_of(reader->read("w", box)), bytes_of(cut(whole, whole_piece(box))));
    EXPECT_THROW(reader->read("w", {{2, 3, 1}, {5, 11, 2}}), ShapeError);
  }
}

TEST(Checkpoint, MissingAndOverlappingPartsAreNotPublished) {
  TemporaryFolder save;
  const Tensor whole = patterned(DType::u8, {4, 6}, 1);
  const TensorInfo info{"w", whole.dtype(), whole.shape()};
  const auto commit = [&](const std::vector<Piece>& pieces) {
    CheckpointWriter writer(save.path(), 1);
    ShardWriter shard(writer.folder(), 0);
    for (const auto& piece : pieces) shard.add({info, piece}, cut(whole, piece));
    shard.finish();
    writer.commit();
  };
  const Box left{{0, 0}, {4, 3}}, right{{0, 3}, {4, 3}}, middle{{1, 2}, {2, 2}};
  EXPECT_THAT([&] { commit({whole_piece(left)}); },
              ThrowsMessage<IoError>(testing::AllOf(HasSubstr("\"w\""), HasSubstr("12 of 24"))));
  EXPECT_THAT(
      [&] {
        commit({whole_piece(left), {right, 0, 5}, {right, 6, 12}});
      },
      ThrowsMessage<IoError>(HasSubstr("23 of 24")));
  EXPECT_THAT(
      [&] {
        commit({whole_piece(left), {right, 0, 7}, {right, 6, 12}});
      },
      ThrowsMessage<IoError>(HasSubstr("overlap")));
  EXPECT_THAT(
      [&] {
        commit({whole_piece(left), {right, 0, 8}, whole_piece(middle)});
      },
      ThrowsMessage<IoError>(HasSubstr("overlap")));
  EXPECT_THAT(
      [&] {
        commit({whole_piece(left), whole_piece(right), whole_piece(right)});
      },
      ThrowsMessage<IoError>(HasSubstr("overlap")));
  EXPECT_TRUE(std::filesystem::is_empty(save.path()));
  commit({{right, 6, 12}, whole_piece(left), {right, 0, 6}});
  EXPECT_EQ(bytes_of(open_checkpoint(save.path())->tensor("w")), bytes_of(whole));
}

TEST(Checkpoint, RanksMustAllComeAndAgree) {
  TemporaryFolder save;
  CheckpointWriter writer(save.path(), 1, 2);
  {
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", patterned(DType::u8, {4}, 1));
    shard.finish();
  }
  EXPECT_THAT([&] { writer.commit(); }, ThrowsMessage<IoError>(HasSubstr("rank 1 of 2")));
  {
    ShardWriter shard(writer.folder(), 1);
    shard.add("w", patterned(DType::u8, {5}, 1));
    shard.finish();
  }
  EXPECT_THAT([&] { writer.commit(); }, ThrowsMessage<IoError>(HasSubstr("on another rank")));
}

TEST(Checkpoint, WrongEntriesAreShapeErrors) {
  TemporaryFolder save;
  CheckpointWriter writer(save.path(), 1);
  ShardWriter shard(writer.folder(), 0);
  const TensorInfo info{"w", DType::f32, {4, 4}};
  const Tensor data = host_tensor(DType::f32, {4});
  const Box row{{1, 0}, {1, 4}};
  EXPECT_THROW(shard.add({info, {{{1, 0}, {1, 5}}, 0, 4}}, data), ShapeError);
  EXPECT_THROW(shard.add({info, {row, 1, 5}}, data), ShapeError);
  EXPECT_THROW(shard.add({info, {row, 0, 3}}, data), ShapeError);
  EXPECT_THROW(shard.add({info, whole_piece(row)}, host_tensor(DType::i32, {4})), ShapeError);
  EXPECT_THROW(shard.add({info, whole_piece(row)}, Tensor()), ShapeError);
  shard.add({info, whole_piece(row)}, data);
  EXPECT_THROW(shard.add({{"w", DType::f32, {4, 5}}, whole_piece(row)}, data), ShapeError);
}

TEST(Checkpoint, FilesNeedNamesOfTheirOwn) {
  TemporaryFolder save;
  CheckpointWriter writer(save.path(), 1);
  writer.add_file("config.json", "{}");
  for (const char* name :
       {"config.json", "index.json", "pieces.jsonl", "rank_00000.bin", "../x", "a/b", ""})
    EXPECT_THROW(writer.add_file(name, "x"), IoError) << name;
  EXPECT_THROW(writer.set_state("{"), IoError);
}

TEST(Checkpoint, RetentionKeepsTheNewest) {
  TemporaryFolder save;
  const auto commit = [&](int64_t step, int64_t keep) {
    CheckpointWriter writer(save.path(), step);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", patterned(DType::u8, {4}, static_cast<uint64_t>(step)));
    shard.finish();
    writer.commit(keep);
  };
  for (int64_t step : {10, 20, 30}) commit(step, 0);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(10, 20, 30));
  commit(40, 2);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(30, 40));
  // A run that was rolled back to step 30 saves step 35: later steps are neither counted nor
  // removed.
  commit(35, 2);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(30, 35, 40));
  EXPECT_EQ(latest_step(save.path()), 35);
  commit(40, 2);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(35, 40));
  EXPECT_EQ(bytes_of(open_checkpoint(save.path())->tensor("w")),
            bytes_of(patterned(DType::u8, {4}, 40)));
}

TEST(Checkpoint, AStepIsReplacedAsAWhole) {
  TemporaryFolder save;
  for (uint64_t seed : {1, 2}) {
    CheckpointWriter writer(save.path(), 5);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", patterned(DType::u8, {40}, seed));
    shard.finish();
    if (seed == 1) writer.add_file("only_in_the_first", "x");
    writer.commit();
  }
  EXPECT_EQ(bytes_of(open_checkpoint(save.path())->tensor("w")),
            bytes_of(patterned(DType::u8, {40}, 2)));
  EXPECT_FALSE(std::filesystem::exists(save / "step_00000005/only_in_the_first"));
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(save.path()))
    names.push_back(file.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("latest", "step_00000005"));
}

TEST(SaveFolder, StepNamesHaveOneSpelling) {
  EXPECT_EQ(step_folder_name(10), "step_00000010");
  EXPECT_EQ(step_folder_name(1234567890), "step_1234567890");
  EXPECT_EQ(parse_step_folder_name("step_00000010"), 10);
  EXPECT_EQ(parse_step_folder_name("step_1234567890"), 1234567890);
  for (const char* name : {"step_10", "step_", "step_-0000010", "step_00000010.tmp-new", "latest",
                           "step_0000001x", "step_99999999999999999999", "step_+0000010"})
    EXPECT_EQ(parse_step_folder_name(name), std::nullopt) << name;
}

}  // namespace
}  // namespace viaduct
