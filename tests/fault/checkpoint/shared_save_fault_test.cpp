// Several ranks save and one fails: all get its error, and the previous checkpoint remains.

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>

#include "base/error.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/save_folder.h"
#include "comm/world.h"
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

constexpr int kRanks = 3;
constexpr int kLargest = 1;  // the rank with by far the most data to write

std::string tensor_name(int rank) {
  return "w" + std::to_string(rank);
}

Tensor weight_of(int rank, int64_t step) {
  return patterned(DType::f32, {rank == kLargest ? 30000 : 100},
                   static_cast<uint64_t>(step * 10 + rank));
}

StagedCheckpoint staged(int rank, const std::filesystem::path& save, int64_t step) {
  StagedCheckpoint checkpoint;
  checkpoint.save = save;
  checkpoint.step = step;
  const Tensor tensor = weight_of(rank, step);
  checkpoint.entries.push_back(
      {whole_entry({tensor_name(rank), tensor.dtype(), tensor.shape()}), tensor});
  return checkpoint;
}

class SharedSaveFault : public testing::Test {
 protected:
  SharedSaveFault() { save_step(20); }

  void on_ranks(FunctionRef<void(Communicator& world)> body) {
    run_thread_ranks(kRanks, {.timeout_seconds = 60},
                     [&](std::shared_ptr<Communicator> world) { body(*world); });
  }
  void save_step(int64_t step) {
    on_ranks([&](Communicator& world) {
      save_checkpoint(world, staged(world.rank(), save.path(), step));
    });
  }
  void expect_step(int64_t step) {
    const auto reader = open_checkpoint(save.path());
    reader->verify();
    EXPECT_EQ(reader->step(), step);
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(bytes_of(reader->tensor(tensor_name(rank))), bytes_of(weight_of(rank, step)));
  }
  /// A failed save leaves no files, and there is room for the next.
  void expect_unharmed() {
    EXPECT_THAT(saved_steps(save.path()), ElementsAre(20));
    EXPECT_FALSE(std::filesystem::exists(checkpoint_temporary_folder(save.path(), 30)));
    expect_step(20);
    save_step(40);
    expect_step(40);
  }

  TemporaryFolder save;
};

TEST_F(SharedSaveFault, AFullDiskOnOneRankIsAnErrorOnAll) {
  {
    const FileSizeLimit limit(32 << 10);
    on_ranks([&](Communicator& world) {
      EXPECT_THAT(
          [&] { save_checkpoint(world, staged(world.rank(), save.path(), 30)); },
          ThrowsMessage<IoError>(AllOf(HasSubstr("rank 1: "), HasSubstr("File too large"))));
    });
  }
  expect_unharmed();
}

TEST_F(SharedSaveFault, AFullDiskInTheBackgroundIsAnErrorOnAll) {
  {
    const FileSizeLimit limit(32 << 10);
    on_ranks([&](Communicator& world) {
      AsyncSaver saver(world);
      saver.save(staged(world.rank(), save.path(), 30));
      while (saver.busy()) saver.advance();
      EXPECT_THAT([&] { saver.join(); }, ThrowsMessage<IoError>(AllOf(
                                             HasSubstr("rank 1: "), HasSubstr("File too large"))));
    });
  }
  expect_unharmed();
}

TEST_F(SharedSaveFault, AFolderThatCannotBeMadeIsAnErrorOnAll) {
  write_file_atomically(save / "file", "in the way");
  on_ranks([&](Communicator& world) {
    EXPECT_THAT([&] { save_checkpoint(world, staged(world.rank(), save / "file", 30)); },
                ThrowsMessage<IoError>(HasSubstr("rank 0: ")));
  });
  expect_step(20);
}

TEST_F(SharedSaveFault, AnIncompleteCheckpointIsNotPublished) {
  on_ranks([&](Communicator& world) {
    StagedCheckpoint checkpoint = staged(world.rank(), save.path(), 30);
    if (world.rank() == 2) checkpoint.entries[0].entry.piece.end = 99;
    if (world.rank() == 2) checkpoint.entries[0].data = weight_of(2, 30).slice(0, 0, 99);
    EXPECT_THAT([&] { save_checkpoint(world, checkpoint); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("rank 0: "), HasSubstr("parts are missing"),
                                             HasSubstr("99 of 100"))));
  });
  expect_unharmed();
}

TEST_F(SharedSaveFault, ARankThatFailsInsteadOfSavingEndsTheSave) {
  for (const bool in_background : {false, true}) {
    const auto run = [&](Communicator& world) {
      if (world.rank() == 2) throw Error("rank two is out of luck");
      AsyncSaver saver(world, /*continue_after_failure=*/true);
      if (in_background) {
        saver.save(staged(world.rank(), save.path(), 30));
        saver.join();
      } else {
        save_checkpoint(world, staged(world.rank(), save.path(), 30));
      }
      ADD_FAILURE() << "saved without rank 2";
    };
    EXPECT_THAT([&] { on_ranks(run); }, ThrowsMessage<Error>(HasSubstr("out of luck")));
    EXPECT_THAT(saved_steps(save.path()), ElementsAre(20));
  }
  expect_unharmed();
}

TEST_F(SharedSaveFault, ARankThatFailsWhileASaveIsInFlightLeavesThePreviousCheckpoint) {
  const auto run = [&](Communicator& world) {
    AsyncSaver saver(world);
    saver.save(staged(world.rank(), save.path(), 30));
    if (world.rank() == 2) throw Error("rank two is out of luck");
    for (;;) saver.advance();  // until another rank fails
  };
  EXPECT_THAT([&] { on_ranks(run); }, ThrowsMessage<Error>(HasSubstr("out of luck")));
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(20));
  expect_step(20);
  save_step(40);
  expect_step(40);
}

TEST_F(SharedSaveFault, AFailureIsKnownToTheOthersBeforeALongWriteEnds) {
  // Rank 2 fails while its shard is being written, which takes a while.
  std::atomic<bool> left = false;
  struct Leaves {
    std::atomic<bool>& left;
    ~Leaves() { left = true; }
  };
  const auto run = [&](Communicator& world) {
    StagedCheckpoint checkpoint = staged(world.rank(), save.path(), 30);
    std::optional<Leaves> leaves;
    if (world.rank() == 2) {
      const Tensor large = host_tensor(DType::u8, {int64_t{256} << 20});
      checkpoint.entries.push_back(
          {whole_entry({"large", large.dtype(), large.shape()}), large, {}});
      leaves.emplace(left);
    }
    AsyncSaver saver(world);
    saver.save(std::move(checkpoint));
    if (world.rank() == 2) throw Error("rank two is out of luck");
    try {
      for (;;) saver.advance();
    } catch (const CommError&) {
      EXPECT_FALSE(left) << "rank 2 reported its failure only after its shard was written";
      throw;
    }
  };
  EXPECT_THAT([&] { on_ranks(run); }, ThrowsMessage<Error>(HasSubstr("out of luck")));
  EXPECT_TRUE(left);
  expect_step(20);
}

TEST_F(SharedSaveFault, KilledBetweenShardsAndCommit) {
  // The number of ranks that had finished their shards.
  for (int finished = 0; finished <= kRanks; ++finished) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CheckpointWriter writer(save.path(), 30, kRanks);
      for (int rank = 0; rank < finished; ++rank) {
        ShardWriter shard(checkpoint_temporary_folder(save.path(), 30), rank);
        shard.add(tensor_name(rank), weight_of(rank, 30));
        shard.finish();
      }
      std::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_TRUE(std::filesystem::exists(checkpoint_temporary_folder(save.path(), 30)));
    EXPECT_THAT(saved_steps(save.path()), ElementsAre(20));
    expect_step(20);
  }
  save_step(40);
  EXPECT_FALSE(std::filesystem::exists(checkpoint_temporary_folder(save.path(), 30)));
  expect_step(40);
}

}  // namespace
}  // namespace viaduct
