#pragma once
// The subcommands of `viaduct bench`, one file each.

#include <string>

#include "subcommands.h"

namespace viaduct::cli {

Subcommand add_bench_attention(CLI::App& bench);
Subcommand add_bench_collective(CLI::App& bench);
Subcommand add_bench_gemm(CLI::App& bench);
Subcommand add_bench_step(CLI::App& bench);

/// ConfigError if `bytes`, the memory for the options `what`, exceed this machine's memory.
void check_fits(double bytes, const std::string& what);

}  // namespace viaduct::cli
