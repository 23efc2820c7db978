#pragma once
// The subcommands of `viaduct bench`, one file each.

#include "subcommands.h"

namespace viaduct::cli {

Subcommand add_bench_attention(CLI::App& bench);
Subcommand add_bench_collective(CLI::App& bench);
Subcommand add_bench_gemm(CLI::App& bench);
Subcommand add_bench_ops(CLI::App& bench);
Subcommand add_bench_step(CLI::App& bench);

}  // namespace viaduct::cli
