#pragma once
// The tokenizer and chat templates that an adapter's folder holds: those it was trained with. The
// steps of a run have them, and folders of PEFT as trainers save them.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

struct AdapterTokenizer {
  std::filesystem::path folder;  // of the adapter's files
  /// Tokenizer, chat templates and generation settings, by the names of their files; of a folder
  /// without generation settings those of the model under it.
  std::map<std::string, std::string> texts;
  /// The tokenizer files and templates that are not as the model has them, by name.
  std::vector<std::string> differing;
  /// The text of a config.json beside them: the step's own, else "".
  std::string config;

  /// For who reads them. `model_config`: the text of the model's config.json, where there is no
  /// other.
  TokenizerFiles files(const std::string& model_config) const;
  /// "DIR (tokenizer.json, chat_template.jinja)".
  std::string text() const;
};

/// The tokenizer of an adapter (as of open_adapter) beside a model in `model`, a folder or a GGUF
/// file. Nothing where its folder has none, or the model has the same files: then the model's own
/// stands. A set of files is taken whole: an adapter's tokenizer never has the model's template.
/// Errors as open_adapter for a path that is no adapter.
std::optional<AdapterTokenizer> tokenizer_of_adapter(const std::filesystem::path& adapter,
                                                     const std::filesystem::path& model);

}  // namespace viaduct
