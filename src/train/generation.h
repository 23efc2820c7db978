#pragma once
// Generation as `viaduct generate` runs it: prompts in batches, each replica of the model takes
// batches of its own, and rank 0 hears of every text.

#include <functional>

#include "device/device.h"
#include "generate/generate.h"
#include "ops/table.h"
#include "train/dry_run.h"
#include "train/setup.h"

namespace viaduct {

struct GenerationWork {
  std::vector<std::vector<Prompt>> batches;
  GenerateOptions options;
  std::vector<std::string> stops;  // strings that end a text; check_stop_strings
};

/// What became of a prompt.
struct GeneratedText {
  int64_t number = 0;  // of the prompt
  Generated generated;
  std::string text;  // of the new tokens, up to the stop string if there is one
  std::optional<std::string> stop_string;
};

struct GenerationHooks {
  /// On each rank: its weights are read, and the first token is fed next.
  std::function<void()> started = {};
  // On rank 0 alone.
  /// Text of a prompt that rank 0's replica works on, as it comes.
  std::function<void(int64_t number, const std::string& text)> piece = {};
  /// A text is complete. Texts of a batch come together, batches in their order.
  std::function<void(const GeneratedText& text)> finished = {};
};

/// Seconds from the first token fed to the last text, weights read before. Every rank of `world`
/// calls it alike. `setup`: of prepare_inference without sequence parallelism, with a tokenizer.
double run_generation(const RunSetup& setup, const GenerationWork& work, Device& device,
                      const OpTable& ops, std::shared_ptr<Communicator> world,
                      const GenerationHooks& hooks);

/// Memory of the first rank of each stage at its fullest moment behind the reading of weights, if
/// every text became as long as it may: no rank of the stage takes more, and nothing is computed.
std::vector<DryRun> dry_run_generation(const RunSetup& setup, const GenerationWork& work);

}  // namespace viaduct
