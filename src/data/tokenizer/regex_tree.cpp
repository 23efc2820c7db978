#include "data/tokenizer/regex_tree.h"

namespace viaduct {

RegexNode RegexNode::of(CodePointSet set) {
  RegexNode made;
  made.kind = Kind::set;
  made.set = std::move(set);
  return made;
}

RegexNode RegexNode::of(Kind kind, std::vector<RegexNode> children, bool negated) {
  RegexNode made;
  made.kind = kind;
  made.children = std::move(children);
  made.negated = negated;
  return made;
}

std::optional<size_t> RegexNode::width() const {
  switch (kind) {
    case Kind::set:
      return 1;
    case Kind::sequence: {
      size_t total = 0;
      for (const RegexNode& child : children) {
        const auto width = child.width();
        if (!width) return std::nullopt;
        total += *width;
      }
      return total;
    }
    case Kind::alternatives: {
      const auto first = children.front().width();
      for (const RegexNode& child : children) {
        if (child.width() != first) return std::nullopt;
      }
      return first;
    }
    case Kind::repeat: {
      const auto width = children.front().width();
      if (!width || least != most) return std::nullopt;
      return *width * least;
    }
    case Kind::atomic:
      return children.front().width();
    default:
      return 0;
  }
}

}  // namespace viaduct
