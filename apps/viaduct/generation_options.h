#pragma once
// Options that the commands have in common which continue texts: `viaduct generate` and `viaduct
// chat`.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat_options.h"
#include "generate/chat_prompts.h"
#include "generate/generation_defaults.h"
#include "override_scope.h"
#include "run/setup.h"

namespace viaduct::cli {

/// What they read of the configuration. The folder defines the model: only the layout fields of
/// section `model` are read.
OverrideScope generation_scope(std::string command);

/// --temperature, --top-k, --top-p, --repetition-penalty, which are what is not given otherwise
/// (`otherwise`: for --help), and --seed.
void add_sampling(CLI::App& app, GivenSampling& sampling, uint64_t& seed,
                  const std::string& otherwise);

/// Of prompts that are conversations: --template, --now, --user-control-tokens; and --adapter.
struct TalkOptions {
  ChatOptions chat;
  std::string user_control_tokens;
  std::vector<std::string> adapters;

  bool any() const {
    return !chat.chat_template.empty() || !chat.now.empty() || !user_control_tokens.empty();
  }
};
void add_talk_options(CLI::App& app, TalkOptions& options);
/// The adapter that is asked for; ConfigError for what is not built yet.
std::optional<std::string> adapter_of(const TalkOptions& options);
/// The prompts of the model of `setup`, which must outlive them. ConfigError if it has no template
/// and none is given: the message has the files that were looked for.
std::unique_ptr<const ChatPrompts> open_chat_prompts(const TalkOptions& options,
                                                     const RunSetup& setup);

/// `--prompt A B dist.ranks=2`: an option with several texts takes all following words. Words in
/// the form of an override are moved.
void move_overrides(std::vector<std::string>& texts, std::vector<std::string>& overrides);

}  // namespace viaduct::cli
