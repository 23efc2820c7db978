#pragma once
// A program that PATH has for the duration of a test: a shell script.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace viaduct::test {

/// Also the folder where the script may leave files: "$HERE" in it.
class FakeProgram {
 public:
  FakeProgram(const std::string& name, const std::string& script)
      : path_(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "") {
    const auto file = folder_.path() / name;
    std::ofstream(file) << "#!/bin/sh\nHERE='" << folder_.path().string() << "'\n" << script;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~FakeProgram() { ::setenv("PATH", path_.c_str(), 1); }
  FakeProgram(const FakeProgram&) = delete;
  FakeProgram& operator=(const FakeProgram&) = delete;

  /// What the script wrote to "$HERE/name".
  std::string left(const std::string& name) const {
    std::ifstream file(folder_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

}  // namespace viaduct::test
