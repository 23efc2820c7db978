// `viaduct convert`: bitwise round trips, and errors.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::test_data;

class ConvertCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  Result run(const std::filesystem::path& from, const std::string& to,
             const std::string& arguments = "") {
    return test::run_viaduct("convert --from " + from.string() + " --to " +
                             (folder_ / to).string() + " " + arguments);
  }
  static std::filesystem::path golden(const std::string& name) {
    return test_data("golden") / name;
  }
  static void expect_same(const TensorSource& a, const TensorSource& b) {
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (const TensorInfo& info : a.tensors()) {
      const Tensor x = a.tensor(info.name), y = b.tensor(info.name);
      ASSERT_EQ(x.dtype(), y.dtype()) << info.name;
      ASSERT_EQ(x.shape(), y.shape()) << info.name;
      EXPECT_EQ(std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.bytes())), 0) << info.name;
    }
  }
  void expect_refused(const Result& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ConvertCommand, RoundTripsAreBitIdentical) {
  for (const char* name : {"llama_tied/model_sharded_bf16", "gpt2/model_bare", "qwen2/model"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path from = golden(name);
    const Result in = run(from, "save");
    ASSERT_EQ(in.status, 0) << in.err;
    EXPECT_EQ(read_file(folder_ / "save/latest").substr(0, 13), "step_00000000");
    const auto checkpoint = open_checkpoint(folder_ / "save");
    expect_same(SafetensorsFolder(from), *checkpoint);
    checkpoint->verify();
    const Result out = run(folder_ / "save", "hf", "--max-shard-bytes 200000");
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_TRUE(std::filesystem::exists(folder_ / "hf/model.safetensors.index.json"));
    expect_same(SafetensorsFolder(from), SafetensorsFolder(folder_ / "hf"));
    EXPECT_EQ(read_file(folder_ / "hf/config.json"), read_file(from / "config.json"));
    std::filesystem::remove_all(folder_ / "save");
    std::filesystem::remove_all(folder_ / "hf");
  }
}

TEST_F(ConvertCommand, HalfPrecisionAndSideFiles) {
  const SafetensorsFolder source(golden("llama/model"));
  std::map<std::string, Tensor> halves;
  for (const TensorInfo& info : source.tensors()) {
    const Tensor from = source.tensor(info.name), half = host_tensor(DType::f16, info.shape);
    for (int64_t i = 0; i < half.elements(); ++i)
      half.data<float16>()[i] = static_cast<float16>(from.data<float>()[i]);
    halves[info.name] = half;
  }
  std::filesystem::create_directory(folder_ / "model");
  write_safetensors(folder_ / "model/model.safetensors", halves);
  write_file_atomically(folder_ / "model/config.json",
                        read_file(golden("llama/model/config.json")));
  write_file_atomically(folder_ / "model/generation_config.json", "{\"eos_token_id\": 3}");
  ASSERT_EQ(run(folder_ / "model", "save").status, 0);
  ASSERT_EQ(run(folder_ / "save/step_00000000", "back/").status, 0);
  expect_same(SafetensorsFolder(folder_ / "model"), SafetensorsFolder(folder_ / "back"));
  EXPECT_EQ(read_file(folder_ / "back/generation_config.json"), "{\"eos_token_id\": 3}");
  // The file said float32; the other fields stay.
  auto expected = nlohmann::json::parse(read_file(folder_ / "model/config.json"));
  EXPECT_EQ(expected.at("torch_dtype"), "float32");
  expected["torch_dtype"] = "float16";
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "back/config.json")), expected);
  // A file that said nothing says what it has now.
  expected.erase("torch_dtype");
  write_file_atomically(folder_ / "back/config.json", expected.dump());
  ASSERT_EQ(run(folder_ / "back", "wide", "--to-format hf --dtype fp32").status, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "wide/config.json")).at("torch_dtype"),
            "float32");
}

TEST_F(ConvertCommand, AnExportThatOthersWouldComputeOtherwiseIsSaid) {
  auto config = nlohmann::json::parse(read_file(golden("llama/model/config.json")));
  config["rotary_interleaved"] = true;
  std::filesystem::create_directory(folder_ / "model");
  std::filesystem::copy_file(golden("llama/model/model.safetensors"),
                             folder_ / "model/model.safetensors");
  write_file_atomically(folder_ / "model/config.json", config.dump());
  const Result in = run(folder_ / "model", "save");
  EXPECT_EQ(in.status, 0);
  EXPECT_EQ(in.err, "");
  const Result out = run(folder_ / "save", "hf");
  EXPECT_EQ(out.status, 0);
  EXPECT_NE(out.err.find("viaduct: warning: "), std::string::npos) << out.err;
  EXPECT_NE(out.err.find("hf: rotary_interleaved is true"), std::string::npos) << out.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "hf/config.json")), config);
}

TEST_F(ConvertCommand, TrainingStateStaysInCheckpoints) {
  StagedCheckpoint staged;
  staged.save = folder_ / "run";
  staged.step = 7;
  staged.state = "{\"samples\":56}";
  staged.files["config.json"] = read_file(golden("llama/model/config.json"));
  const SafetensorsFolder source(golden("llama/model"));
  for (const TensorInfo& info : source.tensors()) {
    staged.entries.push_back({whole_entry(info), source.tensor(info.name)});
    const TensorInfo moment{"optimizer.exp_avg/" + info.name, info.dtype, info.shape};
    staged.entries.push_back({whole_entry(moment), source.tensor(info.name)});
  }
  save_checkpoint(*make_self_communicator(), staged);
  ASSERT_EQ(run(folder_ / "run", "hf").status, 0);
  expect_same(source, SafetensorsFolder(folder_ / "hf"));
  ASSERT_EQ(run(folder_ / "run", "copy", "--to-format viaduct").status, 0);
  const auto original = open_checkpoint(folder_ / "run"), copy = open_checkpoint(folder_ / "copy");
  expect_same(*original, *copy);
  EXPECT_EQ(copy->step(), 7);
  EXPECT_EQ(copy->state(), original->state());
}

TEST_F(ConvertCommand, AnExportOfPairsThatTheFamilyHasIsNotWarnedOf) {
  for (const char* family : {"deepseek_v2", "deepseek_v3"}) {
    const std::string name(family);
    ASSERT_EQ(run(golden(name + "/model"), name + "_save").status, 0);
    const Result out = run(folder_ / (name + "_save"), name + "_hf");
    EXPECT_EQ(out.status, 0);
    EXPECT_EQ(out.err, "");
  }
}

TEST_F(ConvertCommand, FillsTheFolderThatALinkLeadsTo) {
  std::filesystem::create_directory(folder_ / "real");
  std::filesystem::create_directory_symlink("real", folder_ / "link");
  ASSERT_EQ(run(golden("llama/model"), "link", "--to-format hf").status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "real/config.json"));
}

TEST_F(ConvertCommand, RefusesAndLeavesNothingBehind) {
  const auto good = golden("llama/model");
  std::filesystem::create_directory(folder_ / "full");
  write_file_atomically(folder_ / "full/file", "x");
  expect_refused(run(good, "full"), 2, "neither empty");
  expect_refused(run(good, "full", "--to-format viaduct"), 2, "neither empty nor a save folder");
  expect_refused(run(good, "full", "--to-format hf"), 2, "not empty");
  ASSERT_EQ(run(good, "save").status, 0);
  expect_refused(run(good, "save"), 2, "holds step 0");
  expect_refused(run(good, "new", "--to-format onnx"), 2, "onnx");
  expect_refused(run(good, "new", "dist.rank=2"), 2, "dist.ranks");
  expect_refused(run(golden("llama"), "new"), 1, "not a model");
  expect_refused(run(folder_ / "sav", "new"), 2, "no such file or folder");
  expect_refused(run(folder_ / "sav", "new"), 2, "nearest: ");
  expect_refused(run(folder_ / "nothing.gguf", "new"), 2, "no such file or folder");

  std::filesystem::create_directory(folder_ / "other");
  std::filesystem::copy_file(golden("llama/model/model.safetensors"),
                             folder_ / "other/model.safetensors");
  write_file_atomically(folder_ / "other/config.json",
                        read_file(golden("qwen2/model/config.json")));
  expect_refused(run(folder_ / "other", "new"), 1, "do not fit the configuration");
  auto config = nlohmann::json::parse(read_file(golden("llama/model/config.json")));
  config["architectures"] = {"LlamaForTokenClassification"};
  write_file_atomically(folder_ / "other/config.json", config.dump());
  expect_refused(run(folder_ / "other", "new"), 2,
                 "architecture LlamaForTokenClassification is not supported");
  config["architectures"] = {"LlamaForCausalLM"};
  config["license"] = "mit";
  write_file_atomically(folder_ / "other/config.json", config.dump());
  expect_refused(run(folder_ / "other", "named"), 0, "unknown fields were ignored: license");
  write_file_atomically(folder_ / "other/config.json", "{\"model_type\": \"mamba\"}");
  expect_refused(run(folder_ / "other", "new"), 2, "mamba");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().filename().string().find("new"), std::string::npos);
}

TEST_F(ConvertCommand, ExportsInTheRequestedFormatAndSaysWhatItRounded) {
  const std::filesystem::path from = golden("llama/model");
  const SafetensorsFolder source(from);
  const Result narrow = run(from, "bf16", "--to-format hf --dtype bf16");
  ASSERT_EQ(narrow.status, 0) << narrow.err;
  EXPECT_THAT(narrow.out,
              testing::ContainsRegex("^bf16: [0-9]+ of [0-9]+ elements were rounded, by "
                                     "0\\.[0-9]+ % over all \\(L2\\) and at most "
                                     "0\\.[0-9]+ % of an element that stays above zero \\("));
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "bf16/config.json")).at("torch_dtype"),
            "bfloat16");
  const SafetensorsFolder rounded(folder_ / "bf16");
  for (const TensorInfo& info : source.tensors()) {
    const Tensor wide = source.tensor(info.name), tensor = rounded.tensor(info.name);
    ASSERT_EQ(tensor.dtype(), DType::bf16) << info.name;
    for (int64_t i = 0; i < wide.elements(); ++i)
      ASSERT_EQ(tensor.data<bfloat16>()[i].bits, static_cast<bfloat16>(wide.data<float>()[i]).bits);
  }
  const Result wide = run(folder_ / "bf16", "fp32", "--to-format hf --dtype fp32");
  EXPECT_THAT(wide.out, testing::ContainsRegex("^fp32: all [0-9]+ elements are exact"));
  ASSERT_EQ(run(folder_ / "fp32", "back", "--to-format hf --dtype bf16").status, 0);
  expect_same(rounded, SafetensorsFolder(folder_ / "back"));
}

TEST_F(ConvertCommand, ReadsItsFp8AsTheProductsInBf16) {
  ASSERT_EQ(run(golden("llama/model"), "fp8", "--to-format hf --dtype fp8").status, 0);
  const auto config = nlohmann::json::parse(read_file(folder_ / "fp8/config.json"));
  EXPECT_EQ(config.at("quantization_config").at("quant_method"), "fp8");
  ASSERT_EQ(run(folder_ / "fp8", "save").status, 0);
  const auto checkpoint = open_checkpoint(folder_ / "save");
  EXPECT_EQ(checkpoint->find("model.layers.0.mlp.up_proj.weight")->dtype, DType::bf16);
  EXPECT_FALSE(checkpoint->contains("model.layers.0.mlp.up_proj.weight_scale_inv"));
  EXPECT_THAT(read_file(folder_ / "save/step_00000000/config.json"),
              testing::Not(testing::HasSubstr("quantization_config")));
}

TEST_F(ConvertCommand, GgufAndBack) {
  for (const char* name : {"llama/model", "gpt2/model", "llama_tied/model_sharded_bf16"}) {
    SCOPED_TRACE(name);
    ASSERT_EQ(run(golden(name), "save").status, 0);
    const Result out = run(folder_ / "save", "m.gguf");
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_THAT(out.out, testing::HasSubstr("m.gguf"));
    const Result in = run(folder_ / "m.gguf", "hf");
    ASSERT_EQ(in.status, 0) << in.err;
    expect_same(SafetensorsFolder(folder_ / "hf"), SafetensorsFolder(golden(name)));
    ASSERT_EQ(run(folder_ / "m.gguf", "again", "--to-format viaduct").status, 0);
    expect_same(*open_checkpoint(folder_ / "save"), *open_checkpoint(folder_ / "again"));
    for (const char* made : {"save", "m.gguf", "hf", "again"})
      std::filesystem::remove_all(folder_ / made);
  }
}

// Two exports of a model are the same file, whatever their names.
// Every command takes the file where it takes a folder, cut over ranks too.
TEST_F(ConvertCommand, AQuantizedGgufIsUsedLikeTheFolderMadeOfIt) {
  const std::filesystem::path file = test_data("gguf_blocks/model.gguf");
  ASSERT_EQ(run(file, "hf").status, 0);
  ASSERT_EQ(run(file, "cut", "--to-format viaduct dist.ranks=2 model.tensor_model_parallel_size=2")
                .status,
            0);
  ASSERT_EQ(run(file, "whole", "--to-format viaduct").status, 0);
  const auto cut = open_checkpoint(folder_ / "cut"), whole = open_checkpoint(folder_ / "whole");
  for (const TensorInfo& info : whole->tensors())
    EXPECT_EQ(test::bytes_of(cut->tensor(info.name)), test::bytes_of(whole->tensor(info.name)))
        << info.name;
  const auto said = [](const std::filesystem::path& model, const char* layout) {
    const Result result =
        test::run_viaduct("generate --model " + model.string() +
                          " --prompt abc --temperature 0 --max-new-tokens 12 " + layout);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string expected = said(folder_ / "hf", "");
  EXPECT_GT(expected.size(), 12u);
  EXPECT_EQ(said(file, ""), expected);
  ASSERT_EQ(run(file, "wide.gguf").status, 0);
  EXPECT_EQ(said(folder_ / "wide.gguf", ""), expected);
  EXPECT_EQ(said(file, "dist.ranks=2 model.tensor_model_parallel_size=2"), expected);
  // Fine-tuning from it, and the checkpoint holds the tokenizer and the template.
  const Result trained =
      test::run_viaduct("train checkpoint.pretrained_checkpoint=" + file.string() +
                        " dataset.mock=true train.train_iters=1 train.global_batch_size=1 "
                        "train.micro_batch_size=1 model.seq_length=8 "
                        "validation.eval_iters=0 mixed_precision=fp32 checkpoint.save=" +
                        (folder_ / "run").string());
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const char* name : {"tokenizer.json", "chat_template.jinja"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run/step_00000001" / name)) << name;
}

TEST_F(ConvertCommand, GgufIsNamedAfterTheModel) {
  const auto named = [&](const std::filesystem::path& from, const char* file) {
    const Result out = run(from, file);
    EXPECT_EQ(out.status, 0) << out.err;
    return read_gguf(folder_ / file).name;
  };
  std::filesystem::copy(golden("llama/model"), folder_ / "shakespeare");
  EXPECT_EQ(named(folder_ / "shakespeare", "a.gguf"), "shakespeare");
  EXPECT_EQ(named(folder_ / "shakespeare", "b.gguf"), "shakespeare");
  EXPECT_EQ(read_file(folder_ / "a.gguf"), read_file(folder_ / "b.gguf"));
  EXPECT_EQ(named(folder_ / "a.gguf", "c.gguf"), "shakespeare");
  ASSERT_EQ(run(folder_ / "shakespeare", "tuned").status, 0);
  EXPECT_EQ(named(folder_ / "tuned", "d.gguf"), "tuned");
  EXPECT_EQ(named(folder_ / "tuned/step_00000000", "e.gguf"), "tuned");
  auto config = nlohmann::json::parse(read_file(folder_ / "shakespeare/config.json"));
  config["_name_or_path"] = "bards/plays-1B";
  write_file_atomically(folder_ / "shakespeare/config.json", config.dump());
  EXPECT_EQ(named(folder_ / "shakespeare", "f.gguf"), "plays-1B");
}

TEST_F(ConvertCommand, QuantizedGgufFilesAreModels) {
  const auto good = test_data("gguf_blocks/model.gguf");
  uintmax_t before = 0;
  for (const char* format : {"q4_0", "q4_k_s", "q4_k_m", "q5_k_m", "q6_k", "q8_0"}) {
    SCOPED_TRACE(format);
    const std::string file = std::string(format) + ".gguf";
    const Result out = run(good, file, std::string("--dtype ") + format);
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_NE(out.out.find(std::string(format) + ": "), std::string::npos) << out.out;
    EXPECT_NE(out.out.find("elements were rounded, by "), std::string::npos) << out.out;
    const uintmax_t bytes = std::filesystem::file_size(folder_ / file);
    EXPECT_GE(bytes, before);
    before = bytes;
    const Result text = test::run_viaduct("generate --model " + (folder_ / file).string() +
                                          " --prompt \"a b\" --max-new-tokens 4");
    EXPECT_EQ(text.status, 0) << text.err;
  }
  // The same bytes again.
  ASSERT_EQ(run(good, "again.gguf", "--dtype q4_k_m").status, 0);
  EXPECT_EQ(read_file(folder_ / "again.gguf"), read_file(folder_ / "q4_k_m.gguf"));
}

TEST_F(ConvertCommand, RefusesFormatsWhereTheyDoNotExist) {
  const auto good = golden("llama/model");
  expect_refused(run(good, "new", "--dtype bf16"), 2, "a checkpoint keeps the stored format");
  expect_refused(run(good, "new", "--to-format hf --dtype bf61"), 2, "did you mean bf16?");
  expect_refused(run(good, "new", "--to-format hf --dtype q8_0"), 2, "a format of GGUF files");
  expect_refused(run(good, "new", "--to-format gguf"), 2, "end in .gguf");
  expect_refused(run(good, "new.gguf", "--to-format hf"), 2, "end in .gguf");
  expect_refused(run(good, "new.gguf", "--dtype fp8"), 2, "its 8-bit format is q8_0");
  expect_refused(run(good, "new", "--to-format hf --dtype q4_k_m"), 2, "a format of GGUF files");
  expect_refused(run(good, "new.gguf", "--dtype q4_k"), 2, "that are: q8_0, q4_0, q4_1");
  expect_refused(run(good, "new.gguf", "--dtype iq4_xs"), 2, "not written in this format");
  expect_refused(run(good, "new.gguf", "--dtype Q4_K_M"), 2, "did you mean q4_k_m?");
  expect_refused(run(good, "new.gguf", "--dtype int4"), 2,
                 "supported are fp32, bf16, fp16, fp8, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k_s, "
                 "q4_k_m, q5_k_s, q5_k_m, q6_k");
  expect_refused(run(golden("gpt2/model"), "new", "--to-format hf --dtype fp8"), 2,
                 "stored transposed");
  write_file_atomically(folder_ / "bad.gguf", "GGUF");
  expect_refused(run(folder_ / "bad.gguf", "new"), 1, "the version");
  ASSERT_EQ(run(good, "good.gguf").status, 0);
  expect_refused(run(good, "good.gguf"), 2, "exists and is not empty; name a new file");
  expect_refused(run(good, "new.gguf", "dist.ranks=2"), 2, "a GGUF file has no layout of ranks");

  // An element that fp16 cannot hold.
  const SafetensorsFolder source(good);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : source.tensors()) tensors[info.name] = source.tensor(info.name);
  Tensor norm = host_tensor(DType::f32, {64});
  norm.data<float>()[5] = 1e5f;
  tensors["model.norm.weight"] = norm;
  std::filesystem::create_directory(folder_ / "model");
  write_safetensors(folder_ / "model/model.safetensors", tensors);
  write_file_atomically(folder_ / "model/config.json", read_file(good / "config.json"));
  expect_refused(run(folder_ / "model", "new", "--to-format hf --dtype fp16"), 1,
                 "tensor \"model.norm.weight\": 1 of its 64 elements is beyond the largest number "
                 "of f16");
  auto config = nlohmann::json::parse(read_file(good / "config.json"));
  config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  write_file_atomically(folder_ / "model/config.json", config.dump());
  expect_refused(run(folder_ / "model", "new"), 2, "quant_method \"gptq\" is not supported");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().filename().string().find("new"), std::string::npos);
}

/// The tensors of a checkpoint in its index, by shard.
std::string pieces_of(const CheckpointReader& reader) {
  std::string text;
  for (const auto& [name, tensor] : reader.index().tensors) {
    for (const StoredPiece& piece : tensor.pieces) {
      text += fmt::format("{} {} {} {} in {} at {}: {:x}\n", name, dtype_name(tensor.dtype),
                          to_string(tensor.shape), to_string(piece.piece),
                          reader.index().shards.at(piece.shard).name, piece.offset, piece.checksum);
    }
  }
  return text;
}

// Hugging Face's configuration of Llama has no scale of scores.
TEST_F(ConvertCommand, SaysWhatOtherProgramsDoNotRead) {
  const auto run = folder_ / "run";
  const Result trained = test::run_viaduct(
      "train model.family=llama model.num_layers=1 model.hidden_size=32 model.ffn_hidden_size=64 "
      "model.num_attention_heads=4 model.vocab_size=61 model.seq_length=32 dataset.mock=true "
      "train.train_iters=1 scheduler.lr_warmup_iters=0 validation.eval_iters=0 "
      "train.global_batch_size=2 dist.threads_per_rank=1 model.softmax_scale=0.5 "
      "checkpoint.save=" +
      run.string());
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Result converted = this->run(run, "hf", "");
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_THAT(converted.err, testing::HasSubstr("cannot express {softmax_scale: 0.5}"));
}

// A run's checkpoint, joined into one shard and cut again for the run's layout, is the same
// checkpoint: names, boxes, places and bytes, on the same ranks.
TEST_F(ConvertCommand, CutsACheckpointLikeARunOfTheLayout) {
  const std::string run =
      "train model.family=llama model.num_layers=2 model.hidden_size=32 model.ffn_hidden_size=64 "
      "model.num_attention_heads=4 model.vocab_size=61 model.seq_length=32 dataset.mock=true "
      "train.train_iters=1 scheduler.lr_warmup_iters=0 validation.eval_iters=0 "
      "dist.threads_per_rank=1 checkpoint.save=";
  const std::string common = "train.global_batch_size=4 train.micro_batch_size=1 dist.ranks=4 ";
  const char* layouts[] = {
      "model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2",
      "model.tensor_model_parallel_size=2 ddp.bucket_size=3000",
      "model.pipeline_model_parallel_size=2 ddp.use_distributed_optimizer=false"};
  for (int i = 0; i < 3; ++i) {
    const std::string layout = common + layouts[i], number = std::to_string(i);
    SCOPED_TRACE(layout);
    const auto own = folder_ / ("own" + number), one = folder_ / ("one" + number);
    const Result trained = test::run_viaduct(run + own.string() + " " + layout);
    ASSERT_EQ(trained.status, 0) << trained.err;
    const Result joined = this->run(own, "one" + number, "--to-format viaduct");
    ASSERT_EQ(joined.status, 0) << joined.err;
    const Result cut = this->run(one, "cut" + number, "--to-format viaduct " + layout);
    ASSERT_EQ(cut.status, 0) << cut.err;
    const auto saved = open_checkpoint(own),
               converted = open_checkpoint(folder_ / ("cut" + number));
    EXPECT_EQ(open_checkpoint(one)->index().shards.size(), 1u);
    EXPECT_EQ(saved->index().shards.size(), 4u);
    EXPECT_EQ(pieces_of(*converted), pieces_of(*saved));
    EXPECT_EQ(converted->state(), saved->state());
    converted->verify();
    expect_same(*converted, *saved);
  }
}

// Tensors that the family ignores, and names without their prefix, keep their places.
TEST_F(ConvertCommand, CutsAHuggingFaceFolder) {
  for (const char* name : {"llama_tied/model_sharded_bf16", "gpt2/model_bare"}) {
    SCOPED_TRACE(name);
    const Result cut = run(golden(name), "save",
                           "dist.ranks=2 model.tensor_model_parallel_size=2 "
                           "train.global_batch_size=4 train.micro_batch_size=1");
    ASSERT_EQ(cut.status, 0) << cut.err;
    const auto checkpoint = open_checkpoint(folder_ / "save");
    EXPECT_EQ(checkpoint->index().shards.size(), 2u);
    expect_same(SafetensorsFolder(golden(name)), *checkpoint);
    std::filesystem::remove_all(folder_ / "save");
  }
}

TEST_F(ConvertCommand, CutsExpertsOverTheirRanks) {
  const auto source = golden("mixtral/model");
  const Result cut = run(source, "save",
                         "dist.ranks=4 model.tensor_model_parallel_size=2 "
                         "model.expert_model_parallel_size=2 model.expert_tensor_parallel_size=2 "
                         "train.global_batch_size=4 train.micro_batch_size=1");
  ASSERT_EQ(cut.status, 0) << cut.err;
  const auto checkpoint = open_checkpoint(folder_ / "save");
  EXPECT_EQ(checkpoint->index().shards.size(), 4u);
  expect_same(SafetensorsFolder(source), *checkpoint);
}

// The encoder's own stages, and their tensor ranks, are known to fit when the folder is read.
TEST_F(ConvertCommand, CutsAnEncoderOverItsOwnStages) {
  for (const char* name : {"t5", "llava_clip"}) {
    SCOPED_TRACE(name);
    const auto source = golden(std::string(name) + "/model");
    const std::string layout =
        "--to-format viaduct dist.ranks=6 model.encoder_pipeline_model_parallel_size=2 "
        "model.encoder_tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2 "
        "train.global_batch_size=4 train.micro_batch_size=1";
    const Result cut = run(source, "save", layout);
    ASSERT_EQ(cut.status, 0) << cut.err;
    const auto checkpoint = open_checkpoint(folder_ / "save");
    EXPECT_EQ(checkpoint->index().shards.size(), 6u);
    EXPECT_GT(pieces_of(*checkpoint).size(), checkpoint->tensors().size() / 2);
    const Result whole = run(source, "whole", "--to-format viaduct");
    ASSERT_EQ(whole.status, 0) << whole.err;
    expect_same(*open_checkpoint(folder_ / "whole"), *checkpoint);
    // Of a run's checkpoint too.
    const Result again = run(folder_ / "whole", "again", layout);
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(pieces_of(*open_checkpoint(folder_ / "again")), pieces_of(*checkpoint));
    for (const char* made : {"save", "whole", "again"}) std::filesystem::remove_all(folder_ / made);
  }
}

TEST_F(ConvertCommand, ALayoutMustFit) {
  expect_refused(run(golden("llama/model"), "new",
                     "dist.ranks=2 model.encoder_pipeline_model_parallel_size=1 "
                     "train.global_batch_size=4 train.micro_batch_size=1"),
                 2, "needs a model with an encoder");
  const auto good = golden("llama/model");
  expect_refused(run(good, "new",
                     "dist.ranks=3 model.tensor_model_parallel_size=3 "
                     "train.global_batch_size=4 train.micro_batch_size=1"),
                 2, "does not divide num_attention_heads");
  ASSERT_EQ(run(good, "save").status, 0);
  expect_refused(run(folder_ / "save", "new",
                     "--to-format hf dist.ranks=2 train.global_batch_size=4 "
                     "train.micro_batch_size=1"),
                 2, "no layout of ranks");
}

// What a killed conversion to a checkpoint leaves is no obstacle to the same command.
TEST_F(ConvertCommand, AnInterruptedConversionIsRepeated) {
  const auto left = folder_ / "ck/step_00000000.tmp-new";
  std::filesystem::create_directories(left);
  write_file_atomically(left / "rank_00000.bin", "half");
  write_file_atomically(folder_ / "ck/run.lock", "{}");
  const auto from = golden("llama/model");
  const Result result = run(from, "ck", "--to-format viaduct");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ck/run.lock"));
  expect_refused(run(from, "ck", "--to-format viaduct"), 2, "holds step 0");
}

// Weights that the family's config.json cannot ask for keep their names, and the program says so.
TEST_F(ConvertCommand, NamesTensorsThatOtherProgramsLeaveOut) {
  const auto save = folder_ / "run";
  std::string train = "train checkpoint.save=" + save.string() +
                      " train.train_iters=1 model.softmax_type=learnable";
  for (const std::string& override : test::tiny_run()) train += " '" + override + "'";
  ASSERT_EQ(test::run_viaduct(train + " train.train_iters=1").status, 0);
  const Result out = run(save, "hf");
  EXPECT_EQ(out.status, 0) << out.err;
  EXPECT_THAT(out.err,
              testing::AllOf(testing::HasSubstr("{softmax_type: learnable}"),
                             testing::HasSubstr("without 2 tensors under names of Viaduct's "
                                                "own (model.layers.0.self_attn.sinks")));
  const Result back = run(folder_ / "hf", "again", "--to-format viaduct");
  EXPECT_EQ(back.status, 0) << back.err;
}

}  // namespace
}  // namespace viaduct
