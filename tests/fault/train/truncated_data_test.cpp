// A data set, a checkpoint and a model folder that are truncated while a run uses them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/mapped_faults.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors_reader.h"
#include "data/indexed_dataset_writer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

void write_dataset(const std::filesystem::path& prefix) {
  IndexedDatasetWriter writer(prefix, TokenType::int32);
  std::vector<int32_t> document(1000);
  for (int32_t d = 0; d < 200; ++d) {
    for (size_t i = 0; i < document.size(); ++i)
      document[i] = 1 + static_cast<int32_t>((i * 7 + static_cast<size_t>(d)) % 50);
    writer.add_document(document);
  }
  writer.finish();
}

/// Trains on a data set that is truncated to its first page after the first step. Returns the run's
/// error.
std::string error_of_run(const Overrides& more, const std::string& rank) {
  TemporaryFolder folder;
  write_dataset(folder / "text");
  const auto data = (folder / "text.bin").string();
  RunProcess run(
      viaduct_binary(),
      Overrides{"train"} + tiny_run() +
          Overrides{"dataset.mock=false", "dataset.blend=[" + (folder / "text").string() + "]",
                    "dataset.split=\"1,0,0\"", "train.train_iters=1000000",
                    "logger.log_interval=1"} +
          more);
  EXPECT_TRUE(run.wait_for_line("step ")) << run.err();
  EXPECT_TRUE(run.wait_for_line("loss")) << run.err();
  std::filesystem::resize_file(data, 4096);
  EXPECT_EQ(run.finish(), 1) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("error: " + rank),
                               HasSubstr(data + ": cut short while in use: 800000 bytes when it "
                                                "was opened, 4096 now")));
  return run.err();
}

TEST(TruncatedData, EndsTheRunWithFileAndOffset) {
  // If a file is truncated after a row was read, before it is checked, no byte is missing.
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (error_of_run({}, "").find("could not be read") != std::string::npos) return;
  }
  FAIL() << "no run named a byte that could not be read";
}

TEST(TruncatedData, EndsAllRanksAndNamesOne) {
  error_of_run({"dist.ranks=2", "dist.threads_per_rank=1"}, "rank ");
}

TEST(TruncatedData, AHuggingFaceFolder) {
  const MappedFaults handler;
  TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  std::filesystem::copy_file(test_data("golden/llama/model") / "model.safetensors", path);
  const SafetensorsFolder weights(folder.path());
  std::filesystem::resize_file(path, 8192);
  const TensorInfo& last = weights.tensors().back();
  std::vector<std::byte> bytes(static_cast<size_t>(last.bytes()));
  EXPECT_THAT(
      [&] { weights.read_into(last.name, whole_piece(whole_box(last.shape)), bytes.data()); },
      ThrowsMessage<IoError>(HasSubstr(path.string() + ": cut short while in use")));
}

TEST(TruncatedData, ACheckpoint) {
  const MappedFaults handler;
  TemporaryFolder folder;
  train_run(tiny_run() +
            Overrides{"train.train_iters=1", "checkpoint.save=" + folder.path().string()});
  const auto checkpoint = open_checkpoint(folder.path());
  const auto shard = checkpoint->folder() / checkpoint->index().shards.front().name;
  checkpoint->tensor(checkpoint->tensors().back().name);  // the shard is open now
  std::filesystem::resize_file(shard, 4096);
  EXPECT_THAT([&] { checkpoint->verify(); },
              ThrowsMessage<IoError>(HasSubstr(shard.string() + ": cut short while in use")));
}

}  // namespace
}  // namespace viaduct
