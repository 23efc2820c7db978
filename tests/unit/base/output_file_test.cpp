// Destinations of outputs: files appear whole, links are followed, devices and pipes are written
// directly.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::size_t files_in(const std::filesystem::path& folder) {
  const auto range = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(range), end(range)));
}

TEST(OutputFile, AppearsOnlyOnCommit) {
  test::TemporaryFolder folder;
  const auto path = folder / "a.txt";
  {
    OutputFile file(path);
    file.write("half");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write_file_atomically(path, "whole");
  EXPECT_EQ(read_file(path), "whole");
  EXPECT_THROW(read_file(path, 3), IoError);
  EXPECT_THROW(MappedFile(folder / "missing"), IoError);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);  // nobody writes: not waited for
  EXPECT_THAT([&] { MappedFile(folder / "pipe"); },
              ThrowsMessage<IoError>(HasSubstr("not a regular file")));
  EXPECT_THROW(write_file_atomically(folder / "missing/a.txt", ""), IoError);
}

TEST(OutputFile, ReplacesAFileAtOnceAndKeepsItsMode) {
  test::TemporaryFolder folder;
  const auto path = folder / "a.txt";
  write_file_atomically(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  std::filesystem::create_hard_link(path, folder / "other");
  write_file_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(read_file(folder / "other"), "old") << "the old file itself is not modified";
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST(OutputFile, FollowsLinksToFilesThatAreThereAndThatAreNot) {
  test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "real");
  write_file_atomically(folder / "real/a", "old");
  std::filesystem::create_symlink("real/a", folder / "one");
  std::filesystem::create_symlink("one", folder / "two");
  std::filesystem::create_symlink("real/new", folder / "dangling");
  std::filesystem::create_symlink("loop", folder / "loop");
  write_file_atomically(folder / "two", "through two links");
  write_file_atomically(folder / "dangling", "made");
  EXPECT_EQ(read_file(folder / "real/a"), "through two links");
  EXPECT_EQ(read_file(folder / "real/new"), "made");
  for (const char* link : {"one", "two", "dangling"})
    EXPECT_TRUE(std::filesystem::is_symlink(folder / link)) << link;
  EXPECT_EQ(files_in(folder / "real"), 2u) << "no temporary file remains";
  EXPECT_THAT([&] { write_file_atomically(folder / "loop", ""); },
              ThrowsMessage<IoError>(HasSubstr("symbolic links")));
}

TEST(OutputFile, ADeviceStaysADevice) {
  test::TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/null", folder / "null");
  write_file_atomically(folder / "null", "gone");
  EXPECT_EQ(std::filesystem::read_symlink(folder / "null"), "/dev/null");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(files_in(folder.path()), 1u);
  // Makes a device node if this user may.
  const auto node = folder / "node";
  if (mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "needs root";
  if (const int opens = open(node.c_str(), O_WRONLY); opens < 0) GTEST_SKIP() << "mounted nodev";
  write_file_atomically(node, "gone");
  EXPECT_TRUE(std::filesystem::is_character_file(node));
}

TEST(OutputFile, APipeIsWrittenTo) {
  test::TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] {
    const int fd = open(pipe.c_str(), O_RDONLY);
    char buffer[64];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
      received.append(buffer, static_cast<std::size_t>(n));
    close(fd);
  });
  write_file_atomically(pipe, "through a pipe");
  reader.join();
  EXPECT_EQ(received, "through a pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(OutputFile, NamesOfOpenDescriptorsAreThose) {
  test::TemporaryFolder folder;
  const auto path = folder / "log";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "before ", 7), 7);
  write_file_atomically("/dev/fd/" + std::to_string(fd), "between ");
  write_file_atomically("/proc/self/fd/" + std::to_string(fd), "and ");
  ASSERT_EQ(::write(fd, "after", 5), 5);
  close(fd);
  EXPECT_EQ(read_file(path), "before between and after");
  EXPECT_THAT([&] { write_file_atomically("/dev/fd/987654", ""); },
              ThrowsMessage<IoError>(HasSubstr("/dev/fd/987654")));
  testing::internal::CaptureStdout();
  write_file_atomically("-", "to standard output");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "to standard output");
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(OutputFile, AnythingElseIsRefusedByName) {
  test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  EXPECT_THAT([&] { write_file_atomically(folder / "folder", ""); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/folder"), HasSubstr("it is a folder"))));
  const auto name = folder / "s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(name.string().size(), sizeof address.sun_path);
  name.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT([&] { write_file_atomically(name, ""); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/s"), HasSubstr("it is a socket"))));
  close(fd);
}

TEST(OutputFile, AFileOfAnotherUserIsNotReplaced) {
  test::TemporaryFolder folder;
  const auto path = folder / "theirs";
  write_file_atomically(path, "theirs");
  if (chown(path.c_str(), 12345, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "needs root";
  EXPECT_THAT([&] { write_file_atomically(path, "ours"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("/theirs"), HasSubstr("user 12345"))));
  EXPECT_EQ(read_file(path), "theirs");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(OutputFile, OnlyWhatInterruptedProgramsLeftOfATargetIsRemoved) {
  test::TemporaryFolder folder;
  const std::string dead = "4194304";  // more processes than there can be
  const std::vector<std::string> stay{"b.tmp-" + dead,
                                      "a.tmp-20251203",
                                      "a.tmp-0" + dead,
                                      "a.tmp-x",
                                      "a.tmp-" + std::to_string(getppid()),
                                      "a.tmp-"};
  for (const std::string& name : stay) write_file_atomically(folder / name, "");
  write_file_atomically(folder / ("a.tmp-" + dead), "");
  std::filesystem::create_directory(folder / "d.tmp-4194304");
  for (const char* target : {"a", "d", "c"}) remove_unfinished(folder / target);
  EXPECT_FALSE(std::filesystem::exists(folder / ("a.tmp-" + dead)));
  EXPECT_EQ(files_in(folder.path()), stay.size() + 1);
  // Written by a process of another machine: it holds the file.
  const int writer = open((folder / ("a.tmp-" + dead)).c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(flock(writer, LOCK_EX), 0);
  remove_unfinished(folder / "a");
  EXPECT_TRUE(std::filesystem::exists(folder / ("a.tmp-" + dead)));
  close(writer);
  remove_unfinished(folder / "a");
  EXPECT_FALSE(std::filesystem::exists(folder / ("a.tmp-" + dead)));
  remove_unfinished(folder / "no folder/a");  // nothing to do
}

TEST(OutputFile, WhatADeadProcessLeftIsNotFollowed) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "precious", "precious");
  const std::string temporary = "a.tmp-" + std::to_string(getpid());
  std::filesystem::create_symlink("precious", folder / temporary);
  write_file_atomically(folder / "a", "a");
  EXPECT_EQ(read_file(folder / "precious"), "precious");
  EXPECT_EQ(read_file(folder / "a"), "a");
  EXPECT_EQ(files_in(folder.path()), 2u);
}

}  // namespace
}  // namespace viaduct
