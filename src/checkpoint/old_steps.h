#pragma once
// Removes the folders of old steps beside the run that saves: a checkpoint of many terabytes takes
// minutes to delete, in which training goes on and nobody waits for rank 0.

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

  /// Begins to remove folders that are hidden already (…".tmp-old"), which are nobody else's from
  /// now on. Waits for the removal before it: so at most the steps of one save are on their way
  /// out, and a disk that deletes slower than the run saves slows the saves down instead of filling
  /// up. A folder that cannot be removed is a warning; the next run tries again.
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
