#pragma once
// The subcommands of the binary, one file each: a subcommand adds itself to the parser and returns
// the function to run if it was chosen. `run` returns the exit status; it reports errors by
// throwing (main.cpp prints the message and chooses the status).

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

// One function per file, in the order of `viaduct --help`.
Subcommand add_bench(CLI::App& root);
Subcommand add_chat(CLI::App& root);
Subcommand add_convert(CLI::App& root);
Subcommand add_data(CLI::App& root);
Subcommand add_eval(CLI::App& root);
Subcommand add_generate(CLI::App& root);
Subcommand add_knobs(CLI::App& root);
Subcommand add_plan(CLI::App& root);
Subcommand add_probe(CLI::App& root);
Subcommand add_report(CLI::App& root);
Subcommand add_rules(CLI::App& root);
Subcommand add_schedule(CLI::App& root);
Subcommand add_tokenizer(CLI::App& root);
Subcommand add_train(CLI::App& root);
Subcommand add_version(CLI::App& root);

}  // namespace viaduct::cli
