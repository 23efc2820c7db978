#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/regex_bounds.h"
#include "data/tokenizer/regex_speller.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
// Steps back in one text: this many, and some for each character. From each place some are free.
constexpr size_t kStepsBack = 2'000'000, kStepsBackPerCharacter = 200, kFreeSteps = 1000;
// So many places are tried one by one where the free steps do not suffice.
constexpr size_t kFirstStretch = 4096;

void collect_sets(const RegexNode& node, std::vector<const CodePointSet*>& sets) {
  if (node.kind == RegexNode::Kind::set) {
    const bool known = std::any_of(sets.begin(), sets.end(),
                                   [&](const CodePointSet* set) { return *set == node.set; });
    if (!known) sets.push_back(&node.set);
  }
  for (const RegexNode& child : node.children) collect_sets(child, sets);
}

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
  const BoundedRegex made = bounded(tree);
  const auto compiled = [&](bool later) {
    const std::string spelled = RegexSpeller(alphabet_, sets, later).spell(made.tree);
    int error = 0;
    PCRE2_SIZE offset = 0;
    std::unique_ptr<pcre2_real_code_8, Free> code(pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
        PCRE2_NO_AUTO_CAPTURE | PCRE2_DOLLAR_ENDONLY | (made.count_all ? PCRE2_NO_AUTO_POSSESS : 0),
        &error, &offset, nullptr));
    VIADUCT_CHECK(ConfigError, code != nullptr, "regular expression {}: {}", pattern,
                  message_of(error));
    return code;
  };
  code_ = compiled(false);
  if (made.asks_for_begin) later_code_ = compiled(true);
  // Without a JIT on this machine the interpreter does the same, slower.
  jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

/// The searches in one text, given as kinds of characters.
struct Regex::Search {
  const Regex& regex;
  const std::vector<uint8_t>& kinds;
  RegexScratch::State& state;
  size_t steps_left = kStepsBack + kStepsBackPerCharacter * kinds.size();
  size_t stretch = kFirstStretch;

  /// The leftmost match from `begin` on.
  std::optional<Match> next(size_t begin) {
    for (size_t start = begin; start <= kinds.size();) {
      const int result = run(start, kFreeSteps);
      if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
      if (result != PCRE2_ERROR_MATCHLIMIT && result != PCRE2_ERROR_JIT_STACKLIMIT)
        return found(result, start);
      // PCRE2 does not say where it went back too often: one place after the other, then.
      const size_t end = std::min(kinds.size(), start + stretch);
      stretch *= 2;
      for (; start <= end; ++start) {
        const int here = run_at(start, start > begin);
        if (here != PCRE2_ERROR_NOMATCH) return found(here, start);
      }
    }
    return std::nullopt;
  }

 private:
  int run(size_t start, size_t limit) const {
    set_limit(limit);
    if (!regex.jit_) return run_interpreter(*regex.code_, start, 0);
    return pcre2_jit_match(regex.code_.get(), subject(), kinds.size(), start, 0, state.match,
                           state.context);
  }

  /// A match that begins at `start`. Steps beyond the free ones are taken from those left.
  int run_at(size_t start, bool later) {
    const auto& code = later && regex.later_code_ ? *regex.later_code_ : *regex.code_;
    for (size_t limit = kFreeSteps;; limit *= 4) {
      set_limit(limit);
      const int result = run_interpreter(code, start, PCRE2_ANCHORED);
      if (result != PCRE2_ERROR_MATCHLIMIT) return result;
      VIADUCT_CHECK(Error, limit <= steps_left,
                    "regular expression {} goes back too often at character {} of {}: the limit "
                    "is {} times in a text, and {} times for each of its characters",
                    regex.pattern_, start, kinds.size(), kStepsBack, kStepsBackPerCharacter);
      steps_left -= limit;
    }
  }

  int run_interpreter(const pcre2_real_code_8& code, size_t start, uint32_t options) const {
    return pcre2_match(&code, subject(), kinds.size(), start, options | PCRE2_NO_JIT, state.match,
                       state.context);
  }

  PCRE2_SPTR subject() const {
    return kinds.empty() ? reinterpret_cast<PCRE2_SPTR>("") : kinds.data();
  }

  /// Set each time: a search nested in the visit of a match has its own.
  void set_limit(size_t limit) const {
    pcre2_set_match_limit(state.context,
                          static_cast<uint32_t>(std::min<size_t>(limit, UINT32_MAX)));
  }

  Match found(int result, size_t start) const {
    VIADUCT_CHECK(Error, result >= 0, "regular expression {} failed at character {} of {}: {}",
                  regex.pattern_, start, kinds.size(), message_of(result));
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.match);
    // \K in a look-ahead can move the reported start past the end; such a match has no extent.
    if (offsets[1] < offsets[0] || offsets[0] < start) return Match{start, start};
    return Match{offsets[0], offsets[1]};
  }
};

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
  Search search{*this, kinds, state};
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
    const auto found = search.next(from);
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
  const auto found = Search{*this, kinds, scratch.state()}.next(before.size());
  if (!found) return std::nullopt;
  const auto byte_of = [&](size_t place) {
    size_t byte = 0;
    for (; place > 0; --place) byte += first_code_point(text.substr(byte)).bytes;
    return byte;
  };
  return Match{byte_of(found->begin), byte_of(found->end)};
}

}  // namespace viaduct
