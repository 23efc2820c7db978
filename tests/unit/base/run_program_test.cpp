#include "base/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "base/clock.h"
#include "base/error.h"
#include "support/fake_program.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Whether no process that has ended waits to be asked for its status.
bool no_zombies() {
  return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

TEST(RunProgram, GivesItsArgumentsAsTheyAreAndItsOutput) {
  const FakeProgram program("speaks", "echo \"$#:$1:$2\"; echo wrong >&2; exit 3\n");
  const ProgramOutcome outcome = run_program({"speaks", "a b", "$HOME;"}, 60);
  EXPECT_TRUE(outcome.in_time);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.output, "2:a b:$HOME;\nwrong\n");
  EXPECT_TRUE(no_zombies());
}

TEST(RunProgram, ReadsAllOfALongOutputAndKeepsItsBeginning) {
  const FakeProgram program("long", "head -c 300000 /dev/zero | tr '\\0' x; exit 0\n");
  const ProgramOutcome outcome = run_program({"long"}, 60);
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.output, std::string(64 << 10, 'x'));
}

/// Whether a process exists that has not ended. One without a parent may stay in the system's table
/// after its end.
bool runs(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return file >> number >> name >> state && state != "Z";
}

TEST(RunProgram, EndsOneThatHangsWithItsChildren) {
  // The child holds the output open.
  const FakeProgram program("hangs", "echo begun\nsleep 600 & echo $! >\"$HERE/child\"; wait\n");
  const ProgramOutcome outcome = run_program({"hangs"}, 0.5);
  EXPECT_FALSE(outcome.in_time);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.output, "begun\n");
  EXPECT_TRUE(no_zombies());
  const int child = std::stoi(program.left("child"));
  // It was sent the signal; its end comes soon after.
  const double begin = steady_seconds();
  while (runs(child) && steady_seconds() - begin < 20) ::usleep(1000);
  EXPECT_FALSE(runs(child));
  if (runs(child)) ::kill(child, SIGKILL);
}

TEST(RunProgram, DoesNotWaitForAChildThatItLeavesBehind) {
  const FakeProgram program("leaves", "sleep 600 & echo $! >\"$HERE/child\"; exit 0\n");
  EXPECT_TRUE(run_program({"leaves"}, 300).succeeded());
  const int child = std::stoi(program.left("child"));
  EXPECT_TRUE(runs(child));
  ::kill(child, SIGKILL);
}

TEST(RunProgram, SaysWhyAProgramCannotBeStarted) {
  EXPECT_THAT([] { run_program({"no-such-program-anywhere"}, 60); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("no-such-program-anywhere cannot be started"),
                                           HasSubstr("No such file"))));
}

TEST(RunProgram, HasSignalsAsAShellGivesThem) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const FakeProgram program("dies", "kill -PIPE $$; sleep 60\n");
  EXPECT_EQ(run_program({"dies"}, 30).status, 128 + SIGPIPE);
  std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace viaduct
