// `viaduct schedule` as users and scripts call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

test::CommandResult schedule(const std::string& arguments) {
  return test::run_viaduct("schedule " + arguments);
}

TEST(ScheduleCommand, DrawsRowsAndSaysTheBubble) {
  const auto result = schedule("--pp 2 --microbatches 3");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "1f1b: 2 stages, 3 micro-batches\n"
            "\n"
            "stage 0  F0 F1 .  .  B0=== F2 B1=== .  B2===\n"
            "stage 1  .  F0 B0=== F1 B1=== F2 B2=== .  .\n"
            "\n"
            "time 12 (forward 1, backward 2), of which a stage works 9: bubble 0.3333 of the work, "
            "idle 25.0 %\n"
            "held at most, in micro-batches: stage 0: 2, stage 1: 1\n");
}

TEST(ScheduleCommand, StagesOfAnEncoderAreInFront) {
  const auto result = schedule("--pp 1 --encoder-pp 1 --microbatches 3");
  EXPECT_THAT(result.out, HasSubstr("1f1b: 2 stages (1 of an encoder), 3 micro-batches\n"
                                    "\n"
                                    "encoder 0  F0 F1 .  .  B0=== F2 B1=== .  B2===\n"
                                    "stage 1    .  F0 B0=== F1 B1=== F2 B2=== .  .\n"));
  const auto stages = nlohmann::json::parse(
      schedule("--pp 1 --encoder-pp 1 --microbatches 3 --json").out)["stages"];
  EXPECT_EQ(stages[0]["of_encoder"], true);
  EXPECT_EQ(stages[1]["of_encoder"], false);
  EXPECT_THAT(schedule("--pp 2 --encoder-pp 1 --microbatches 3 --svg -").out,
              testing::AllOf(HasSubstr(">encoder 0<"), HasSubstr(">stage 2<")));
}

// A forward of the encoder's stage is as long as those of both chunks of another stage.
TEST(ScheduleCommand, StagesOfAnEncoderHaveOneChunk) {
  const std::string command = "--pp 2 --vpp 2 --encoder-pp 1 --microbatches 2";
  EXPECT_THAT(
      schedule(command).out,
      testing::AllOf(
          HasSubstr("interleaved: 3 stages of 2 chunks (1 of an encoder, of one chunk), 2 "),
          HasSubstr("encoder 0  F0===== F1===== .   .   "),
          HasSubstr("stage 1    .   .   F0a .   F1a F0b F1b "),
          HasSubstr("of an encoder's stage 2 and 4"),
          HasSubstr("of an encoder's stage all of it")));
  const auto document = nlohmann::json::parse(schedule(command + " --json").out);
  EXPECT_EQ(document["encoder_pp"], 1);
  EXPECT_EQ(document["bubble_fraction"], 1.0);
  EXPECT_EQ(schedule(command + " --kind dualpipe_v").status, 2) << "two micro-batches";
  EXPECT_EQ(schedule("--pp 2 --vpp 2 --encoder-pp 1 --microbatches 4 --kind dualpipe_v").status, 0);
}

TEST(ScheduleCommand, ChunksAreLettersAndHalvesAreApart) {
  EXPECT_THAT(schedule("--pp 2 --vpp 2 --microbatches 2").out,
              HasSubstr("stage 1  .   F0a F1a F0b B0b==== F1b B1b==== B0a==== B1a==== .   .\n"));
  EXPECT_THAT(schedule("--pp 2 --kind zb-h1 --microbatches 2").out,
              HasSubstr("stage 1  .  F0 I0 F1 I1 W0 W1\n"));
}

TEST(ScheduleCommand, JsonHasEveryAction) {
  const auto document =
      nlohmann::json::parse(schedule("--pp 4 --vpp 2 --microbatches 8 --g 4 --json").out);
  EXPECT_EQ(document["kind"], "interleaved");
  EXPECT_EQ(document["bubble_fraction"], 3.0 / 16);
  ASSERT_EQ(document["stages"].size(), 4u);
  int computed = 0, sent = 0;
  for (const auto& action : document["stages"][1]["actions"]) {
    if (action.contains("begin")) ++computed;
    if (action["kind"] == "post_send") {
      ++sent;
      EXPECT_TRUE(action["peer"] == 0 || action["peer"] == 2);
    }
  }
  EXPECT_EQ(computed, 2 * 2 * 8);
  EXPECT_EQ(sent, 2 * 2 * 8) << "a middle stage sends each activation and gradient on";
}

// The diagrams of docs/parallelism.md are the command's output.
TEST(ScheduleCommand, ThePageShowsWhatIsPrinted) {
  const std::string page = read_file(test::source_folder() / "docs" / "parallelism.md");
  const std::string start = "```text\n$ viaduct schedule ";
  int drawings = 0;
  for (size_t at = page.find(start); at != std::string::npos; at = page.find(start, at + 1)) {
    const size_t arguments = at + start.size(), lines = page.find('\n', arguments) + 1;
    EXPECT_EQ(schedule(page.substr(arguments, lines - 1 - arguments)).out,
              page.substr(lines, page.find("```", lines) - lines));
    ++drawings;
  }
  EXPECT_GE(drawings, 4);
}

TEST(ScheduleCommand, CombinedForwardsAreMarked) {
  EXPECT_THAT(schedule("--pp 1 --microbatches 3 --combined").out,
              HasSubstr("stage 0  F0  F1& B0===== F2& B1===== B2=====\n"));
  EXPECT_EQ(schedule("--pp 2 --microbatches 3 --combined").status, 2);
  const auto refused = schedule("--pp 2 --vpp 2 --microbatches 4 --kind dualpipe");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("dualpipe_v has the same order of work and holds each parameter once"));
}

TEST(ScheduleCommand, DeferredHeadsAreDrawn) {
  const std::string deferred = "--pp 2 --microbatches 3 --wgrad-deferral-limit ";
  const auto text = schedule(deferred + "2").out;
  EXPECT_THAT(text, HasSubstr("stage 1  .  F0 B0 F1 B1 .  F2 B2=== H0 H1\n"));
  EXPECT_THAT(text, HasSubstr("and the inputs of 2 weight gradients of the head\n"));
  EXPECT_THAT(schedule(deferred + "0").out, HasSubstr("F2 B2 H0 H1 H2\n"));
  const auto document = nlohmann::json::parse(schedule(deferred + "2 --json").out);
  EXPECT_EQ(document["stages"][1]["peak_parts"], 2);
  EXPECT_EQ(document["stages"][0]["peak_parts"], 0);
  int heads = 0;
  for (const auto& action : document["stages"][1]["actions"])
    heads += action["kind"] == "backward_weight" && action["segments"] == "last" ? 1 : 0;
  EXPECT_EQ(heads, 2);
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "schedule.svg";
  EXPECT_EQ(schedule(deferred + "0 --svg " + file.string()).status, 0);
  EXPECT_THAT(read_file(file), HasSubstr(">weight gradient of the head</text>"));
  EXPECT_EQ(schedule(deferred + "0 --kind zb-h1").status, 2);
  EXPECT_EQ(schedule(deferred + "-1").status, 2);
}

TEST(ScheduleCommand, DrawsIntoWhatIsNoFileAndLeavesItThere) {
  const std::string command = "--pp 2 --microbatches 2 --svg ";
  test::TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/null", folder / "null");
  EXPECT_EQ(schedule(command + (folder / "null").string()).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "null"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const auto drawn = schedule(command + "-");
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_THAT(drawn.out,
              testing::AllOf(testing::StartsWith("<svg"), testing::EndsWith("</svg>\n")));
  EXPECT_EQ(schedule(command + "- --json").status, 2);
  const auto refused = schedule(command + folder.path().string());
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr(folder.path().string() + ": it is a folder"));
}

TEST(ScheduleCommand, WritesAPicture) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "schedule.svg";
  EXPECT_EQ(schedule("--pp 3 --microbatches 4 --kind gpipe --svg " + file.string()).status, 0);
  const std::string svg = read_file(file);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=")) << svg.substr(0, 100);
  EXPECT_THAT(svg, HasSubstr("gpipe: 3 stages, 4 micro-batches: bubble 0.5 of the work"));
  size_t rectangles = 0;
  for (size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1))
    ++rectangles;
  EXPECT_EQ(rectangles, 1u + 3 + 3 + 3 * 2 * 4) << "ground, legend, rows and computations";
}

TEST(ScheduleCommand, WhatDoesNotFitIsBadUsage) {
  const auto refused = [](const std::string& arguments, const std::string& message) {
    const auto result = schedule(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused("--pp 4 --vpp 2 --microbatches 2", "2 micro-batches are fewer than");
  refused("--pp 4 --microbatches 0", "micro-batches: 0 is below 1");
  refused("--pp 4 --microbatches 8 --kind zbh1", "did you mean zb-h1?");
  refused("--pp 4000 --microbatches 400000", "are drawn");
  refused("--pp 1000000 --microbatches 1", "--pp: at most 4096 stages are drawn, found 1000000");
  refused("--microbatches 8", "--pp is required");
}

}  // namespace
}  // namespace viaduct
