#pragma once

#include "subcommands.h"

namespace viaduct::cli {

/// Adds `tokenizer chat`.
Subcommand add_tokenizer_chat(CLI::App& tokenizer);

}  // namespace viaduct::cli
