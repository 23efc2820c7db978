#include "data/tokenizer/unicode_forms.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_tables.h"

namespace viaduct {
namespace {

namespace tables = unicode_tables;

constexpr char32_t kEnd = 0x110000;
// Hangul syllables are composed by arithmetic (Unicode standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kVowelCount = 21, kTailCount = 28, kSyllableCount = 19 * 21 * 28;

bool is_syllable(char32_t c) {
  return c >= kSyllables && c < kSyllables + kSyllableCount;
}

/// What normalization needs to know of each character. Immutable once made.
struct FormData {
  enum Flag : uint8_t { kDecomposes = 1, kDecomposesCompatibly = 2, kComposes = 4 };

  std::vector<uint8_t> combining = std::vector<uint8_t>(kEnd, 0);
  std::vector<uint8_t> flags = std::vector<uint8_t>(kEnd, 0);
  std::unordered_map<char32_t, const uint32_t*> canonical, compatible;  // to count and characters
  std::unordered_map<uint64_t, char32_t> compositions;

  FormData() {
    for (size_t i = 0; i < tables::kCombiningRunsSize; ++i) {
      const uint32_t run = tables::kCombiningRuns[i];
      const uint32_t end =
          i + 1 < tables::kCombiningRunsSize ? tables::kCombiningRuns[i + 1] >> 8 : kEnd;
      std::fill(combining.begin() + (run >> 8), combining.begin() + end,
                static_cast<uint8_t>(run & 0xFF));
    }
    read(tables::kCanonical, tables::kCanonicalSize, canonical,
         kDecomposes | kDecomposesCompatibly);
    read(tables::kCompatible, tables::kCompatibleSize, compatible, kDecomposesCompatibly);
    for (char32_t c = kSyllables; c < kSyllables + kSyllableCount; ++c)
      flags[c] |= kDecomposes | kDecomposesCompatibly;
    for (size_t i = 0; i < tables::kCompositionsSize; i += 3) {
      const uint32_t* pair = tables::kCompositions + i;
      compositions[uint64_t{pair[0]} << 32 | pair[1]] = pair[2];
      flags[pair[1]] |= kComposes;
    }
    for (char32_t c = kVowels; c < kVowels + kVowelCount; ++c) flags[c] |= kComposes;
    for (char32_t c = kTails + 1; c < kTails + kTailCount; ++c) flags[c] |= kComposes;
  }

 private:
  void read(const uint32_t* table, size_t size, std::unordered_map<char32_t, const uint32_t*>& to,
            int flag) {
    for (size_t at = 0; at < size; at += 2 + table[at + 1]) {
      to[table[at]] = table + at + 1;
      flags[table[at]] |= static_cast<uint8_t>(flag);
    }
  }
};

const FormData& form_data() {
  static const FormData kData;
  return kData;
}

struct Letter {
  char32_t value = 0;
  uint8_t combining = 0;
  int change = 0;  // CharacterChange
};

void decompose(char32_t c, bool compatibly, const FormData& data, std::vector<Letter>& out) {
  int change = 0;
  const auto put = [&](char32_t value) {
    out.push_back({value, data.combining[value], change});
    change = 1;
  };
  const uint8_t flag = compatibly ? FormData::kDecomposesCompatibly : FormData::kDecomposes;
  if (!(data.flags[c] & flag)) return put(c);
  if (is_syllable(c)) {
    const char32_t index = c - kSyllables;
    put(kLeads + index / (kVowelCount * kTailCount));
    put(kVowels + index % (kVowelCount * kTailCount) / kTailCount);
    if (index % kTailCount != 0) put(kTails + index % kTailCount);
    return;
  }
  const uint32_t* parts = nullptr;
  if (compatibly) {
    const auto found = data.compatible.find(c);
    if (found != data.compatible.end()) parts = found->second;
  }
  if (parts == nullptr) parts = data.canonical.at(c);
  for (uint32_t i = 1; i <= parts[0]; ++i) put(parts[i]);
}

/// Sorts each run of marks by class, those of a class in their order.
void order_marks(std::vector<Letter>& letters) {
  for (size_t begin = 0; begin < letters.size();) {
    if (letters[begin].combining == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < letters.size() && letters[end].combining != 0) ++end;
    std::stable_sort(letters.begin() + begin, letters.begin() + end,
                     [](const Letter& a, const Letter& b) { return a.combining < b.combining; });
    begin = end;
  }
}

/// The character that two compose to, or 0.
char32_t composed(char32_t first, char32_t second, const FormData& data) {
  if (first >= kLeads && first < kLeads + 19 && second >= kVowels &&
      second < kVowels + kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  }
  if (is_syllable(first) && (first - kSyllables) % kTailCount == 0 && second > kTails &&
      second < kTails + kTailCount) {
    return first + (second - kTails);
  }
  const auto found = data.compositions.find(uint64_t{first} << 32 | second);
  return found == data.compositions.end() ? 0 : found->second;
}

void compose(std::vector<Letter>& letters, const FormData& data) {
  size_t written = 0, starter = 0;
  bool has_starter = false;
  int last = -1;  // the class of the letter kept last after the starter; -1: none
  for (const Letter letter : letters) {
    if (has_starter && last < static_cast<int>(letter.combining)) {
      if (const char32_t whole = composed(letters[starter].value, letter.value, data)) {
        letters[starter].value = whole;
        letters[starter].change += letter.change - 1;
        continue;
      }
    }
    if (letter.combining == 0) {
      starter = written;
      has_starter = true;
      last = -1;
    } else {
      last = letter.combining;
    }
    letters[written++] = letter;
  }
  letters.resize(written);
}

bool compatible(NormalForm form) {
  return form == NormalForm::nfkc || form == NormalForm::nfkd;
}
bool composing(NormalForm form) {
  return form == NormalForm::nfc || form == NormalForm::nfkc;
}

/// Calls `put` for each letter of `text` in the form.
template <class Put>
void normalize(std::string_view text, NormalForm form, const Put& put) {
  const FormData& data = form_data();
  std::vector<Letter> letters;
  const auto finish = [&] {
    order_marks(letters);
    if (composing(form)) compose(letters, data);
    for (const Letter& letter : letters) put(letter);
    letters.clear();
  };
  const bool compatibly = compatible(form);
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    text.remove_prefix(next.bytes);
    // Nothing crosses the begin of an ASCII character.
    if (next.value < 0x80) finish();
    decompose(next.value, compatibly, data, letters);
  }
  finish();
}

}  // namespace

bool may_change(std::string_view text, NormalForm form) {
  const auto ascii = [](char c) { return static_cast<signed char>(c) >= 0; };
  auto at = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), ascii) - text.begin());
  if (at == text.size()) return false;
  const FormData& data = form_data();
  const uint8_t flags =
      (compatible(form) ? FormData::kDecomposesCompatibly : FormData::kDecomposes) |
      (composing(form) ? FormData::kComposes : 0);
  while (at < text.size()) {
    const CodePoint next = first_code_point(text.substr(at));
    // A character that decomposes and composes to itself again is looked at in full.
    if ((data.flags[next.value] & flags) != 0 || data.combining[next.value] != 0) return true;
    at += next.bytes;
  }
  return false;
}

std::string to_form(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size());
  normalize(text, form, [&](const Letter& letter) { append_utf8(out, letter.value); });
  return out;
}

std::vector<CharacterChange> changes_to_form(std::string_view text, NormalForm form) {
  std::vector<CharacterChange> changes;
  normalize(text, form, [&](const Letter& letter) {
    changes.push_back({letter.value, letter.change});
  });
  return changes;
}

std::string to_lower_case(std::string_view text) {
  struct Run {
    char32_t first, last, step;
    int32_t delta;
  };
  static const std::vector<Run> kRuns = [] {
    std::vector<Run> runs;
    for (size_t i = 0; i < tables::kLowercaseSize; i += 4) {
      const int32_t* run = tables::kLowercase + i;
      runs.push_back({static_cast<char32_t>(run[0]), static_cast<char32_t>(run[1]),
                      static_cast<char32_t>(run[2]), run[3]});
    }
    return runs;
  }();
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    text.remove_prefix(next.bytes);
    char32_t value = next.value;
    if (value == 0x130) {  // the only one with a lower case of two characters
      out += "i\xCC\x87";
      continue;
    }
    const auto run = std::partition_point(kRuns.begin(), kRuns.end(),
                                          [&](const Run& r) { return r.last < value; });
    if (run != kRuns.end() && run->first <= value && (value - run->first) % run->step == 0)
      value = static_cast<char32_t>(static_cast<int32_t>(value) + run->delta);
    append_utf8(out, value);
  }
  return out;
}

}  // namespace viaduct
