#pragma once
// Regular expressions over names of modules, as settings and the files of adapters have them. The
// files may be anyone's: time and memory are bounded whatever the expression.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

class NamePattern {
 public:
  /// Of how much of a name: all of it, or also of its last parts ("mlp.up_proj").
  enum class Of { whole, end };

  /// Nothing if the text is no regular expression that is read here: ECMAScript's syntax without
  /// references to groups, at most 1000 characters.
  static std::optional<NamePattern> read(const std::string& text, Of of);

  bool matches(const std::string& name) const;
  /// What the last group is in a name that matches; nothing for other names.
  std::optional<std::string> last_group(const std::string& name) const;

 private:
  struct Compiled;

  std::string plain_;  // letters, digits, "_" and "." alone, the last of which is any character
  bool of_end_ = false;
  std::shared_ptr<const Compiled> compiled_;  // null: plain
};

}  // namespace viaduct
