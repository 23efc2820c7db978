#pragma once
// The list of problems that all parts of configuration add to, so that the user sees all of them at
// once.

#include <fmt/core.h>

#include <string>
#include <vector>

namespace viaduct {

class Problems {
 public:
  /// Adds one problem: one readable line with what, where, expected and found.
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    add_text(fmt::format(format, std::forward<Args>(args)...));
  }
  /// Hostile input makes many problems: the list is bounded; the rest is only counted.
  void add_text(std::string problem);

  bool empty() const { return problems_.empty(); }
  const std::vector<std::string>& all() const { return problems_; }
  /// Throws one ConfigError with all of them, if there are any.
  void throw_if_any() const;

 private:
  std::vector<std::string> problems_;
  size_t dropped_ = 0;
};

}  // namespace viaduct
