// Background saves: by one rank, and by several that synchronize between steps.

#include "checkpoint/async_saver.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
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

constexpr int64_t kElements = 100;

Tensor weight_of(int64_t step) {
  return patterned(DType::f32, {kElements}, static_cast<uint64_t>(step));
}

/// This rank's share of a tensor, and the part that rank 0 adds.
StagedCheckpoint staged(const Communicator& world, const std::filesystem::path& save,
                        int64_t step) {
  StagedCheckpoint checkpoint;
  checkpoint.save = save;
  checkpoint.step = step;
  const int64_t begin = kElements * world.rank() / world.size(),
                end = kElements * (world.rank() + 1) / world.size();
  const TensorInfo info{"w", DType::f32, {kElements}};
  checkpoint.entries.push_back(
      {{info, {whole_box(info.shape), begin, end}}, weight_of(step).slice(0, begin, end - begin)});
  checkpoint.files["config.json"] = "{}";
  checkpoint.state = fmt::format("{{\"samples\":{}}}", step * 4);
  checkpoint.keep_last = 2;
  return checkpoint;
}

/// The last rank cannot write its shard.
StagedCheckpoint unwritable(const Communicator& world, const std::filesystem::path& save,
                            int64_t step) {
  StagedCheckpoint checkpoint = staged(world, save, step);
  if (world.rank() == world.size() - 1) checkpoint.entries[0].data = host_tensor(DType::bf16, {1});
  return checkpoint;
}

/// Rank 0 cannot publish.
StagedCheckpoint uncommittable(const Communicator& world, const std::filesystem::path& save,
                               int64_t step) {
  StagedCheckpoint checkpoint = staged(world, save, step);
  checkpoint.files["index.json"] = "taken";
  return checkpoint;
}

void expect_step(const std::filesystem::path& save, int64_t step) {
  const auto reader = open_checkpoint(save);
  EXPECT_EQ(reader->step(), step);
  EXPECT_EQ(bytes_of(reader->tensor("w")), bytes_of(weight_of(step)));
  EXPECT_EQ(reader->state(), fmt::format("{{\"samples\":{}}}", step * 4));
}

class AsyncSaverOn : public testing::TestWithParam<int> {
 protected:
  void on_ranks(FunctionRef<void(Communicator& world)> body) {
    run_thread_ranks(GetParam(), {.timeout_seconds = 60},
                     [&](std::shared_ptr<Communicator> world) { body(*world); });
  }
  TemporaryFolder save;
};

TEST_P(AsyncSaverOn, SavesInTheBackground) {
  on_ranks([&](Communicator& world) {
    AsyncSaver saver(world);
    for (int64_t step : {1, 2, 3}) saver.save(staged(world, save.path(), step));
    EXPECT_TRUE(saver.busy());
    if (world.rank() == 0) {
      EXPECT_EQ(latest_step(save.path()), 2);  // finished by the next save
    }
    saver.join();
    EXPECT_FALSE(saver.busy());
  });
  EXPECT_THAT(saved_steps(save.path()), testing::ElementsAre(2, 3));
  expect_step(save.path(), 3);
}

TEST_P(AsyncSaverOn, StepsTakeTheSaveFurtherWithoutWaiting) {
  on_ranks([&](Communicator& world) {
    AsyncSaver saver(world);
    saver.advance();  // nothing to do and no communication: other ranks need not call it
    if (world.rank() == 0) saver.advance();
    saver.save(staged(world, save.path(), 5));
    while (saver.busy()) saver.advance();
    expect_step(save.path(), 5);
  });
}

TEST_P(AsyncSaverOn, AnErrorSurfacesOnceAtTheNextSaveOnAllRanks) {
  on_ranks([&](Communicator& world) {
    AsyncSaver saver(world);
    saver.save(staged(world, save.path(), 1));
    saver.save(uncommittable(world, save.path(), 2));
    EXPECT_THAT([&] { saver.save(staged(world, save.path(), 3)); },
                ThrowsMessage<IoError>(HasSubstr("index.json is taken")));
    saver.join();
    expect_step(save.path(), 1);
    saver.save(staged(world, save.path(), 4));
    saver.join();
    EXPECT_EQ(saver.failures(), 1);
  });
  EXPECT_THAT(saved_steps(save.path()), testing::ElementsAre(1, 4));
}

TEST_P(AsyncSaverOn, ContinuesAfterFailureWhereConfigured) {
  testing::internal::CaptureStderr();
  on_ranks([&](Communicator& world) {
    AsyncSaver saver(world, /*continue_after_failure=*/true);
    saver.save(unwritable(world, save.path(), 7));
    while (saver.busy()) saver.advance();
    EXPECT_EQ(saver.failures(), 1);
    saver.save(staged(world, save.path(), 8));
    saver.join();
    // A failure of the last save must be reported at the end.
    saver.save(unwritable(world, save.path(), 9));
    EXPECT_THROW(saver.join(), Error);
  });
  const std::string rank = GetParam() > 1 ? fmt::format("rank {}: ", GetParam() - 1) : "";
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("warning: checkpoint of step 7 FAILED, continuing without it: " + rank),
            HasSubstr("given as bf16 [1]")));
  expect_step(save.path(), 8);
  EXPECT_FALSE(std::filesystem::exists(checkpoint_temporary_folder(save.path(), 9)));
}

TEST_P(AsyncSaverOn, AnErrorNobodyAskedForIsLogged) {
  testing::internal::CaptureStderr();
  on_ranks([&](Communicator& world) {
    AsyncSaver saver(world);
    saver.save(unwritable(world, save.path(), 9));
    while (saver.busy()) saver.advance();
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("checkpoint of step 9 FAILED"));
}

TEST_P(AsyncSaverOn, ASaveThatNobodyJoinedHarmsNothing) {
  on_ranks([&](Communicator& world) {
    save_checkpoint(world, staged(world, save.path(), 1));
    AsyncSaver saver(world);
    saver.save(staged(world, save.path(), 2));
  });
  // A single rank finishes the save; of several ranks the others may have ended, and the save is
  // dropped.
  expect_step(save.path(), GetParam() == 1 ? 2 : 1);
  on_ranks([&](Communicator& world) {
    save_checkpoint(world, staged(world, save.path(), 3));
    expect_step(save.path(), 3);
  });
  for (const auto& entry : std::filesystem::directory_iterator(save.path()))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
}

INSTANTIATE_TEST_SUITE_P(Ranks, AsyncSaverOn, testing::Values(1, 3));

TEST(AsyncSaver, FreesItsCopiesBeforeThoseOfTheNextSave) {
  TemporaryFolder save;
  const auto world = make_self_communicator("world");
  AsyncSaver saver(*world);
  StagedCheckpoint first = staged(*world, save.path(), 1);
  const std::weak_ptr<Storage> copy = first.entries[0].data.storage();
  saver.save(std::move(first));
  saver.finish();
  EXPECT_TRUE(copy.expired());
  EXPECT_EQ(latest_step(save.path()), 1);
  saver.save(unwritable(*world, save.path(), 2));
  saver.finish();  // the error is kept
  EXPECT_THROW(saver.save(staged(*world, save.path(), 3)), Error);
}

}  // namespace
}  // namespace viaduct
