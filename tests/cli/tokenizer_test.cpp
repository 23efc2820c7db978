// `viaduct tokenizer` as scripts use it.

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;

class TokenizerCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  /// Runs `viaduct tokenizer ARGUMENTS` with `input` on standard input.
  Result run(const std::string& arguments, std::string_view input = "") {
    return test::run_viaduct("tokenizer " + arguments, input);
  }
  static std::string folder_of(const char* name) {
    return " --tokenizer " + test::test_data(std::filesystem::path("tokenizer") / name).string() +
           " ";
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenizerCommand, EncodesLineByLineAndBack) {
  const std::string text = "Hello, world!\n\n  two  spaces \n<|endoftext|>\nno end";
  const Result encoded = run("encode" + folder_of("gpt2"), text);
  EXPECT_EQ(encoded.status, 0) << encoded.err;
  EXPECT_EQ(encoded.out.substr(0, 17 + 3), "[15496,11,995,0]\n[]\n");
  EXPECT_NE(encoded.out.find("[50256]\n"), std::string::npos);
  EXPECT_EQ(run("decode" + folder_of("gpt2"), encoded.out).out, text + "\n");
}

TEST_F(TokenizerCommand, TakesAndGivesJsonStrings) {
  const std::string lines = json("a\nb\u2028").dump() + "\n" + json("").dump() + "\n";
  const Result encoded = run("encode --json" + folder_of("bpe_shakespeare"), lines);
  ASSERT_EQ(encoded.status, 0) << encoded.err;
  const Result decoded = run("decode --json" + folder_of("bpe_shakespeare"), encoded.out);
  EXPECT_EQ(decoded.out, "\"a\\nb\\u2028\"\n\"\"\n");
  // Part of a character: U+FFFD in text, its bytes if bytes are requested.
  EXPECT_EQ(run("decode" + folder_of("gpt2"), "[8582]\n").out, "\xef\xbf\xbd\n");
  EXPECT_EQ(run("decode --bytes" + folder_of("gpt2"), "[8582]\n").out, "\xf0\x9f\n");
  EXPECT_EQ(run("decode --json" + folder_of("gpt2"), "[8582]\n").out, "\"\\ufffd\"\n");
}

TEST_F(TokenizerCommand, TellsWhereTokensComeFrom) {
  EXPECT_EQ(run("encode --offsets --add-special-tokens" + folder_of("llama3_style"),
                "x\u00e9<|eot_id|>\n")
                .out,
            R"({"ids":[901,87,563,903],"offsets":[[0,0],[0,1],[1,2],[2,12]]})"
            "\n");
  std::filesystem::copy(test::test_data("tokenizer/spm_bpe/tokenizer.model"),
                        folder_ / "tokenizer.model");
  EXPECT_EQ(run("encode --offsets --tokenizer " + folder_.path().string(), "a b\n").out,
            R"({"ids":[262,271],"offsets":[[0,1],[1,3]]})"
            "\n");
}

TEST_F(TokenizerCommand, TreatsSpecialTokensAsAsked) {
  const std::string folder = folder_of("llama3_style");
  const std::string text = "x<|eot_id|>\n";
  EXPECT_EQ(run("encode" + folder, text).out, "[87,903]\n");
  EXPECT_EQ(run("encode --special recognised" + folder, text).out, "[87,903]\n");
  EXPECT_EQ(run("encode --special as-text" + folder, text).out, "[87,27,91,68,298,62,365,91,29]\n");
  EXPECT_EQ(run("encode --add-special-tokens" + folder, text).out, "[901,87,903]\n");
  EXPECT_EQ(run("decode" + folder, "[901,87,903]\n").out, "<|begin_of_text|>x<|eot_id|>\n");
  EXPECT_EQ(run("decode --skip-special-tokens" + folder, "[901,87,903]\n").out, "x\n");
}

TEST_F(TokenizerCommand, BytesThatAreNoTextComeBackIfAsked) {
  const std::string bytes =
                        "a\xff\xfe"
                        "b \xe2\x82\n",
                    text =
                        "a\xef\xbf\xbd\xef\xbf\xbd"
                        "b \xef\xbf\xbd\n";
  const Result exact = run("encode --bytes" + folder_of("gpt2"), bytes);
  EXPECT_EQ(run("decode --bytes" + folder_of("gpt2"), exact.out).out, bytes);
  const Result repaired = run("encode" + folder_of("gpt2"), bytes);
  EXPECT_NE(repaired.out, exact.out);
  EXPECT_EQ(run("decode --bytes" + folder_of("gpt2"), repaired.out).out, text);
  // Valid UTF-8 is the same in both forms.
  EXPECT_EQ(run("encode --bytes" + folder_of("gpt2"), "caf\xc3\xa9\n").out,
            run("encode" + folder_of("gpt2"), "caf\xc3\xa9\n").out);
  for (const char* command : {"encode", "decode"})
    EXPECT_EQ(run(command + std::string(" --bytes --json") + folder_of("gpt2")).status, 2);
}

TEST_F(TokenizerCommand, BytesWithoutATokenAreCountedOrRefused) {
  // GPT-2's vocabulary without byte 0x06.
  const auto source = test::test_data("tokenizer/gpt2");
  json vocabulary = json::parse(read_file(source / "vocab.json"));
  ASSERT_EQ(vocabulary.erase("\u0106"), 1u);
  write_file_atomically(folder_ / "vocab.json", vocabulary.dump());
  std::filesystem::copy_file(source / "merges.txt", folder_ / "merges.txt");
  const std::string folder = " --tokenizer " + folder_.path().string();
  const Result dropped = run("encode" + folder, "fine\nHel\x06lo\x06\n");
  EXPECT_EQ(dropped.status, 0) << dropped.err;
  EXPECT_EQ(dropped.out, "[38125]\n[12621,5439]\n") << "fine, Hel and lo";
  EXPECT_EQ(dropped.err,
            "viaduct: warning: 2 bytes without a token in this vocabulary: left out; the "
            "first: standard input, line 2: the vocabulary has no token for byte 0x06 at offset "
            "3\n");
  const Result refused = run("encode --unknown-bytes refuse" + folder, "fine\nHel\x06lo\n");
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err,
            "viaduct: error: standard input, line 2: the vocabulary has no token for byte 0x06 at "
            "offset 3\n");
  EXPECT_EQ(run("encode --unknown-bytes maybe" + folder).status, 2);
}

TEST_F(TokenizerCommand, Trains) {
  write_file_atomically(folder_ / "text", "ab ab ab");
  const std::string made = (folder_ / "made").string();
  const Result trained =
      run("train --input " + (folder_ / "text").string() + " --vocab-size 258 --output " + made);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(run("encode --tokenizer " + made, "ab\n").out, "[257]\n");
  const std::string smaller =
      "train --input " + (folder_ / "text").string() + " --vocab-size 257 --output " + made;
  const Result kept = run(smaller);
  EXPECT_EQ(kept.status, 2);
  EXPECT_NE(kept.err.find("tokenizer.json exists and is not empty"), std::string::npos) << kept.err;
  EXPECT_EQ(run("encode --tokenizer " + made, "ab\n").out, "[257]\n");
  EXPECT_EQ(run(smaller + " --overwrite").status, 0);
  EXPECT_NE(run("encode --tokenizer " + made, "ab\n").out, "[257]\n");
}

TEST_F(TokenizerCommand, SaysWhatIsWrong) {
  EXPECT_EQ(run("").status, 2);
  EXPECT_EQ(run("encode").status, 2);
  EXPECT_EQ(run("encode --special maybe" + folder_of("gpt2")).status, 2);
  EXPECT_EQ(run("train --input x --vocab-size 300 --output y").status, 2);  // x is missing
  EXPECT_EQ(run("encode --tokenizer " + (folder_ / "nothing").string()).status, 2);
  const Result missing = run("encode --tokenizer " + folder_.path().string());
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.err.find("viaduct: error: no tokenizer in"), std::string::npos) << missing.err;
  for (const char* line : {"15496", "[1.5]", "[-1]", "[50257]", "[4294967296]", "[\"a\"]", "x"}) {
    const Result bad = run("decode" + folder_of("gpt2"), std::string(line) + "\n");
    EXPECT_EQ(bad.status, 1) << line;
    EXPECT_NE(bad.err.find("error"), std::string::npos) << line;
  }
  EXPECT_EQ(run("encode --json" + folder_of("gpt2"), "not json\n").status, 1);
}

}  // namespace
}  // namespace viaduct
