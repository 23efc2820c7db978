#pragma once
// Removes the folders of old steps in the background: deleting a checkpoint of many terabytes takes
// minutes, during which training continues and no rank waits for rank 0.

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/thread.h"

namespace viaduct {

class OldSteps {
 public:
  OldSteps() = default;
  /// Waits until all is removed.
  ~OldSteps();
  OldSteps(const OldSteps&) = delete;
  OldSteps& operator=(const OldSteps&) = delete;

  /// Starts to remove folders that are already hidden (…".tmp-old"); the caller must not use them
  /// any more. Waits for the previous removal first: so at most the steps of one save are being
  /// removed, and a disk that deletes slower than the run saves slows the saves down instead of
  /// filling up. A folder that cannot be removed gives a warning; the next run tries again.
  void remove(std::vector<std::filesystem::path> folders);
  /// Returns when all is removed.
  void wait();
  /// True if a folder of this name is being removed.
  bool has(const std::string& name) const;

 private:
  mutable std::mutex mutex_;     // of names_
  std::set<std::string> names_;  // being removed
  std::mutex one_;               // of `remove` and `wait`
  Thread thread_;
};

}  // namespace viaduct
