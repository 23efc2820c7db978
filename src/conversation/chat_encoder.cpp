#include "conversation/chat_encoder.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace viaduct {
namespace {

/// Spans of characters as ranges of bytes; both ascend, but for tokens of the same place.
void append_ranges(std::string_view text, const std::vector<TokenSpan>& spans,
                   std::vector<TextRange>& ranges) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
  if (ascii) {
    for (const TokenSpan& span : spans) ranges.emplace_back(span.begin, span.end);
    return;
  }
  std::vector<uint32_t> begins;  // of each character
  begins.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      begins.push_back(static_cast<uint32_t>(i));
  }
  begins.push_back(static_cast<uint32_t>(text.size()));
  for (const TokenSpan& span : spans) ranges.emplace_back(begins[span.begin], begins[span.end]);
}

/// Cuts the piece that has `place` inside.
void cut_at(size_t place, std::vector<TextPiece>& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (place <= pieces[i].begin || place >= pieces[i].end) continue;
    TextPiece rest = pieces[i];
    rest.begin = pieces[i].end = place;
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
    return;
  }
}

/// Gives the tokens that overlap a range the value; as transformers, both walk forward.
void fill_mask(const std::vector<TextRange>& places, const std::vector<TextRange>& ranges,
               uint8_t value, std::vector<uint8_t>& mask) {
  size_t range = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    while (range < ranges.size() && places[i].first >= ranges[range].second) ++range;
    if (range == ranges.size()) break;
    if (places[i].second > ranges[range].first) mask[i] = value;
  }
}

}  // namespace

int64_t ChatRow::scored() const {
  return std::accumulate(mask.begin(), mask.end(), int64_t{0});
}

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), cache_(tokenizer.make_cache()), newline_(tokenizer.encode("\n")) {}

std::vector<int32_t> ChatEncoder::ids(std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer_.encode(text, {}, cache_, ids);
  return ids;
}

int64_t ChatEncoder::encode_with_places(std::string_view text, bool as_text,
                                        std::vector<int32_t>& ids, std::vector<TextRange>& places) {
  const EncodeOptions options{.added_as_text = as_text};
  if (tokenizer_.model().tells_places()) {
    spans_.clear();
    const UnknownBytes unknown = tokenizer_.encode(text, options, cache_, ids, spans_);
    append_ranges(text, spans_, places);
    return unknown.count;
  }
  // The bytes that each token stands for, one after the other, are the text itself.
  const size_t before = ids.size();
  const UnknownBytes unknown = tokenizer_.encode(text, options, cache_, ids);
  DecodeState state;
  std::string bytes;
  for (size_t i = before; i < ids.size(); ++i) {
    const size_t begin = bytes.size();
    tokenizer_.decode(ids[i], state, bytes);
    places.emplace_back(begin, bytes.size());
  }
  VIADUCT_CHECK(IoError, bytes == text,
                "a tokenizer of kind {} changes the text of this conversation and does not tell "
                "which tokens are of the answer; a tokenizer.json beside it would",
                tokenizer_.kind());
  return unknown.count;
}

void ChatEncoder::append(std::string_view text, const TextPiece& piece, bool begins, ChatRow& row,
                         std::vector<TextRange>& places) {
  std::vector<int32_t> ids;
  std::vector<TextRange> own;
  const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
  size_t skipped = 0, shift = 0;
  int64_t unknown = 0;
  if (!begins || piece.as_text) {
    // Behind a line break, so that no space is put before a text that does not begin the row.
    unknown = encode_with_places("\n" + std::string(part), piece.as_text, ids, own);
    shift = 1;
    if (ids.size() >= newline_.size() &&
        std::equal(newline_.begin(), newline_.end(), ids.begin())) {
      skipped = newline_.size();
    } else {
      ids.clear();
      own.clear();
      shift = 0;
    }
  }
  if (shift == 0) unknown = encode_with_places(part, piece.as_text, ids, own);
  row.unknown_bytes += unknown;
  const AddedToken* token = piece.as_text ? tokenizer_.added_tokens().find(part) : nullptr;
  VIADUCT_CHECK(IoError,
                token == nullptr || std::find(ids.begin(), ids.end(), token->id) == ids.end(),
                "the control token {} in the text of a message cannot be plain text: the tokenizer "
                "makes it of plain text too",
                part);
  for (size_t i = skipped; i < ids.size(); ++i) {
    row.ids.push_back(ids[i]);
    const auto place = [&](size_t at) { return piece.begin + std::max(at, shift) - shift; };
    places.emplace_back(place(own[i].first), place(own[i].second));
  }
}

ChatRow ChatEncoder::encode(ConversationText text, bool apart) {
  ChatRow row;
  std::vector<TextPiece> pieces = take_marks(text);
  const size_t answer = apart && !text.answers.empty() ? text.answers.front().first : 0;
  cut_at(answer, pieces);
  std::vector<TextRange> places;
  if (pieces.size() == 1 && !pieces.front().as_text) {
    row.unknown_bytes = encode_with_places(text.text, false, row.ids, places);
  } else {
    for (const TextPiece& piece : pieces) {
      const bool begins = piece.begin == 0 || (answer > 0 && piece.begin == answer);
      append(text.text, piece, begins, row, places);
    }
  }
  row.mask.assign(row.ids.size(), text.all ? 1 : 0);
  if (text.all && !row.mask.empty()) row.mask.front() = 0;
  fill_mask(places, text.answers, 1, row.mask);
  fill_mask(places, text.kept_out, 0, row.mask);
  return row;
}

}  // namespace viaduct
