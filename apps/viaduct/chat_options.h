#pragma once
// What commands that render conversations have in common: the template, its special tokens and its
// time.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "conversation/chat_renderer.h"
#include "conversation/image_places.h"

namespace viaduct::cli {

struct ChatOptions {
  std::string tokenizer;  // folder or FILE.gguf; may be empty
  std::string chat_template, special, now;
};

/// Adds --template and --now.
void add_chat_options(CLI::App& app, ChatOptions& options);

/// --template with the tokenizer's special tokens, or the tokenizer's own template; nothing without
/// one.
std::optional<ChatRenderer> open_renderer(const ChatOptions& options);

/// What stands for pictures in the texts of a model that takes some; nothing for another one.
/// ConfigError where its image processor makes pictures of another size.
std::optional<ImageTokens> image_tokens_of(const std::string& model, const Tokenizer& tokenizer);

/// --now, else the machine's clock. ConfigError for another form than 2026-02-03T04:05:06.
TemplateClock clock_of(const ChatOptions& options);

}  // namespace viaduct::cli
