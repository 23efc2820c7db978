// Targets of kernels: which GPUs have one, and that the build, the catalog of GPUs and the check on
// a GPU name the same ones.

#include "hardware/cuda_target.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "base/file.h"
#include "hardware/cluster.h"
#include "support/paths.h"

namespace viaduct {
namespace {

std::string text_of(const std::string& file) {
  return read_file(test::source_folder() / file);
}

/// The parts of the first match of `pattern` that `part` finds.
std::set<std::string> listed(const std::string& file, const std::string& pattern,
                             const std::string& part) {
  const std::string text = text_of(file);
  std::smatch list;
  std::set<std::string> parts;
  if (!std::regex_search(text, list, std::regex(pattern))) return parts;
  const std::string inside = list[1];
  const std::regex one(part);
  for (std::sregex_iterator at(inside.begin(), inside.end(), one), end; at != end; ++at)
    parts.insert((*at)[1]);
  return parts;
}

TEST(CudaTarget, IsThatOfEachGpu) {
  const std::map<int, std::string> expected{{75, "none"},     {80, "sm_80"},  {86, "sm_80"},
                                            {89, "sm_89"},    {90, "sm_90a"}, {100, "sm_100a"},
                                            {103, "sm_100a"}, {110, "none"},  {120, "sm_120"},
                                            {121, "sm_120"},  {140, "sm_120"}};
  for (const auto& [capability, name] : expected) {
    const auto target = cuda_target_for(capability);
    EXPECT_EQ(target ? cuda_target_name(*target) : "none", name) << capability;
  }
}

TEST(CudaTarget, IsCompiledCheckedAndInTheCatalogUnderOneName) {
  std::set<std::string> names, codes, real;
  for (const CudaTarget target : kCudaTargets) {
    EXPECT_EQ(cuda_target_of(cuda_target_name(target)), target);
    names.insert(std::string(cuda_target_name(target)));
    codes.insert(std::string(cuda_target_code(target)));
    real.insert(std::string(cuda_target_code(target)) + "-real");
  }
  const std::string newest = std::string(cuda_target_code(*std::prev(std::end(kCudaTargets))));
  real.insert(newest + "-virtual");
  EXPECT_EQ(listed("cmake/CudaLibrary.cmake", "VIADUCT_CUDA_TARGETS \"([^\"]*)\"", "([^;]+)"),
            real);
  EXPECT_EQ(listed("tools/ci/phases.py", "GPU_TARGETS = \\[([^\\]]*)\\]", "\"(\\w+)\""), codes);
  EXPECT_EQ(listed("tools/gpu_check/probe.py", "TARGETS = \\{([^}]*)\\}", "\"(\\w+)\""), names);
  std::set<std::string> used;
  for (const std::string& name : gpu_names())
    if (const auto& target = load_gpu(name).architecture)
      used.insert(std::string(cuda_target_name(*target)));
  EXPECT_EQ(used, names) << "each target has a GPU of the catalog";
}

/// A GPU that this code does not know by its number yet has the newest PTX, and those of the family
/// 10.x share their code: B300 is 10.3.
TEST(CudaTarget, CodeOfTheFamilyRunsOnAllItsGpus) {
  EXPECT_EQ(cuda_target_code(*cuda_target_for(103)), "100f");
  EXPECT_EQ(load_gpu("b300").architecture, cuda_target_for(103));
  EXPECT_EQ(load_gpu("gb300").architecture, cuda_target_for(103));
}

}  // namespace
}  // namespace viaduct
