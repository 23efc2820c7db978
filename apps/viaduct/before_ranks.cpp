#include "before_ranks.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "comm/launcher.h"

namespace viaduct::cli {

bool says_common_errors() {
  try {
    const Launch launch = detect_launch([](const char* name) { return std::getenv(name); });
    // Variables that were set by hand, or left behind: there may be no rank 0 that reports.
    const bool by_hand =
        launch.launcher == Launcher::torchrun && std::getenv("TORCHELASTIC_RUN_ID") == nullptr;
    return launch.rank == 0 || by_hand;
  } catch (const ConfigError&) {
    return true;  // even the number of ranks is unknown
  }
}

void wait_for_rank0() {
  std::this_thread::sleep_for(std::chrono::seconds(10));
}

}  // namespace viaduct::cli
