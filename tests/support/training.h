#pragma once
// Small training runs for tests, in the process (`train_run`) and through the command line
// (`RunProcess`).

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace viaduct::test {

using Overrides = std::vector<std::string>;
Overrides operator+(Overrides a, const Overrides& b);

/// A model of about ten thousand parameters on mock data, FP32, without evaluation; later overrides
/// replace these.
Overrides tiny_run(const std::string& family = "llama");

RunSetup setup_of(const Overrides& overrides);

/// The final state of a run, and the bytes of all weights and moments by name.
struct RunOutcome {
  TrainState state;
  std::map<std::string, std::string> tensors;
  std::vector<std::pair<int64_t, double>> validations;
  bool operator==(const RunOutcome&) const = default;
};
RunOutcome outcome_of(Trainer& trainer);
/// Trains one rank as `viaduct train` does.
RunOutcome train_run(const Overrides& overrides);

/// The values of `field` in the lines of a metrics.jsonl that have it.
std::vector<double> metric(const std::filesystem::path& metrics_file, const std::string& field);
std::string last_line(const std::filesystem::path& file);

/// The command-line program as a child process.
class RunProcess {
 public:
  /// Starts `viaduct` (path `binary`) with these arguments and additional environment variables
  /// "NAME=value". `file_size_limit` > 0: files cannot grow beyond this number of bytes, as on a
  /// full disk.
  RunProcess(const std::string& binary, const Overrides& arguments,
             const Overrides& environment = {}, int64_t file_size_limit = 0);
  /// Kills the process if it still runs.
  ~RunProcess();
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  /// Reads standard error until a line contains `text`; false if the process closed it before.
  bool wait_for_line(const std::string& text);
  /// Waits until the process catches `signal`, or has ended.
  void wait_until_caught(int signal) const;
  void send(int signal) const;
  /// Waits until a signal that was sent has been delivered, or the process has ended.
  void wait_until_delivered() const;
  /// Reads to the end and waits. Returns the exit status, or −signal.
  int finish();

  const std::string& err() const { return err_; }
  std::string out() const;  // after finish

 private:
  /// A field of /proc/PID/status; "" once the process has ended.
  std::string status_field(const std::string& name) const;

  pid_t pid_ = -1;
  bool finished_ = false;
  std::FILE* stderr_ = nullptr;
  std::FILE* stdout_ = nullptr;  // a temporary file
  std::string err_;
};

}  // namespace viaduct::test
