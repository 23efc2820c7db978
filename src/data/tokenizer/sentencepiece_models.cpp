#include "data/tokenizer/sentencepiece_models.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace viaduct {
namespace {

using IdOf = std::unordered_map<std::string_view, int32_t>;

/// The last piece of each text.
IdOf ids_of(const SentencePieces& pieces) {
  IdOf ids;
  ids.reserve(pieces.pieces.size());
  for (size_t id = 0; id < pieces.pieces.size(); ++id)
    ids[pieces.pieces[id].text] = static_cast<int32_t>(id);
  return ids;
}

/// Appends the cuts of `text` between characters into two of `parts`, the shortest left part first.
void add_merges(std::string_view text, const IdOf& parts, BpeSpec& spec) {
  for (size_t at = 1; at < text.size(); ++at) {
    if ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) continue;
    const std::string_view left = text.substr(0, at), right = text.substr(at);
    if (parts.count(left) > 0 && parts.count(right) > 0) spec.merges.emplace_back(left, right);
  }
}

BpeSpec bpe_without_merges(const SentencePieces& pieces, const IdOf& ids) {
  BpeSpec spec;
  spec.byte_level = false;
  spec.fuse_unknown = true;
  spec.vocabulary.reserve(ids.size());
  for (size_t id = 0; id < pieces.pieces.size(); ++id) {
    const std::string& text = pieces.pieces[id].text;
    if (ids.at(text) == static_cast<int32_t>(id)) spec.vocabulary.emplace_back(text, id);
  }
  return spec;
}

}  // namespace

BpeSpec bpe_of_all_pieces(const SentencePieces& pieces) {
  const IdOf ids = ids_of(pieces);
  BpeSpec spec = bpe_without_merges(pieces, ids);
  for (const auto& [text, id] : spec.vocabulary) add_merges(text, ids, spec);
  spec.byte_fallback = true;
  return spec;
}

BpeSpec bpe_by_score(const SentencePieces& pieces) {
  BpeSpec spec = bpe_without_merges(pieces, ids_of(pieces));
  IdOf normal;
  for (size_t id = 0; id < pieces.pieces.size(); ++id) {
    const auto& piece = pieces.pieces[id];
    if (piece.type == SentencePieces::kNormal) normal[piece.text] = static_cast<int32_t>(id);
  }
  std::vector<int32_t> ranked;
  ranked.reserve(normal.size());
  for (const auto& [text, id] : normal) ranked.push_back(id);
  std::sort(ranked.begin(), ranked.end(), [&](int32_t a, int32_t b) {
    const float score_a = pieces.pieces[a].score, score_b = pieces.pieces[b].score;
    return score_a != score_b ? score_a > score_b : a < b;
  });
  for (const int32_t id : ranked) add_merges(pieces.pieces[id].text, normal, spec);
  spec.byte_fallback = pieces.byte_fallback;
  spec.unknown_token = pieces.unknown;
  return spec;
}

UnigramSpec unigram_of(const SentencePieces& pieces, int32_t unknown_id) {
  UnigramSpec spec;
  spec.unknown_id = unknown_id;
  spec.vocabulary.reserve(pieces.pieces.size());
  for (const auto& piece : pieces.pieces) spec.vocabulary.emplace_back(piece.text, piece.score);
  return spec;
}

}  // namespace viaduct
