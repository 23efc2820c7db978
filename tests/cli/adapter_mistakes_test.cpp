// Adapters from the command line: what is mistaken for an adapter or a change of one, and what the
// commands say of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/index_json.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/adapter_commands.h"

namespace viaduct {
namespace {

using test::AdapterCommands;
using test::run_viaduct;
using test::test_data;
using testing::HasSubstr;

class AdapterMistakes : public AdapterCommands {};

TEST_F(AdapterMistakes, ResumesWithTheSameAdapterInOtherWords) {
  const std::string run = "peft.scheme=lora checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "train.train_iters=1 peft.dim=4 peft.alpha=8 "
                        "peft.target_modules=[q_proj,v_proj]")
                .status,
            0);
  const Result same =
      train(run +
            "train.train_iters=2 peft.dim=8 peft.rank_pattern=\"{'.*': 4}\" peft.alpha=4 "
            "peft.rslora=true peft.target_modules=[v_proj,'model.layers.*.q_proj']");
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.err, testing::Not(HasSubstr("peft.")));
  // What differs is refused by name, and what only has other words is not among it.
  const Result other = train(run +
                             "train.train_iters=3 peft.dim=4 peft.alpha=12 "
                             "peft.target_modules=[v_proj,q_proj]");
  expect_refused(other, "peft.alpha: was 4, is 12");
  EXPECT_THAT(other.err, testing::Not(HasSubstr("peft.target_modules")));
}

/// Replaces a text in the config.yaml of a step, which its index has the checksum of.
void rewrite_config(const std::filesystem::path& step, const std::string& from,
                    const std::string& to) {
  std::string text = read_file(step / "config.yaml");
  const size_t place = text.find(from);
  ASSERT_NE(place, text.npos) << text;
  text.replace(place, from.size(), to);
  write_file_atomically(step / "config.yaml", text);
  auto index = nlohmann::json::parse(read_file(step / kCheckpointIndexFile));
  index.erase("checksum");
  for (auto& file : index["files"]) {
    if (file["name"] != "config.yaml") continue;
    file["bytes"] = text.size();
    file["checksum"] = index_json::hex(hash64(text));
  }
  write_file_atomically(step / kCheckpointIndexFile, index_json::sealed_lines(index));
}

TEST_F(AdapterMistakes, ASettingOfAnotherVersionIsNamed) {
  const std::string run = "peft.scheme=lora peft.dim=4 checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "train.train_iters=1").status, 0);
  const auto step = folder_ / "run/step_00000001";
  EXPECT_THAT(read_file(step / "config.yaml"), testing::StartsWith("# written by viaduct "));
  rewrite_config(step, "  target_modules:", "  target_modulez:");
  const Result resumed = train(run + "train.train_iters=2");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::AllOf(HasSubstr("unknown field 'peft.target_modulez'"),
                                          HasSubstr("did you mean 'peft.target_modules'?")));
}

TEST_F(AdapterMistakes, AFolderOfPeftIsNoModelAndIsWhole) {
  const std::string peft = " checkpoint.pretrained_checkpoint=" + adapter();
  expect_refused(train("train.train_iters=1" + peft),
                 adapter() + ": holds an adapter (adapter_config.json) and not the model under it");
  expect_refused(run_viaduct("convert --from " + adapter() + " --to " + at("m")),
                 "--adapter " + adapter());
  expect_refused(run_viaduct("plan --cluster dgx-h100 --model " + adapter() +
                             " --ranks 1 --global-batch 1 --seq-length 32"),
                 "holds an adapter");
  std::filesystem::copy(adapter(), folder_ / "part");
  {
    const SafetensorsFile whole(folder_ / "part/adapter_model.safetensors");
    std::map<std::string, Tensor> rest;
    for (const TensorInfo& info : whole.tensors())
      if (info.name.find("layers.3.mlp") == std::string::npos)
        rest[info.name] = whole.tensor(info.name);
    write_safetensors(folder_ / "rest", rest);
  }
  std::filesystem::rename(folder_ / "rest", folder_ / "part/adapter_model.safetensors");
  const Result part = train("train.train_iters=1 peft.adapter=" + at("part"));
  EXPECT_EQ(part.status, 1);
  EXPECT_THAT(part.err, HasSubstr("and 2 more are missing (6 tensors of adapters"));
}

TEST_F(AdapterMistakes, TheTrainedFormatOfTheBaseIsSaid) {
  ASSERT_EQ(train("peft.scheme=lora peft.dim=2 peft.base_format=nf4 train.train_iters=1 "
                  "checkpoint.save=" +
                  at("run"))
                .status,
            0);
  const std::string probe = "probe --model " + model() + " --adapter " + at("run") + " --batch " +
                            test_data("golden/llama/golden.safetensors").string() + " --out " +
                            at("out");
  const auto said = HasSubstr("trained beside frozen weights in nf4");
  EXPECT_THAT(run_viaduct(probe).err, said);
  EXPECT_THAT(run_viaduct(probe + " peft.base_format=nf4").err, testing::Not(said));
  EXPECT_THAT(
      run_viaduct("convert --from " + model() + " --adapter " + at("run") + " --to " + at("merged"))
          .err,
      said);
}

}  // namespace
}  // namespace viaduct
