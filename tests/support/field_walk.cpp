#include "support/field_walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "engine/dry_run.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "support/conversations.h"
#include "support/paths.h"
#include "support/tensor_bytes.h"
#include "train/run_checkpoint.h"

namespace viaduct::test {
namespace fs = std::filesystem;
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// A trace or history holds times and addresses, so it is compared without numbers.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](char c) {
    return std::string_view("0123456789.+-").find(c) != std::string_view::npos;
  });
  return text;
}

/// The keys of each line of metrics, and the number of threads on which the peak was measured.
void add_metrics(const fs::path& file, RunText& text) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    for (const auto& [key, value] : json.items()) {
      text.files += key + " ";
      // "…, 0.185 TFLOP/s measured on 2 threads"
      if (key == "mfu_peak" && value.is_string())
        text.files += value.get<std::string>().substr(value.get<std::string>().find(" on "));
    }
    text.files += "\n";
  }
}

/// The run's progress and results; its weights are compared separately.
std::string numbers_of(const Trainer& trainer) {
  const TrainState& state = trainer.state();
  std::string text =
      fmt::format("step {} samples {} updates {} skipped {} loss scale {}\n", state.step,
                  state.consumed_samples, state.updates, state.skipped, state.scaler.scale);
  for (const auto& [step, loss] : trainer.validations())
    text += fmt::format("validation loss {} after {}\n", loss, step);
  return text;
}

void add_files(const fs::path& folder, RunText& text) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::string name = fs::relative(entry.path(), folder).string();
    if (const size_t events = name.find("events.out"); events != std::string::npos)
      name = fmt::format("{}{}", name.substr(0, events), entry.file_size());
    const bool trace = name.starts_with("trace_") || name.find("memory") != std::string::npos;
    // The architecture in a checkpoint's config.json.
    const bool model = entry.path().filename() == "config.json";
    if (trace) {
      const std::string trace_text = read_file(entry.path());
      const std::string form = without_numbers(trace_text);
      // The order of threads' allocations varies, so only the words are compared.
      std::set<std::string> words;
      for (size_t at = 0, end; (end = form.find('"', at)) != std::string::npos; at = end + 1)
        words.insert(form.substr(at, end - at));
      for (int step = 1; step < 10; ++step) {
        const std::string name = fmt::format("step {}\"", step);
        if (trace_text.find(name) != std::string::npos) words.insert(name);
      }
      lines.push_back(fmt::format("{} {}", name, fmt::join(words, "|")));
    } else if (model || name == "latest") {
      lines.push_back(name + " " + read_file(entry.path()));
    } else if (name.ends_with(".bin")) {
      lines.push_back(fmt::format("{} {}", name, entry.file_size()));
    } else {
      lines.push_back(name);
    }
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) text.files += line + "\n";
}

/// Redirects a trainer's output to a file, without the progress lines, which hold times.
class Screen {
 public:
  Screen() : file_(open_memstream(&text_, &size_)) {}
  ~Screen() {
    std::fclose(file_);
    std::free(text_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    std::istringstream lines(std::string(text_, size_));
    std::string kept;
    for (std::string line; std::getline(lines, line);)
      if (line.find(" | ") == std::string::npos) kept += line + "\n";
    return kept;
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

}  // namespace

std::vector<Overrides> plain_runs() {
  const Overrides shared{"train.train_iters=3", "dist.threads_per_rank=1"};
  return {tiny_run() + shared, tiny_run("gpt2") + shared + Overrides{"mixed_precision=bf16_mixed"}};
}

Overrides joined(Overrides run, const Overrides& more) {
  for (const std::string& setting : more) {
    if (setting.starts_with("-")) {
      std::erase_if(
          run, [&](const std::string& one) { return one.starts_with(setting.substr(1) + "="); });
    } else {
      run.push_back(setting);
    }
  }
  return run;
}

WalkFiles::WalkFiles() {
  fs::create_directories(folder_ / "out");
  values_ = {
      {"$RUN", (folder_ / "run").string()},
      {"$LLAVA", (test_data("golden") / "llava_clip" / "model").string()},
      {"$DAMAGED", (folder_ / "damaged").string()},
      {"$ADAPTER", (folder_ / "adapter").string()},
      {"$CORPUS_A", test_data("sample_index/corpus_a").string()},
      {"$CORPUS_B", test_data("sample_index/corpus_b").string()},
      {"$CORPUS_C", test_data("sample_index/corpus_c").string()},
      {"$CHAT", write_conversations(folder_ / "chat", conversations_of(random_lengths(40, 5, 30)))},
      {"$MODEL", test_data("golden/llama/model").string()},
      {"$TOKENIZER", test_data("tokenizer/bpe_shakespeare").string()},
      {"$TASKS", test_data("tasks/examples.jsonl").string()},
      {"$PROMPTS", (folder_ / "prompts.txt").string()},
      {"$OUT", (folder_ / "out").string()}};
  write_file_atomically(folder_ / "prompts.txt", "To be\n");
}

void WalkFiles::make_runs() const {
  const auto run = folder_ / "run", damaged = folder_ / "damaged";
  if (fs::exists(run)) return;
  train_run(plain_runs()[0] + Overrides{"train.train_iters=2", "checkpoint.save_interval=1",
                                        "checkpoint.save=" + run.string()});
  fs::copy(run, damaged, fs::copy_options::recursive);
  fs::resize_file(damaged / "step_00000002" / "rank_00000.bin", 100);
}

void WalkFiles::make_adapter() const {
  const auto run = folder_ / "adapter";
  if (fs::exists(run)) return;
  train_run(plain_runs()[0] + Overrides{"train.train_iters=2", "peft.scheme=lora", "peft.dim=2",
                                        "checkpoint.save=" + run.string()});
}

Overrides WalkFiles::filled(Overrides overrides) const {
  for (std::string& text : overrides) {
    if (text.find("$RUN") != std::string::npos || text.find("$DAMAGED") != std::string::npos)
      make_runs();
    if (text.find("$ADAPTER") != std::string::npos) make_adapter();
    for (const auto& [name, value] : values_) replace_all(text, name, value);
  }
  return overrides;
}

std::string notes_of(const Overrides& overrides) {
  return fmt::format("{}", fmt::join(setup_of(overrides).notes, "\n"));
}

std::string record_of(const Overrides& overrides) {
  const RunSetup setup = setup_of(overrides);
  const Mesh mesh = resolve_run(setup.config, setup.model).parallelism.mesh;
  std::string text;
  for (const GlobalRank first : mesh.group({0}, {Axis::pp})) {
    StepRecord record;
    const DryRun run = dry_run(setup, first, &record);
    text += fmt::format("{} parameters, {} flops\n", run.parameters, run.model_flops);
    std::map<int64_t, std::string> events;  // by position
    for (const auto& op : record.ops()) {
      events[op.at] += fmt::format(
          "op {} {} launches {} workspace {} flops {} bytes {} {}", op.op, op.kernel, op.launches,
          op.workspace_bytes, op.cost.total_flops(), op.cost.bytes_read, op.cost.bytes_written);
    }
    for (const auto& one : record.allocations()) {
      events[one.allocated_at] += fmt::format("allocate {} {}", one.bytes, one.tag);
      events[one.released_at] += fmt::format("release {} {}", one.bytes, one.tag);
    }
    for (const auto& one : record.collectives()) {
      events[one.launched_at] +=
          fmt::format("{} in {} of {} to {}: {} bytes, {} sent", choice_name(one.operation),
                      one.group, one.ranks, one.peer, one.bytes, one.wire_bytes);
      events[one.completed_at] += fmt::format("complete {}", choice_name(one.operation));
    }
    for (const auto& scope : record.scopes()) events[scope.begin_at] += "begin " + scope.name;
    for (const auto& [at, what] : events) text += what + "\n";
  }
  return text;
}

RunText run_text(const Overrides& overrides, bool save) {
  RunText text;
  TemporaryFolder folder;
  const auto run = folder / "run";
  Overrides filled = overrides;  // a case may name the folder, or set checkpoint.save itself
  for (std::string& setting : filled) replace_all(setting, "$SAVE", run.string());
  if (save) filled.insert(filled.begin(), "checkpoint.save=" + run.string());
  Screen screen;
  std::mutex mutex;
  std::map<std::string, uint64_t> tensors;  // of all ranks
  try {
    const RunSetup setup = setup_of(filled);
    text.said = fmt::format("{}\n", fmt::join(setup.notes, "\n"));
    run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
      const RankDevice rank = make_rank_device(setup.config.dist);
      TrainerHooks hooks{.peak_effort = PeakEffort::glance};
      if (world->rank() == 0) hooks.display = screen.file();
      Trainer trainer(setup, *rank.device, rank.ops, hooks, world);
      trainer.run();
      const auto staged = stage_run(trainer.engine(), trainer.state());
      const std::lock_guard lock(mutex);
      if (world->rank() == 0) {
        text.numbers = numbers_of(trainer);
      }
      for (size_t i = 0; i < staged.entries.size(); ++i) {
        const std::string& name = staged.entries[i].entry.tensor.name;
        tensors[fmt::format("{} {} {}", name, world->rank(), i)] =
            hash64(bytes_of(staged.entries[i].values()));
      }
    });
  } catch (const std::exception& error) {
    text.said += error.what();
    text.failed = true;
  }
  // The folder first: a part of its random name may read as a time ("2s").
  std::string shown = screen.text();
  for (std::string* said : {&text.said, &shown}) replace_all(*said, folder.path().string(), "");
  // What took how long, at which rate, says nothing of a setting.
  static const std::regex kTimes(
      R"([0-9.]+(m[0-9]+s|h[0-9]+m|[kKMGT]? ?([KMG]i)?(ms|us|s|B/s|tokens/s))\b)");
  text.said += std::regex_replace(shown, kTimes, "#");
  for (const auto& [name, hash] : tensors) text.numbers += fmt::format("{} {}\n", name, hash);
  if (fs::exists(run / "metrics.jsonl")) add_metrics(run / "metrics.jsonl", text);
  if (fs::exists(run)) add_files(run, text);
  return text;
}

}  // namespace viaduct::test
