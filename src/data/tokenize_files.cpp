#include "data/tokenize_files.h"

#include <exception>
#include <memory>

#include "base/error.h"
#include "base/thread_pool.h"
#include "data/document_reader.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_record.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {
namespace {

// Pieces a worker and round: enough that workers end a round at nearly the same time.
constexpr int kPiecesPerWorker = 16;

struct EncodedPiece {
  std::vector<int32_t> ids;  // of all documents, back to back
  std::vector<size_t> ends;  // end of each document in `ids`
  std::exception_ptr
      error;  // rethrown in the order of the input, so that the first bad line is the one named
};

void encode_piece(const DocumentPiece& piece, const TokenizeSettings& settings,
                  const EncodeFunction& encode, int worker, EncodedPiece& result) {
  try {
    for_each_document(piece, settings.json_key, [&](std::string_view document) {
      encode(document, worker, result.ids);
      if (settings.eod) result.ids.push_back(*settings.eod);
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

int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t total = 0;
  for (const auto& file : files) total += static_cast<int64_t>(MappedFile(file).size());
  return total;
}

}  // namespace

TokenizeResult tokenize_files(const TokenizeSettings& settings, const EncodeFunction& encode,
                              const std::function<void(int64_t, int64_t)>& progress) {
  VIADUCT_CHECK(ConfigError, settings.workers >= 1, "{} workers, expected 1 or more",
                settings.workers);
  VIADUCT_CHECK(ConfigError, !settings.inputs.empty(), "no input files to tokenize");
  // All files are looked at first: a missing last one is said now, not after an hour.
  const int64_t total = total_bytes(settings.inputs);
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
    for (const EncodedPiece& piece : encoded) write_piece(piece, writer);
    result.bytes += bytes;
    if (progress) progress(result.bytes, total);
  } while (!pieces.empty());
  result.documents = writer.document_count();
  result.tokens = writer.total_tokens();
  writer.finish();
  write_token_record(settings.output, writer.largest_token());
  return result;
}

EncodeFunction encode_function(const Tokenizer& tokenizer, int workers) {
  auto caches = std::make_shared<std::vector<EncodeCache>>();
  for (int i = 0; i < workers; ++i) caches->push_back(tokenizer.make_cache());
  return [&tokenizer, caches](std::string_view text, int worker, std::vector<int32_t>& ids) {
    tokenizer.encode(text, {}, (*caches)[static_cast<size_t>(worker)], ids);
  };
}

}  // namespace viaduct
