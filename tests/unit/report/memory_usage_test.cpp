#include "report/memory_usage.h"

#include <gtest/gtest.h>

#include <vector>

namespace viaduct {
namespace {

TEST(ProcessMemory, GrowsWithWhatIsTouched) {
  const ProcessMemory before = process_memory();
  EXPECT_GT(before.resident_bytes, 100 * 1024);
  EXPECT_LE(before.resident_bytes, before.peak_resident_bytes);
  constexpr size_t kBytes = size_t{64} << 20;
  volatile char sum = 0;
  {
    std::vector<char> touched(kBytes, 1);
    sum = static_cast<char>(sum + touched[kBytes / 2]);
    // The kernel's counters lag by some pages a thread.
    EXPECT_GT(process_memory().resident_bytes,
              before.resident_bytes + static_cast<int64_t>(kBytes) * 9 / 10);
  }
  EXPECT_GE(process_memory().peak_resident_bytes,
            before.resident_bytes + static_cast<int64_t>(kBytes) * 9 / 10);
}

}  // namespace
}  // namespace viaduct
