#include "data/fill_in_middle.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "data/row_draws.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

namespace {

void append(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Where characters begin, and the end of the text.
std::vector<size_t> character_borders(std::string_view text) {
  std::vector<size_t> borders;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool continues = (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
    if (i == 0 || !continues) borders.push_back(i);
  }
  borders.push_back(text.size());
  return borders;
}

}  // namespace

FillInMiddle::FillInMiddle(const DatasetConfig& config, const Tokenizer& tokenizer,
                           std::string_view stream)
    : tokenizer_(tokenizer),
      rate_(config.fim_rate),
      spm_rate_(config.fim_spm_rate),
      fragment_rate_(config.fim_fragment_rate),
      no_prefix_(config.fim_no_prefix),
      key_(philox_key(
          {static_cast<uint64_t>(config.random_seed), hash64("data.fim." + std::string(stream))})) {
  std::vector<std::string> problems;
  const auto find = [&](const char* field, const std::string& token) {
    const auto id = tokenizer.find(token);
    if (!id)
      problems.push_back(fmt::format("dataset.{}: the tokenizer has no token {}", field, token));
    return id.value_or(0);
  };
  prefix_ = find("fim_prefix_token", config.fim_prefix_token);
  middle_ = find("fim_middle_token", config.fim_middle_token);
  suffix_ = find("fim_suffix_token", config.fim_suffix_token);
  pad_ = find("fim_pad_token", config.fim_pad_token);
  eod_ = find("fim_eod_token", config.fim_eod_token);
  if (config.fim_split_sample) split_ = find("fim_split_sample", *config.fim_split_sample);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

void FillInMiddle::apply(int64_t row_number, std::span<int32_t> row) const {
  RowDraws draws(key_, row_number);
  Ids made;
  size_t begin = 0;
  for (size_t at = 0; at < row.size(); ++at) {
    if (row[at] != eod_) continue;
    if (at > begin) {  // an empty segment is kept together with its end token
      append(made, segment(row.subspan(begin, at - begin), draws));
      made.push_back(eod_);
    }
    begin = at + 1;
  }
  append(made, segment(row.subspan(begin), draws));
  made.resize(row.size(), pad_);
  std::copy(made.begin(), made.end(), row.begin());
}

/// With a split token, each fragment between such tokens is rearranged separately.
FillInMiddle::Ids FillInMiddle::segment(std::span<const int32_t> ids, RowDraws& draws) const {
  if (!split_ || std::find(ids.begin(), ids.end(), *split_) == ids.end())
    return fragment(ids, rate_, draws);
  if (!draws.happens(rate_)) return {ids.begin(), ids.end()};
  Ids made;
  size_t begin = 0;
  for (size_t at = 0; at < ids.size(); ++at) {
    if (ids[at] != *split_) continue;
    if (at > begin) {
      append(made, fragment(ids.subspan(begin, at - begin), fragment_rate_, draws));
      made.push_back(*split_);
    }
    begin = at + 1;
  }
  append(made, fragment(ids.subspan(begin), fragment_rate_, draws));
  return made;
}

FillInMiddle::Ids FillInMiddle::fragment(std::span<const int32_t> ids, double rate,
                                         RowDraws& draws) const {
  const Ids unchanged(ids.begin(), ids.end());
  if (!draws.happens(rate)) return unchanged;
  const std::string text = tokenizer_.decode(ids);
  if (no_prefix_ && text.starts_with(*no_prefix_)) return unchanged;
  const auto borders = character_borders(text);
  const size_t characters = borders.size() - 1;
  size_t first = borders[draws.up_to(characters)], second = borders[draws.up_to(characters)];
  if (first > second) std::swap(first, second);
  const auto encode = [&](size_t begin, size_t end) {
    return tokenizer_.encode(std::string_view(text).substr(begin, end - begin));
  };
  const Ids before = encode(0, first), middle = encode(first, second),
            behind = encode(second, text.size());
  Ids made{prefix_};
  if (draws.happens(spm_rate_)) {
    made.push_back(suffix_);
    append(made, behind);
    made.push_back(middle_);
    append(made, before);
  } else {
    append(made, before);
    made.push_back(suffix_);
    append(made, behind);
    made.push_back(middle_);
  }
  append(made, middle);
  return made;
}

}  // namespace viaduct
