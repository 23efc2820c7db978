#pragma once
// Options that the commands have in common which continue texts: `viaduct generate` and `viaduct
// chat`.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "generate/chat_prompts.h"
#include "generate/generation_defaults.h"
#include "override_scope.h"

namespace viaduct::cli {

/// What they read of the configuration. The folder defines the model: only the layout fields of
/// section `model` are read.
OverrideScope generation_scope(std::string command);

/// --temperature, --top-k, --top-p, --repetition-penalty, which are what is not given otherwise
/// (`otherwise`: for --help), and --seed.
void add_sampling(CLI::App& app, GivenSampling& sampling, uint64_t& seed,
                  const std::string& otherwise);

/// --template and --user-control-tokens; --adapter, which `check_chat_options` refuses.
struct ChatOptions {
  std::string template_file, user_control_tokens;
  std::vector<std::string> adapters;

  ChatPromptOptions prompts() const;
};
void add_chat_options(CLI::App& app, ChatOptions& options);
/// ConfigError for what is not built yet.
void check_chat_options(const ChatOptions& options);

/// `--prompt A B dist.ranks=2`: an option with several texts takes all following words. Words in
/// the form of an override are moved.
void move_overrides(std::vector<std::string>& texts, std::vector<std::string>& overrides);

}  // namespace viaduct::cli
