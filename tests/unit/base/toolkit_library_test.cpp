#include "base/toolkit_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "support/temporary_folder.h"

namespace viaduct {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kFile = "libviaduct_of_a_wheel.so.7";

/// The place of the file in a package of the Python at `prefix`.
fs::path wheel(const fs::path& prefix, const std::string& package, const char* packages) {
  return prefix / "lib" / "python3.12" / packages / "nvidia" / package / "lib" / kFile;
}

void make(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "";
}

TEST(ToolkitLibrary, IsSearchedInToolkitsAndThenInWheels) {
  const TemporaryFolder folder;
  const fs::path own = folder / "own", conda = folder / "conda", home = folder / "home";
  const fs::path in_own = wheel(own, "cu13", "site-packages"),
                 in_conda = wheel(conda, "nccl", "site-packages"),
                 in_home = wheel(home / ".local", "cudnn", "dist-packages");
  for (const fs::path& file : {in_own, in_conda, in_home, conda / "bin" / "python3"}) make(file);
  make(wheel(folder / "without_python", "nccl", "site-packages"));
  fs::create_directories(folder / "without_python" / "bin");
  std::map<std::string, std::string> set{
      {"CUDA_HOME", "/opt/cuda"},
      {"VIRTUAL_ENV", own.string()},
      {"HOME", home.string()},
      {"PATH", (folder / "without_python" / "bin").string() + "::" + (conda / "bin").string()}};
  const auto environment = [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  const std::string file = kFile;
  EXPECT_THAT(toolkit_places(kFile, environment),
              ElementsAre(file, "/opt/cuda/lib64/" + file, "/opt/cuda/lib/" + file,
                          "/usr/local/cuda/lib64/" + file, "/usr/local/cuda/lib/" + file,
                          in_own.string(), in_conda.string(), in_home.string()));
  set.clear();
  EXPECT_EQ(toolkit_places(kFile, environment).size(), 3u);
}

TEST(ToolkitLibrary, SaysWhichFileIsTakenAndWhichWereTried) {
  const TemporaryFolder folder;
  const fs::path file = wheel(folder / "own", "nccl", "site-packages");
  make(file);
  void* const some = ::dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(some, nullptr);
  fs::copy_file(file_of_library(some), file, fs::copy_options::overwrite_existing);
  const char* const before = std::getenv("VIRTUAL_ENV");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("VIRTUAL_ENV", (folder / "own").c_str(), 1);
  const ToolkitLibrary library{"a wheel's", kFile, nullptr};
  const std::string text = describe_toolkit_library(library);
  EXPECT_THAT(text, StartsWith(file.string() + "; tried before: " + kFile + ": "));
  EXPECT_THAT(text, HasSubstr("/usr/local/cuda/lib64/"));
  if (before != nullptr)
    ::setenv("VIRTUAL_ENV", kept.c_str(), 1);
  else
    ::unsetenv("VIRTUAL_ENV");
  EXPECT_THAT(describe_toolkit_library({"no", "libviaduct_nowhere.so", nullptr}),
              StartsWith("not found; tried: libviaduct_nowhere.so: "));
}

}  // namespace
}  // namespace viaduct
