#include "data/tokenizer/regex_bounds.h"

#include <algorithm>
#include <iterator>

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;
using Greed = RegexNode::Greed;

// Repeats of fewer are not worth counting.
constexpr int kMany = 16;

bool is_run(const RegexNode& node) {
  return node.kind == Kind::repeat && node.most == RegexNode::kUnlimited &&
         node.children.front().kind == Kind::set;
}

bool is_optional_set(const RegexNode& node) {
  return node.kind == Kind::repeat && node.least == 0 && node.most == 1 &&
         node.greed != Greed::possessive && node.children.front().kind == Kind::set;
}

const CodePointSet& set_of(const RegexNode& run) {
  return run.children.front().set;
}

/// Whether the node matches anywhere, if only the empty text.
bool always_matches(const RegexNode& node) {
  switch (node.kind) {
    case Kind::sequence:
      return std::all_of(node.children.begin(), node.children.end(), always_matches);
    case Kind::alternatives:
      return std::any_of(node.children.begin(), node.children.end(), always_matches);
    case Kind::repeat:
      return node.least == 0;
    case Kind::atomic:
      return always_matches(node.children.front());
    case Kind::keep:
      return true;
    default:
      return false;
  }
}

bool has(const RegexNode& node, Kind kind) {
  return node.kind == kind || std::any_of(node.children.begin(), node.children.end(),
                                          [&](const RegexNode& child) { return has(child, kind); });
}

RegexNode not_behind(const CodePointSet& set) {
  return RegexNode::of(Kind::behind, {RegexNode::of(set)}, true);
}

/// Where the search begins, or where one of `ways` holds.
RegexNode begin_or(std::vector<RegexNode> ways) {
  ways.insert(ways.begin(), RegexNode::of(Kind::search_begin, {}));
  return RegexNode::of(Kind::alternatives, std::move(ways));
}

RegexNode sequence_of(std::vector<RegexNode> front, const RegexNode& rest, size_t from) {
  front.insert(front.end(), rest.children.begin() + static_cast<std::ptrdiff_t>(from),
               rest.children.end());
  return RegexNode::of(Kind::sequence, std::move(front));
}

/// `single` and then `run`, not from a character that is of the run of the one before.
RegexNode guard_of(const CodePointSet& single, const CodePointSet& run) {
  return begin_or({not_behind(single), RegexNode::of(Kind::ahead, {RegexNode::of(run)}, true)});
}

/// Repeats of a set in groups around it, or around all of them, as such repeats.
RegexNode simple(RegexNode node) {
  for (RegexNode& child : node.children) child = simple(std::move(child));
  if (node.kind != Kind::repeat && node.kind != Kind::atomic) return node;
  RegexNode& child = node.children.front();
  const bool grouped = child.kind == Kind::sequence && child.children.size() == 1;
  if (grouped) {
    RegexNode inner = std::move(child.children.front());
    child = std::move(inner);
  }
  if (node.kind != Kind::atomic || !is_run(child) || child.greed == Greed::lazy) return node;
  RegexNode run = std::move(child);
  run.greed = Greed::possessive;
  return run;
}

class Bounds {
 public:
  /// A way to match from the place where it is tried. `may_fail`: what follows may not match.
  RegexNode begin(RegexNode node, bool may_fail) {
    if (node.kind == Kind::alternatives) {
      for (RegexNode& way : node.children) way = begin(std::move(way), may_fail);
      return node;
    }
    if (is_run(node))
      node = RegexNode::of(Kind::sequence, {std::move(node)});
    else if (node.kind != Kind::sequence)
      return inside(std::move(node), may_fail);
    return begin_sequence(std::move(node), may_fail);
  }

  bool count_all = false;

 private:
  /// Whether the children from `from` on, or what follows, may not match.
  static bool fails_from(const RegexNode& node, size_t from, bool may_fail) {
    const auto first =
        node.children.begin() + static_cast<std::ptrdiff_t>(std::min(from, node.children.size()));
    return may_fail || !std::all_of(first, node.children.end(), always_matches);
  }

  RegexNode begin_sequence(RegexNode node, bool may_fail) {
    if (node.children.empty()) return node;
    const bool second_is_run = node.children.size() > 1 && is_run(node.children[1]);
    RegexNode& first = node.children.front();
    if (is_run(first)) {
      if (!fails_from(node, 1, may_fail)) return node;
      const CodePointSet set = set_of(first);
      finish(node, 1, may_fail);
      return sequence_of({begin_or({not_behind(set)})}, node, 0);
    }
    if (second_is_run && fails_from(node, 2, may_fail)) {
      const CodePointSet run = set_of(node.children[1]);
      if (first.kind == Kind::set) {
        const CodePointSet single = first.set;
        const bool common = !(single & run).empty();
        finish(node, 2, may_fail);
        return common ? sequence_of({guard_of(single, run)}, node, 0) : node;
      }
      if (is_optional_set(first)) {
        const CodePointSet single = set_of(first);
        const bool lazy = first.greed == Greed::lazy;
        finish(node, 2, may_fail);
        RegexNode with = sequence_of({guard_of(single, run), RegexNode::of(single)}, node, 1);
        RegexNode without = sequence_of({begin_or({not_behind(run)})}, node, 1);
        if (lazy) std::swap(with, without);
        return RegexNode::of(Kind::alternatives, {std::move(with), std::move(without)});
      }
    }
    const bool rest = fails_from(node, 1, may_fail);
    first = begin(std::move(first), rest);
    finish(node, 1, may_fail);
    return node;
  }

  /// The children from `from` on.
  void finish(RegexNode& node, size_t from, bool may_fail) {
    for (size_t i = from; i < node.children.size(); ++i)
      node.children[i] = inside(std::move(node.children[i]), fails_from(node, i + 1, may_fail));
  }

  /// A part that may be tried again and again over the same text: its steps are counted.
  RegexNode inside(RegexNode node, bool may_fail) {
    switch (node.kind) {
      case Kind::sequence:
        finish(node, 0, may_fail);
        return node;
      case Kind::alternatives:
        for (RegexNode& way : node.children) way = inside(std::move(way), may_fail);
        return node;
      case Kind::repeat:
        return inside_repeat(std::move(node), may_fail);
      case Kind::ahead:
        node.children.front() = inside(shortest(std::move(node.children.front())), true);
        return node;
      case Kind::atomic:
        node.children.front() = inside(std::move(node.children.front()), true);
        return node;
      default:
        return node;
    }
  }

  RegexNode inside_repeat(RegexNode node, bool may_fail) {
    if (!may_fail) return node;
    count_all |= node.most == RegexNode::kUnlimited || node.most - node.least >= kMany;
    if (is_run(node) && node.greed == Greed::possessive) {
      // As much as there is: steps back, which are counted, end at once.
      const CodePointSet set = set_of(node);
      node.greed = Greed::greedy;
      return RegexNode::of(
          Kind::sequence,
          {std::move(node), RegexNode::of(Kind::ahead, {RegexNode::of(set)}, true)});
    }
    node.children.front() = inside(std::move(node.children.front()), true);
    return node;
  }

  /// A text that is only looked at need not be longer than it must.
  static RegexNode shortest(RegexNode node) {
    if (node.kind == Kind::repeat) {
      node.most = node.least;
      node.greed = Greed::greedy;
    } else if (node.kind == Kind::sequence && !node.children.empty()) {
      node.children.back() = shortest(std::move(node.children.back()));
    }
    return node;
  }
};

}  // namespace

BoundedRegex bounded(RegexNode tree) {
  Bounds bounds;
  BoundedRegex made;
  made.tree = bounds.begin(simple(std::move(tree)), false);
  made.count_all = bounds.count_all;
  made.asks_for_begin = has(made.tree, Kind::search_begin);
  return made;
}

}  // namespace viaduct
