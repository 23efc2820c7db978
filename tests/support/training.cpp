#include "support/training.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "base/json.h"
#include "run/rank_device.h"
#include "support/instruction_set.h"
#include "support/tensor_bytes.h"
#include "train/run_checkpoint.h"

namespace viaduct::test {

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Overrides tiny_run(const std::string& family) {
  return Overrides{
             "model.family=" + family,   "model.num_layers=2",          "model.hidden_size=32",
             "model.ffn_hidden_size=64", "model.num_attention_heads=4", "model.vocab_size=64",
             "model.seq_length=32",      "mixed_precision=fp32",        "dataset.mock=true",
             "train.train_iters=20",     "train.global_batch_size=4",   "train.micro_batch_size=2",
             "optimizer.lr=1e-2",        "scheduler.lr_warmup_iters=0", "validation.eval_iters=0",
             "logger.log_interval=1"} +
         instruction_set_override();
}

RunSetup setup_of(const Overrides& overrides) {
  return prepare_run(load_run_config({}, overrides));
}

RunOutcome outcome_of(Trainer& trainer) {
  RunOutcome outcome{trainer.state(), {}, trainer.validations()};
  for (const auto& entry : stage_run(trainer.engine(), trainer.state()).entries)
    outcome.tensors[entry.entry.tensor.name] = bytes_of(entry.data);
  return outcome;
}

RunOutcome train_run(const Overrides& overrides) {
  const RunSetup setup = setup_of(overrides);
  const RankDevice rank = make_rank_device(setup.config.dist);
  Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance});
  trainer.run();
  return outcome_of(trainer);
}

std::vector<double> metric(const std::filesystem::path& metrics_file, const std::string& field) {
  std::vector<double> values;
  std::ifstream lines(metrics_file);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains(field) && json[field].is_number()) values.push_back(json[field]);
  }
  return values;
}

std::string last_line(const std::filesystem::path& file) {
  std::string last;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

RunProcess::RunProcess(const std::string& binary, const Overrides& arguments,
                       const Overrides& environment, int64_t file_size_limit) {
  int pipe_ends[2];
  stdout_ = std::tmpfile();
  if (stdout_ == nullptr || pipe2(pipe_ends, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe for a child process");
  std::vector<std::string> words{binary};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment;
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    dup2(fileno(stdout_), STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    for (std::string& variable : variables) putenv(variable.data());
    if (file_size_limit > 0) {
      signal(SIGXFSZ, SIG_IGN);
      const auto bytes = static_cast<rlim_t>(file_size_limit);
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  stderr_ = fdopen(pipe_ends[0], "r");
}

RunProcess::~RunProcess() {
  if (!finished_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::fclose(stderr_);
  std::fclose(stdout_);
}

bool RunProcess::wait_for_line(const std::string& text) {
  std::string line;
  for (int c = std::fgetc(stderr_); c != EOF; c = std::fgetc(stderr_)) {
    err_.push_back(static_cast<char>(c));
    line.push_back(static_cast<char>(c));
    if (c != '\n') continue;
    if (line.find(text) != std::string::npos) return true;
    line.clear();
  }
  return false;
}

std::string RunProcess::status_field(const std::string& name) const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    // It has ended, and waits for its parent. A signal that came meanwhile stays pending for ever.
    if (line.starts_with("State:\tZ")) return "";
    if (line.starts_with(name + ":")) return line.substr(name.size() + 1);
  }
  return "";
}

void RunProcess::wait_until_caught(int signal) const {
  for (;;) {
    const std::string caught = status_field("SigCgt");
    if (caught.empty() || (std::stoull(caught, nullptr, 16) >> (signal - 1) & 1) != 0) return;
    sched_yield();
  }
}

void RunProcess::send(int signal) const {
  kill(pid_, signal);
}

void RunProcess::wait_until_delivered() const {
  for (;;) {
    const std::string pending = status_field("ShdPnd");
    if (pending.empty() || std::stoull(pending, nullptr, 16) == 0) return;
    sched_yield();
  }
}

int RunProcess::finish() {
  for (int c = std::fgetc(stderr_); c != EOF; c = std::fgetc(stderr_))
    err_.push_back(static_cast<char>(c));
  int status = 0;
  waitpid(pid_, &status, 0);
  finished_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string RunProcess::out() const {
  std::rewind(stdout_);
  std::string text;
  for (int c = std::fgetc(stdout_); c != EOF; c = std::fgetc(stdout_))
    text.push_back(static_cast<char>(c));
  return text;
}

}  // namespace viaduct::test
