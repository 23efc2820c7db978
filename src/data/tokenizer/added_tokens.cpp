#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

constexpr size_t kMaxContentBytes = 4096;

/// The number of leading white-space bytes of `text`.
size_t leading_space(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const CodePoint next = first_code_point(text.substr(bytes));
    if (!is_white_space(next.value)) break;
    bytes += next.bytes;
  }
  return bytes;
}

/// Where the trailing white space of `text` begins.
size_t trailing_space_begin(std::string_view text) {
  while (!text.empty()) {
    const CodePoint last = last_code_point(text);
    if (!is_white_space(last.value)) break;
    text.remove_suffix(last.bytes);
  }
  return text.size();
}

bool touches_word(std::string_view before, std::string_view after) {
  return (!before.empty() && is_word_character(last_code_point(before).value)) ||
         (!after.empty() && is_word_character(first_code_point(after).value));
}

}  // namespace

void AddedTokens::Trie::insert(std::string_view content, int32_t index) {
  starts[static_cast<uint8_t>(content.front())] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const uint64_t edge = uint64_t{node} << 8 | static_cast<uint8_t>(c);
    const auto [found, fresh] = next.try_emplace(edge, static_cast<uint32_t>(token.size()));
    if (fresh) token.push_back(-1);
    node = found->second;
  }
  token[node] = index;
}

std::optional<std::pair<int32_t, size_t>> AddedTokens::Trie::longest(std::string_view text,
                                                                     size_t at) const {
  std::optional<std::pair<int32_t, size_t>> best;
  uint32_t node = 0;
  while (at < text.size()) {
    const auto found = next.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[at]));
    if (found == next.end()) break;
    node = found->second;
    ++at;
    if (token[node] >= 0) best = {token[node], at};
  }
  return best;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  for (AddedToken& token : tokens) {
    VIADUCT_CHECK(ConfigError, !token.content.empty(), "added token {} has no content", token.id);
    const size_t bytes = std::max(token.content.size(), token.searched.size());
    VIADUCT_CHECK(ConfigError, bytes <= kMaxContentBytes,
                  "added token {} has {} bytes, at most {} are supported", token.id, bytes,
                  kMaxContentBytes);
    VIADUCT_CHECK(IoError, is_valid_utf8(token.content) && is_valid_utf8(token.searched),
                  "added token {} is not UTF-8", token.id);
    const auto [found, fresh] = by_content_.try_emplace(token.content, tokens_.size());
    if (fresh) {
      tokens_.push_back(std::move(token));
    } else {
      token.special |= tokens_[found->second].special;
      if (token.searched.empty()) token.searched = tokens_[found->second].searched;
      tokens_[found->second] = std::move(token);
    }
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    by_id_.try_emplace(tokens_[i].id, i);
    Trie& trie = tokens_[i].normalized ? normalized_ : raw_;
    const AddedToken& token = tokens_[i];
    const bool changed = token.normalized && !token.searched.empty();
    trie.insert(changed ? token.searched : token.content, static_cast<int32_t>(i));
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

void AddedTokens::split(std::string_view text, bool normalized, bool special_as_text,
                        FunctionRef<void(std::string_view)> plain,
                        FunctionRef<void(int32_t, std::string_view)> token) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  size_t done = 0;
  const auto emit_plain = [&](size_t end) {
    if (end > done) plain(text.substr(done, end - done));
  };
  if (trie.next.empty()) {
    emit_plain(text.size());
    return;
  }
  size_t space_end = 0;  // of the run of white space that was taken last
  for (size_t at = 0; at < text.size();) {
    if (!trie.starts[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const auto match = trie.longest(text, at);
    if (!match) {
      ++at;
      continue;
    }
    const AddedToken& found = tokens_[match->first];
    size_t begin = at, end = match->second;
    at = end;
    if (special_as_text && found.special) continue;
    if (found.single_word && touches_word(text.substr(0, begin), text.substr(end))) continue;
    if (found.lstrip) {
      begin = begin > done ? done + trailing_space_begin(text.substr(done, begin - done)) : done;
    }
    if (found.rstrip) {
      // Tokens of white space meet the same run again and again.
      if (end >= space_end) space_end = end + leading_space(text.substr(end));
      end = space_end;
    }
    if (begin >= end) continue;  // white space that the token before has taken
    emit_plain(begin);
    token(found.id, text.substr(begin, end - begin));
    done = end;
  }
  emit_plain(text.size());
}

}  // namespace viaduct
