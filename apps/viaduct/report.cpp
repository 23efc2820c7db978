// viaduct report: one HTML page about a run or a plan.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "number_checks.h"
#include "report/page/plan_document.h"
#include "report/page/plan_page.h"
#include "report/page/run_page.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string subject, out, plan;
};

std::string file_if(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? read_file(path, size_t{16} << 20) : "";
}

/// Calls `make` with the plan's document; a missing figure is an error of the file.
template <class Make>
auto of_plan(const fs::path& path, const Make& make) {
  const nlohmann::ordered_json document = read_plan_document(path);
  try {
    return make(document);
  } catch (const nlohmann::json::exception& error) {
    fail<IoError>("{}: not a complete document of viaduct plan --json: {}", path.string(),
                  shown_json_problem(error.what()));
  }
}

std::string page_of_plan(const fs::path& path) {
  const std::string name = path.stem() == "plan" ? path.parent_path().filename().string() : "";
  return of_plan(path, [&](const nlohmann::ordered_json& document) {
    return plan_page(document, name.empty() ? path.stem().string() : name);
  });
}

std::string page_of_run(const fs::path& metrics, const fs::path& plan) {
  const fs::path folder = metrics.parent_path();
  RunPageInput input;
  input.name = folder.filename().string();
  input.log = read_run_log(metrics);
  if (const std::string text = left_out_text(input.log, metrics); !text.empty())
    log_warning("{}", text);
  input.config = file_if(folder / "config.yaml");
  input.router_load = file_if(folder / "router_load.svg");
  if (!plan.empty())
    input.planned =
        of_plan(plan, [](const nlohmann::ordered_json& document) { return planned_run(document); });
  return run_page(input);
}

int run(const Options& options) {
  const fs::path subject = fs::absolute(options.subject).lexically_normal();
  std::error_code error;
  fs::path metrics, plan;
  if (fs::is_directory(subject, error)) {
    if (fs::exists(subject / "metrics.jsonl", error)) metrics = subject / "metrics.jsonl";
    if (fs::exists(subject / "plan.json", error)) plan = subject / "plan.json";
    VIADUCT_CHECK(
        IoError, !metrics.empty() || !plan.empty(),
        "{}: has neither metrics.jsonl (a run's folder, checkpoint.save) nor plan.json (the "
        "output of viaduct plan --json)",
        subject.string());
  } else {
    check_given_path("", options.subject, "a run's folder, its metrics.jsonl, or a plan");
    (subject.extension() == ".jsonl" ? metrics : plan) = subject;
  }
  if (!options.plan.empty()) {
    VIADUCT_CHECK(ConfigError, !metrics.empty(),
                  "viaduct report: --plan compares a run with a plan, but {} is not a run",
                  subject.string());
    check_given_path("--plan ", options.plan, "the output of viaduct plan --json");
    plan = options.plan;
  }
  const std::string page = metrics.empty() ? page_of_plan(plan) : page_of_run(metrics, plan);
  const fs::path folder = fs::is_directory(subject, error) ? subject : subject.parent_path();
  const fs::path out = options.out.empty() ? folder / "report.html" : fs::path(options.out);
  write_file_atomically(out, page);
  if (options.out != "-") fmt::print("wrote {}\n", out.string());
  return 0;
}

}  // namespace

Subcommand add_report(CLI::App& root) {
  auto options = std::make_shared<Options>();
  CLI::App* app = root.add_subcommand("report", "Write one HTML page about a run or a plan");
  app->add_option("subject", options->subject,
                  "A run's folder (checkpoint.save) or its metrics.jsonl; a folder with plan.json, "
                  "or the output of viaduct plan --json. A folder with both: the run, compared "
                  "with the plan")
      ->type_name("DIR")
      ->required();
  app->add_option("--out", options->out, "The page; default: report.html in that folder")
      ->check(new_path());
  app->add_option("--plan", options->plan,
                  "With a run: the output of viaduct plan --json to compare it with");
  app->footer(
      "Examples:\n"
      "  viaduct report runs/quickstart/checkpoints\n"
      "  viaduct plan --config configs/bench/gpt2_124m.yaml --cluster dgx-h100 --json --timeline "
      "dist.ranks=8 > plan.json\n"
      "  viaduct report plan.json --out plan.html");
  return {app, [options] { return run(*options); }};
}

}  // namespace viaduct::cli
