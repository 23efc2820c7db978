// Time to build, and to open, the order of a data set by its number of documents.
//
//   dataset_index FOLDER [DOCUMENTS…]      (10000000 if none is given)
//
// Documents have 100 to 900 tokens, samples 4096; the token file is sparse. Each
// number of documents is measured in a separate process, for its peak memory.

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/output_file.h"
#include "data/dataset_builder.h"
#include "data/indexed_dataset.h"

namespace {

using namespace viaduct;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void write_dataset(const std::string& prefix, int64_t documents) {
  const auto length = [](int64_t i) { return static_cast<int32_t>(100 + i * 2654435761 % 801); };
  OutputFile idx(prefix + ".idx");
  std::string text("MMIDIDX\0\0", 9);
  append<uint64_t>(text, 1);
  append<uint8_t>(text, static_cast<uint8_t>(TokenType::uint16));
  append<int64_t>(text, documents);
  append<int64_t>(text, documents + 1);
  const auto flush = [&](bool all) {
    if (!all && text.size() < (size_t{1} << 20)) return;
    idx.write(text);
    text.clear();
  };
  int64_t offset = 0;
  for (int64_t i = 0; i < documents; ++i) append(text, length(i)), flush(false);
  for (int64_t i = 0; i < documents; ++i) {
    append(text, offset);
    offset += 2 * length(i);
    flush(false);
  }
  for (int64_t i = 0; i <= documents; ++i) append(text, i), flush(false);
  flush(true);
  idx.commit();
  write_file_atomically(prefix + ".bin", "");
  std::filesystem::resize_file(prefix + ".bin", static_cast<uintmax_t>(offset));
}

double seconds_to_build(const DatasetConfig& config) {
  const double begin = now();
  DatasetBuilder builder(config);
  builder.build(Split::train, std::nullopt)->size();
  return now() - begin;
}

/// Peak memory of this process, including mapped files.
double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

void measure(const std::filesystem::path& folder, int64_t documents) {
  const std::string prefix = (folder / "documents").string();
  write_dataset(prefix, documents);
  DatasetConfig config;
  config.blend_per_split.emplace(3);
  (*config.blend_per_split)[0].emplace({prefix});
  config.sequence_length = 4096;
  config.path_to_cache = (folder / "cache").string();
  double begin = now();
  const int64_t tokens = IndexedDataset(prefix).total_tokens();
  const double open = now() - begin;
  const double build = seconds_to_build(config) - open;
  const double peak = peak_gib();
  const double load = seconds_to_build(config);
  config.fast_cache_load = true;
  const double trusted = seconds_to_build(config);
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
    bytes += static_cast<int64_t>(entry.file_size());
  fmt::print("{:>11} {:>13} {:>8.2f} {:>8.2f} {:>8.0f} {:>8.2f} {:>8.4f} {:>8.2f} {:>8.2f}\n",
             documents, tokens / 4096, open, build, build / static_cast<double>(documents) * 1e9,
             load, trusted, static_cast<double>(bytes) / (1 << 30), peak);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return fmt::print(stderr, "usage: dataset_index FOLDER [DOCUMENTS…]\n"), 2;
  std::vector<int64_t> sizes;
  for (int i = 2; i < count; ++i) sizes.push_back(std::atoll(words[i]));
  if (sizes.empty()) sizes.push_back(10'000'000);
  fmt::print("{:>11} {:>13} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "documents", "samples",
             "open s", "make s", "ns/doc", "again s", "trust s", "GiB", "peak GiB");
  std::fflush(stdout);
  for (const int64_t documents : sizes) {
    const auto folder =
        std::filesystem::path(words[1]) / fmt::format("dataset_index_{}", ::getpid());
    std::filesystem::create_directories(folder);
    const pid_t child = ::fork();
    if (child == 0) {
      measure(folder, documents);
      std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    std::filesystem::remove_all(folder);
    if (status != 0) return 1;
  }
  return 0;
}
