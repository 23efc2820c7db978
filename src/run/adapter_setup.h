#pragma once
// The adapters of a run: what section `peft` or an adapter's files are for its model, and their
// tensors.

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/peft_folder.h"
#include "config/problems.h"
#include "run/setup.h"

namespace viaduct {

class ParameterStore;
struct OpContext;

/// Takes the tokenizer and chat templates that the adapter of peft.adapter brings, in the place of
/// the model's, with a note. False where it brings none (checkpoint/adapter_tokenizer.h), or there
/// is no model's folder.
bool take_adapter_tokenizer(RunSetup& setup);

/// A note where an adapter was trained beside frozen weights in another format than those of
/// `adapters`, as far as its files say it (trained_base_format).
void note_trained_format(const std::filesystem::path& adapter, const AdapterSettings& adapters,
                         std::vector<std::string>& notes);

/// Fills in config.peft.resolved, the learning rate of B, and which parts of a model with images
/// have gradients; returns notes for the start. Where the folder of peft.adapter is gone, a run
/// that resumes takes rank, alpha and layers from its own checkpoint. ConfigError and IoError as
/// choose_adapters and open_adapter.
std::vector<std::string> resolve_adapters(RunConfig& config, ModelConfig& model);

/// The rules that need no model; among them that who asks for a property of adapters gets adapters,
/// and never a run that trains all weights.
void validate_adapters(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems);

/// Fills the weights of a run that only runs forwards: those of its model's folder and, with
/// peft.adapter, the adapter.
void read_run_weights(OpContext& context, ParameterStore& store, const RunSetup& setup);

/// Fills what the store of an adapter that prompts name has: the adapter and what trains beside it,
/// and what else it holds of the model itself.
void read_adapter_weights(OpContext& context, ParameterStore& store, const RunSetup& setup,
                          const NamedAdapter& adapter);

/// The adapter_config.json of the run, for its checkpoints.
std::string adapter_config_of(const RunSetup& setup);

}  // namespace viaduct
