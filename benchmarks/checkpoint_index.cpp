// Time and memory of a rank to find its values in a checkpoint's index, by the number of writing
// ranks: the whole index as one text (version 1 of the format), and index.json with the lines of
// pieces.jsonl that the rank needs (version 2). Each case runs in a separate process, for its peak
// memory. No tensor bytes are read.
//
// docs/benchmarks.md has the commands.

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>

#include "base/file.h"
#include "checkpoint/checkpoint_reader.h"

namespace {

using namespace viaduct;

// The pieces of a 70-billion-parameter model with tp 8 and pp 8, AdamW, and buckets cut over
// the data-parallel ranks: each rank has pieces of about eight tensors, of three kinds.
constexpr int64_t kKinds = 3, kTensors = 720, kPiecesPerRank = 8, kElements = 128 * 1024;

std::string tensor_name(int64_t kind, int64_t tensor) {
  static const char* kPrefixes[kKinds] = {"", "optimizer.exp_avg/", "optimizer.exp_avg_sq/"};
  return fmt::format("{}model.layers.{}.block.{}.weight", kPrefixes[kind], tensor / 9, tensor % 9);
}

/// Piece p of all (of each kind) is of tensor p % kTensors, and rank p / kPiecesPerRank has it.
CheckpointIndex index_of(int64_t ranks) {
  CheckpointIndex index;
  index.step = 1000;
  const int64_t pieces = ranks * kPiecesPerRank;
  for (int64_t rank = 0; rank < ranks; ++rank)
    index.shards.push_back({fmt::format("rank_{:05}.bin", rank),
                            kKinds * kPiecesPerRank * kElements * 4, 0x9e3779b97f4a7c15u});
  for (int64_t kind = 0; kind < kKinds; ++kind) {
    for (int64_t t = 0; t < kTensors; ++t) {
      StoredTensor& tensor = index.tensors[tensor_name(kind, t)];
      for (int64_t p = t; p < pieces; p += kTensors) {
        const int64_t begin = static_cast<int64_t>(tensor.pieces.size()) * kElements;
        const int64_t slot = (p % kPiecesPerRank) * kKinds + kind;
        StoredPiece stored;
        stored.piece.begin = begin;
        stored.piece.end = begin + kElements;
        stored.shard = static_cast<size_t>(p / kPiecesPerRank);
        stored.offset = slot * kElements * 4;
        stored.checksum = 0x9e3779b97f4a7c15u;
        tensor.pieces.push_back(stored);
      }
      tensor.shape = {static_cast<int64_t>(tensor.pieces.size()) * kElements};
      for (StoredPiece& stored : tensor.pieces) stored.piece.box = whole_box(tensor.shape);
    }
  }
  return index;
}

struct Cost {
  double seconds = 0, megabytes = 0;
};

/// Time of `work` and growth of the peak resident memory, in a separate process.
Cost cost_of(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    const auto peak = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return static_cast<double>(usage.ru_maxrss) / 1024;
    };
    const double before = peak();
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    const Cost cost{spent.count(), peak() - before};
    _exit(write(ends[1], &cost, sizeof cost) == sizeof cost ? 0 : 1);
  }
  close(ends[1]);
  Cost cost;
  const bool whole = read(ends[0], &cost, sizeof cost) == sizeof cost;
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  if (!whole || status != 0) {
    fmt::print(stderr, "checkpoint_index: a case failed\n");
    std::exit(1);
  }
  return cost;
}

/// The lines that `rank` needs to load its pieces in the layout that wrote them.
void open_as(const std::filesystem::path& folder, int64_t rank) {
  const CheckpointDirectory directory =
      parse_directory(read_file(folder / kCheckpointIndexFile), "index");
  const MappedFile pieces(folder / kCheckpointPiecesFile);
  for (int64_t p = rank * kPiecesPerRank; p < (rank + 1) * kPiecesPerRank; ++p) {
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const DirectoryTensor& tensor = directory.tensors.at(tensor_name(kind, p % kTensors));
      parse_tensor_line(checked_line(pieces.text(), tensor.line, "line"), tensor, directory.shards,
                        "line");
    }
  }
  const IndexLine& line = directory.shard_lines[static_cast<size_t>(rank / kShardsPerLine)];
  parse_shards_line(checked_line(pieces.text(), line, "line"), "line");
}

}  // namespace

int main() {
  char name[] = "/tmp/checkpoint_index_XXXXXX";
  if (mkdtemp(name) == nullptr) return 1;
  const std::filesystem::path folder = name;
  fmt::print("{:>7} {:>9} {:>12} {:>22} {:>12} {:>22}\n", "ranks", "pieces", "one text",
             "each rank", "both files", "each rank");
  for (const int64_t ranks : {64, 1024, 16384}) {
    // Not in this process: children would inherit its memory and show no growth.
    cost_of([&] {
      const CheckpointIndex index = index_of(ranks);
      const DirectoryTexts texts = format_directory(index);
      write_file_atomically(folder / "version_1.json", format_checkpoint_index(index));
      write_file_atomically(folder / kCheckpointIndexFile, texts.index);
      write_file_atomically(folder / kCheckpointPiecesFile, texts.pieces);
    });
    const Cost whole = cost_of([&] {
      check_complete(
          parse_checkpoint_index(read_file(folder / "version_1.json", size_t{1} << 32), "index"),
          "index");
    });
    const Cost own = cost_of([&] { open_as(folder, ranks / 2); });
    const auto megabytes = [&](const char* file) {
      return static_cast<double>(std::filesystem::file_size(folder / file)) / 1048576;
    };
    fmt::print(
        "{:>7} {:>9} {:>9.1f} MB {:>8.3f} s {:>8.1f} MB {:>9.1f} MB {:>8.3f} s {:>8.1f} MB\n",
        ranks, ranks * kPiecesPerRank * kKinds, megabytes("version_1.json"), whole.seconds,
        whole.megabytes, megabytes(kCheckpointIndexFile) + megabytes(kCheckpointPiecesFile),
        own.seconds, own.megabytes);
  }
  std::filesystem::remove_all(folder);
  return 0;
}
