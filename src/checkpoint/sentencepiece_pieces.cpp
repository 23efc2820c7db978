#include "checkpoint/sentencepiece_pieces.h"

#include <cstring>

#include "base/error.h"
#include "data/tokenizer/protobuf_fields.h"

namespace viaduct {
namespace {

// Numbers of fields in sentencepiece_model.proto.
enum ModelField { kPiece = 1, kTrainer = 2, kNormalizer = 3 };
enum PieceField { kText = 1, kScore = 2, kType = 3 };
enum TrainerField {
  kModelType = 3,
  kVocabularySize = 4,
  kByteFallback = 35,
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
constexpr uint64_t kBpe = 2;  // TrainerSpec.ModelType
constexpr int32_t kByte = 6;  // a piece's type

SentencePieces::Piece read_piece(std::string_view message, const std::string& where) {
  SentencePieces::Piece piece;
  ProtobufFields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == kText) piece.text = field->content;
    if (field->number == kType) piece.type = static_cast<int32_t>(field->value);
    if (field->number == kScore && field->content.size() == sizeof(float))
      std::memcpy(&piece.score, field->content.data(), sizeof(float));
  }
  VIADUCT_CHECK(IoError, piece.type >= 1 && piece.type <= kByte, "{}: a piece has the type {}",
                where, piece.type);
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

}  // namespace

SentencePieces read_sentencepieces(std::string_view model, const std::string& where) {
  SentencePieces read;
  read.bpe = false;  // the default is unigram
  ProtobufFields fields(model);
  while (const auto field = fields.next()) {
    if (field->number == kPiece) read.pieces.push_back(read_piece(field->content, where));
    if (field->number != kTrainer && field->number != kNormalizer) continue;
    ProtobufFields spec(field->content);
    while (const auto entry = spec.next()) {
      if (field->number == kTrainer) {
        if (entry->number == kModelType) read.bpe = entry->value == kBpe;
      } else {
        if (entry->number == kCharacterTable) read.normalizes = !entry->content.empty();
        if (entry->number == kAddPrefix) read.add_dummy_prefix = entry->value != 0;
        if (entry->number == kRemoveSpaces) read.remove_extra_whitespaces = entry->value != 0;
      }
    }
  }
  VIADUCT_CHECK(IoError, !read.pieces.empty(), "{}: not a SentencePiece model: it has no pieces",
                where);
  return read;
}

std::string write_sentencepieces(const SentencePieces& pieces) {
  std::string model;
  bool bytes = false;
  for (const SentencePieces::Piece& piece : pieces.pieces) {
    std::string message;
    append_content(message, kText, piece.text);
    append_varint(message, kScore << 3 | 5);
    message.append(reinterpret_cast<const char*>(&piece.score), sizeof(float));
    append_number(message, kType, static_cast<uint64_t>(piece.type));
    append_content(model, kPiece, message);
    bytes = bytes || piece.type == kByte;
  }
  std::string trainer, normalizer;
  append_number(trainer, kModelType, kBpe);
  append_number(trainer, kVocabularySize, pieces.pieces.size());
  append_number(trainer, kByteFallback, bytes ? 1 : 0);
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
