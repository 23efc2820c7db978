// What evaluations are measured on: changed by what changes their figures, and by nothing else.

#include "train/measured_on.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "support/conversations.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

class MeasuredOn : public testing::Test {
 protected:
  MeasuredOn() {
    valid_ = test::write_conversations(folder_ / "valid", test::conversations_of({8, 9, 12}));
    other_ = test::write_conversations(folder_ / "other", test::conversations_of({8, 9, 13}));
    set_splits(config_, other_, valid_);
    config_.sequence_length = 16;
    config_.packing.conversations = true;
  }
  static void set_splits(DatasetConfig& config, const std::string& train,
                         const std::string& valid) {
    config.blend_per_split.emplace(3);
    config.blend_per_split->at(0).emplace(1, train);
    config.blend_per_split->at(1).emplace(1, valid);
  }
  std::string validation(const DatasetConfig& config, int64_t rows = 4) const {
    DatasetBuilder builder(config, 64);
    return validation_measured_on(builder, {{"", nullptr, rows, 1}});
  }
  std::string with(const std::function<void(DatasetConfig&)>& change) const {
    DatasetConfig config = config_;
    change(config);
    return validation(config);
  }

  test::TemporaryFolder folder_;
  std::string valid_, other_;
  DatasetConfig config_;
};

TEST_F(MeasuredOn, WhatChangesTheLoss) {
  const std::string same = validation(config_);
  EXPECT_EQ(same.size(), 16u);
  EXPECT_EQ(validation(config_), same);
  EXPECT_NE(validation(config_, 8), same);
  EXPECT_NE(with([](DatasetConfig& c) { c.packing.answer_only_loss = false; }), same);
  EXPECT_NE(with([](DatasetConfig& c) { c.sequence_length = 32; }), same);
  EXPECT_NE(with([](DatasetConfig& c) { c.packing.packed_sequence_size = 16; }), same);
  EXPECT_NE(with([&](DatasetConfig& c) { set_splits(c, other_, other_); }), same);
  EXPECT_NE(with([](DatasetConfig& c) {
              c.mock = true;
              c.blend_per_split.reset();
            }),
            same);
  DatasetBuilder builder(config_, 64);
  EXPECT_EQ(validation_measured_on(builder, {}), "");
}

TEST_F(MeasuredOn, WhatDoesNot) {
  const std::string same = validation(config_);
  EXPECT_EQ(with([&](DatasetConfig& c) { set_splits(c, valid_, valid_); }), same);
  EXPECT_EQ(with([](DatasetConfig& c) { c.num_dataset_builder_threads = 2; }), same);
  const std::string moved = (folder_ / "moved").string();
  for (const char* end : {".bin", ".idx", ".mask.bin", ".mask.idx"})
    std::filesystem::copy_file(valid_ + end, moved + end);
  EXPECT_EQ(with([&](DatasetConfig& c) { set_splits(c, other_, moved); }), same);
}

TEST_F(MeasuredOn, Tasks) {
  const auto of = [](const std::string& text, int64_t positions = 64) {
    return tasks_measured_on(parse_task_file(text, "tasks.jsonl", "tasks"), positions);
  };
  const std::string line = "{\"context\": \"A\", \"choices\": [\"b\", \"c\"], \"answer\": 0}\n";
  const std::string same = of(line);
  EXPECT_EQ(of("\n" + line), same);
  EXPECT_NE(of(line, 32), same);
  EXPECT_NE(of(line + line), same);
  EXPECT_NE(of("{\"context\": \"A\", \"choices\": [\"b\", \"c\"], \"answer\": 1}\n"), same);
}

}  // namespace
}  // namespace viaduct
