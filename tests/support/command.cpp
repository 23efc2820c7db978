#include "support/command.h"

#include <sys/wait.h>

#include <cstdlib>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct::test {

CommandResult run_command(const std::string& command, std::string_view input) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "in", input);
  const std::string path = folder.path().string();
  const std::string line = command + " <" + path + "/in >" + path + "/out 2>" + path + "/err";
  const int status = std::system(line.c_str());
  return {WEXITSTATUS(status), read_file(folder / "out"), read_file(folder / "err")};
}

}  // namespace viaduct::test
