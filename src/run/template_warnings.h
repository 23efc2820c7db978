#pragma once
// Whether conversations were made with a chat template, and with the one that goes with the trained
// model.

#include <filesystem>
#include <string>
#include <vector>

namespace viaduct {

class DatasetBuilder;

/// A line for each data set of conversations, by its record (data/token_record.h), whose chat
/// template or special tokens are not those of the tokenizer's folder or GGUF file: answers of the
/// model would be asked for in another form than it learned. A line where the run has no tokenizer
/// (an empty path) and learns a template. IoError for malformed files.
std::vector<std::string> template_warnings(DatasetBuilder& builder,
                                           const std::filesystem::path& tokenizer);

/// Whether the model of the run learns a chat template: a data set of conversations was made with
/// one, as far as its record says. IoError for malformed files.
bool learns_a_template(DatasetBuilder& builder);

}  // namespace viaduct
