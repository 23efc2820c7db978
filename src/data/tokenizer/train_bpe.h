#pragma once
// Training of byte-level BPE tokenizers: from single bytes on, the pair of neighbours that occurs
// most often becomes a token, until the vocabulary is full (Sennrich et al. 2016, algorithm 1). The
// result is deterministic and equals that of Hugging Face's trainer.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/pre_tokenizer.h"

namespace viaduct {

/// The token with id 0 of trained tokenizers; it closes documents.
constexpr std::string_view kEndOfText = "<|endoftext|>";

/// A trained vocabulary: `kEndOfText`, the 256 bytes, then one token a merge.
struct TrainedBpe {
  std::vector<std::string> tokens;  // by id, spelled in the byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;
};

class BpeTrainer {
 public:
  BpeTrainer();

  /// Counts the pieces of a text (split as in GPT-2; ill-formed UTF-8 as U+FFFD). Each line is
  /// a separate text, and so is each part between end-of-text tokens.
  void add_text(std::string_view text);

  /// The vocabulary of at most `vocab_size` tokens; fewer if no pair is left. Equally frequent
  /// pairs are taken in order of ids. ConfigError unless 257 ≤ vocab_size ≤ 2²⁴.
  TrainedBpe train(int32_t vocab_size) const;

 private:
  void add_line(std::string_view line);

  PreTokenizer pre_tokenizer_;
  RegexScratch scratch_;
  std::unordered_map<std::string, int64_t> pieces_;
};

/// Trains on the documents that `tokenize_files` would read: text, or JSONL with the text under
/// `json_key`, also compressed; "-" is standard input. IoError if one cannot be read or is not
/// text.
TrainedBpe train_bpe(const std::vector<std::filesystem::path>& files, int32_t vocab_size,
                     const std::string& json_key = "text");

/// Writes `tokenizer.json` (Hugging Face's format) and a `tokenizer_config.json` that names the end
/// of text into `folder`, which is created if missing.
void write_tokenizer(const TrainedBpe& trained, const std::filesystem::path& folder);

}  // namespace viaduct
