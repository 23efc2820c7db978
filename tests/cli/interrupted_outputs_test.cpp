// Commands that a signal ends leave nothing of what they were writing.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "support/chat_tokenizer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// Standard input that is open and stays empty; inherited by processes that are started meanwhile.
class SilentInput {
 public:
  SilentInput() : before_(dup(STDIN_FILENO)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    dup2(ends_[0], STDIN_FILENO);
  }
  ~SilentInput() {
    dup2(before_, STDIN_FILENO);
    for (const int descriptor : {before_, ends_[0], ends_[1]}) close(descriptor);
  }

 private:
  int before_, ends_[2];
};

int64_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

TEST(InterruptedOutputs, AreRemoved) {
  TemporaryFolder folder;
  write_chat_model(folder / "model", kChatMl);
  const std::string model = (folder / "model").string(),
                    output = (folder / "out" / "data").string();
  std::filesystem::create_directory(folder / "out");
  const Overrides common{"--input", "-", "--tokenizer", model, "--output", output};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // Whatever the tests were started with.
    const auto before = ::signal(signal, SIG_DFL);
    for (const auto& [command, files] :
         {std::pair(Overrides{"data", "chat"} + common, 2),
          std::pair(Overrides{"data", "tokenize", "--no-append-eod"} + common, 1)}) {
      const SilentInput input;
      RunProcess process(viaduct_binary(), command);
      process.wait_until_caught(signal);
      // The files that are open when reading begins: PREFIX.bin, and the mask's.
      while (files_in(folder / "out") < files) sched_yield();
      process.send(signal);
      EXPECT_EQ(process.finish(), -signal) << process.err();
      EXPECT_EQ(files_in(folder / "out"), 0) << command[1] << ", signal " << signal;
    }
    ::signal(signal, before);
  }
}

}  // namespace
}  // namespace viaduct
