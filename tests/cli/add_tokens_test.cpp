// New tokens from the command line: converted, trained beside adapters, resumed, merged; and models
// by their names on the Hub.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_reader.h"
#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::run_viaduct;
using test::test_data;
using testing::HasSubstr;

class AddTokensCommands : public testing::Test {
 protected:
  using Result = test::CommandResult;
  ~AddTokensCommands() override { ::unsetenv("HF_HUB_CACHE"); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// A tied model of 320 rows with a tokenizer of 59 tokens, the characters from 'A' on and <e>.
  void write_model(const std::string& name) {
    std::filesystem::copy(test_data("golden/llama_tied/model_sharded_bf16"), at(name));
    json vocabulary = json::object();
    for (int i = 0; i < 58; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
    const json tokenizer{
        {"added_tokens", json::array({json{{"id", 58}, {"content", "<e>"}, {"special", true}}})},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
    write_file_atomically(folder_ / name / "tokenizer.json",
                          test::whole_tokenizer(tokenizer).dump());
  }
  static void expect_fine(const Result& result) { ASSERT_EQ(result.status, 0) << result.err; }
  static int64_t rows(const std::string& folder) {
    return SafetensorsFolder(folder).find("model.embed_tokens.weight")->shape[0];
  }

  test::TemporaryFolder folder_;
};

TEST_F(AddTokensCommands, ConvertsAndSaysIt) {
  write_model("model");
  std::string words;
  for (int i = 0; i < 270; ++i) words += "word" + std::to_string(i) + "\n";
  write_file_atomically(folder_ / "words.txt", words);
  const Result made = run_viaduct("convert --from " + at("model") + " --to " + at("more") +
                                  " --to-format hf --add-tokens " + at("words.txt"));
  expect_fine(made);
  EXPECT_THAT(made.out, HasSubstr("270 new tokens (ids 59 to 328), 261 of them in rows"));
  EXPECT_EQ(rows(at("more")), 329);
  const Result ids = run_viaduct("tokenizer encode --tokenizer " + at("more"), "Aword269\n");
  EXPECT_THAT(ids.out, HasSubstr("328"));
  const Result none = run_viaduct("convert --from " + at("model") + " --to " + at("other") +
                                  " --to-format hf --add-tokens-init all");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("without --add-tokens FILE"));
}

TEST_F(AddTokensCommands, AdaptersSaveTheirRows) {
  write_model("model");
  const std::string train =
      "train checkpoint.pretrained_checkpoint=" + at("model") +
      " model.vocab_size=325 dataset.mock=true model.seq_length=16 train.global_batch_size=1 "
      "train.micro_batch_size=1 scheduler.lr_warmup_iters=0 dist.threads_per_rank=1 "
      "validation.eval_iters=0 mixed_precision=fp32 peft.scheme=lora peft.dim=2 "
      "'peft.train=[embed_tokens]' checkpoint.save=" +
      at("run");
  expect_fine(run_viaduct(train + " train.train_iters=1"));
  expect_fine(run_viaduct(train + " train.train_iters=2"));
  // The model without these tokens, with the adapter's rows.
  const Result merged = run_viaduct("convert --from " + at("model") + " --adapter " + at("run") +
                                    " --to " + at("merged"));
  expect_fine(merged);
  EXPECT_THAT(merged.err, HasSubstr("has 325 rows of tokens, and the model 320"));
  EXPECT_EQ(rows(at("merged")), 325);
  expect_fine(run_viaduct("generate --model " + at("model") + " --adapter " + at("run") +
                          " --prompt A --max-new-tokens 2"));
  // By a name it stands beside a model with the same tokens.
  const std::string named = "generate --model " + at("model") + " --adapter words=" + at("run") +
                            " --max-new-tokens 2 - ",
                    prompt = R"({"prompt": "A", "adapter": "words"})"
                             "\n";
  expect_fine(run_viaduct(named + "--adapter " + at("run"), prompt));
  const Result beside = run_viaduct(named, prompt);
  EXPECT_EQ(beside.status, 2);
  EXPECT_THAT(beside.err, HasSubstr("an adapter of 325 tokens beside a model of 320"));
  // It was trained on another model than the merged one.
  const Result other_base = run_viaduct(
      "generate --model " + at("merged") + " --adapter words=" + at("run") + " -", prompt);
  EXPECT_EQ(other_base.status, 2);
  EXPECT_THAT(other_base.err, HasSubstr("belong to another model"));
  // Rows that did not train are in no file of the adapter.
  const std::string frozen = at("frozen");
  std::string other = train;
  other.replace(other.find(" 'peft.train=[embed_tokens]'"), 28, "");
  other.replace(other.find(at("run")), at("run").size(), frozen);
  expect_fine(run_viaduct(other + " train.train_iters=1"));
  const Result refused =
      run_viaduct("convert --from " + at("model") + " --adapter " + frozen + " --to " + at("no"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("not all in the adapter"));
}

TEST_F(AddTokensCommands, AdaptersOnAGgufFileSaveTheirRows) {
  write_model("model");
  expect_fine(
      run_viaduct("convert --from " + at("model") + " --to " + at("m.gguf") + " --dtype q8_0"));
  const Result trained = run_viaduct(
      "train checkpoint.pretrained_checkpoint=" + at("m.gguf") +
      " model.vocab_size=325 dataset.mock=true model.seq_length=16 train.global_batch_size=1 "
      "train.micro_batch_size=1 train.train_iters=1 scheduler.lr_warmup_iters=0 "
      "validation.eval_iters=0 dist.threads_per_rank=1 mixed_precision=bf16_mixed peft.scheme=lora "
      "peft.dim=2 "
      "'peft.train=[embed_tokens]' checkpoint.save=" +
      at("run"));
  expect_fine(trained);
  EXPECT_THAT(trained.err, HasSubstr("stay in the blocks"));
  expect_fine(run_viaduct("generate --model " + at("m.gguf") + " --adapter " + at("run") +
                          " --prompt A --max-new-tokens 2 peft.base_format=blocks"));
}

TEST_F(AddTokensCommands, NamesOfTheHub) {
  ::setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
  const std::filesystem::path repository = folder_ / "models--org--tiny";
  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  write_model("plain");
  // Files without names, and links to them, as huggingface_hub leaves them.
  std::filesystem::create_directories(repository / "snapshots" / commit);
  std::filesystem::create_directories(repository / "blobs");
  std::filesystem::create_directories(repository / "refs");
  write_file_atomically(repository / "refs/main", commit);
  int number = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "plain")) {
    const std::string blob = "blob" + std::to_string(number++);
    std::filesystem::copy_file(file.path(), repository / "blobs" / blob);
    std::filesystem::create_symlink("../../blobs/" + blob,
                                    repository / "snapshots" / commit / file.path().filename());
  }
  expect_fine(run_viaduct("generate --model org/tiny --prompt A --max-new-tokens 2"));
  expect_fine(run_viaduct("tokenizer encode --tokenizer org/tiny", "A\n"));
  const Result saved = run_viaduct("convert --from org/tiny@" + commit + " --to " + at("save"));
  expect_fine(saved);
  EXPECT_EQ(std::filesystem::symlink_status(folder_ / "save/step_00000000/tokenizer.json").type(),
            std::filesystem::file_type::regular);
  const Result trained = run_viaduct(
      "train checkpoint.pretrained_checkpoint=org/tiny dataset.mock=true model.seq_length=16 "
      "train.global_batch_size=1 train.micro_batch_size=1 train.train_iters=1 "
      "scheduler.lr_warmup_iters=0 validation.eval_iters=0 peft.scheme=lora peft.dim=2 "
      "checkpoint.save=" +
      at("run"));
  expect_fine(trained);
  const json config = json::parse(read_file(folder_ / "run/step_00000001/adapter_config.json"));
  EXPECT_EQ(config.at("base_model_name_or_path"), "org/tiny");
  // An adapter names its model, which is found in the same way.
  const Result adapted = run_viaduct("generate --model " + at("run") + " --prompt A");
  expect_fine(adapted);
  EXPECT_THAT(adapted.err, HasSubstr("is an adapter on the model"));
  std::filesystem::rename(repository, folder_ / "models--org--gone");
  const Result gone = run_viaduct("generate --model " + at("run") + " --prompt A");
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.err, HasSubstr("hf download org/tiny"));
  const Result missing = run_viaduct("generate --model org/other --prompt A");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("hf download org/other"));
}

}  // namespace
}  // namespace viaduct
