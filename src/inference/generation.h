#pragma once
// Generation as `viaduct generate` runs it: prompts in batches; each replica of the model takes its
// own batches, and rank 0 gets every text.

#include <functional>

#include "device/device.h"
#include "engine/dry_run.h"
#include "generate/generate.h"
#include "ops/table.h"
#include "run/setup.h"

namespace viaduct {

struct GenerationWork {
  std::vector<std::vector<Prompt>> batches;
  GenerateOptions options;
  std::vector<std::string> stops;  // strings that end a text; check_stop_strings
};

/// The result of a prompt.
struct GeneratedText {
  int64_t number = 0;  // of the prompt
  Generated generated;
  std::string text;  // of the new tokens, up to the stop string if there is one
  std::optional<std::string> stop_string;
};

struct GenerationHooks {
  /// On each rank: its weights are read, and the first token is fed next.
  std::function<void()> started = {};
  // On rank 0 only.
  /// New text of a prompt of rank 0's replica.
  std::function<void(int64_t number, const std::string& text)> piece = {};
  /// A text is complete. Texts of a batch come together, batches in their order.
  std::function<void(const GeneratedText& text)> finished = {};
};

/// Seconds from the first token fed to the last text, without reading weights. Every rank of
/// `world` makes the same call. `setup`: of prepare_inference for few tokens, with a tokenizer.
double run_generation(const RunSetup& setup, const GenerationWork& work, Device& device,
                      const OpTable& ops, std::shared_ptr<Communicator> world,
                      const GenerationHooks& hooks);

/// Peak memory after reading the weights of the first rank of each stage, if every text has its
/// maximum length. No rank of the stage needs more. Nothing is computed.
std::vector<DryRun> dry_run_generation(const RunSetup& setup, const GenerationWork& work);

}  // namespace viaduct
