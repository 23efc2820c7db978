// `viaduct data` as scripts use it.

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/compress.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;

class DataCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  Result run(const std::string& arguments) { return test::run_viaduct("data " + arguments); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string data(const std::string& name) { return test::test_data(name).string(); }

  test::TemporaryFolder folder_;
};

TEST_F(DataCommand, InspectsAsTheReferenceSays) {
  for (const char* name : {"docs_uint16", "lines_int32", "modes_int64", "bytes_uint8"}) {
    const std::string prefix = data(std::string("indexed_dataset/") + name);
    const json expected = json::parse(read_file(prefix + ".json"));
    const json found = json::parse(run("inspect " + prefix + " --tokens --json").out);
    for (const char* key :
         {"dtype", "sequence_count", "document_count", "total_tokens", "sequence_lengths",
          "document_indices", "sequence_modes", "sequences"}) {
      EXPECT_EQ(found.at(key), expected.at(key)) << name << " " << key;
    }
    EXPECT_FALSE(json::parse(run("inspect " + prefix + " --json").out).contains("sequences"));
  }
  EXPECT_NE(run("inspect " + data("indexed_dataset/docs_uint16")).out.find("uint16"),
            std::string::npos);
  const Result absent = run("inspect " + path("absent"));
  EXPECT_EQ(absent.status, 2);
  EXPECT_EQ(absent.err.rfind("viaduct: error: viaduct data inspect: no data set ", 0), 0u);
}

TEST_F(DataCommand, ShowsSamplesAsTheReferenceSays) {
  const json expected = json::parse(read_file(data("sample_index/blend_weights.json")));
  const std::string arguments = "samples 'dataset.blend=[0.6," + data("sample_index/corpus_a") +
                                ",0.3," + data("sample_index/corpus_b") + ",0.1," +
                                data("sample_index/corpus_c") +
                                "]' dataset.split=90,10,0 dataset.sequence_length=64 "
                                "dataset.random_seed=1234 --num-samples 200,20,0";
  for (const char* split : {"train", "valid"}) {
    const json& want = expected["splits"][split];
    const json found = json::parse(run(arguments + " --indices --json --split " + split).out);
    EXPECT_EQ(found["length"], want["length"]);
    EXPECT_EQ(found["dataset_index"], want["dataset_index"]);
    EXPECT_EQ(found["dataset_sample_index"], want["dataset_sample_index"]);
    for (size_t i = 0; i < 3; ++i) {
      for (const char* key :
           {"documents", "num_samples", "document_index", "sample_index", "shuffle_index"}) {
        EXPECT_EQ(found["datasets"][i][key], want["datasets"][i][key])
            << split << " " << i << " " << key;
      }
    }
    for (const json& sample : want["samples"]) {
      const json& row = found["samples"][sample["index"].get<size_t>()];
      EXPECT_EQ(row, sample);
    }
  }
  const json two = json::parse(run(arguments + " --split train --count 2 --json").out);
  EXPECT_EQ(two["samples"].size(), 2u);
  EXPECT_FALSE(two.contains("datasets"));
}

TEST_F(DataCommand, TakesTheConfigurationOfARun) {
  write_file_atomically(folder_ / "run.yaml",
                        "model: {seq_length: 16, num_layers: 2}\ntrain: {global_batch_size: 8}\n"
                        "dataset:\n  blend: [" +
                            data("sample_index/corpus_c") +
                            "]\n  split: 100,0,0\n  random_seed: 1\n");
  const json want =
      json::parse(read_file(data("sample_index/last_epoch_apart.json")))["splits"]["train"];
  const json found =
      json::parse(run("samples " + path("run.yaml") +
                      " dataset.random_seed=42 --split train --num-samples 40,0,0 --json")
                      .out);
  EXPECT_EQ(found["length"], want["length"]);
  for (const json& sample : want["samples"])
    EXPECT_EQ(found["samples"][sample["index"].get<size_t>()], sample);
  const Result wrong = run("samples " + path("run.yaml") +
                           " model.num_layer=3 --split train --num-samples 40,0,0 --json");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("num_layers"), std::string::npos) << wrong.err;
}

TEST_F(DataCommand, ShowsTheOrderOfARunThatStartsFromAModel) {
  // A model folder with an end-of-document token in its tokenizer and 24 positions.
  std::filesystem::create_directory(folder_ / "model");
  const std::filesystem::path tokenizer = data("tokenizer/gpt2");
  for (const char* name : {"vocab.json", "merges.txt"})
    std::filesystem::copy_file(tokenizer / name, folder_ / "model" / name);
  json config = json::parse(read_file(data("golden/llama/model/config.json")));
  config["vocab_size"] = 50257;
  config["max_position_embeddings"] = 24;
  config.erase("bos_token_id");
  config.erase("eos_token_id");
  write_file_atomically(folder_ / "model/config.json", config.dump());
  const std::string rows = "samples 'dataset.blend=[" + data("indexed_dataset/docs_uint16") +
                           "]' dataset.split=1,0,0 dataset.eod_mask_loss=true "
                           "--split train --num-samples 20,0,0 --json ";
  const Result found = run(rows + "checkpoint.pretrained_checkpoint=" + path("model"));
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(json::parse(found.out),
            json::parse(run(rows + "dataset.sequence_length=24 dataset.eod_id=50256").out));
  EXPECT_EQ(json::parse(found.out)["samples"][0]["tokens"].size(), 24u);
  const Result missing = run(rows + "checkpoint.pretrained_checkpoint=" + path("absent"));
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("absent"), std::string::npos) << missing.err;
  config["vocab_size"] = 10;
  write_file_atomically(folder_ / "model/config.json", config.dump());
  EXPECT_NE(run(rows + "checkpoint.pretrained_checkpoint=" + path("model")).status, 0)
      << "tokens outside of the vocabulary";
}

TEST_F(DataCommand, SaysWhatIsWrongWithTheSettings) {
  const std::string blend = "'dataset.blend=[" + data("sample_index/corpus_c") + "]' ";
  const std::string asked = " --split valid --num-samples 10,5,0 --json";
  const Result empty =
      run("samples " + blend + "dataset.split=99,1,0 dataset.sequence_length=16" + asked);
  EXPECT_EQ(empty.status, 2);
  EXPECT_NE(empty.err.find("corpus_c: its valid split is empty"), std::string::npos) << empty.err;
  EXPECT_NE(empty.err.find("; expected "), std::string::npos) << empty.err;
  EXPECT_NE(empty.err.find("validation.eval_iters=0"), std::string::npos) << empty.err;
  const Result misspelt = run("samples " + blend + "dataset.sequence_lenth=16" + asked);
  EXPECT_EQ(misspelt.status, 2);
  EXPECT_NE(misspelt.err.find("sequence_length"), std::string::npos) << misspelt.err;
  const Result no_weight =
      run("samples " + blend + "dataset.split=1 dataset.sequence_length=16" + asked);
  EXPECT_EQ(no_weight.status, 2);
  EXPECT_NE(no_weight.err.find("the valid split has no data"), std::string::npos) << no_weight.err;
}

TEST_F(DataCommand, TokenizesAndMerges) {
  std::string lines;
  for (const json& text : json::parse(read_file(data("indexed_dataset/docs_text.json")))) {
    lines += json{{"body", text}}.dump() + "\n";
  }
  write_file_atomically(folder_ / "docs.jsonl", lines);
  const Result done =
      run("tokenize --input " + path("docs.jsonl") + " --json-key body --tokenizer " +
          data("tokenizer/gpt2") + " --workers 2 --output " + path("new/docs"));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(done.err.empty()) << done.err;  // no progress bar without a terminal
  for (const char* suffix : {".bin", ".idx"}) {
    EXPECT_EQ(read_file(path("new/docs") + suffix),
              read_file(data("indexed_dataset/docs_uint16") + suffix));
  }
  ASSERT_EQ(run("merge --input " + path("new/docs") + " " + data("indexed_dataset/part2_uint16") +
                " --output " + path("all"))
                .status,
            0);
  for (const char* suffix : {".bin", ".idx"}) {
    EXPECT_EQ(read_file(path("all") + suffix),
              read_file(data("indexed_dataset/merged_uint16") + suffix));
  }

  // A second time only if it is asked for.
  const std::string again = "merge --input " + path("new/docs") + " --output " + path("all");
  const Result kept = run(again);
  EXPECT_EQ(kept.status, 2);
  EXPECT_NE(kept.err.find("all.bin exists and is not empty; give another name, or replace it with "
                          "--overwrite"),
            std::string::npos)
      << kept.err;
  EXPECT_EQ(read_file(path("all.bin")), read_file(data("indexed_dataset/merged_uint16.bin")));
  EXPECT_EQ(run(again + " --overwrite").status, 0);
  EXPECT_EQ(read_file(path("all.bin")), read_file(path("new/docs.bin")));
  EXPECT_EQ(run("tokenize --input " + path("docs.jsonl") + " --json-key body --tokenizer " +
                data("tokenizer/gpt2") + " --output " + path("new/docs"))
                .status,
            2);

  const Result open = run("tokenize --input " + path("docs.jsonl") +
                          " --json-key body --no-append-eod --tokenizer " + data("tokenizer/gpt2") +
                          " --output " + path("open"));
  ASSERT_EQ(open.status, 0) << open.err;
  const json closed = json::parse(run("inspect " + path("new/docs") + " --json").out);
  EXPECT_EQ(json::parse(run("inspect " + path("open") + " --json").out)["total_tokens"],
            closed["total_tokens"].get<int64_t>() - closed["document_count"].get<int64_t>());

  // The same from standard input, compressed or not.
  for (const std::string& input : {lines, test::gzip(lines), test::zstd(lines)}) {
    const Result piped =
        test::run_viaduct("data tokenize --input - --json-key body --tokenizer " +
                              data("tokenizer/gpt2") + " --overwrite --output " + path("piped"),
                          input);
    ASSERT_EQ(piped.status, 0) << piped.err;
    EXPECT_EQ(read_file(path("piped.bin")), read_file(path("new/docs.bin")));
    EXPECT_EQ(read_file(path("piped.idx")), read_file(path("new/docs.idx")));
  }
  const Result cut = test::run_viaduct("data tokenize --input - --json-key body --tokenizer " +
                                           data("tokenizer/gpt2") + " --output " + path("cut"),
                                       test::gzip(lines).substr(0, 100));
  EXPECT_EQ(cut.status, 1);
  EXPECT_EQ(cut.err,
            "viaduct: error: standard input: the gzip data end early, at offset 100: the file "
            "is truncated\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cut.bin"));
  const Result unnamed = test::run_viaduct(
      "data tokenize --input - --tokenizer " + data("tokenizer/gpt2") + " --output " + path("cut"),
      lines);
  EXPECT_EQ(unnamed.status, 1);
  EXPECT_NE(unnamed.err.find("give --json-key"), std::string::npos) << unnamed.err;

  // Another token ends documents.
  const std::string named = "tokenize --input " + path("docs.jsonl") +
                            " --json-key body --tokenizer " + data("tokenizer/gpt2") +
                            " --overwrite --output " + path("named") + " --eod-token ";
  ASSERT_EQ(run(named + "'!'").status, 0);
  const json ends = json::parse(run("inspect " + path("named") + " --tokens --json").out);
  for (const json& sequence : ends["sequences"]) EXPECT_EQ(sequence.back(), 0);
  const Result nameless = run(named + "'<|nothing|>'");
  EXPECT_EQ(nameless.status, 2);
  EXPECT_NE(nameless.err.find("--eod-token: the tokenizer"), std::string::npos) << nameless.err;
  EXPECT_NE(nameless.err.find("its special tokens are <|endoftext|>"), std::string::npos)
      << nameless.err;
  EXPECT_EQ(run(named + "'!' --no-append-eod").status, 2);

  // A chat model: its end of a message is no end of a document, and that is said.
  std::filesystem::copy(data("tokenizer/gpt2"), folder_ / "chat");
  write_file_atomically(folder_ / "chat/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const Result chat =
      run("tokenize --input " + path("docs.jsonl") + " --json-key body --tokenizer " +
          path("chat") + " --output " + path("of_chat"));
  ASSERT_EQ(chat.status, 0) << chat.err;
  EXPECT_NE(chat.out.find("documents end with <|endoftext|> (50256), the end of a text; eos_token, "
                          "<|im_end|> (50257), ends messages: --eod-token takes it"),
            std::string::npos)
      << chat.out;

  // A vocabulary without byte 0x06.
  std::filesystem::create_directory(folder_ / "lacking");
  json vocabulary = json::parse(read_file(data("tokenizer/gpt2/vocab.json")));
  ASSERT_EQ(vocabulary.erase("\u0106"), 1u);
  write_file_atomically(folder_ / "lacking/vocab.json", vocabulary.dump());
  std::filesystem::copy_file(data("tokenizer/gpt2/merges.txt"), folder_ / "lacking/merges.txt");
  write_file_atomically(folder_ / "control.txt", "one\ntwo \x06 three\n");
  const std::string lacking = "tokenize --input " + path("control.txt") + " --tokenizer " +
                              path("lacking") + " --output " + path("control");
  const Result dropped = run(lacking);
  EXPECT_EQ(dropped.status, 0);
  EXPECT_EQ(dropped.err,
            "viaduct: warning: 1 byte without a token in this vocabulary: left out; the "
            "first: " +
                path("control.txt") +
                ":2: the vocabulary has no token for byte 0x06 at offset 8\n");
  std::filesystem::remove(folder_ / "control.bin");
  const Result refused = run(lacking + " --overwrite --unknown-bytes refuse");
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find(":2: the vocabulary has no token for byte 0x06 at offset 8"),
            std::string::npos)
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "control.bin"));

  write_file_atomically(folder_ / "bad.jsonl", lines + "{\"body\": 3}\n");
  const Result bad = run("tokenize --input " + path("bad.jsonl") + " --json-key body --tokenizer " +
                         data("tokenizer/gpt2") + " --output " + path("bad"));
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.err.find("bad.jsonl:25: "), std::string::npos) << bad.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bad.bin"));
}

}  // namespace
}  // namespace viaduct
