// Adapters from the command line: trained, resumed, exported for PEFT, merged, used; and what is
// refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_reader.h"
#include "support/adapter_commands.h"
#include "support/golden.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::AdapterCommands;
using test::bytes_of;
using test::run_viaduct;
using test::test_data;
using testing::HasSubstr;

TEST_F(AdapterCommands, TrainResumeExportMergeAndUse) {
  const std::string run =
      "peft.scheme=lora peft.dim=4 peft.target_modules=[q_proj,down_proj] "
      "checkpoint.save=" +
      at("run") + " ";
  const Result first = train(run + "train.train_iters=2");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out + first.err, HasSubstr("adapters of 8 layers on "));
  // The checkpoint has the adapter alone, and names its base.
  EXPECT_EQ(json::parse(read_file(folder_ / "run/step_00000002/base.json")).at("path"), model());
  const Result second = train(run + "train.train_iters=4");
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.out + second.err, HasSubstr("resuming from"));

  const Result exported = run_viaduct("convert --from " + at("run") + " --to " + at("peft"));
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SafetensorsFile tensors(folder_ / "peft/adapter_model.safetensors");
  EXPECT_EQ(tensors.tensors().size(), 16u);
  const json config = json::parse(read_file(folder_ / "peft/adapter_config.json"));
  EXPECT_EQ(config.at("r"), 4);
  EXPECT_EQ(config.at("target_modules"), json({"down_proj", "q_proj"}));

  // Merged into the weights it is the same model as beside them.
  for (const std::string& from : {at("peft"), at("run")}) {
    const Result merged =
        run_viaduct("convert --from " + model() + " --adapter " + from + " --to " + at("merged"));
    ASSERT_EQ(merged.status, 0) << merged.err;
    const SafetensorsFolder base(model()), now(folder_ / "merged");
    int changed = 0;
    for (const TensorInfo& info : base.tensors())
      changed += bytes_of(base.tensor(info.name)) != bytes_of(now.tensor(info.name)) ? 1 : 0;
    EXPECT_EQ(changed, 8);  // two matrices of each of four layers
    const std::string batch =
        " --batch " + test_data("golden/llama/golden.safetensors").string() + " --out ";
    ASSERT_EQ(run_viaduct("probe --model " + at("merged") + batch + at("a")).status, 0);
    ASSERT_EQ(
        run_viaduct("probe --model " + model() + " --adapter " + from + batch + at("b")).status, 0);
    EXPECT_LE(test::relative_error(SafetensorsFile(folder_ / "a").tensor("logits"),
                                   SafetensorsFile(folder_ / "b").tensor("logits")),
              1e-5);
    std::filesystem::remove_all(folder_ / "merged");
  }
}

TEST_F(AdapterCommands, MagnitudesAndTrainedModulesAreExportedAndMerged) {
  const Result run = train(
      "peft.scheme=dora peft.dim=4 peft.target_modules=[q_proj] "
      "peft.dropout=0.1 peft.train=[norm] train.train_iters=2 "
      "checkpoint.save=" +
      at("run"));
  ASSERT_EQ(run.status, 0) << run.err;
  ASSERT_EQ(run_viaduct("convert --from " + at("run") + " --to " + at("peft")).status, 0);
  const SafetensorsFile tensors(folder_ / "peft/adapter_model.safetensors");
  EXPECT_EQ(tensors.tensors().size(), 13u);  // A, B and magnitudes of four layers, the norm
  EXPECT_TRUE(tensors.contains("base_model.model.model.norm.weight"));
  const json config = json::parse(read_file(folder_ / "peft/adapter_config.json"));
  EXPECT_EQ(config.at("use_dora"), true);
  EXPECT_EQ(config.at("lora_dropout"), 0.1);
  EXPECT_EQ(config.at("modules_to_save"), json({"model.norm"}));
  const Result merged =
      run_viaduct("convert --from " + model() + " --adapter " + at("peft") + " --to " + at("m"));
  ASSERT_EQ(merged.status, 0) << merged.err;
  const std::string batch =
      " --batch " + test_data("golden/llama/golden.safetensors").string() + " --out ";
  ASSERT_EQ(run_viaduct("probe --model " + at("m") + batch + at("a")).status, 0);
  const Result beside =
      run_viaduct("probe --model " + model() + " --adapter " + at("peft") + batch + at("b"));
  ASSERT_EQ(beside.status, 0) << beside.err;
  EXPECT_LE(test::relative_error(SafetensorsFile(folder_ / "a").tensor("logits"),
                                 SafetensorsFile(folder_ / "b").tensor("logits")),
            1e-5);
}

TEST_F(AdapterCommands, RunsContinueAnAdapterOfPeft) {
  const Result result = train("peft.adapter=" + adapter() +
                              " train.train_iters=1 optimizer.lr=0 checkpoint.save=" + at("run"));
  ASSERT_EQ(result.status, 0) << result.err;
  ASSERT_EQ(run_viaduct("convert --from " + at("run") + " --to " + at("peft")).status, 0);
  const SafetensorsFile before(std::filesystem::path(adapter()) / "adapter_model.safetensors"),
      after(folder_ / "peft/adapter_model.safetensors");
  for (const TensorInfo& info : before.tensors())
    EXPECT_EQ(bytes_of(before.tensor(info.name)), bytes_of(after.tensor(info.name))) << info.name;
}

TEST_F(AdapterCommands, ARunFromAnAdapterSaysWhatActs) {
  const std::string run = "peft.adapter=" + adapter() + " checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "train.train_iters=1 peft.dim=16").status, 0);
  const std::string said = read_file(folder_ / "run/config.yaml");
  EXPECT_THAT(said, testing::AllOf(HasSubstr("scheme: lora\n"), HasSubstr("  dim: 8\n")));
  const Result resumed = train(run + "train.train_iters=2 peft.dropout=0.2");
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err + resumed.out, HasSubstr("peft.dropout has no effect here"));
  EXPECT_THAT(resumed.err + resumed.out, testing::Not(HasSubstr("from here on")));
  // Without the folder the run's own configuration says the same adapter.
  const std::string own = "checkpoint.save=" + at("run") + " peft.scheme=lora ";
  expect_refused(train(own + "train.train_iters=3"), "peft.dim: was 8, is 16");
  const Result other = train(own + "train.train_iters=3 peft.dim=8 peft.alpha=16");
  EXPECT_THAT(other.err, testing::Not(HasSubstr("of the old kind")));
}

TEST_F(AdapterCommands, TheFolderOfARunsAdapterKeepsItsScale) {
  const auto folder = folder_ / "own";
  std::filesystem::copy(adapter(), folder);
  const std::string run = "peft.adapter=" + folder.string() + " checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "train.train_iters=1").status, 0);
  json config = json::parse(read_file(folder / "adapter_config.json"));
  ASSERT_EQ(train(run + "train.train_iters=2").status, 0);
  config["lora_alpha"] = 80;
  write_file_atomically(folder / "adapter_config.json", config.dump());
  expect_refused(train(run + "train.train_iters=3"), "lora_alpha");
}

TEST_F(AdapterCommands, WhatIsNotBuiltIsRefused) {
  const std::string lora = "peft.scheme=lora train.train_iters=1 ";
  expect_refused(train("peft.scheme=dora train.train_iters=1 peft.dropout=0.1 "
                       "peft.dropout_position=post"),
                 "peft.dropout_position: post with dora");
  expect_refused(train(lora + "peft.dropout=1"), "peft.dropout");
  expect_refused(train(lora + "peft.train=[q_proj]"), "peft.target_modules");
  expect_refused(train(lora + "peft.train=[nrm]"), "nearest: norm");
  expect_refused(train(lora + "peft.dim=0"), "peft.dim");
  expect_refused(train(lora + "peft.target_modules=[q_prj]"), "nearest: q_proj");
  expect_refused(train(lora + "optimizer.optimizer=muon peft.lora_plus_ratio=2"),
                 "peft.lora_plus_ratio with optimizer.optimizer: muon");
  expect_refused(train(lora + "mixed_precision=bf16_with_fp8_current_scaling_mixed "
                              "mixed_precision.fp8_param_gather=true"),
                 "fp8_param_gather");
  expect_refused(train("peft.adapter=" + test_data("golden/dora_llama/adapter").string() +
                       " train.train_iters=1 peft.scheme=lora"),
                 "peft.scheme: lora, but the adapter of");
}

TEST_F(AdapterCommands, WhoAsksForARankGetsAdapters) {
  const std::string steps = "train.train_iters=1 ";
  expect_refused(train(steps + "peft.dim=8"), "peft.dim: 8, but peft.scheme is null");
  expect_refused(train(steps + "peft.scheme=null peft.alpha=8"), "peft.alpha: 8");
  expect_refused(train(steps + "peft.dim=16"), "expected peft.scheme=lora");  // the default
  expect_refused(train(steps + "peft.target_modules=[q_proj]"), "peft.target_modules");
  // As a run's own config.yaml has them.
  const Result all = train(steps + "peft.scheme=null peft.dim=16 --dry-run");
  EXPECT_EQ(all.status, 0) << all.err;
  const Result random = run_viaduct(
      "train model.hf_config=" + model() +
      " dataset.mock=true model.seq_length=32 train.global_batch_size=1 "
      "train.micro_batch_size=1 validation.eval_iters=0 dist.threads_per_rank=1 peft.scheme=lora "
      "train.train_iters=1");
  EXPECT_EQ(random.status, 0) << random.err;
  EXPECT_THAT(random.err, HasSubstr("adapters are on random weights"));
}

TEST_F(AdapterCommands, ARunsAdapterBelongsToItsModel) {
  const std::string run = "peft.scheme=lora peft.dim=2 checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "train.train_iters=1").status, 0);
  // The same shapes, other weights.
  ASSERT_EQ(
      run_viaduct("convert --from " + model() + " --adapter " + adapter() + " --to " + at("other"))
          .status,
      0);
  const std::string batch =
      " --batch " + test_data("golden/llama/golden.safetensors").string() + " --out " + at("out");
  expect_refused(run_viaduct("probe --model " + at("other") + " --adapter " + at("run") + batch),
                 "they belong to another model");
  expect_refused(run_viaduct("convert --from " + at("other") + " --adapter " + at("run") +
                             " --to " + at("merged")),
                 "they belong to another model");
  expect_refused(
      run_viaduct("train checkpoint.pretrained_checkpoint=" + at("other") +
                  " dataset.mock=true model.seq_length=32 train.global_batch_size=2 "
                  "validation.eval_iters=0 dist.threads_per_rank=1 train.train_iters=1 --adapter " +
                  at("run")),
      "they belong to another model");
  // PEFT's folder says nothing of the model, and the same weights may lie elsewhere.
  ASSERT_EQ(run_viaduct("convert --from " + at("run") + " --to " + at("peft")).status, 0);
  EXPECT_EQ(run_viaduct("probe --model " + at("other") + " --adapter " + at("peft") + batch).status,
            0);
  std::filesystem::copy(model(), folder_ / "copy");
  EXPECT_EQ(run_viaduct("probe --model " + at("copy") + " --adapter " + at("run") + batch).status,
            0);
  // Folders inside a run.
  std::filesystem::create_directory(folder_ / "run/notes");
  expect_refused(run_viaduct("probe --model " + model() + " --adapter " + at("run/notes") + batch),
                 "expected " + at("run"));
  // What the adapter's own files say.
  const Result said = run_viaduct("probe --model " + model() + " --adapter " + at("peft") + batch +
                                  " peft.dim=16 peft.lora_plus_ratio=2");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("peft.dim has no effect here: the files of peft.adapter say it"));
  EXPECT_THAT(said.err, HasSubstr("peft.lora_plus_ratio has no effect here"));
}

TEST_F(AdapterCommands, RunsGoOnWithoutTheFolderThatTheyBeganFrom) {
  std::filesystem::copy(adapter(), folder_ / "own");
  const std::string run = "peft.adapter=" + at("own") + " checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "train.train_iters=1").status, 0);
  std::filesystem::remove_all(folder_ / "own");
  const Result result = train(run + "train.train_iters=2");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err + result.out, HasSubstr("own is gone"));
  EXPECT_EQ(
      train("peft.adapter=" + at("own") + " train.train_iters=1 checkpoint.save=" + at("b")).status,
      2);
}

TEST_F(AdapterCommands, ModelsAndAdaptersAreNotMistakenForEachOther) {
  const std::string run = "checkpoint.save=" + at("run") + " ";
  ASSERT_EQ(train(run + "peft.scheme=lora train.train_iters=1").status, 0);
  expect_refused(
      run_viaduct("probe --model " + at("run") + " --batch " +
                  test_data("golden/llama/golden.safetensors").string() + " --out " + at("y")),
      "holds an adapter");
  expect_refused(train(run + "train.train_iters=2"), "the checkpoint holds adapters");
  expect_refused(train(run + "peft.scheme=lora peft.dim=4 train.train_iters=2"), "peft.dim");
  expect_refused(
      run_viaduct("convert --from " + at("run") + " --to " + at("hf") + " --to-format hf"),
      "--to-format peft");
  expect_refused(run_viaduct("convert --from " + at("run") + " --to " + at("x.gguf")),
                 "to merge it");
  for (const char* option : {"--transformers 4", "--max-shard-bytes 100000"})
    expect_refused(run_viaduct("convert --from " + at("run") + " --to " + at("o") + " " + option),
                   option);
  expect_refused(
      run_viaduct("convert --from " + model() + " --to " + at("p") + " --to-format peft"),
      "no adapter");
  const Result other = run_viaduct("convert --from " + test_data("golden/gpt2/model").string() +
                                   " --adapter " + at("run") + " --to " + at("m"));
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("no linear layer"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m"));
}

TEST_F(AdapterCommands, BaseFormatIsReadBesideAnAdapter) {
  const std::string generate = "generate --model " + model() + " --prompt a";
  // What follows the folder is an override, and no folder; this model has no tokenizer.
  expect_refused(run_viaduct(generate + " --adapter " + adapter() + " peft.base_format=nf4"),
                 "no tokenizer files");
  // Without one the option that these commands have is named, and no scheme of training.
  for (const char* format : {"nf4", "blocks"})
    expect_refused(run_viaduct(generate + " peft.base_format=" + format),
                   "peft.base_format: " + std::string(format) +
                       ", but it is the format of frozen weights under an adapter, and none is "
                       "given; expected --adapter DIR");
  expect_refused(run_viaduct(generate + " --adapter " + adapter() + " peft.dim=3"),
                 "does not read peft.dim");
}

TEST_F(AdapterCommands, TwoNamesOfAnAdapterAreRefused) {
  expect_refused(train("--adapter " + adapter() + " peft.adapter=other"),
                 "--adapter " + adapter() + " and peft.adapter=other");
}

}  // namespace
}  // namespace viaduct
