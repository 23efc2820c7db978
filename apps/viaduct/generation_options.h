#pragma once
// Options that the commands have in common which continue texts: `viaduct generate` and `viaduct
// chat`.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat_options.h"
#include "generate/chat_prompts.h"
#include "generate/generation_defaults.h"
#include "override_scope.h"
#include "run/inference_setup.h"

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

/// Arguments of both.
struct GenerationArguments {
  InferenceRequest inference{.few_tokens = true};
  std::vector<std::string> stops;
  std::optional<int64_t> max_new_tokens;  // none: as the command says
  GivenSampling sampling;
  TalkOptions talk;
  std::vector<std::string> images;  // files of pictures
  uint64_t seed = 1234;
};

void add_talk_options(CLI::App& app, TalkOptions& options);
/// What --adapter asks for.
struct GivenAdapters {
  std::optional<std::string> folder;  // DIR, of all prompts that name none
  std::vector<NamedAdapter> named;    // NAME=DIR, of prompts that name it
};
/// ConfigError for two folders without names, for a name that stands twice or is no name. A folder
/// that exists is one, whatever is in its name.
GivenAdapters given_adapters(const std::vector<std::string>& options);
/// The names of the adapters of `setup`, in their order.
std::vector<std::string> adapter_names(const RunSetup& setup);
/// The prompts of the model of `setup`, which must outlive them. ConfigError if it has no template
/// and none is given: the message has the files that were looked for.
std::unique_ptr<const ChatPrompts> open_chat_prompts(const TalkOptions& options,
                                                     const RunSetup& setup);

/// --image: pictures of `where`, such as "the first message".
void add_images(CLI::App& app, std::vector<std::string>& images, const std::string& where);

/// --stop: strings that end `what`, such as "a text".
void add_stops(CLI::App& app, std::vector<std::string>& stops, const std::string& what);

/// Opens the model with its tokenizer, which `command` needs for `inputs` ("prompts"). ConfigError
/// for overrides that it does not read, stop strings that cannot occur, and for a model without a
/// tokenizer.
RunSetup open_generation(GenerationArguments& arguments, const std::string& command,
                         std::string_view inputs);
/// The tokens that end a text of the model; of an answer also the one of its template.
std::vector<int32_t> stop_tokens(const RunSetup& setup, const ChatPrompts* chat);

/// `--prompt A B dist.ranks=2`: an option with several texts takes all following words. Words in
/// the form of an override are moved.
void move_overrides(std::vector<std::string>& texts, std::vector<std::string>& overrides);

}  // namespace viaduct::cli
