// Only one run at a time writes into a save folder.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/old_steps.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/save_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Simulates a run that takes over the folder after a network file system released the lock.
void take_by_force(const std::filesystem::path& save) {
  write_file_atomically(save / "run.lock",
                        R"({"host": "elsewhere", "pid": 77, "start_ticks": "1", "started": "today",
                            "boot_id": "another", "token": "another"})");
}

TEST(RunLock, ASecondRunIsToldWhoHasTheFolder) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  {
    const RunLock first(save);
    const auto record = nlohmann::json::parse(read_file(save / "run.lock"));
    EXPECT_EQ(record.at("pid"), getpid());
    EXPECT_FALSE(record.at("host").get<std::string>().empty());
    EXPECT_FALSE(record.at("boot_id").get<std::string>().empty());
    EXPECT_FALSE(record.at("start_ticks").get<std::string>().empty());
    EXPECT_THAT([&] { const RunLock second(save); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(save.string()), HasSubstr("another run"),
                                             HasSubstr("process " + std::to_string(getpid())))));
  }
  EXPECT_TRUE(std::filesystem::exists(save / "run.lock")) << "a record of who wrote last";
  const RunLock third(save);
}

TEST(RunLock, EndsWithTheProcessHoweverItEnds) {
  TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.path());
    const char byte = 'x';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunLock{folder.path()}, IoError);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const RunLock lock(folder.path());
  EXPECT_FALSE(lock.is_gone());
  EXPECT_THROW(RunLock{folder.path()}, IoError) << "and is held";
}

TEST(RunLock, ARunWhoseFolderWasTakenStopsBeforeItPublishes) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  RunLock lock(save);
  EXPECT_NO_THROW(lock.check());
  {
    CheckpointWriter writer(save, 10);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", test::patterned(DType::f32, {4}, 1));
    shard.finish();
    writer.commit(0, &lock);
  }
  CheckpointWriter writer(save, 20);
  ShardWriter shard(writer.folder(), 0);
  shard.add("w", test::patterned(DType::f32, {4}, 2));
  shard.finish();
  take_by_force(save);
  EXPECT_THAT([&] { writer.commit(0, &lock); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("another run has taken this folder"), HasSubstr("elsewhere"))));
  EXPECT_THAT(saved_steps(save), ElementsAre(10));
  EXPECT_EQ(latest_step(save), 10);
}

TEST(RunLock, ADeletedFolderIsMadeAgain) {
  TemporaryFolder folder;
  const auto save = folder / "a/run";
  RunLock lock(save);
  EXPECT_FALSE(lock.is_gone());
  std::filesystem::remove_all(folder / "a");
  EXPECT_TRUE(lock.is_gone());
  lock.check();
  EXPECT_FALSE(lock.is_gone());
  EXPECT_EQ(lock.times_made_again(), 1);
  EXPECT_THROW(RunLock{save}, IoError) << "and is held";
}

TEST(RunLock, ADeletedFolderThatAnotherRunMadeAgainIsTheirs) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  RunLock lock(save);
  std::filesystem::remove_all(save);
  const RunLock other(save);
  EXPECT_TRUE(lock.is_gone());
  EXPECT_THROW(lock.check(), IoError);
}

TEST(RunLock, ARecordThatIsCutShortIsNoHolder) {
  TemporaryFolder folder;
  write_file_atomically(folder / "run.lock", "{\"host\": \"x");
  const RunLock lock(folder.path());
  EXPECT_FALSE(lock.is_gone());
  EXPECT_THROW(RunLock{folder.path()}, IoError) << "and is held";
}

TEST(SaveFolder, TemporaryFilesOfDeadProcessesAreRemoved) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string dead = ".tmp-" + std::to_string(child);
  const std::string alive = ".tmp-" + std::to_string(getpid());
  for (const std::string& name :
       {"config.yaml" + dead, "metrics.jsonl" + dead, "sessions.jsonl" + dead,
        "config.yaml" + alive, std::string("notes.tmp-old"), std::string("x.tmp-12x"),
        std::string("y.tmp-0")}) {
    write_file_atomically(folder / "t", "");
    std::filesystem::rename(folder / "t", folder / name);
  }
  remove_leftovers(folder.path());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre("config.yaml" + alive, "notes.tmp-old",
                                                   "x.tmp-12x", "y.tmp-0"));
}

TEST(SaveFolder, WhatIsNotOursStays) {
  TemporaryFolder save;
  write_file_atomically(save / "latest", "step_00000002\n");
  const std::vector<std::string> folders{"results.tmp-20251203",
                                         "step_00000002.tmp-backup",
                                         "step_00000002.tmp-older",
                                         "step_00000002.tmp-new2",
                                         "latest.tmp-2",
                                         "config.yaml.tmp-4194304",
                                         "step_2.tmp-new"};
  const std::vector<std::string> files{"thesis.tmp-4194304", "latest.tmp-mine", "notes.tmp-new",
                                       "config.yaml.tmp-20251203", "step_00000004.tmp-new"};
  for (const auto& name : folders) std::filesystem::create_directory(save / name);
  for (const auto& name : files) std::ofstream(save / name) << name;
  std::filesystem::create_directory(save / "step_00000002");
  std::filesystem::create_directory(save / "step_00000002.tmp-old3");
  remove_leftovers(save.path());
  for (const auto& names : {folders, files})
    for (const auto& name : names) EXPECT_TRUE(std::filesystem::exists(save / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(save / "step_00000002.tmp-old3"));
}

TEST(SaveFolder, OnlyLeftoversAreToldFromOtherContents) {
  TemporaryFolder save;
  EXPECT_FALSE(has_only_leftovers(save / "absent"));
  std::filesystem::create_directory(save / "step_00000001.tmp-new");
  std::ofstream(save / "run.lock") << "{}";
  EXPECT_TRUE(has_only_leftovers(save.path()));
  std::ofstream(save / "notes") << "mine";
  EXPECT_FALSE(has_only_leftovers(save.path()));
}

TEST(SaveFolder, AStepThatWasAboutToBeReplacedComesBack) {
  TemporaryFolder save;
  CheckpointWriter writer(save.path(), 10);
  ShardWriter shard(writer.folder(), 0);
  shard.add("w", test::patterned(DType::f32, {4}, 1));
  shard.finish();
  writer.commit();
  // Without an atomic exchange of folders: simulates a crash after the old one was renamed.
  std::filesystem::rename(save / "step_00000010", save / "step_00000010.tmp-old");
  std::filesystem::create_directory(save / "step_00000010.tmp-new");
  remove_leftovers(save.path());
  EXPECT_EQ(open_checkpoint(save.path())->step(), 10);
  EXPECT_FALSE(std::filesystem::exists(save / "step_00000010.tmp-new"));
}

TEST(SaveFolder, AFirstSaveThatWasInterruptedBeforeLatestIsOne) {
  TemporaryFolder save;
  for (const int64_t step : {10, 20}) {
    CheckpointWriter writer(save.path(), step);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", test::patterned(DType::f32, {4}, 1));
    shard.finish();
    writer.commit();
  }
  std::filesystem::remove(save / "latest");
  std::filesystem::resize_file(save / "step_00000020/rank_00000.bin", 3);
  testing::internal::CaptureStderr();
  remove_leftovers(save.path());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("names step_00000010"));
  EXPECT_EQ(open_checkpoint(save.path())->step(), 10);
  // None is complete, so none is named.
  std::filesystem::remove(save / "latest");
  std::filesystem::resize_file(save / "step_00000010/rank_00000.bin", 3);
  remove_leftovers(save.path());
  EXPECT_FALSE(has_latest(save.path()));
}

void write_steps(const TemporaryFolder& save, const std::vector<int64_t>& steps) {
  for (const int64_t step : steps) {
    CheckpointWriter writer(save.path(), step);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", test::patterned(DType::f32, {4}, static_cast<uint64_t>(step)));
    shard.finish();
    writer.commit();
  }
}

/// `chattr +i`: then the folder cannot be renamed.
bool set_immutable(const std::filesystem::path& folder, bool value) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int flags = 0;
  bool done = descriptor >= 0 && ioctl(descriptor, FS_IOC_GETFLAGS, &flags) == 0;
  flags = value ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
  done = done && ioctl(descriptor, FS_IOC_SETFLAGS, &flags) == 0;
  close(descriptor);
  return done;
}

TEST(SaveFolder, AStepThatIsStuckKeepsNoOther) {
  TemporaryFolder save;
  write_steps(save, {10, 20, 30, 40});
  if (!set_immutable(save / "step_00000010", true))
    GTEST_SKIP() << "needs root and a file system with immutable folders";
  const HiddenSteps steps = hide_old_steps(save.path(), 1);
  set_immutable(save / "step_00000010", false);
  ASSERT_EQ(steps.stuck.size(), 1u);
  EXPECT_THAT(steps.stuck.front(), testing::HasSubstr("step_00000010"));
  OldSteps().remove(steps.folders);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(10, 40));
}

TEST(SaveFolder, ALeftoverThatIsStuckStopsNothing) {
  TemporaryFolder save;
  const auto stuck = save / "step_00000005.tmp-old";
  std::filesystem::create_directory(stuck);
  if (!set_immutable(stuck, true))
    GTEST_SKIP() << "needs root and a file system with immutable folders";
  write_steps(save, {10});
  set_immutable(stuck, false);
  EXPECT_TRUE(std::filesystem::exists(stuck));
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(10));
}

TEST(SaveFolder, AFolderWithAStepsNameAndNoIndexStays) {
  TemporaryFolder save;
  write_steps(save, {20, 30});
  std::filesystem::create_directory(save / "step_00000010");
  OldSteps().remove(hide_old_steps(save.path(), 1).folders);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(10, 30));
}

TEST(SaveFolder, OnlyGoodStepsAreCountedAsKept) {
  TemporaryFolder save;
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    CheckpointWriter writer(save.path(), step);
    ShardWriter shard(writer.folder(), 0);
    shard.add("w", test::patterned(DType::f32, {4}, static_cast<uint64_t>(step)));
    shard.finish();
    writer.commit();
  }
  std::filesystem::resize_file(save / "step_00000040/rank_00000.bin", 3);
  write_file_atomically(save / "step_00000030/index.json", "{}");
  OldSteps().remove(hide_old_steps(save.path(), 2).folders);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(20, 30, 40, 50));
  EXPECT_EQ(open_checkpoint(save.path())->step(), 50);
}

}  // namespace
}  // namespace viaduct
