// Full disks, damaged files, killed saves: a checkpoint is intact or refused with file and reason,
// and the previous one is unchanged.

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save_folder.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::FileSizeLimit;
using test::patterned;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor weight_of(int64_t step) {
  return patterned(DType::f32, {300, 100}, static_cast<uint64_t>(step));
}

StagedCheckpoint staged(const std::filesystem::path& save, int64_t step) {
  StagedCheckpoint checkpoint;
  checkpoint.save = save;
  checkpoint.step = step;
  const Tensor tensor = weight_of(step), small = patterned(DType::bf16, {7}, 1);
  checkpoint.entries.push_back({whole_entry({"first", small.dtype(), small.shape()}), small});
  checkpoint.entries.push_back({whole_entry({"w", tensor.dtype(), tensor.shape()}), tensor});
  checkpoint.files["config.json"] = R"({"model_type":"llama"})";
  return checkpoint;
}

const std::shared_ptr<Communicator> alone = make_self_communicator();

void save_alone(const StagedCheckpoint& checkpoint) {
  save_checkpoint(*alone, checkpoint);
}

void flip_bit(const std::filesystem::path& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.good());
}

void overwrite(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class CheckpointFault : public testing::Test {
 protected:
  CheckpointFault() {
    save_alone(staged(save.path(), 10));
    save_alone(staged(save.path(), 20));
  }

  void expect_step(int64_t step, const OpenCheckpointOptions& options = {}) {
    const auto reader = open_checkpoint(save.path(), options);
    reader->verify();
    EXPECT_EQ(reader->step(), step);
    EXPECT_EQ(bytes_of(reader->tensor("w")), bytes_of(weight_of(step)));
  }
  // Opening and reading everything fails with a message that contains all of these.
  void expect_refused(const std::string& what, const std::string& where) {
    const auto read_all = [&] {
      const auto reader = open_checkpoint(save.path());
      for (const auto& info : reader->tensors()) reader->tensor(info.name);
    };
    EXPECT_THAT(read_all, ThrowsMessage<IoError>(AllOf(HasSubstr(what), HasSubstr(where))));
  }

  TemporaryFolder save;
  const std::filesystem::path latest = save / "step_00000020";
  const std::filesystem::path shard = latest / "rank_00000.bin";
};

TEST_F(CheckpointFault, AFullDiskLeavesThePreviousCheckpoint) {
  {
    const FileSizeLimit limit(32 << 10);
    EXPECT_THAT(
        [&] { save_alone(staged(save.path(), 30)); },
        ThrowsMessage<IoError>(AllOf(HasSubstr("cannot write"), HasSubstr("File too large"))));
  }
  EXPECT_THAT(names_in(save.path()), ElementsAre("latest", "step_00000010", "step_00000020"));
  expect_step(20);
  save_alone(staged(save.path(), 30));  // there is room again
  expect_step(30);
}

TEST_F(CheckpointFault, AFullDiskWhileReplacingAStepLeavesIt) {
  {
    const FileSizeLimit limit(32 << 10);
    EXPECT_THROW(save_alone(staged(save.path(), 20)), IoError);
  }
  expect_step(20);
}

TEST_F(CheckpointFault, TrainingGoesOnAfterAFullDiskIfConfigured) {
  AsyncSaver saver(*alone, /*continue_after_failure=*/true);
  testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(32 << 10);
    saver.save(staged(save.path(), 30));
    EXPECT_THROW(saver.join(), IoError);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("checkpoint of step 30 FAILED"), HasSubstr("File too large")));
  expect_step(20);
  saver.save(staged(save.path(), 40));
  saver.join();
  expect_step(40);
}

TEST_F(CheckpointFault, AFullDiskLeavesTheOldSafetensors) {
  const auto path = save / "model.safetensors";
  write_safetensors(path, {{"w", weight_of(1)}});
  const std::string before = read_file(path);
  {
    const FileSizeLimit limit(32 << 10);
    EXPECT_THROW(write_safetensors(path, {{"w", weight_of(2)}}), IoError);
  }
  EXPECT_EQ(read_file(path), before);
}

TEST_F(CheckpointFault, TruncatedShard) {
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  expect_refused("truncated", "step_00000020/rank_00000.bin");
}

TEST_F(CheckpointFault, LongerShard) {
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) + 1);
  expect_refused("longer", "step_00000020/rank_00000.bin");
}

TEST_F(CheckpointFault, MissingShard) {
  std::filesystem::remove(shard);
  expect_refused("No such file", "step_00000020/rank_00000.bin");
}

TEST_F(CheckpointFault, AFlippedBitNamesTheTensor) {
  flip_bit(shard, 70000);
  expect_refused("damaged", "tensor \"w\"");
  // The other tensor can still be read.
  EXPECT_EQ(bytes_of(open_checkpoint(save.path())->tensor("first")),
            bytes_of(patterned(DType::bf16, {7}, 1)));
  EXPECT_THAT([&] { open_checkpoint(save.path())->verify(); },
              ThrowsMessage<IoError>(HasSubstr("tensor \"w\"")));
}

TEST_F(CheckpointFault, AFlippedBitIsFoundByEveryWayToRead) {
  flip_bit(shard, 70000);
  const auto reader = open_checkpoint(save.path());
  EXPECT_THROW(reader->read("w", {{0, 0}, {1, 1}}), IoError);
  EXPECT_THROW(reader->tensor("w"), IoError);
}

TEST_F(CheckpointFault, AFlippedBitBetweenTensorsIsFoundByVerify) {
  flip_bit(shard, 20);  // the first tensor has 14 bytes, the next begins at 64
  EXPECT_THAT([&] { open_checkpoint(save.path())->verify(); },
              ThrowsMessage<IoError>(HasSubstr("rank_00000.bin")));
}

TEST_F(CheckpointFault, AFlippedBitInAFileIsFoundAtOpening) {
  flip_bit(latest / "config.json", 3);
  expect_refused("damaged", "config.json");
}

TEST_F(CheckpointFault, EveryFlippedBitOfTheIndexIsFound) {
  for (const char* name : {"index.json", "pieces.jsonl"}) {
    const std::string text = read_file(latest / name);
    for (size_t i = 0; i < text.size(); ++i) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ 1);
      // Whitespace between values is not content of index.json, and the letters of a \u escape or
      // checksum have two cases, which one bit does not change here.
      if (name == std::string("index.json") && (text[i] == '\n' || text[i] == ' ')) continue;
      overwrite(latest / name, damaged);
      EXPECT_THAT([&] { open_checkpoint(save.path()); }, ThrowsMessage<IoError>(HasSubstr(name)))
          << damaged;
    }
    for (size_t length = 0; length + 2 < text.size(); ++length) {
      overwrite(latest / name, text.substr(0, length));
      ASSERT_THROW(open_checkpoint(save.path()), IoError) << length;
    }
    overwrite(latest / name, text);
  }
  expect_step(20);
}

TEST_F(CheckpointFault, ALineOfTheIndexIsComparedByTheRankThatReadsIt) {
  // Rank 0 of two checks pieces.jsonl as a whole; rank 1 checks the lines that it reads.
  const auto path = latest / "pieces.jsonl";
  const std::string text = read_file(path);
  const size_t in_first = text.find("\"range\":[0,7]"), in_w = text.find("\"range\":[0,30000]");
  ASSERT_NE(in_first, std::string::npos);
  ASSERT_NE(in_w, std::string::npos);
  flip_bit(path, static_cast<int64_t>(in_w) + 10);
  EXPECT_THAT(
      [&] {
        CheckpointReader(latest, {0, 2});
      },
      ThrowsMessage<IoError>(HasSubstr("pieces.jsonl: checksum")));
  const CheckpointReader reader(latest, {1, 2});
  EXPECT_EQ(bytes_of(reader.tensor("first")), bytes_of(patterned(DType::bf16, {7}, 1)));
  EXPECT_THAT([&] { reader.tensor("w"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("pieces.jsonl"), HasSubstr("tensor \"w\""),
                                           HasSubstr("damaged"))));
}

TEST_F(CheckpointFault, LeftoversOfKilledSavesAreIgnoredAndRemoved) {
  // The writer is killed while writing, while replacing, while removing an old step, and while
  // writing `latest`.
  for (const char* name :
       {"step_00000030.tmp-new", "step_00000020.tmp-new", "step_00000005.tmp-old"}) {
    std::filesystem::create_directory(save / name);
    write_file_atomically(save / name / "rank_00000.bin", "half");
  }
  write_file_atomically(save / "latest.tmp-123", "step_000");
  write_file_atomically(save / "config.yaml", "kept");
  expect_step(20);
  save_alone(staged(save.path(), 30));
  EXPECT_THAT(names_in(save.path()), ElementsAre("config.yaml", "latest", "step_00000010",
                                                 "step_00000020", "step_00000030"));
  expect_step(30);
}

TEST_F(CheckpointFault, AProcessKilledWhileSavingLeavesThePreviousCheckpoint) {
  // 0: in the middle of a shard, 1: the shard is finished, 2: its files too.
  for (int point = 0; point < 3; ++point) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CheckpointWriter writer(save.path(), 30);
      ShardWriter shard(writer.folder(), 0);
      shard.add("w", weight_of(30));
      if (point >= 1) shard.finish();
      if (point >= 2) writer.add_file("config.json", "{}");
      std::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_TRUE(std::filesystem::exists(save / "step_00000030.tmp-new"));
    EXPECT_THAT(saved_steps(save.path()), ElementsAre(10, 20));
    expect_step(20);
  }
  save_alone(staged(save.path(), 40));
  EXPECT_THAT(names_in(save.path()),
              ElementsAre("latest", "step_00000010", "step_00000020", "step_00000040"));
}

TEST_F(CheckpointFault, KilledBetweenRenameAndLatest) {
  // Step 30 is published, but `latest` still names 20, which counts.
  save_alone(staged(save.path(), 30));
  write_latest(save.path(), 20);
  expect_step(20);
  save_alone(staged(save.path(), 30));
  expect_step(30);
}

TEST_F(CheckpointFault, FallsBackOnlyWhereConfiguredAndSaysSo) {
  flip_bit(shard, 70000);
  expect_refused("damaged", "step_00000020");
  testing::internal::CaptureStderr();
  expect_step(10, {.fall_back_to_previous = true});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning"), HasSubstr("tensor \"w\""), HasSubstr("FALLING BACK"),
                    HasSubstr("step_00000010")));
  // A step given by the user has no fallback.
  EXPECT_THROW(open_checkpoint(latest, {.fall_back_to_previous = true})->verify(), IoError);
}

TEST_F(CheckpointFault, FallingBackSurvivesALostLatest) {
  std::filesystem::remove(save / "latest");
  EXPECT_THAT([&] { open_checkpoint(save.path()); },
              ThrowsMessage<IoError>(HasSubstr("step_00000010 step_00000020")));
  testing::internal::CaptureStderr();
  expect_step(20, {.fall_back_to_previous = true});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("FALLING BACK"));
}

TEST_F(CheckpointFault, NothingToFallBackTo) {
  for (const char* step : {"step_00000010", "step_00000020"})
    std::filesystem::remove(save / step / "index.json");
  testing::internal::CaptureStderr();
  EXPECT_THAT([&] { open_checkpoint(save.path(), {.fall_back_to_previous = true}); },
              ThrowsMessage<IoError>(HasSubstr("no complete checkpoint")));
  testing::internal::GetCapturedStderr();
}

TEST_F(CheckpointFault, AStepUnderAnotherNameIsRefused) {
  std::filesystem::rename(save / "step_00000010", save / "step_00000050");
  write_latest(save.path(), 50);
  EXPECT_THAT([&] { open_checkpoint(save.path()); },
              ThrowsMessage<IoError>(HasSubstr("holds step 10")));
}

// An index with a matching checksum, so that the checks after it are reached.
class HostileIndex : public testing::Test {
 protected:
  using Json = nlohmann::json;
  HostileIndex() {
    TemporaryFolder save;
    save_alone(staged(save.path(), 10));
    json_ = Json::parse(format_checkpoint_index(open_checkpoint(save / "step_00000010")->index()));
  }
  void expect_refused(const std::string& reason) {
    json_.erase("checksum");
    json_["checksum"] = fmt::format("{:016x}", hash64(json_.dump()));
    const std::string text = json_.dump();
    const auto parse = [&] { check_complete(parse_checkpoint_index(text, "I"), "I"); };
    EXPECT_THAT(parse,
                ThrowsMessage<IoError>(AllOf(testing::StartsWith("I: "), HasSubstr(reason))));
  }
  Json& piece() { return json_["tensors"]["w"]["pieces"][0]; }

  Json json_;
};

TEST_F(HostileIndex, IsRefused) {
  const Json good = json_;
  const auto with = [&](const std::string& reason, auto change) {
    json_ = good;
    change();
    expect_refused(reason);
  };
  with("version 2", [&] { json_["version"] = 2; });
  with("\"format\" is not", [&] { json_["format"] = "other"; });
  with("no \"shards\"", [&] { json_.erase("shards"); });
  with("plain name", [&] { json_["shards"][0]["name"] = "../../etc/passwd"; });
  with("appears twice", [&] { json_["shards"].push_back(json_["shards"][0]); });
  with("both as a shard and as a file", [&] { json_["files"][0]["name"] = "rank_00000.bin"; });
  with("not a count", [&] { json_["step"] = -1; });
  with("unknown dtype", [&] { json_["tensors"]["w"]["dtype"] = "f31"; });
  with("overflow", [&] { json_["tensors"]["w"]["shape"] = {1ll << 40, 1ll << 40}; });
  with("parts are missing", [&] { json_["tensors"]["w"]["shape"] = {1ll << 20, 1ll << 20}; });
  with("7 dims", [&] { json_["tensors"]["w"]["shape"] = {1, 1, 1, 1, 1, 1, 1}; });
  with("not inside", [&] { piece()["box"][0][0] = 1; });
  with("not inside", [&] { piece()["box"][0] = {0}; });
  with("not inside", [&] { piece()["box"][1][1] = 101; });
  with("overflow", [&] { piece()["box"][1][1] = INT64_MAX; });
  with("not inside", [&] { piece()["range"] = {0, 30001}; });
  with("not inside", [&] { piece()["range"] = {5, 4}; });
  with("not a pair", [&] { piece()["range"] = {5}; });
  with("parts are missing", [&] { piece()["range"] = {0, 29999}; });
  with("not a multiple", [&] { piece()["offset"] = 65; });
  with("which holds", [&] { piece()["offset"] = 128; });
  with("which holds", [&] { piece()["offset"] = INT64_MAX - 63; });
  with("share bytes", [&] { piece()["offset"] = 0; });
  with("shard 1, but there are 1", [&] { piece()["shard"] = 1; });
  with("hexadecimal", [&] { piece()["checksum"] = "xyz"; });
  with("hexadecimal", [&] { piece()["checksum"] = "+123456789abcdef"; });
  with("overlap", [&] {
    json_["tensors"]["first"]["pieces"].push_back(json_["tensors"]["first"]["pieces"][0]);
    json_["tensors"]["first"]["pieces"][1]["offset"] = 64;
    json_["tensors"].erase("w");
  });
  with("not an array", [&] { json_["tensors"]["w"]["pieces"] = 3; });
  with("not an object", [&] { json_["tensors"] = Json::array(); });
}

}  // namespace
}  // namespace viaduct
