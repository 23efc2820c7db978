#pragma once
// A model folder of LLaVA and a small data set of conversations with pictures for it, as
// `viaduct data chat` writes them.

#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct::test {

class PictureConversations {
 public:
  /// Five conversations of up to 15 tokens with 1, 0, 2, 1 and 1 pictures, among them `first`, a
  /// file of tests/data/images. `tokens`: that stand for one; the model has 4.
  explicit PictureConversations(const std::string& first = "noise.png", int64_t tokens = 4);

  /// With preprocessor_config.json, and without a tokenizer.
  std::filesystem::path model() const { return folder_ / "model"; }
  std::string prefix() const { return (folder_ / "chats").string(); }
  const std::vector<MaskedTokens>& conversations() const { return conversations_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// A run on them, FP32.
  Overrides run() const;

 private:
  TemporaryFolder folder_;
  std::vector<MaskedTokens> conversations_;
};

}  // namespace viaduct::test
