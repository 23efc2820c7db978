#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/regex.h"

#include <pcre2.h>

#include "base/error.h"

namespace viaduct {
namespace {

// PCRE2's \s includes U+180E, which is not white space since Unicode 6.3, and its \w lacks marks.
// The engines that tokenizers are written for follow Unicode, so both are spelled out.
constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";
constexpr size_t kMaxPatternBytes = 1 << 16;

/// `pattern` with \s, \S, \w and \W spelled out.
std::string spell_classes(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      if (in_class && c == '&' && pattern.substr(i, 2) == "&&") {
        fail<ConfigError>("regular expression {}: intersections (&&) are not supported", pattern);
      }
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out.push_back(c);
      continue;
    }
    const char escaped = pattern[++i];
    const auto put = [&](std::string_view open, std::string_view set) {
      if (in_class) {
        out.append(set);
      } else {
        out.append(open).append(set).append("]");
      }
    };
    switch (escaped) {
      case 's':
        put("[", kSpace);
        break;
      case 'S':
        put("[", kNotSpace);
        break;
      case 'w':
        put("[", kWord);
        break;
      case 'W':
        VIADUCT_CHECK(ConfigError, !in_class,
                      "regular expression {}: \\W inside brackets is not supported", pattern);
        put("[^", kWord);
        break;
      default:
        out.push_back('\\');
        out.push_back(escaped);
    }
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{32} << 10, size_t{8} << 20, nullptr);

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

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {}
RegexScratch::~RegexScratch() = default;

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex::Regex(std::string_view pattern) : pattern_(pattern) {
  VIADUCT_CHECK(ConfigError, pattern.size() <= kMaxPatternBytes,
                "regular expression of {} bytes, at most {} are supported", pattern.size(),
                kMaxPatternBytes);
  const std::string spelled = spell_classes(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                            nullptr));
  VIADUCT_CHECK(ConfigError, code_ != nullptr, "regular expression {}: {} (at byte {} of {})",
                pattern, message_of(error), offset, spelled);
  // Without a JIT on this machine the interpreter does the same, slower.
  jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex Regex::from_literal(std::string_view literal) {
  std::string pattern;
  for (const char c : literal) {
    // A backslash before any ASCII character that is not a letter or digit stands for itself.
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return Regex(pattern);
}

std::optional<Regex::Match> Regex::find(std::string_view text, size_t start,
                                        RegexScratch& scratch) const {
  RegexScratch::State& state = *scratch.state_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (jit_) {
    result =
        pcre2_jit_match(code_.get(), subject, text.size(), start, 0, state.match, state.context);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code_.get(), subject, text.size(), start,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state.match, state.context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  VIADUCT_CHECK(Error, result >= 0, "regular expression {} failed at byte {} of {}: {}", pattern_,
                start, text.size(), message_of(result));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.match);
  // \K can move the reported start past the end; such a match has no extent.
  if (offsets[1] < offsets[0] || offsets[0] < start) return Match{start, start};
  return Match{offsets[0], offsets[1]};
}

}  // namespace viaduct
