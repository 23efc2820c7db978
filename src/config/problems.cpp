#include "config/problems.h"

#include "base/error.h"
#include "base/units.h"

namespace viaduct {

void Problems::add_text(std::string problem) {
  constexpr size_t kMost = 100;
  if (problems_.size() < kMost) {
    problems_.push_back(std::move(problem));
  } else {
    ++dropped_;
  }
}

void Problems::throw_if_any() const {
  if (problems_.empty()) return;
  std::vector<std::string> lines = problems_;
  if (dropped_ > 0) lines.push_back("… and " + counted(dropped_, "more problem"));
  throw ConfigError(std::move(lines));
}

}  // namespace viaduct
