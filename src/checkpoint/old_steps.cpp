#include "checkpoint/old_steps.h"

#include <system_error>
#include <utility>

#include "base/log.h"

namespace viaduct {

OldSteps::~OldSteps() {
  wait();
}

void OldSteps::remove(std::vector<std::filesystem::path> folders) {
  if (folders.empty()) return;
  wait();
  const std::lock_guard one(one_);
  {
    const std::lock_guard guard(mutex_);
    for (const auto& folder : folders) names_.insert(folder.filename().string());
  }
  const auto remove_all = [this, folders = std::move(folders)] {
    for (const auto& folder : folders) {
      std::error_code error;
      std::filesystem::remove_all(folder, error);
      if (error)
        log_warning("an old checkpoint stays: cannot remove {}: {}", folder.string(),
                    error.message());
      const std::lock_guard guard(mutex_);
      names_.erase(folder.filename().string());
    }
  };
  try {
    thread_ = Thread(remove_all);
  } catch (const std::system_error&) {
    remove_all();  // no thread can be started
  }
}

void OldSteps::wait() {
  const std::lock_guard one(one_);
  if (thread_.joinable()) thread_.join();
}

bool OldSteps::has(const std::string& name) const {
  const std::lock_guard guard(mutex_);
  return names_.contains(name);
}

}  // namespace viaduct
