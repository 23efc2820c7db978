#include "base/name_pattern.h"

#include <algorithm>
#include <regex>

namespace viaduct {
namespace {

constexpr size_t kLongest = 1000;  // deeper groups than this could hold overflow the stack

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

}  // namespace

struct NamePattern::Compiled {
  // Without going back: else a few characters can take for ever, as (.*)*x does.
  explicit Compiled(const std::string& text)
      : regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial) {}
  std::regex regex;
};

std::optional<NamePattern> NamePattern::read(const std::string& text, Of of) {
  if (text.size() > kLongest) return std::nullopt;
  NamePattern pattern;
  pattern.of_end_ = of == Of::end;
  if (is_plain(text)) {
    pattern.plain_ = text;
    return pattern;
  }
  try {
    pattern.compiled_ =
        std::make_shared<Compiled>(pattern.of_end_ ? "(.*\\.)?(" + text + ")" : text);
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
  return pattern;
}

bool NamePattern::matches(const std::string& name) const {
  if (compiled_ != nullptr) return std::regex_match(name, compiled_->regex);
  if (name.size() < plain_.size()) return false;
  const size_t before = name.size() - plain_.size();
  if (before > 0 && (!of_end_ || name[before - 1] != '.')) return false;
  return std::equal(plain_.begin(), plain_.end(), name.begin() + static_cast<ptrdiff_t>(before),
                    [](char wanted, char found) { return wanted == '.' || wanted == found; });
}

std::optional<std::string> NamePattern::last_group(const std::string& name) const {
  std::smatch found;
  if (compiled_ == nullptr || !std::regex_match(name, found, compiled_->regex) ||
      found.size() < 2 || !found[found.size() - 1].matched)
    return std::nullopt;
  return found[found.size() - 1].str();
}

}  // namespace viaduct
