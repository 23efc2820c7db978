#pragma once
// A run whose model has more rows of tokens than the folder that it starts from.

#include <memory>

#include "checkpoint/tensor_source.h"
#include "run/setup.h"

namespace viaduct {

/// Fills in what `open_pretrained` needs where model.vocab_size is above `rows`, the vocabulary of
/// the pretrained folder, and notes what the rows beyond start as: the mean of the rows of the
/// tokens into which the folder's tokenizer cuts the text that tokenizer.tokenizer_model has for
/// them, else the mean of all rows. Notes tokens of that tokenizer alone in rows below `rows`,
/// which stay as they are. ConfigError for a smaller vocabulary.
void take_new_rows(RunSetup& setup, int64_t rows);

/// The weights of setup.pretrained for setup.model.
std::unique_ptr<TensorSource> open_pretrained(const RunSetup& setup);

}  // namespace viaduct
