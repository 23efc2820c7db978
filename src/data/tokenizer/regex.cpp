#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;

constexpr size_t kMaxPatternBytes = 1 << 16;
// Steps back of one search: this many, and some for each character.
constexpr size_t kStepsBack = 10'000'000, kStepsBackPerCharacter = 32;

void collect_sets(const RegexNode& node, std::vector<const CodePointSet*>& sets) {
  if (node.kind == Kind::set) {
    const bool known = std::any_of(sets.begin(), sets.end(),
                                   [&](const CodePointSet* set) { return *set == node.set; });
    if (!known) sets.push_back(&node.set);
  }
  for (const RegexNode& child : node.children) collect_sets(child, sets);
}

/// A tree as a PCRE2 pattern over kinds of characters. It uses nothing of PCRE2's that depends on
/// what a byte means.
class Speller {
 public:
  Speller(const RegexAlphabet& alphabet, const std::vector<const CodePointSet*>& sets)
      : alphabet_(alphabet), sets_(sets) {}

  std::string spell(const RegexNode& node) const {
    switch (node.kind) {
      case Kind::set:
        return spell_set(node.set);
      case Kind::sequence:
        return "(?:" + joined(node, "") + ")";
      case Kind::alternatives:
        return "(?:" + joined(node, "|") + ")";
      case Kind::repeat:
        return spell_repeat(node);
      case Kind::atomic:
        return "(?>" + joined(node, "") + ")";
      case Kind::ahead:
        return (node.negated ? "(?!" : "(?=") + joined(node, "") + ")";
      case Kind::behind:
        return spell_behind(node);
      case Kind::text_begin:
        return "\\A";
      case Kind::text_end:
        return "\\z";
      case Kind::keep:
        return "\\K";
    }
    return {};
  }

 private:
  std::string joined(const RegexNode& node, std::string_view between) const {
    std::string all;
    for (const RegexNode& child : node.children) {
      if (&child != &node.children.front()) all += between;
      all += spell(child);
    }
    return all;
  }

  /// The alternatives stay at the top, where their lengths may differ.
  std::string spell_behind(const RegexNode& node) const {
    const RegexNode& inside = node.children.front();
    const bool ways = inside.kind == Kind::alternatives;
    return (node.negated ? "(?<!" : "(?<=") + (ways ? joined(inside, "|") : spell(inside)) + ")";
  }

  std::string spell_repeat(const RegexNode& node) const {
    const RegexNode& child = node.children.front();
    std::string inside = spell(child);
    if (child.kind != Kind::set && child.kind != Kind::sequence && child.kind != Kind::alternatives)
      inside = "(?:" + inside + ")";
    const bool endless = node.most == RegexNode::kUnlimited;
    if (endless && node.least == 0) {
      inside += "*";
    } else if (endless && node.least == 1) {
      inside += "+";
    } else if (node.least == 0 && node.most == 1) {
      inside += "?";
    } else {
      inside += endless ? fmt::format("{{{},}}", node.least)
                        : fmt::format("{{{},{}}}", node.least, node.most);
    }
    if (node.greed == RegexNode::Greed::lazy) inside += "?";
    if (node.greed == RegexNode::Greed::possessive) inside += "+";
    return inside;
  }

  std::string spell_set(const CodePointSet& set) const {
    const auto place =
        std::find_if(sets_.begin(), sets_.end(), [&](const auto* known) { return *known == set; });
    const RegexAlphabet::Kinds& kinds =
        alphabet_.members(static_cast<size_t>(place - sets_.begin()));
    if (kinds.none()) return "(?:(?!))";
    std::string inside;
    for (size_t first = 0; first < alphabet_.kinds(); ++first) {
      if (!kinds[first]) continue;
      size_t last = first;
      while (last + 1 < alphabet_.kinds() && kinds[last + 1]) ++last;
      inside += fmt::format("\\x{:02x}", first);
      if (last > first) inside += fmt::format("-\\x{:02x}", last);
      first = last;
    }
    return kinds.count() == 1 ? inside : "[" + inside + "]";
  }

  const RegexAlphabet& alphabet_;
  const std::vector<const CodePointSet*>& sets_;
};

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

RegexNode literal_tree(std::string_view literal) {
  RegexNode tree;
  while (!literal.empty()) {
    const CodePoint next = first_code_point(literal);
    tree.children.push_back(RegexNode::of(CodePointSet(next.value)));
    literal.remove_prefix(next.bytes);
  }
  return tree;
}

/// `pattern`, whose length is checked before its content.
std::string_view checked(std::string_view pattern) {
  VIADUCT_CHECK(ConfigError, pattern.size() <= kMaxPatternBytes,
                "regular expression of {} bytes, at most {} are supported", pattern.size(),
                kMaxPatternBytes);
  return pattern;
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{32} << 10, size_t{8} << 20, nullptr);
  // Texts in kinds of characters: searches nest.
  std::vector<std::unique_ptr<std::vector<uint8_t>>> texts;
  size_t depth = 0;

  State() {
    VIADUCT_CHECK(Error, match != nullptr && context != nullptr && stack != nullptr,
                  "out of memory for regular expressions");
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, 256 << 10);  // KiB
  }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

RegexScratch::RegexScratch() = default;
RegexScratch::~RegexScratch() = default;

RegexScratch::State& RegexScratch::state() {
  if (!state_) state_ = std::make_unique<State>();
  return *state_;
}

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex::Regex(std::string_view pattern) : Regex(pattern, parse_regex(checked(pattern))) {}

Regex::Regex(const RegexNode& tree) : Regex("of a step", tree) {}

Regex Regex::from_literal(std::string_view literal) {
  return Regex(literal, literal_tree(checked(literal)));
}

Regex::Regex(std::string_view pattern, const RegexNode& tree) : pattern_(pattern) {
  std::vector<const CodePointSet*> sets;
  collect_sets(tree, sets);
  alphabet_ = RegexAlphabet(sets);
  VIADUCT_CHECK(ConfigError, alphabet_.kinds() <= RegexAlphabet::kMaxKinds,
                "regular expression {}: it tells {} kinds of characters apart, at most {} are "
                "supported",
                pattern, alphabet_.kinds(), RegexAlphabet::kMaxKinds);
  const std::string spelled = Speller(alphabet_, sets).spell(tree);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                            PCRE2_NO_AUTO_CAPTURE | PCRE2_DOLLAR_ENDONLY, &error, &offset,
                            nullptr));
  VIADUCT_CHECK(ConfigError, code_ != nullptr, "regular expression {}: {}", pattern,
                message_of(error));
  // Without a JIT on this machine the interpreter does the same, slower.
  jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

std::optional<Regex::Match> Regex::match(const std::vector<uint8_t>& kinds, size_t start,
                                         RegexScratch& scratch) const {
  RegexScratch::State& state = scratch.state();
  const auto* subject = kinds.empty() ? reinterpret_cast<PCRE2_SPTR>("") : kinds.data();
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (jit_) {
    result =
        pcre2_jit_match(code_.get(), subject, kinds.size(), start, 0, state.match, state.context);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code_.get(), subject, kinds.size(), start, PCRE2_NO_JIT, state.match,
                         state.context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  VIADUCT_CHECK(Error, result >= 0, "regular expression {} failed at character {} of {}: {}",
                pattern_, start, kinds.size(), message_of(result));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.match);
  // \K in a look-ahead can move the reported start past the end; such a match has no extent.
  if (offsets[1] < offsets[0] || offsets[0] < start) return Match{start, start};
  return Match{offsets[0], offsets[1]};
}

void Regex::for_each_match(std::string_view text, RegexScratch& scratch,
                           FunctionRef<void(Match)> visit) const {
  if (text.empty()) return;
  RegexScratch::State& state = scratch.state();
  struct Depth {
    explicit Depth(size_t& depth) : value(depth) { ++value; }
    ~Depth() { --value; }
    size_t& value;
  };
  if (state.texts.size() == state.depth)
    state.texts.push_back(std::make_unique<std::vector<uint8_t>>());
  std::vector<uint8_t>& kinds = *state.texts[state.depth];
  const Depth nested(state.depth);
  const bool ascii = alphabet_.spell(text, kinds);
  const size_t steps = kStepsBack + kStepsBackPerCharacter * kinds.size();
  size_t character = 0, byte = 0;  // the same place
  const auto byte_of = [&](size_t place) {
    if (ascii) return place;
    for (; character < place; ++character) {
      const auto lead = static_cast<uint8_t>(text[byte]);
      byte += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    }
    return byte;
  };
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= kinds.size();) {
    // Set anew each time: a search nested in `visit` has its own.
    pcre2_set_match_limit(state.context,
                          static_cast<uint32_t>(std::min<size_t>(steps, UINT32_MAX)));
    const auto found = match(kinds, from, scratch);
    if (!found) return;
    if (found->begin == found->end && last_end == found->end) {
      ++from;
      continue;
    }
    from = found->end;
    last_end = found->end;
    const size_t begin = byte_of(found->begin);
    visit({begin, byte_of(found->end)});
  }
}

std::optional<Regex::Match> Regex::find(std::string_view text, size_t start,
                                        RegexScratch& scratch) const {
  std::vector<uint8_t> before, kinds;
  alphabet_.spell(text.substr(0, start), before);
  alphabet_.spell(text, kinds);
  pcre2_set_match_limit(scratch.state().context, kStepsBack);
  const auto found = match(kinds, before.size(), scratch);
  if (!found) return std::nullopt;
  const auto byte_of = [&](size_t place) {
    size_t byte = 0;
    for (; place > 0; --place) byte += first_code_point(text.substr(byte)).bytes;
    return byte;
  };
  return Match{byte_of(found->begin), byte_of(found->end)};
}

}  // namespace viaduct
