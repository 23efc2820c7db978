#include "data/tokenizer/sentencepiece_pieces.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "data/tokenizer/protobuf_fields.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

// Numbers of fields in sentencepiece_model.proto.
enum ModelField { kPiece = 1, kTrainer = 2, kNormalizer = 3 };
enum PieceField { kText = 1, kScore = 2, kType = 3 };
enum TrainerField {
  kModelType = 3,
  kVocabularySize = 4,
  kByteFallback = 35,
  kUnknownId = 40,
  kBeginId = 41,
  kEndId = 42,
  kPaddingId = 43,
  kUnknownPiece = 45,
  kBeginPiece = 46,
  kEndPiece = 47
};
enum NormalizerField {
  kName = 1,
  kCharacterTable = 2,
  kAddPrefix = 3,
  kRemoveSpaces = 4,
  kEscapeSpaces = 5
};
constexpr uint64_t kUnigram = 1, kBpe = 2;  // TrainerSpec.ModelType
constexpr size_t kMaxPieceBytes = 1 << 14;

SentencePieces::Piece read_piece(std::string_view message, const std::string& where) {
  SentencePieces::Piece piece;
  ProtobufFields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == kText) piece.text = field->content;
    if (field->number == kType) piece.type = static_cast<int32_t>(field->value);
    if (field->number == kScore && field->content.size() == sizeof(float))
      std::memcpy(&piece.score, field->content.data(), sizeof(float));
  }
  VIADUCT_CHECK(IoError, piece.type >= 1 && piece.type <= SentencePieces::kByte,
                "{}: a piece has the type {}", where, piece.type);
  VIADUCT_CHECK(IoError, is_valid_utf8(piece.text) && std::isfinite(piece.score),
                "{}: a piece that is not UTF-8, or whose score is no number", where);
  VIADUCT_CHECK(IoError, piece.text.size() <= kMaxPieceBytes,
                "{}: a piece has {} bytes, at most {} are supported", where, piece.text.size(),
                kMaxPieceBytes);
  return piece;
}

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(0x80 | (value & 0x7f));
  to += static_cast<char>(value);
}

void append_number(std::string& to, int field, uint64_t value) {
  append_varint(to, static_cast<uint64_t>(field) << 3);
  append_varint(to, value);
}

void append_content(std::string& to, int field, std::string_view content) {
  append_varint(to, static_cast<uint64_t>(field) << 3 | 2);
  append_varint(to, content.size());
  to += content;
}

/// Whether a file is tiktoken's: lines of base64 and a number.
bool is_tiktoken(std::string_view file) {
  const std::string_view line = file.substr(0, std::min(file.find('\n'), size_t{256}));
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space % 4 != 0) return false;
  const auto all = [](std::string_view text, std::string_view of) {
    return !text.empty() && text.find_first_not_of(of) == std::string_view::npos;
  };
  constexpr std::string_view kDigits = "0123456789\r";
  return all(line.substr(0, space),
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") &&
         all(line.substr(space + 1), kDigits);
}

}  // namespace

SentencePieces read_sentencepieces(std::string_view model, const std::string& where) {
  SentencePieces read;
  uint64_t kind = kUnigram;
  const auto take_trainer = [&](const ProtobufFields::Field& entry) {
    const auto number = static_cast<int32_t>(entry.value);
    if (entry.number == kModelType) kind = entry.value;
    if (entry.number == kByteFallback) read.byte_fallback = entry.value != 0;
    if (entry.number == kUnknownId) read.unknown_id = number;
    if (entry.number == kBeginId) read.begin_id = number;
    if (entry.number == kEndId) read.end_id = number;
    if (entry.number == kPaddingId) read.padding_id = number;
    if (entry.number == kUnknownPiece) read.unknown = entry.content;
    if (entry.number == kBeginPiece) read.begin = entry.content;
    if (entry.number == kEndPiece) read.end = entry.content;
  };
  const auto take_normalizer = [&](const ProtobufFields::Field& entry) {
    if (entry.number == kCharacterTable) read.characters = entry.content;
    if (entry.number == kAddPrefix) read.add_dummy_prefix = entry.value != 0;
    if (entry.number == kRemoveSpaces) read.remove_extra_whitespaces = entry.value != 0;
    if (entry.number == kEscapeSpaces) read.escape_whitespaces = entry.value != 0;
  };
  bool whole = true;
  ProtobufFields fields(model);
  while (const auto field = fields.next()) {
    if (field->number == kPiece) read.pieces.push_back(read_piece(field->content, where));
    if (field->number != kTrainer && field->number != kNormalizer) continue;
    ProtobufFields spec(field->content);
    while (const auto entry = spec.next())
      field->number == kTrainer ? take_trainer(*entry) : take_normalizer(*entry);
    whole = whole && spec.at_end();
  }
  VIADUCT_CHECK(IoError, !is_tiktoken(model),
                "{}: a vocabulary of tiktoken, which is not read; a tokenizer.json of the same "
                "tokenizer is",
                where);
  VIADUCT_CHECK(IoError, !read.pieces.empty(), "{}: not a SentencePiece model: it has no pieces",
                where);
  VIADUCT_CHECK(IoError, whole && fields.at_end(),
                "{}: a SentencePiece model that is damaged or cut off after {} pieces", where,
                read.pieces.size());
  read.bpe = kind == kBpe;
  read.unigram = kind == kUnigram;
  return read;
}

std::string write_sentencepieces(const SentencePieces& pieces) {
  std::string model;
  const auto id_of = [&](const std::string& text) {
    const auto found =
        std::find_if(pieces.pieces.begin(), pieces.pieces.end(),
                     [&](const SentencePieces::Piece& piece) { return piece.text == text; });
    return found == pieces.pieces.end() ? int64_t{-1} : found - pieces.pieces.begin();
  };
  bool bytes = false;
  for (const SentencePieces::Piece& piece : pieces.pieces) {
    std::string message;
    append_content(message, kText, piece.text);
    append_varint(message, kScore << 3 | 5);
    message.append(reinterpret_cast<const char*>(&piece.score), sizeof(float));
    append_number(message, kType, static_cast<uint64_t>(piece.type));
    append_content(model, kPiece, message);
    bytes = bytes || piece.type == SentencePieces::kByte;
  }
  std::string trainer, normalizer;
  append_number(trainer, kModelType, kBpe);
  append_number(trainer, kVocabularySize, pieces.pieces.size());
  append_number(trainer, kByteFallback, bytes ? 1 : 0);
  append_number(trainer, kUnknownId, static_cast<uint64_t>(id_of(pieces.unknown)));
  append_number(trainer, kBeginId, static_cast<uint64_t>(id_of(pieces.begin)));
  append_number(trainer, kEndId, static_cast<uint64_t>(id_of(pieces.end)));
  append_content(trainer, kUnknownPiece, pieces.unknown);
  append_content(trainer, kBeginPiece, pieces.begin);
  append_content(trainer, kEndPiece, pieces.end);
  append_content(normalizer, kName, "identity");
  append_number(normalizer, kAddPrefix, pieces.add_dummy_prefix ? 1 : 0);
  append_number(normalizer, kRemoveSpaces, pieces.remove_extra_whitespaces ? 1 : 0);
  append_number(normalizer, kEscapeSpaces, 1);
  append_content(model, kTrainer, trainer);
  append_content(model, kNormalizer, normalizer);
  return model;
}

}  // namespace viaduct
