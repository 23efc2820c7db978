// Reads YAML from yaml-cpp's events instead of its node graph: limits hold while reading, and
// aliases are never expanded beyond them.

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "config/value.h"

namespace viaduct {
namespace {

// The cost of copying the value, in nodes; long texts count as more.
size_t copy_cost(const Value& value) {
  size_t cost = 1 + value.scalar.size() / 64;
  for (const Value& item : value.items) cost += copy_cost(item);
  for (const auto& [key, entry] : value.entries) cost += 1 + key.size() / 64 + copy_cost(entry);
  return cost;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string origin)
      : origin_(std::make_shared<const std::string>(std::move(origin))) {}

  Value take_root() { return std::move(root_); }
  [[noreturn]] void fail_at(const YAML::Mark& mark, const std::string& what) const {
    fail<ConfigError>("{}: {}", source(mark).text(), what);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, make(Value::Kind::null, mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail_at(mark, "an alias inside its own anchor");
    nodes_ += found->second.cost;
    check_nodes(mark);
    if (depth_limit_exceeded(found->second.value, stack_.size())) fail_depth(mark);
    add(mark, Value(found->second.value), 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Value value = make(Value::Kind::scalar, mark);
    value.scalar = text;
    value.quoted = tag != "?" && !tag.empty();
    add(mark, std::move(value), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, Value::Kind::list, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, Value::Kind::map, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Value value;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    bool has_key = false;
    std::string key;
    std::unordered_set<std::string> keys;
  };
  struct Anchor {
    Value value;
    size_t cost;
  };

  ValueSource source(const YAML::Mark& mark) const { return {origin_, mark.line + 1}; }
  Value make(Value::Kind kind, const YAML::Mark& mark) {
    ++nodes_;
    check_nodes(mark);
    Value value;
    value.kind = kind;
    value.source = source(mark);
    return value;
  }
  void check_nodes(const YAML::Mark& mark) const {
    if (nodes_ > kMaxYamlNodes)
      fail_at(mark, fmt::format("more than {} YAML nodes", kMaxYamlNodes));
  }
  [[noreturn]] void fail_depth(const YAML::Mark& mark) const {
    fail_at(mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth));
  }
  static bool depth_limit_exceeded(const Value& value, size_t depth) {
    if (depth > static_cast<size_t>(kMaxYamlDepth)) return true;
    for (const Value& item : value.items) {
      if (depth_limit_exceeded(item, depth + 1)) return true;
    }
    for (const auto& entry : value.entries) {
      if (depth_limit_exceeded(entry.second, depth + 1)) return true;
    }
    return false;
  }
  void open(const YAML::Mark& mark, Value::Kind kind, YAML::anchor_t anchor) {
    if (stack_.size() >= static_cast<size_t>(kMaxYamlDepth)) fail_depth(mark);
    if (!stack_.empty() && stack_.back().value.is_map() && !stack_.back().has_key) {
      fail_at(mark, "a map key must be a plain name");
    }
    stack_.push_back({make(kind, mark), anchor, mark, false, {}, {}});
  }
  void close() {
    Open top = std::move(stack_.back());
    stack_.pop_back();
    add(top.mark, std::move(top.value), top.anchor);
  }
  void add(const YAML::Mark& mark, Value value, YAML::anchor_t anchor) {
    if (anchor) {
      const size_t cost = copy_cost(value);
      nodes_ += cost;
      check_nodes(mark);
      anchors_[anchor] = {value, cost};
    }
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& top = stack_.back();
    if (top.value.is_list()) {
      top.value.items.push_back(std::move(value));
    } else if (top.has_key) {
      top.value.entries.emplace_back(std::move(top.key), std::move(value));
      top.has_key = false;
    } else {
      if (value.kind != Value::Kind::scalar) fail_at(mark, "a map key must be a plain name");
      top.key = std::move(value.scalar);
      if (!top.keys.insert(top.key).second) {
        fail_at(mark, fmt::format("the key '{}' is given twice", top.key.substr(0, 80)));
      }
      top.has_key = true;
    }
  }

  std::shared_ptr<const std::string> origin_;
  Value root_;
  std::vector<Open> stack_;
  std::unordered_map<YAML::anchor_t, Anchor> anchors_;
  size_t nodes_ = 0;
};

}  // namespace

Value parse_yaml(std::string_view text, const std::string& origin) {
  VIADUCT_CHECK(ConfigError, text.size() <= kMaxYamlBytes,
                "{}: {} bytes of YAML, at most {} are read", origin, text.size(), kMaxYamlBytes);
  TreeBuilder tree(origin);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(tree)) return {};
    TreeBuilder rest(origin);
    VIADUCT_CHECK(ConfigError, !parser.HandleNextDocument(rest), "{}: more than one YAML document",
                  origin);
  } catch (const YAML::Exception& error) {
    tree.fail_at(error.mark, error.msg);
  }
  return tree.take_root();
}

}  // namespace viaduct
