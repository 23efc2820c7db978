#include "base/error.h"

namespace viaduct {
namespace {

std::string joined(const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "; ") + problem;
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<std::string> problems)
    : Error(joined(problems)), problems_(std::move(problems)) {}

}  // namespace viaduct
