// viaduct: train, fine-tune, convert and sample large language models. One subcommand a file; this
// file parses, runs the chosen one and turns errors into messages and exit statuses (0 done, 1 the
// run failed, 2 bad usage or configuration).

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "before_ranks.h"
#include "subcommands.h"

namespace {

constexpr int kRunFailed = 1, kBadUsage = 2;

/// ConfigError, with the nearest name, for a subcommand that does not exist.
void check_known(const std::string& name,
                 const std::vector<viaduct::cli::Subcommand>& subcommands) {
  std::vector<std::string> names;
  for (const auto& subcommand : subcommands) names.push_back(subcommand.app->get_name());
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  for (const char* later : {"plan", "report"}) {
    VIADUCT_CHECK(viaduct::ConfigError, name != later, "viaduct {}: known, not built yet", name);
  }
  const auto near = viaduct::nearest_name(name, names);
  viaduct::fail<viaduct::ConfigError>("no subcommand \"{}\"{}; viaduct --help lists them", name,
                                      near ? "; did you mean " + *near + "?" : "");
}

int run(int argc, char** argv) {
  using namespace viaduct::cli;
  CLI::App root{"viaduct: LLM training in C++, from a laptop CPU to thousands of GPUs", "viaduct"};
  root.require_subcommand(1);
  // One line each, so that changes to the list merge.
  const std::vector<Subcommand> subcommands{
      add_bench(root),      //
      add_convert(root),    //
      add_data(root),       //
      add_generate(root),   //
      add_knobs(root),      //
      add_probe(root),      //
      add_schedule(root),   //
      add_tokenizer(root),  //
      add_train(root),      //
      add_version(root),    //
  };
  before_ranks([&] {
    if (argc > 1 && argv[1][0] != '-') check_known(argv[1], subcommands);
  });
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return root.exit(error);  // --help
    if (!says_common_errors()) throw SaidByRank0();
    viaduct::log_line(viaduct::LogLevel::error, error.what());
    return kBadUsage;
  }
  for (const Subcommand& subcommand : subcommands) {
    if (subcommand.app->parsed()) return subcommand.run();
  }
  return kBadUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const viaduct::cli::SaidByRank0&) {
    viaduct::cli::wait_for_rank0();
    return kBadUsage;
  } catch (const viaduct::ConfigError& error) {
    for (const auto& problem : error.problems())
      viaduct::log_line(viaduct::LogLevel::error, problem);
    return kBadUsage;
  } catch (const std::exception& error) {
    viaduct::log_line(viaduct::LogLevel::error, error.what());
    return kRunFailed;
  }
}
