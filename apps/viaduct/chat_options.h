#pragma once
// What commands that render conversations have in common: the template, its special tokens and its
// time.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "conversation/chat_renderer.h"

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

/// --now, else the machine's clock. ConfigError for another form than 2026-02-03T04:05:06.
TemplateClock clock_of(const ChatOptions& options);

}  // namespace viaduct::cli
