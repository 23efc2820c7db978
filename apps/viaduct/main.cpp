// viaduct: train, fine-tune, convert and sample large language models. One file per subcommand;
// this file parses, runs the chosen one and turns errors into messages and exit statuses (0 done, 1
// the run failed, 2 bad usage or configuration).

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/exit_watchdog.h"
#include "base/log.h"
#include "base/mapped_faults.h"
#include "base/nearest.h"
#include "base/thread.h"
#include "base/unfinished_files.h"
#include "before_ranks.h"
#include "comm/launcher.h"
#include "standard_streams.h"
#include "subcommands.h"

namespace {

using viaduct::ConfigError;

constexpr int kRunFailed = 1, kBadUsage = 2;
constexpr int kExitSeconds = 10;

/// Help that shows the options of a command before its arguments: those are often overrides, whose
/// text lists sections.
class OptionsFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
    return make_description(app) + make_usage(app, name) + make_groups(app, mode) +
           make_positionals(app) + make_subcommands(app, mode) + "\n" + make_footer(app);
  }
};

/// ConfigError, with the nearest name, for a subcommand that does not exist.
void check_known(const std::string& name,
                 const std::vector<viaduct::cli::Subcommand>& subcommands) {
  std::vector<std::string> names;
  for (const auto& subcommand : subcommands) names.push_back(subcommand.app->get_name());
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const auto near = viaduct::nearest_name(name, names);
  viaduct::fail<ConfigError>("no subcommand \"{}\"{}; viaduct --help lists them", name,
                             near ? "; did you mean " + *near + "?" : "");
}

/// The same one level below: `viaduct data NAME`.
void check_known_below(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(below->get_name());
  if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  VIADUCT_CHECK(ConfigError, app.get_name() != "data" || name != "pack",
                "viaduct data pack: there is no such step: rows are packed when a run starts "
                "(dataset.packed_sequence_size; viaduct data chat makes the dataset)");
  const auto near = viaduct::nearest_name(name, names);
  viaduct::fail<ConfigError>("viaduct {}: no subcommand \"{}\"{}; there are {}", app.get_name(),
                             name, near ? "; did you mean " + *near + "?" : "",
                             fmt::join(names, ", "));
}

/// The subcommand that was chosen, the one below it included.
const CLI::App& chosen(const CLI::App& root) {
  const CLI::App* app = &root;
  for (auto below = app->get_subcommands(); !below.empty(); below = app->get_subcommands())
    app = below.front();
  return *app;
}

/// "; did you mean --dry-run?" for the first of `words` that is an option the subcommand does not
/// have but nearly.
std::string nearest_option(const CLI::App& app, int words, char** begin) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (char** word = begin; word != begin + words; ++word) {
    const std::string given = std::string(*word).substr(0, std::string_view(*word).find('='));
    if (!given.starts_with("--") || std::find(names.begin(), names.end(), given) != names.end())
      continue;
    auto near = viaduct::nearest_name(given, names);
    if (!near) {  // --output for --out
      const auto longer = std::ranges::find_if(names, [&](const std::string& name) {
        return given.starts_with(name) || name.starts_with(given + "-");
      });
      if (longer != names.end()) near = *longer;
    }
    if (near) return fmt::format("; {}: did you mean {}?", given, *near);
  }
  return "";
}

/// "; expected a whole number" for a value that an option does not take.
std::string expected_value(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ConversionError)) return "";
  const std::string said = error.what();
  for (const CLI::Option* option : app.get_options()) {
    if (said.find(": " + option->get_name() + " = ") == std::string::npos) continue;
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) return "; expected a whole number that is not too large";
    if (type.starts_with("UINT")) return "; expected a whole number of at least 0";
    if (type.starts_with("FLOAT")) return "; expected a number";
  }
  return "";
}

/// Whether a command writes files and has no ranks.
bool is_one_process(const std::string& name) {
  constexpr std::array kOneProcess{"convert", "data", "tokenizer"};
  return std::find(kOneProcess.begin(), kOneProcess.end(), name) != kOneProcess.end();
}

/// ConfigError for several processes of such a command.
void check_one_process(const std::string& name) {
  if (!is_one_process(name)) return;
  const viaduct::Launch launch =
      viaduct::detect_launch([](const char* variable) { return std::getenv(variable); });
  VIADUCT_CHECK(ConfigError, launch.launcher != viaduct::Launcher::mpi || launch.ranks == 1,
                "viaduct {} is one process, and {}={} is set: start it without the launcher", name,
                launch.variable, launch.ranks);
}

int run(int argc, char** argv) {
  using namespace viaduct::cli;
  CLI::App root{"viaduct: LLM training in C++, from a laptop CPU to thousands of GPUs", "viaduct"};
  root.require_subcommand(1);
  root.formatter(std::make_shared<OptionsFirst>());
  // One per line, so that changes to the list merge.
  const std::vector<Subcommand> subcommands{
      add_bench(root),      //
      add_chat(root),       //
      add_convert(root),    //
      add_data(root),       //
      add_eval(root),       //
      add_generate(root),   //
      add_knobs(root),      //
      add_plan(root),       //
      add_probe(root),      //
      add_report(root),     //
      add_rules(root),      //
      add_schedule(root),   //
      add_tokenizer(root),  //
      add_train(root),      //
      add_version(root),    //
  };
  before_ranks([&] {
    if (argc < 2 || argv[1][0] == '-') return;
    check_known(argv[1], subcommands);
    if (argc > 2 && argv[2][0] != '-') check_known_below(*root.get_subcommand(argv[1]), argv[2]);
  });
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return root.exit(error);  // --help
    const std::string problem = error.what() + expected_value(chosen(root), error) +
                                nearest_option(chosen(root), argc - 1, argv + 1);
    if (!says_common_errors()) throw SaidByRank0{viaduct::ConfigError(problem)};
    viaduct::log_line(viaduct::LogLevel::error, problem);
    return kBadUsage;
  }
  before_ranks([&] { check_one_process(argv[1]); });
  std::optional<viaduct::RemovesUnfinishedFiles> removes;
  if (is_one_process(argv[1])) removes.emplace();
  for (const Subcommand& subcommand : subcommands) {
    if (subcommand.app->parsed()) return subcommand.run();
  }
  return kBadUsage;
}

int report_usage(const viaduct::ConfigError& error) {
  for (const auto& problem : error.problems()) viaduct::log_line(viaduct::LogLevel::error, problem);
  return kBadUsage;
}

int run_to_status(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const viaduct::cli::SaidByRank0& said) {
    viaduct::cli::wait_for_rank0();
    return report_usage(said.error);
  } catch (const viaduct::ConfigError& error) {
    return report_usage(error);
  } catch (const std::filesystem::filesystem_error& error) {
    viaduct::log_line(viaduct::LogLevel::error,
                      error.path1().string() + ": " + error.code().message());
    return kRunFailed;
  } catch (const std::system_error& error) {
    // fmt's message does not name the file.
    const bool output = std::ferror(stdout) != 0;
    viaduct::log_line(viaduct::LogLevel::error,
                      output ? "cannot write to standard output: " + error.code().message()
                             : std::string(error.what()));
    return kRunFailed;
  } catch (const std::bad_alloc&) {
    viaduct::log_line(viaduct::LogLevel::error,
                      "out of memory: the system refused an allocation (ulimit -v, or a limit of "
                      "the container)");
    return kRunFailed;
  } catch (const std::exception& error) {
    viaduct::log_line(viaduct::LogLevel::error, error.what());
    return kRunFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  viaduct::cli::prepare_standard_streams();
  const viaduct::MappedFaults mapped_faults;
  int status = kRunFailed;
  {
    // On a thread with a stack of fixed size: kernels run on it, and the shell sets the main
    // thread's stack.
    const viaduct::Thread work([&] { status = run_to_status(argc, argv); });
  }
  // Every reader checks for itself; this catches a reader that did not.
  if (const std::string fault = viaduct::any_mapped_fault(); status == 0 && !fault.empty()) {
    viaduct::log_line(viaduct::LogLevel::error, fault + ", so results that depend on it are wrong");
    status = kRunFailed;
  }
  status = viaduct::cli::finish_standard_output(status);
  // Libraries may hang at exit; by now all output is written.
  viaduct::end_process_after(kExitSeconds, status,
                             "viaduct: warning: a library hangs at exit; ended without it\n");
  return status;
}
