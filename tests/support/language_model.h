#pragma once
// A model folder with a tokenizer, for commands that read and write text.

#include <string>

#include "inference/generation.h"
#include "run/inference_setup.h"
#include "support/temporary_folder.h"

namespace viaduct::test {

/// The golden model NAME (tests/data/golden) with a byte-level tokenizer of 262 tokens. A model
/// with a smaller vocabulary gets additional tokens: their embeddings are shifted copies of the
/// others.
class LanguageModel {
 public:
  explicit LanguageModel(const std::string& golden = "gpt2");
  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// A setup with one thread a rank.
  RunSetup generation(std::vector<std::string> overrides = {}) const;

 private:
  TemporaryFolder folder_;
};

/// Generates on thread ranks and returns the texts, by number of prompt. `started` is called on
/// each rank's device after the weights are read, `done` at its end.
std::vector<GeneratedText> generate_texts(
    const RunSetup& setup, const GenerationWork& work,
    const std::function<void(int rank, Device& device)>& started = {},
    const std::function<void(int rank, Device& device)>& done = {});

}  // namespace viaduct::test
