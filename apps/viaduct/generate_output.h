#pragma once
// The output of `viaduct generate`: for one prompt, text as it is generated; for many, whole texts
// in the order of the prompts; or JSON.

#include <map>
#include <string>
#include <vector>

#include "generate/prompts.h"
#include "inference/generation.h"

namespace viaduct::cli {

struct GenerateForm {
  bool json = false;
  bool answers = false;  // texts are answers to conversations: they stand without their prompts
};

class GenerateOutput {
 public:
  /// `texts` and `prompts` by number; both must outlive this object.
  GenerateOutput(const std::vector<PromptText>& texts, const std::vector<Prompt>& prompts,
                 GenerateForm form)
      : texts_(texts), prompts_(prompts), form_(form) {}

  /// IoError if standard output cannot be written, also for the functions below.
  void begin();
  void piece(const std::string& text);
  void finished(const GeneratedText& text);
  /// Tokens of all texts.
  int64_t tokens() const { return tokens_; }

 private:
  bool streams() const { return texts_.size() == 1 && !form_.json; }
  /// Whether a text goes on with its prompt; an encoder's input is another text.
  bool shows_prompt(int64_t number) const {
    return !form_.answers && prompts_[static_cast<size_t>(number)].input.empty();
  }
  void print(const GeneratedText& text) const;

  const std::vector<PromptText>& texts_;
  const std::vector<Prompt>& prompts_;
  GenerateForm form_;
  int64_t tokens_ = 0, printed_ = 0;
  double began_ = 0;
  std::map<int64_t, GeneratedText> waiting_;  // blocked by texts of earlier prompts
};

}  // namespace viaduct::cli
