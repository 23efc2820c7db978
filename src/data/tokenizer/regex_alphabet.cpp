#include "data/tokenizer/regex_alphabet.h"

#include <algorithm>
#include <map>
#include <string>

#include "data/tokenizer/unicode.h"

namespace viaduct {

RegexAlphabet::RegexAlphabet(const std::vector<const CodePointSet*>& sets) {
  struct Change {
    char32_t at;
    size_t set;
  };
  std::vector<Change> changes;
  for (size_t set = 0; set < sets.size(); ++set) {
    for (const char32_t bound : sets[set]->bounds()) changes.push_back({bound, set});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at < b.at; });
  members_.resize(sets.size());
  std::vector<bool> inside(sets.size(), false);
  std::map<std::vector<bool>, size_t> kind_of;
  struct Stretch {
    char32_t begin;
    size_t kind;
  };
  std::vector<Stretch> stretches;
  size_t next = 0;
  for (char32_t begin = 0; begin < CodePointSet::kEnd;) {
    for (; next < changes.size() && changes[next].at == begin; ++next)
      inside[changes[next].set] = !inside[changes[next].set];
    const auto [found, fresh] = kind_of.try_emplace(inside, kind_of.size());
    if (fresh && found->second < kMaxKinds) {
      for (size_t set = 0; set < sets.size(); ++set) {
        if (inside[set]) members_[set].set(found->second);
      }
    }
    stretches.push_back({begin, found->second});
    begin = next < changes.size() ? changes[next].at : CodePointSet::kEnd;
  }
  kinds_ = kind_of.size();
  if (kinds_ > kMaxKinds) return;
  constexpr size_t kBlock = size_t{1} << kBlockBits;
  std::map<std::string, uint16_t> known;
  std::string block(kBlock, '\0');
  size_t stretch = 0;
  for (char32_t begin = 0; begin < CodePointSet::kEnd; begin += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) {
      while (stretch + 1 < stretches.size() && stretches[stretch + 1].begin <= begin + i) ++stretch;
      block[i] = static_cast<char>(stretches[stretch].kind);
    }
    const auto [found, fresh] = known.try_emplace(block, static_cast<uint16_t>(known.size()));
    if (fresh) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_of_.push_back(found->second);
  }
  for (size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = blocks_[block_of_[0] * kBlock + c];
}

bool RegexAlphabet::spell(std::string_view text, std::vector<uint8_t>& kinds) const {
  kinds.resize(text.size());
  const auto* byte = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = byte + text.size();
  uint8_t* out = kinds.data();
  while (byte < end) {
    if (*byte < 0x80) {
      *out++ = ascii_[*byte++];
      continue;
    }
    const CodePoint next = first_code_point(
        std::string_view(reinterpret_cast<const char*>(byte), static_cast<size_t>(end - byte)));
    const size_t block = block_of_[next.value >> kBlockBits];
    *out++ = blocks_[(block << kBlockBits) | (next.value & ((1u << kBlockBits) - 1))];
    byte += next.bytes;
  }
  const auto characters = static_cast<size_t>(out - kinds.data());
  kinds.resize(characters);
  return characters == text.size();
}

}  // namespace viaduct
