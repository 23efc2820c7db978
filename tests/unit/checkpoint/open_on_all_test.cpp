// Ranks open a checkpoint together: each checks its share, and an error of one rank is reported on
// all.

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/open_checkpoint.h"
#include "checkpoint/save_folder.h"
#include "comm/world.h"
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

constexpr int kRanks = 3;

Tensor weight_of(int rank, int64_t step) {
  return patterned(DType::f32, {100}, static_cast<uint64_t>(step + rank));
}

class OpenOnAll : public testing::Test {
 protected:
  OpenOnAll() {
    on_ranks([&](Communicator& world) {
      for (const int64_t step : {10, 20}) {
        StagedCheckpoint staged;
        staged.save = save.path();
        staged.step = step;
        const Tensor tensor = weight_of(world.rank(), step);
        const std::string name = fmt::format("w{}", world.rank());
        staged.entries.push_back({whole_entry({name, tensor.dtype(), tensor.shape()}), tensor, {}});
        const Tensor small = patterned(DType::u8, {3}, 1);
        staged.entries.push_back(
            {whole_entry({"small" + name, small.dtype(), small.shape()}), small, {}});
        save_checkpoint(world, staged);
      }
    });
  }
  void on_ranks(FunctionRef<void(Communicator& world)> body) {
    run_thread_ranks(kRanks, {.timeout_seconds = 60},
                     [&](std::shared_ptr<Communicator> world) { body(*world); });
  }
  void flip_bit(const std::string& name, int64_t at) {
    std::fstream file(save / "step_00000020" / name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }

  TemporaryFolder save;
};

TEST_F(OpenOnAll, EveryRankReadsWhatItWants) {
  on_ranks([&](Communicator& world) {
    const auto reader = open_on_all(world, world.rank() == 0 ? save.path() : "elsewhere");
    EXPECT_EQ(reader->step(), 20);
    const int other = (world.rank() + 1) % kRanks;
    EXPECT_EQ(bytes_of(reader->tensor(fmt::format("w{}", other))), bytes_of(weight_of(other, 20)));
    EXPECT_EQ(reader->opened_shards(), 1);
    EXPECT_EQ(open_on_all(world, ""), nullptr);
  });
}

TEST_F(OpenOnAll, WhatOneRankFindsAllKnow) {
  std::filesystem::resize_file(save / "step_00000020/rank_00002.bin", 5);
  on_ranks([&](Communicator& world) {
    EXPECT_THAT([&] { open_on_all(world, save.path()); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("rank 2: "), HasSubstr("rank_00002.bin"),
                                             HasSubstr("truncated"))));
  });
}

// With its type and all its problems, so that every rank ends with exit status 2.
TEST_F(OpenOnAll, AConfigErrorOfOneRankIsOneOnAll) {
  on_ranks([&](Communicator& world) {
    const auto work = [&] {
      if (world.rank() == 0) throw ConfigError(std::vector<std::string>{"a: wrong", "b: wrong"});
    };
    try {
      run_on_all(world, work, "checking");
      ADD_FAILURE() << "no error on rank " << world.rank();
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.problems(),
                (std::vector<std::string>{"rank 0: a: wrong", "rank 0: b: wrong"}));
    }
  });
}

TEST_F(OpenOnAll, FallingBackEachRankReadsItsShare) {
  flip_bit("rank_00001.bin", 401);  // between two tensors: the shard is damaged, but no tensor
  testing::internal::CaptureStderr();
  on_ranks([&](Communicator& world) {
    EXPECT_EQ(open_on_all(world, save.path())->step(), 20);
    const auto reader = open_on_all(world, save.path(), {.fall_back_to_previous = true});
    EXPECT_EQ(reader->step(), 10);
    EXPECT_EQ(reader->opened_shards(), 1);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("rank 1: "), HasSubstr("step_00000020/rank_00001.bin"),
                    HasSubstr("FALLING BACK"), HasSubstr("step_00000010")));
}

TEST(OnAllRanks, WorkMayTakeLongerThanTheTimeoutOfACollective) {
  constexpr double kTimeout = 0.8;  // the ranks exchange messages every 0.2 s
  run_thread_ranks(2, {.timeout_seconds = kTimeout}, [&](std::shared_ptr<Communicator> world) {
    const auto work = [&] {
      if (world->rank() == 1) return;
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::duration<double>(2 * kTimeout);
      while (std::chrono::steady_clock::now() < until) {
      }
      throw IoError("at last");
    };
    EXPECT_THAT([&] { run_on_all(*world, work, "a long piece of work"); },
                ThrowsMessage<IoError>(HasSubstr("rank 0: at last")));
  });
}

}  // namespace
}  // namespace viaduct
