#pragma once
// The subcommands of `viaduct data`, one file each.

#include "subcommands.h"

namespace viaduct::cli {

Subcommand add_data_tokenize(CLI::App& data);
Subcommand add_data_inspect(CLI::App& data);
Subcommand add_data_samples(CLI::App& data);
Subcommand add_data_merge(CLI::App& data);

}  // namespace viaduct::cli
