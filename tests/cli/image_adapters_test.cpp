// Adapters of a model with images from the command line: trained, resumed, exported for PEFT,
// merged; and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_reader.h"
#include "support/command.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::run_viaduct;
using test::test_data;
using testing::HasSubstr;

class ImageAdapterCommands : public testing::Test {
 protected:
  using Result = test::CommandResult;
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  static std::string model() { return test_data("golden/llava_clip/model").string(); }
  static std::string batch(const std::string& of) {
    return " --batch " + (test_data("golden") / of / "golden.safetensors").string() + " --out ";
  }
  Result train(const std::string& arguments) {
    return run_viaduct("train checkpoint.pretrained_checkpoint=" + model() +
                       " dataset.mock=true model.seq_length=16 mixed_precision=fp32 "
                       "train.global_batch_size=2 train.micro_batch_size=1 optimizer.lr=1e-2 "
                       "scheduler.lr_warmup_iters=0 dist.threads_per_rank=1 "
                       "validation.eval_iters=0 " +
                       arguments);
  }

  test::TemporaryFolder folder_;
};

TEST_F(ImageAdapterCommands, TrainResumeExportMergeAndUse) {
  const std::string run =
      "peft.scheme=lora peft.dim=2 "
      "'peft.target_modules=[q_proj,vision_tower.encoder.layers.1.mlp,linear_1]' "
      "peft.train=[linear_2] checkpoint.save=" +
      at("run") + " ";
  const Result first = train(run + "train.train_iters=2");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out + first.err,
              HasSubstr("adapters of 5 layers, and 1 module as a whole, on "));
  const Result second = train(run + "train.train_iters=4");
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.out + second.err, HasSubstr("resuming from"));

  const Result exported = run_viaduct("convert --from " + at("run") + " --to " + at("peft"));
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SafetensorsFile tensors(folder_ / "peft/adapter_model.safetensors");
  EXPECT_EQ(tensors.tensors().size(), 12u);  // and weight and bias of what trains whole
  const std::string prefix = "base_model.model.model.";
  for (const char* name : {"language_model.layers.1.self_attn.q_proj.lora_A.weight",
                           "vision_tower.encoder.layers.1.mlp.fc2.lora_B.weight",
                           "multi_modal_projector.linear_2.bias"})
    EXPECT_TRUE(tensors.contains(prefix + name)) << name;
  const json config = json::parse(read_file(folder_ / "peft/adapter_config.json"));
  EXPECT_EQ(config.at("modules_to_save"), json({"model.multi_modal_projector.linear_2"}));

  for (const std::string& from : {at("peft"), at("run")}) {
    const Result merged =
        run_viaduct("convert --from " + model() + " --adapter " + from + " --to " + at("merged"));
    ASSERT_EQ(merged.status, 0) << merged.err;
    const SafetensorsFolder base(model()), now(folder_ / "merged");
    int changed = 0;
    for (const TensorInfo& info : base.tensors()) {
      ASSERT_TRUE(now.contains(info.name)) << info.name;
      changed += bytes_of(base.tensor(info.name)) != bytes_of(now.tensor(info.name)) ? 1 : 0;
    }
    EXPECT_EQ(changed, 7);  // two of the text's, two of the tower's, three of the projector's
    ASSERT_EQ(run_viaduct("probe --model " + at("merged") + batch("llava_clip") + at("a")).status,
              0);
    const Result beside = run_viaduct("probe --model " + model() + " --adapter " + from +
                                      batch("llava_clip") + at("b"));
    ASSERT_EQ(beside.status, 0) << beside.err;
    EXPECT_LE(test::relative_error(SafetensorsFile(folder_ / "a").tensor("logits"),
                                   SafetensorsFile(folder_ / "b").tensor("logits")),
              1e-5);
    std::filesystem::remove_all(folder_ / "merged");
  }
  // A file of llama.cpp has the text model alone.
  const Result alone = run_viaduct("convert --from " + model() + " --adapter " + at("run") +
                                   " --to " + at("a.gguf") + " --adapter-only");
  EXPECT_EQ(alone.status, 0) << alone.err;
}

TEST_F(ImageAdapterCommands, RunsContinueAnAdapterOfPeft) {
  const auto adapter = test_data("golden/lora_llava_clip/adapter");
  const Result result = train("peft.adapter=" + adapter.string() +
                              " train.train_iters=1 optimizer.lr=0 checkpoint.save=" + at("run"));
  ASSERT_EQ(result.status, 0) << result.err;
  ASSERT_EQ(run_viaduct("convert --from " + at("run") + " --to " + at("peft")).status, 0);
  const SafetensorsFile before(adapter / "adapter_model.safetensors"),
      after(folder_ / "peft/adapter_model.safetensors");
  EXPECT_EQ(after.tensors().size(), 56u);  // without those of the block that nothing reads
  for (const TensorInfo& info : after.tensors())
    EXPECT_EQ(bytes_of(before.tensor(info.name)), bytes_of(after.tensor(info.name))) << info.name;
}

TEST_F(ImageAdapterCommands, WhatIsNotBuiltIsRefused) {
  for (const auto& [arguments, said] :
       {std::pair("peft.target_modules=[fc3]", "vision_tower, multi_modal_projector"),
        std::pair("peft.target_modules=[vision_tower.encoder.layers.2.mlp]",
                  "is in a block of the vision tower that nothing reads: the last one that "
                  "vision_feature_layer takes is block 1"),
        std::pair("peft.base_format=nf4", "peft.base_format: nf4 is not implemented"),
        std::pair("model.freeze_vision_model=true", "model.freeze_vision_model: true, beside"),
        std::pair("peft.target_modules=[linear_2] peft.train=[linear_2]",
                  "linear_2 has an adapter already")}) {
    const Result result =
        train(std::string("peft.scheme=lora peft.dim=2 train.train_iters=1 ") + arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(said));
  }
}

}  // namespace
}  // namespace viaduct
