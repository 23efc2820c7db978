#include "data/tokenize_files.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "base/error.h"
#include "base/thread_pool.h"
#include "data/document_reader.h"
#include "data/image_files.h"
#include "data/indexed_dataset_writer.h"
#include "data/score_mask.h"
#include "data/token_record.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/vocabulary_hash.h"

namespace viaduct {
namespace {

// Pieces a worker and round: enough that workers end a round at nearly the same time.
constexpr int kPiecesPerWorker = 16;

struct EncodedPiece {
  std::vector<int32_t> ids;  // of all documents, back to back
  std::vector<size_t> ends;  // end of each document in `ids`
  std::exception_ptr error;  // rethrown in input order, so that the first bad line is reported
  int64_t unknown_bytes = 0, inner_separators = 0, image_texts = 0;
  std::string first_unknown, first_image_text;
};

/// "FILE:LINE: no token for byte 0x06 at offset …".
std::string describe_unknown(const DocumentPiece& piece, const DocumentPlace& place,
                             std::string_view document, uint8_t byte) {
  const size_t at = document.find(static_cast<char>(byte));
  int64_t line = place.line;
  std::string where;
  if (at == std::string_view::npos) {  // produced by the normalizer
    where = "somewhere in its normal form";
  } else if (piece.jsonl) {
    where = fmt::format("at offset {} of the document (whose line begins at offset {})", at,
                        place.offset);
  } else {
    where = fmt::format("at offset {}", place.offset + at);
    line += std::count(document.begin(), document.begin() + static_cast<int64_t>(at), '\n');
  }
  return fmt::format("{}:{}: the vocabulary has no token for byte 0x{:02X} {}", piece.path, line,
                     byte, where);
}

void encode_piece(const DocumentPiece& piece, const TokenizeSettings& settings,
                  const EncodeFunction& encode, int worker, EncodedPiece& result) {
  try {
    for_each_document(
        piece, settings.json_key, [&](std::string_view document, const DocumentPlace& place) {
          const auto before = static_cast<int64_t>(result.ids.size());
          const UnknownBytes unknown = encode(document, worker, result.ids);
          if (unknown.count > 0) {
            if (result.unknown_bytes == 0)
              result.first_unknown = describe_unknown(piece, place, document, unknown.first);
            VIADUCT_CHECK(IoError, !settings.refuse_unknown_bytes, "{}", result.first_unknown);
            result.unknown_bytes += unknown.count;
          }
          const auto begin = result.ids.begin() + before;
          if (settings.image_token >= 0 &&
              std::find(begin, result.ids.end(), settings.image_token) != result.ids.end() &&
              result.image_texts++ == 0)
            result.first_image_text = fmt::format("{}:{}", piece.path, place.line);
          if (settings.eod) {
            result.inner_separators += std::count(begin, result.ids.end(), *settings.eod);
            result.ids.push_back(*settings.eod);
          }
          result.ends.push_back(result.ids.size());
        });
  } catch (...) {
    result.error = std::current_exception();
  }
}

void write_piece(const EncodedPiece& piece, IndexedDatasetWriter& writer) {
  if (piece.error) std::rethrow_exception(piece.error);
  size_t begin = 0;
  for (const size_t end : piece.ends) {
    writer.add_document(std::span(piece.ids).subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace

TokenizeResult tokenize_files(const TokenizeSettings& settings, const EncodeFunction& encode,
                              const std::function<void(int64_t, int64_t)>& progress) {
  VIADUCT_CHECK(ConfigError, settings.workers >= 1, "{} workers, expected 1 or more",
                settings.workers);
  VIADUCT_CHECK(ConfigError, !settings.inputs.empty(), "no input files to tokenize");
  VIADUCT_CHECK(ConfigError, std::count(settings.inputs.begin(), settings.inputs.end(), "-") <= 1,
                "standard input (-) can be read once, and is given more than once");
  // All files are checked first: a missing last one is reported now, not after an hour.
  const int64_t total = stored_bytes_of(settings.inputs);
  IndexedDatasetWriter writer(settings.output, settings.type);
  DocumentReader reader(settings.inputs, settings.all_jsonl);
  ThreadPool pool(settings.workers);
  TokenizeResult result;
  std::vector<DocumentPiece> pieces;
  std::vector<EncodedPiece> encoded;
  do {
    pieces.clear();
    int64_t bytes = 0;
    while (pieces.size() < static_cast<size_t>(settings.workers) * kPiecesPerWorker) {
      auto piece = reader.next();
      if (!piece) break;
      bytes += static_cast<int64_t>(piece->end - piece->begin);
      pieces.push_back(std::move(*piece));
    }
    encoded.assign(pieces.size(), {});
    pool.run(static_cast<int64_t>(pieces.size()), [&](int64_t i, int worker) {
      encode_piece(pieces[static_cast<size_t>(i)], settings, encode, worker,
                   encoded[static_cast<size_t>(i)]);
    });
    for (const EncodedPiece& piece : encoded) {
      write_piece(piece, writer);
      if (result.unknown_bytes == 0) result.first_unknown = piece.first_unknown;
      result.unknown_bytes += piece.unknown_bytes;
      result.inner_separators += piece.inner_separators;
      if (result.image_texts == 0) result.first_image_text = piece.first_image_text;
      result.image_texts += piece.image_texts;
    }
    result.bytes += bytes;
    if (progress) progress(reader.consumed(), total);
  } while (!pieces.empty());
  result.documents = writer.document_count();
  result.tokens = writer.total_tokens();
  writer.finish();
  remove_mask(settings.output.string());
  remove_images(settings.output.string());
  TokenRecord record;
  record.largest_token = writer.largest_token();
  record.separator = settings.eod.value_or(-1);
  record.inner_separators = result.inner_separators;
  if (settings.vocabulary != nullptr)
    record.vocabulary = vocabulary_hashes(*settings.vocabulary, record.largest_token + 1).back();
  write_token_record(settings.output, record);
  return result;
}

EncodeFunction encode_function(const Tokenizer& tokenizer, int workers) {
  auto caches = std::make_shared<std::vector<EncodeCache>>();
  for (int i = 0; i < workers; ++i) caches->push_back(tokenizer.make_cache());
  return [&tokenizer, caches](std::string_view text, int worker, std::vector<int32_t>& ids) {
    return tokenizer.encode(text, {}, (*caches)[static_cast<size_t>(worker)], ids);
  };
}

}  // namespace viaduct
