#pragma once
// A model that answers one prompt after the other and keeps its cache in between, as `viaduct chat`
// runs it: on one rank, or on several that are threads of one process. Rank 0 has the prompts, and
// may wait for the next one as long as it likes; the others follow it.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "generate/prompt_sequence.h"
#include "ops/table.h"
#include "run/setup.h"

namespace viaduct {

struct AnswerWork {
  GenerateOptions options;
  std::vector<std::string> stops;  // strings that end an answer; check_stop_strings
};

struct Answer {
  Generated generated;
  std::string text;  // of the new tokens, up to the stop string if there is one
  std::optional<std::string> stop_string;
  int64_t reused_tokens = 0;  // of the prompt, which were in the cache
  double prompt_seconds = 0;  // until the first token was chosen
  double seconds = 0;         // of everything
};

/// Prompts on their way from rank 0 to the other ranks of a process.
class PromptRelay {
 public:
  void publish(const Prompt& prompt);
  /// There are no more: `next` gives nothing.
  void close();
  /// The prompt that follows the `seen` first ones; waits for it.
  std::optional<Prompt> next(int64_t seen);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Prompt prompt_;
  int64_t published_ = 0;
  bool closed_ = false;
};

/// Continues a prompt, with the cache of those before it; `piece` gets the text as it grows, whole
/// characters. ConfigError for a prompt that does not fit into the model's positions.
using AnswerPrompt =
    FunctionRef<Answer(const Prompt& prompt, FunctionRef<void(const std::string&)> piece)>;

/// Reads the weights, and calls `lead` on rank 0; returns when it has returned. Every rank makes
/// the same call, with the same relay. `setup`: of prepare_inference for few tokens, with a
/// tokenizer, and one replica of the model.
void run_answers(const RunSetup& setup, const AnswerWork& work, Device& device, const OpTable& ops,
                 std::shared_ptr<Communicator> world, PromptRelay& relay,
                 FunctionRef<void(AnswerPrompt)> lead);

}  // namespace viaduct
