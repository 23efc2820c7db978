#pragma once
// The file `metrics.jsonl`: one JSON object a line, appended and handed to the operating system
// line by line.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace viaduct {

class AppendFile;

class MetricsFile {
 public:
  /// Opens `path` for a run that has done `steps_done` steps (0: from the start).
  ///
  /// The file tells one history. Lines of an earlier session that this run does not continue (their
  /// step is past `steps_done`, or they cannot be read: a line cut short by a crash) move to
  /// NAME.dropped.jsonl beside it, with a warning that counts them. So a run resumed from a
  /// checkpoint at step 100 repeats steps 101… in the file exactly once. IoError on failure.
  MetricsFile(const std::filesystem::path& path, int64_t steps_done);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Appends `json` (one line, without its end). IoError on failure.
  void write(std::string_view json);

 private:
  std::unique_ptr<AppendFile> file_;
};

}  // namespace viaduct
