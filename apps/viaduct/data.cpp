#include "data.h"

#include <CLI/CLI.hpp>

#include "data_chat.h"

namespace viaduct::cli {

Subcommand add_data(CLI::App& root) {
  CLI::App* app = root.add_subcommand("data", "Build and inspect training data");
  app->require_subcommand(1);
  app->footer(
      "Example:\n  viaduct data tokenize --input shakespeare.txt --tokenizer models/gpt2 --output "
      "data/shakespeare");
  const std::vector<Subcommand> below{add_data_tokenize(*app), add_data_chat(*app),
                                      add_data_inspect(*app), add_data_samples(*app),
                                      add_data_merge(*app)};
  return {app, [below] {
            for (const Subcommand& subcommand : below) {
              if (subcommand.app->parsed()) return subcommand.run();
            }
            return 2;
          }};
}

}  // namespace viaduct::cli
