#pragma once
// The subcommands of the binary. Each lives in a file of its own: it adds itself to the parser and
// returns what to run when it was chosen. What `run` returns is the exit status; it reports trouble
// by throwing (main.cpp says it and picks the status).

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace viaduct::cli {

/// A parsed subcommand: what to call if the user chose it.
struct Subcommand {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

// One function a file, in the order that `viaduct --help` lists them.
Subcommand add_bench(CLI::App& root);
Subcommand add_convert(CLI::App& root);
Subcommand add_data(CLI::App& root);
Subcommand add_eval(CLI::App& root);
Subcommand add_generate(CLI::App& root);
Subcommand add_knobs(CLI::App& root);
Subcommand add_probe(CLI::App& root);
Subcommand add_schedule(CLI::App& root);
Subcommand add_tokenizer(CLI::App& root);
Subcommand add_train(CLI::App& root);
Subcommand add_version(CLI::App& root);

}  // namespace viaduct::cli
