#include "checkpoint/async_saver.h"

#include <gmock/gmock.h>

#include <future>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/save_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using testing::HasSubstr;
using testing::ThrowsMessage;

StagedCheckpoint staged(const std::filesystem::path& save, int64_t step) {
  StagedCheckpoint checkpoint;
  checkpoint.save = save;
  checkpoint.step = step;
  const Tensor tensor = patterned(DType::f32, {100}, static_cast<uint64_t>(step));
  checkpoint.entries.push_back({whole_entry({"w", tensor.dtype(), tensor.shape()}), tensor});
  checkpoint.files["config.json"] = "{}";
  checkpoint.state = fmt::format("{{\"samples\":{}}}", step * 4);
  checkpoint.keep_last = 2;
  return checkpoint;
}

void fail_once() {
  fail<IoError>("the disk is full");
}

TEST(AsyncSaver, SavesInTheBackground) {
  TemporaryFolder save;
  AsyncSaver saver;
  for (int64_t step : {1, 2, 3}) saver.save(staged(save.path(), step));
  saver.join();
  EXPECT_THAT(saved_steps(save.path()), testing::ElementsAre(2, 3));
  const auto reader = open_checkpoint(save.path());
  EXPECT_EQ(bytes_of(reader->tensor("w")), bytes_of(patterned(DType::f32, {100}, 3)));
  EXPECT_EQ(reader->state(), R"({"samples":12})");
}

TEST(AsyncSaver, AtMostOneJobIsInFlight) {
  AsyncSaver saver;
  std::promise<void> release;
  auto released = release.get_future();
  std::atomic<bool> first_done = false;
  saver.start("first", [&] {
    released.wait();
    first_done = true;
  });
  EXPECT_TRUE(saver.busy());
  auto second = std::async(std::launch::async, [&] {
    bool before = false;
    saver.start("second", [] {});
    before = first_done;  // start returned, so the first job was over
    return before;
  });
  release.set_value();
  EXPECT_TRUE(second.get());
  saver.join();
  EXPECT_FALSE(saver.busy());
}

TEST(AsyncSaver, AnErrorSurfacesOnceAtTheNextStart) {
  AsyncSaver saver;
  bool ran = false;
  saver.start("first", fail_once);
  EXPECT_THAT([&] { saver.start("second", [&] { ran = true; }); },
              ThrowsMessage<IoError>(HasSubstr("disk is full")));
  saver.join();
  EXPECT_FALSE(ran);
  saver.start("third", [&] { ran = true; });
  saver.join();
  EXPECT_TRUE(ran);
  EXPECT_EQ(saver.failures(), 1);
}

TEST(AsyncSaver, ContinuesAfterFailureWhereConfigured) {
  AsyncSaver saver(/*continue_after_failure=*/true);
  bool ran = false;
  testing::internal::CaptureStderr();
  saver.start("checkpoint of step 7", fail_once);
  saver.start("second", [&] { ran = true; });
  saver.join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("warning: checkpoint of step 7 FAILED"),
                             HasSubstr("the disk is full")));
  EXPECT_TRUE(ran);
  EXPECT_EQ(saver.failures(), 1);
  // The last save counts: the program must not say that all is saved.
  saver.start("last", fail_once);
  EXPECT_THROW(saver.join(), IoError);
}

TEST(AsyncSaver, AnErrorNobodyAskedForIsLogged) {
  testing::internal::CaptureStderr();
  {
    AsyncSaver saver;
    saver.start("checkpoint of step 9", fail_once);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("checkpoint of step 9 FAILED"));
}

TEST(AsyncSaver, TheDestructorFinishesTheJob) {
  bool ran = false;
  {
    AsyncSaver saver;
    saver.start("job", [&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace viaduct
