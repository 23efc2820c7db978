#pragma once
// How often a run reads its training data: what the display says at the start.

#include <cstdint>
#include <string>
#include <vector>

#include "data/sample.h"

namespace viaduct {

class Tokenizer;

/// One data set of a run.
struct DataUse {
  std::string prefix;
  int64_t tokens = 0;  // of the training split
  int64_t rows = 0;    // that the run reads of it
  /// Of an epoch, if it has conversations; 0: rows are full.
  int64_t epoch_rows = 0;
};

/// The data sets behind `training`, of which a run reads `rows` rows: of a blend each its share of
/// them. Empty for mock data, and
/// where a trusted cache leaves the number of tokens unknown.
std::vector<DataUse> data_use(const SampleSource& training, int64_t rows);

/// A line for each data set of conversations behind `training`: how many there are, in how many
/// rows, the share of padding, and of scored tokens. Errors as in reading a row.
std::vector<std::string> conversation_texts(const SampleSource& training);

/// The text of a row of conversations on one line, at most `most_bytes` of it, with what is scored
/// in brackets, or in green; without what a terminal would obey, with "<id 511>" for ids behind
/// the tokenizer's, and with U+FFFD for others that are no tokens. "" if the row has no padding
/// mark: it is no row of conversations.
std::string marked_text(const Sample& row, const Tokenizer& tokenizer, bool colours = false,
                        size_t most_bytes = 2000);

/// "data: 1627 rows of 256 tokens an epoch; the run reads 6400 (epochs: 3.93)"; "" for no data.
std::string data_use_text(const std::vector<DataUse>& uses, int64_t row_tokens);

/// A warning for the data set that is read most often, if that is so often that the model learns
/// the text by heart, or if it is shorter than a row; "" otherwise.
std::string data_use_warning(const std::vector<DataUse>& uses, int64_t row_tokens);

}  // namespace viaduct
