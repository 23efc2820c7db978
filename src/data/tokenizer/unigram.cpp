#include "data/tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

// What an unknown character costs beyond the worst token (SentencePiece's constant).
constexpr double kUnknownPenalty = 10;

}  // namespace

double score_as_read(double written) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), std::abs(written),
                                          std::chars_format::scientific);
  const char* const begin = text.data();
  const char* exponent_begin = std::find(begin, static_cast<const char*>(end), 'e');
  if (error != std::errc() || exponent_begin == end || !std::isfinite(written)) return written;
  uint64_t digits = 0;
  int exponent = 0, decimals = 0;
  bool after_point = false;
  for (const char* at = begin; at < exponent_begin; ++at) {
    if (*at == '.') {
      after_point = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    decimals += after_point;
  }
  exponent_begin += exponent_begin[1] == '+' ? 2 : 1;
  std::from_chars(exponent_begin, end, exponent);
  exponent -= decimals;
  const double power = std::pow(10.0, std::abs(exponent));
  if (!std::isfinite(power)) return written;
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, written);
}

/// The best way to each place of a piece.
struct Unigram::PathBuffers : PieceModel::Buffers {
  struct Step {
    double score = 0;
    int64_t begin = -1;  // of the last token; -1: no way here
    int32_t id = -1;     // -1: a character without a token
  };
  std::vector<Step> best;
  std::vector<size_t> places;
};

Unigram::Unigram(UnigramSpec spec, std::string_view source)
    : spec_(std::move(spec)), source_(source) {
  VIADUCT_CHECK(IoError, !spec_.vocabulary.empty(), "{}: the vocabulary is empty", source);
  VIADUCT_CHECK(IoError, !spec_.unknown_id || *spec_.unknown_id < size(),
                "{}: unk_id is {}, expected 0 to {}", source, *spec_.unknown_id, size() - 1);
  double worst = std::numeric_limits<double>::infinity();
  token_of_.push_back(-1);
  for (int32_t id = 0; id < size(); ++id) {
    const auto& [token, score] = spec_.vocabulary[id];
    check_token_length(token, id, source);
    VIADUCT_CHECK(IoError, is_valid_utf8(token), "{}: token {} is not UTF-8", source, id);
    VIADUCT_CHECK(IoError, std::isfinite(score), "{}: token {} has a score that is no number",
                  source, id);
    worst = std::min(worst, score);
    id_of_[token] = id;  // of tokens given twice the last one counts
    uint32_t node = 0;
    for (const char c : token) {
      const uint64_t edge = uint64_t{node} << 8 | static_cast<uint8_t>(c);
      const auto [found, fresh] =
          children_.try_emplace(edge, static_cast<uint32_t>(token_of_.size()));
      if (fresh) token_of_.push_back(-1);
      node = found->second;
    }
    if (node != 0) token_of_[node] = id;
  }
  unknown_score_ = worst - kUnknownPenalty;
  for (int byte = 0; byte < 256; ++byte)
    id_of_byte_token_[byte] = find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

std::unique_ptr<PieceModel::Buffers> Unigram::make_buffers() const {
  return std::make_unique<PathBuffers>();
}

UnknownBytes Unigram::encode(std::string_view piece, Buffers& buffers,
                             std::vector<int32_t>& ids) const {
  return encode(piece, buffers, ids, nullptr);
}

UnknownBytes Unigram::encode_parts(std::string_view piece, Buffers& buffers,
                                   std::vector<int32_t>& ids, std::vector<PiecePart>& parts) const {
  return encode(piece, buffers, ids, &parts);
}

UnknownBytes Unigram::encode(std::string_view piece, Buffers& any_buffers,
                             std::vector<int32_t>& ids, std::vector<PiecePart>* parts) const {
  auto& best = static_cast<PathBuffers&>(any_buffers).best;
  auto& places = static_cast<PathBuffers&>(any_buffers).places;
  best.assign(piece.size() + 1, {});
  for (size_t begin = 0; begin < piece.size();) {
    const double so_far = best[begin].score;
    const size_t character = first_code_point(piece.substr(begin)).bytes;
    const auto offer = [&](size_t end, double score, int32_t id) {
      auto& step = best[end];
      if (step.begin >= 0 && !(score > step.score)) return;
      step = {score, static_cast<int64_t>(begin), id};
    };
    bool has_character = false;
    uint32_t node = 0;
    for (size_t end = begin; end < piece.size();) {
      node = child(node, static_cast<uint8_t>(piece[end++]));
      if (node == 0) break;
      const int32_t id = token_of_[node];
      if (id < 0) continue;
      offer(end, so_far + spec_.vocabulary[id].second, id);
      has_character |= end - begin == character;
    }
    if (!has_character) {
      VIADUCT_CHECK(Error, spec_.unknown_id.has_value(),
                    "{}: the text has a character without a token, and the model has no unk_id",
                    source_);
      offer(begin + character, so_far + unknown_score_, *spec_.unknown_id);
    }
    begin += character;
  }
  places.clear();
  for (size_t end = piece.size(); end > 0; end = static_cast<size_t>(best[end].begin))
    places.push_back(end);
  UnknownBytes unknown;
  const size_t ids_before = ids.size();
  const size_t parts_before = parts == nullptr ? 0 : parts->size();
  size_t begin = 0;
  for (size_t i = places.size(); i > 0;) {
    size_t end = places[--i];
    const int32_t id = best[end].id;
    if (id != spec_.unknown_id) {
      ids.push_back(id);
    } else {  // neighbours without a token are one text
      while (i > 0 && best[places[i - 1]].id == spec_.unknown_id) end = places[--i];
      append_unknown(piece.substr(begin, end - begin), unknown, ids);
    }
    if (parts != nullptr) {
      // The tokens of bytes all stand for the whole text.
      for (size_t at = ids_before + parts->size() - parts_before; at < ids.size(); ++at)
        parts->push_back({begin, end, ids[at] == spec_.unknown_id});
    }
    begin = end;
  }
  return unknown;
}

void Unigram::append_unknown(std::string_view text, UnknownBytes& unknown,
                             std::vector<int32_t>& ids) const {
  if (const auto whole = find(text)) {
    ids.push_back(*whole);
  } else if (!spec_.byte_fallback || !append_byte_tokens(text, ids)) {
    unknown.add({static_cast<int64_t>(text.size()), static_cast<uint8_t>(text.front())});
    ids.push_back(*spec_.unknown_id);
  }
}

bool Unigram::append_byte_tokens(std::string_view bytes, std::vector<int32_t>& ids) const {
  const auto has_token = [&](char c) { return id_of_byte_token_[static_cast<uint8_t>(c)] >= 0; };
  if (!std::all_of(bytes.begin(), bytes.end(), has_token)) return false;
  for (const char c : bytes) ids.push_back(id_of_byte_token_[static_cast<uint8_t>(c)]);
  return true;
}

bool Unigram::encode_bytes(std::string_view bytes, Buffers&, std::vector<int32_t>& ids) const {
  return spec_.byte_fallback && append_byte_tokens(bytes, ids);
}

std::optional<int32_t> Unigram::find(std::string_view token) const {
  const auto found = id_of_.find(std::string(token));
  if (found == id_of_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> Unigram::token(int32_t id) const {
  if (id < 0 || id >= size()) return std::nullopt;
  return spec_.vocabulary[id].first;
}

}  // namespace viaduct
