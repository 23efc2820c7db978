#pragma once
// Converts text and JSONL files to an indexed data set with a pool of workers. The output does not
// depend on their number.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_type.h"
#include "data/tokenizer/token_model.h"

namespace viaduct {

class Tokenizer;

/// Appends the ids of `text` and returns the bytes without one; `worker` in [0, workers) is the
/// calling worker, whose memory it may use.
using EncodeFunction =
    std::function<UnknownBytes(std::string_view text, int worker, std::vector<int32_t>& ids)>;

struct TokenizeSettings {
  /// A text file is a document; a JSONL file has one a line. Also compressed by gzip or zstd; "-"
  /// (once) is standard input.
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output;  ///< prefix of .bin and .idx
  std::string json_key = "text";
  bool all_jsonl = false;  ///< JSONL whatever the files are called
  int workers = 1;
  TokenType type = TokenType::int32;
  const Tokenizer* vocabulary = nullptr;  ///< whose tokens the record names; null: it names none
  std::optional<int32_t> eod;             ///< appended to each document, if given
  bool refuse_unknown_bytes = false;      ///< an IoError with its position
  int32_t image_token = -1;  ///< to be counted: stands for images in the model; −1: none
};

struct TokenizeResult {
  int64_t documents = 0, tokens = 0, bytes = 0;  ///< bytes of text, unpacked
  int64_t unknown_bytes = 0;                     ///< those that have no token
  std::string first_unknown;                     ///< position of the first one, for messages
  int64_t inner_separators = 0;  ///< `eod` inside documents, where a text spells it out
  int64_t image_texts = 0;       ///< documents that spell the token of images
  std::string first_image_text;  ///< "FILE:LINE" of the first of them
};

/// `progress(done, total)` is called periodically on the calling thread, in stored bytes of input
/// (total 0: unknown). Memory is bounded by a few megabytes a worker, or by the largest document.
/// IoError names the file and line of bad input; then no output files remain.
TokenizeResult tokenize_files(
    const TokenizeSettings& settings, const EncodeFunction& encode,
    const std::function<void(int64_t done, int64_t total)>& progress = {});

/// Encodes with `tokenizer` (which must outlive the encoder), with one cache a worker; special
/// tokens in the text are recognised.
EncodeFunction encode_function(const Tokenizer& tokenizer, int workers);

}  // namespace viaduct
