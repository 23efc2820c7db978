#pragma once
// A model folder with a tokenizer, for commands that read and write text.

#include <string>

#include "run/inference_setup.h"
#include "support/temporary_folder.h"
#include "train/generation.h"

namespace viaduct::test {

/// The golden model NAME (tests/data/golden) with a byte-level tokenizer of 262 tokens. A model of
/// a smaller vocabulary gets more of them: their embeddings are those of the others, shifted.
class LanguageModel {
 public:
  explicit LanguageModel(const std::string& golden = "gpt2");
  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// A setup of one thread a rank.
  RunSetup generation(std::vector<std::string> overrides = {}) const;

 private:
  TemporaryFolder folder_;
};

/// The texts of a generation on thread ranks, by number of prompt. `started` is called on each
/// rank's device when its weights are read, `done` at its end.
std::vector<GeneratedText> generate_texts(
    const RunSetup& setup, const GenerationWork& work,
    const std::function<void(int rank, Device& device)>& started = {},
    const std::function<void(int rank, Device& device)>& done = {});

}  // namespace viaduct::test
