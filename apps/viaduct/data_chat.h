#pragma once

#include "subcommands.h"

namespace viaduct::cli {

/// Adds `data chat`.
Subcommand add_data_chat(CLI::App& data);

}  // namespace viaduct::cli
