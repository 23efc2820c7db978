#pragma once
// A configuration value before it has a type: the content of a YAML node or an override, with its
// source. A plain tree of our own, so that no header includes yaml-cpp, and so that hostile YAML is
// bounded while it is read.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace viaduct {

/// The source of a value: a file and line, or an override.
struct ValueSource {
  std::shared_ptr<const std::string> origin;
  int line = 0;  // 1-based; 0 for an override or a default

  /// "run.yaml:12", "override 'train.seed=x'", or "" for a default.
  std::string text() const;
};

/// Null, a scalar (its text as written), a list, or a map with unique keys in the order written.
struct Value {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string scalar;
  bool quoted = false;  // a quoted scalar is a string, never a number or a bool
  std::vector<Value> items;
  std::vector<std::pair<std::string, Value>> entries;
  ValueSource source;

  static Value of_scalar(std::string text, bool quoted = false);
  static Value of_list(std::vector<Value> items);

  bool is_null() const { return kind == Kind::null; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }
  /// An unquoted scalar with exactly this text.
  bool is_plain(std::string_view text) const;
  /// The entry of a map, or nullptr.
  const Value* find(std::string_view key) const;
  /// Sets or adds an entry; the value becomes a map if it was null.
  void set(std::string_view key, Value value);
};

/// Equal meaning: numbers compare by value, bools and null by meaning, maps in any order; sources
/// do not count.
bool same_value(const Value& a, const Value& b);

/// The value as one line of YAML flow text that parses to the same value ("[1, 2]", "{a: 1}",
/// "\"text: x\"", "null").
std::string to_flow_yaml(const Value& value);

/// Limits on the input, far above any real configuration.
inline constexpr size_t kMaxYamlBytes = size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr size_t kMaxYamlNodes = 100'000;

/// Parses one YAML document. `origin` names it in messages. Aliases are copied, counting against
/// kMaxYamlNodes. Throws ConfigError with origin and line for: bad syntax, duplicate or non-scalar
/// keys, more than one document, and anything over the limits. An empty document is null.
Value parse_yaml(std::string_view text, const std::string& origin);

}  // namespace viaduct
