#pragma once
// The data of `viaduct eval --data`: a text, a data set read as one text, or conversations with a
// mask.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/indexed_dataset.h"
#include "data/sample.h"
#include "run/inference_setup.h"

namespace viaduct {

/// The tokens of data sets of conversations; null for other data, which are texts. IoError for a
/// file that is none, ConfigError for conversations that have lost their mask or a missing .bin.
std::shared_ptr<const IndexedDataset> open_conversations(const std::filesystem::path& data);

/// What an InferenceRequest has to know about them.
EvaluatedConversations evaluated(const IndexedDataset& conversations);

struct EvaluationData {
  std::shared_ptr<const SampleSource> rows;  // each is read once
  int64_t tokens = 0;                        // of the data, scored or not
  /// That have a token; none: the data are one text.
  std::optional<int64_t> conversations = {};
  std::string note = {};     // how the data are read, where that is a choice; "": nothing to say
  std::string warning = {};  // conversations made with another chat template; "": none
};

/// Each conversation once, scored by its mask, in the rows that training makes of them. `run`: of
/// prepare_inference with these conversations. ConfigError for ids of another tokenizer, for
/// conversations longer than a row, and where no token is scored.
EvaluationData conversation_data(const IndexedDataset& conversations, const RunSetup& run);

/// A text file in tokens, or the documents of a data set after one another, in rows that begin
/// `stride` tokens apart. ConfigError for a text without a tokenizer, data of fewer than two
/// tokens, and fields of section dataset that the user gave: they are of conversations.
EvaluationData text_data(const std::filesystem::path& data, const RunSetup& run, int64_t stride);

}  // namespace viaduct
