#pragma once
// Text and JSONL files to an indexed data set, by a pool of workers. What is written does not
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

/// Appends the ids of `text` and says which bytes had none; `worker` in [0, workers) tells which
/// worker calls, for memory of its own.
using EncodeFunction =
    std::function<UnknownBytes(std::string_view text, int worker, std::vector<int32_t>& ids)>;

struct TokenizeSettings {
  /// A text file is a document; of JSONL, each line. Also compressed by gzip or zstd; "-" (once) is
  /// standard input.
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output;  ///< prefix of .bin and .idx
  std::string json_key = "text";
  bool all_jsonl = false;  ///< JSONL whatever the files are called
  int workers = 1;
  TokenType type = TokenType::int32;
  std::optional<int32_t> eod;         ///< closes each document, if given
  bool refuse_unknown_bytes = false;  ///< an IoError says where one stands
};

struct TokenizeResult {
  int64_t documents = 0, tokens = 0, bytes = 0;  ///< bytes of text, unpacked
  int64_t unknown_bytes = 0;                     ///< those that have no token
  std::string first_unknown;                     ///< where the first one stands, for people
};

/// `progress(done, total)` is called on the calling thread now and then, in stored bytes of input
/// (total 0: not known). Memory is bounded by a few megabytes a worker, or by the largest document.
/// IoError names the file and line of bad input; then nothing is left under the output's names.
TokenizeResult tokenize_files(
    const TokenizeSettings& settings, const EncodeFunction& encode,
    const std::function<void(int64_t done, int64_t total)>& progress = {});

/// Encodes by `tokenizer` (which must live as long), with one cache a worker; special tokens in the
/// text are recognised.
EncodeFunction encode_function(const Tokenizer& tokenizer, int workers);

}  // namespace viaduct
