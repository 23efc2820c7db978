#include "data/tokenizer/unicode_sets.h"

#include <array>
#include <cctype>
#include <numeric>

#include "data/tokenizer/unicode_tables.h"

namespace viaduct {
namespace {

namespace tables = unicode_tables;

/// In the order of the indices of kCategoryRuns: the short and the long name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 30> kCategories = {{
    {"lu", "uppercaseletter"},    {"ll", "lowercaseletter"},  {"lt", "titlecaseletter"},
    {"lm", "modifierletter"},     {"lo", "otherletter"},      {"mn", "nonspacingmark"},
    {"mc", "spacingmark"},        {"me", "enclosingmark"},    {"nd", "decimalnumber"},
    {"nl", "letternumber"},       {"no", "othernumber"},      {"pc", "connectorpunctuation"},
    {"pd", "dashpunctuation"},    {"ps", "openpunctuation"},  {"pe", "closepunctuation"},
    {"pi", "initialpunctuation"}, {"pf", "finalpunctuation"}, {"po", "otherpunctuation"},
    {"sm", "mathsymbol"},         {"sc", "currencysymbol"},   {"sk", "modifiersymbol"},
    {"so", "othersymbol"},        {"zs", "spaceseparator"},   {"zl", "lineseparator"},
    {"zp", "paragraphseparator"}, {"cc", "control"},          {"cf", "format"},
    {"cs", "surrogate"},          {"co", "privateuse"},       {"cn", "unassigned"},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMajor = {{
    {"l", "letter"},
    {"m", "mark"},
    {"n", "number"},
    {"p", "punctuation"},
    {"s", "symbol"},
    {"z", "separator"},
    {"c", "other"},
}};

/// The stretches of a table of begins whose value `wanted` accepts.
template <class Wanted>
CodePointSet of_runs(const uint32_t* runs, size_t count, int shift, const Wanted& wanted) {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  for (size_t i = 0; i < count; ++i) {
    const char32_t end = i + 1 < count ? runs[i + 1] >> shift : CodePointSet::kEnd;
    if (wanted(runs[i] & ((1u << shift) - 1))) ranges.emplace_back(runs[i] >> shift, end - 1);
  }
  return CodePointSet::from_ranges(std::move(ranges));
}

CodePointSet category(std::string_view short_name) {
  return of_runs(tables::kCategoryRuns, tables::kCategoryRunsSize, 5,
                 [&](uint32_t index) { return kCategories[index].first.starts_with(short_name); });
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return plain;
}

std::optional<CodePointSet> named_set(std::string_view name) {
  size_t at = 0;
  for (size_t i = 0; i < tables::kSetNamesSize; ++i) {
    const size_t count = tables::kSets[at];
    if (plain_name(tables::kSetNames[i]) == name) {
      std::vector<uint32_t> bounds(tables::kSets + at + 1, tables::kSets + at + 1 + count);
      std::partial_sum(bounds.begin(), bounds.end(), bounds.begin());
      return CodePointSet::from_bounds(bounds);
    }
    at += 1 + count;
  }
  return std::nullopt;
}

std::optional<CodePointSet> script(std::string_view name) {
  for (size_t i = 0; i < tables::kScriptNamesSize; ++i) {
    if (plain_name(tables::kScriptNames[i]) != name) continue;
    return of_runs(tables::kScriptRuns, tables::kScriptRunsSize, 8,
                   [&](uint32_t index) { return index == i + 1; });
  }
  return std::nullopt;
}

/// Calls `visit(from, to)` for the characters of a table of mappings.
template <class Visit>
void for_each_mapping(const int32_t* table, size_t size, const Visit& visit) {
  for (size_t i = 0; i + 3 < size; i += 4) {
    for (int32_t c = table[i]; c <= table[i + 1]; c += table[i + 2])
      visit(static_cast<char32_t>(c), static_cast<char32_t>(c + table[i + 3]));
  }
}

}  // namespace

std::string_view unicode_version() {
  return tables::kUnicodeVersion;
}

std::string_view unicode_source_version() {
  return tables::kTokenizersVersion;
}

std::optional<CodePointSet> property_set(std::string_view given) {
  const std::string name = plain_name(given);
  if (name == "any") return CodePointSet::all();
  if (name == "assigned") return ~category("cn");
  if (name == "ascii") return CodePointSet::range(0, 0x7F);
  if (name == "lc" || name == "casedletter")
    return category("lu") | category("ll") | category("lt");
  for (const auto& [brief, full] : kMajor) {
    if (name == brief || name == full) return category(brief);
  }
  for (const auto& [brief, full] : kCategories) {
    if (name == brief || name == full) return category(brief);
  }
  if (name == "grek") return script("greek");
  if (name == "hani") return script("han");
  if (name == "latn") return script("latin");
  if (name == "cyrl") return script("cyrillic");
  if (name == "hira") return script("hiragana");
  if (name == "kana") return script("katakana");
  if (auto set = named_set(name)) return set;
  if (auto set = script(name)) return set;
  if (auto set = posix_set(name)) return set;
  if (name == "alphabetic") return named_set("alpha");
  if (name == "uppercase") return named_set("upper");
  if (name == "lowercase") return named_set("lower");
  return std::nullopt;
}

std::optional<CodePointSet> posix_set(std::string_view name) {
  if (name == "digit") return category("nd");
  if (name == "alnum") return *named_set("alpha") | category("nd");
  if (name == "blank") return category("zs") | CodePointSet('\t');
  if (name == "cntrl") return category("cc");
  if (name == "ascii") return CodePointSet::range(0, 0x7F);
  if (name == "xdigit") {
    return CodePointSet::range('0', '9') | CodePointSet::range('a', 'f') |
           CodePointSet::range('A', 'F');
  }
  if (name == "punct") return category("p") | category("s");  // unlike \p{Punct}
  // Unlike \w and \p{Word}, which have superscripts and fractions of Latin-1 too.
  if (name == "word") return *named_set("alpha") | category("nd") | category("m") | category("pc");
  for (const std::string_view known : {"alpha", "graph", "lower", "print", "space", "upper"}) {
    if (name == known) return named_set(name);
  }
  return std::nullopt;
}

CaseFolding::CaseFolding() {
  for_each_mapping(tables::kCaseGroups, tables::kCaseGroupsSize, [&](char32_t from, char32_t to) {
    first_[from] = to;
    group_[to].push_back(from);
  });
  for (size_t at = 0; at < tables::kLongFoldsSize; at += 2 + tables::kLongFolds[at + 1]) {
    std::u32string& text = long_[tables::kLongFolds[at]];
    for (size_t i = 0; i < tables::kLongFolds[at + 1]; ++i)
      text.push_back(tables::kLongFolds[at + 2 + i]);
  }
}

CodePointSet CaseFolding::closure(const CodePointSet& set) const {
  std::vector<std::pair<char32_t, char32_t>> more;
  for (const auto& [first, others] : group_) {
    bool any = set.contains(first);
    for (const char32_t other : others) any |= set.contains(other);
    if (!any) continue;
    more.emplace_back(first, first);
    for (const char32_t other : others) more.emplace_back(other, other);
  }
  return set | CodePointSet::from_ranges(std::move(more));
}

std::vector<std::u32string> CaseFolding::longer(const CodePointSet& set) const {
  std::vector<std::u32string> texts;
  for (const auto& [character, text] : long_) {
    if (set.contains(character)) texts.push_back(text);
  }
  return texts;
}

CodePointSet CaseFolding::standing_for(std::u32string_view text) const {
  const auto folded = [&](char32_t c) {
    const auto found = first_.find(c);
    return found == first_.end() ? c : found->second;
  };
  std::vector<std::pair<char32_t, char32_t>> found;
  for (const auto& [character, spelled] : long_) {
    bool same = spelled.size() == text.size();
    for (size_t i = 0; same && i < text.size(); ++i) same = folded(spelled[i]) == folded(text[i]);
    if (same) found.emplace_back(character, character);
  }
  return CodePointSet::from_ranges(std::move(found));
}

}  // namespace viaduct
