// All files of GPU kernels are loaded before the first launch (ops/cuda/launch/load_kernels.h).

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "support/source_text.h"

namespace viaduct::test {
namespace {

TEST(KernelFiles, AllAreLoaded) {
  const std::string list = read_file(source_folder() / "src/ops/cuda/launch/load_kernels.cpp");
  std::set<std::string> names;
  for (const std::filesystem::path& file :
       files_below(source_folder() / "src/ops/cuda/kernels", {".cu"})) {
    const std::string name = file.stem().string();
    names.insert(name);
    EXPECT_TRUE(list.find("X(" + name + ")") != std::string::npos)
        << name << ".cu is not in VIADUCT_KERNEL_FILES";
    EXPECT_TRUE(read_file(file).find("\nVIADUCT_KERNEL_FILE(" + name + ")\n") != std::string::npos)
        << name << ".cu does not end with VIADUCT_KERNEL_FILE(" << name << ")";
  }
  EXPECT_GT(names.size(), 40u);
}

}  // namespace
}  // namespace viaduct::test
