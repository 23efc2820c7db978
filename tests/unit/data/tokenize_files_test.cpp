#include "data/tokenize_files.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "base/thread_pool.h"
#include "data/dataset_builder.h"
#include "data/document_reader.h"
#include "data/indexed_dataset.h"
#include "data/token_record.h"
#include "data/tokenizer/tokenizer.h"
#include "data/vocabulary_check.h"
#include "support/compress.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;

// Replaces a tokenizer: one id a byte.
UnknownBytes encode_bytes(std::string_view text, int, std::vector<int32_t>& ids) {
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return {};
}

std::vector<std::vector<int32_t>> documents_in(const std::filesystem::path& prefix) {
  const IndexedDataset dataset(prefix);
  std::vector<std::vector<int32_t>> documents;
  for (int64_t i = 0; i < dataset.sequence_count(); ++i) {
    documents.emplace_back(static_cast<size_t>(dataset.sequence_length(i)));
    dataset.read(i, 0, std::span<int32_t>(documents.back()));
  }
  EXPECT_EQ(dataset.document_count(), dataset.sequence_count());
  return documents;
}

std::vector<int32_t> ids_of(std::string_view text) {
  std::vector<int32_t> ids;
  encode_bytes(text, 0, ids);
  ids.push_back(300);
  return ids;
}

class TokenizeFiles : public ::testing::Test {
 protected:
  TokenizeSettings settings(std::vector<std::string> inputs) const {
    TokenizeSettings result;
    for (const auto& input : inputs) result.inputs.push_back(folder_ / input);
    result.output = folder_ / "out";
    result.type = TokenType::uint16;
    result.eod = 300;
    return result;
  }
  void write(const std::string& name, std::string_view text) {
    write_file_atomically(folder_ / name, text);
  }
  std::string error_of(const TokenizeSettings& settings) {
    try {
      tokenize_files(settings, encode_bytes);
    } catch (const IoError& error) {
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin"));
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out.idx"));
      return error.what();
    }
    return "";
  }
  test::TemporaryFolder folder_;
};

TEST_F(TokenizeFiles, CountsDocumentsThatSpellTheTokenOfImages) {
  write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"x<<\"}\n{\"text\": \"<\"}\n");
  TokenizeSettings given = settings({"a.jsonl"});
  EXPECT_EQ(tokenize_files(given, encode_bytes).image_texts, 0);
  given.image_token = '<';
  const TokenizeResult result = tokenize_files(given, encode_bytes);
  EXPECT_EQ(result.image_texts, 2);
  EXPECT_EQ(result.first_image_text, (folder_ / "a.jsonl").string() + ":2");
}

TEST_F(TokenizeFiles, ATextFileAndALineAreDocuments) {
  write("a.txt", "two\nlines\n");
  write("b.jsonl",
        "{\"id\": [1, {\"text\": 5}], \"text\": \"x\\u00e9\\n\"}\n\n  \n{\"text\": \"\", "
        "\"other\": null}\r\n{\"text\":\"last\"}");
  write("c.txt", "");
  const TokenizeResult result =
      tokenize_files(settings({"a.txt", "b.jsonl", "c.txt"}), encode_bytes);
  const std::vector<std::vector<int32_t>> expected{ids_of("two\nlines\n"), ids_of("x\xC3\xA9\n"),
                                                   ids_of(""), ids_of("last"), ids_of("")};
  EXPECT_EQ(documents_in(folder_ / "out"), expected);
  EXPECT_EQ(result.documents, 5);
  EXPECT_EQ(result.tokens, 10 + 4 + 4 + 5);
}

TEST_F(TokenizeFiles, KeyAndEndOfTextAreChosen) {
  write("a.txt", "{\"body\": \"b\", \"text\": \"t\"}\n");
  TokenizeSettings choice = settings({"a.txt"});
  choice.json_key = "body";
  choice.all_jsonl = true;
  choice.eod.reset();
  tokenize_files(choice, encode_bytes);
  EXPECT_EQ(documents_in(folder_ / "out"), (std::vector<std::vector<int32_t>>{{'b'}}));
}

TEST_F(TokenizeFiles, OutputDoesNotDependOnWorkers) {
  std::string lines;
  for (uint64_t i = 0; i < 20000; ++i) {
    lines +=
        json{{"text", std::string(philox4x32(3, i, 0)[0] % 200, static_cast<char>('a' + i % 26))}}
            .dump() +
        "\n";
  }
  write("a.jsonl", lines);
  write("b.txt", "between");
  write("c.jsonl", lines.substr(0, lines.find('\n', 1000)));
  std::string bin, idx;
  int64_t seen = 0;
  for (const int workers : {1, 2, 5}) {
    TokenizeSettings some = settings({"a.jsonl", "b.txt", "c.jsonl"});
    some.workers = workers;
    tokenize_files(some, encode_bytes, [&](int64_t done, int64_t total) {
      EXPECT_LE(done, total);
      seen = done == total ? 1 : 0;
    });
    EXPECT_EQ(seen, 1);
    if (workers == 1) {
      bin = read_file(folder_ / "out.bin");
      idx = read_file(folder_ / "out.idx");
      EXPECT_GT(bin.size(), 2'000'000u);
    }
    EXPECT_EQ(read_file(folder_ / "out.bin"), bin);
    EXPECT_EQ(read_file(folder_ / "out.idx"), idx);
  }
}

TEST_F(TokenizeFiles, CompressedFilesGiveWhatTheirContentGives) {
  std::string lines;
  for (uint64_t i = 0; i < 9000; ++i) {
    const size_t length = i % 3000 == 0 ? 400000 : philox4x32(3, i, 0)[0] % 200;
    lines += json{{"text", std::string(length, static_cast<char>('a' + i % 26))}}.dump() + "\n";
  }
  const std::string text = "a text\nof lines\n" + std::string(600000, 'x');
  const auto written = [&](const std::string& suffix, auto pack) {
    write("a.jsonl" + suffix, pack(lines));
    write("b.txt" + suffix, pack(text));
    write("c.txt" + suffix, pack(""));
    write("d.jsonl" + suffix, pack(""));
    write("e.jsonl" + suffix, pack("\n" + lines.substr(0, lines.size() - 1)));
    TokenizeSettings some = settings({"a.jsonl" + suffix, "b.txt" + suffix, "c.txt" + suffix,
                                      "d.jsonl" + suffix, "e.jsonl" + suffix});
    some.workers = 2;
    int64_t stored = 0, last = 0;
    for (const auto& input : some.inputs)
      stored += static_cast<int64_t>(std::filesystem::file_size(input));
    const TokenizeResult result =
        tokenize_files(some, encode_bytes, [&](int64_t done, int64_t total) {
          EXPECT_EQ(total, stored);
          EXPECT_LE(last, done);
          last = done;
        });
    EXPECT_EQ(last, stored);
    EXPECT_EQ(result.documents, 2 * 9000 + 2);
    return read_file(folder_ / "out.bin") + read_file(folder_ / "out.idx");
  };
  const std::string plain = written("", [](std::string_view t) { return std::string(t); });
  EXPECT_EQ(written(".gz", test::gzip), plain);
  EXPECT_EQ(written(".zst", test::zstd), plain);
}

TEST_F(TokenizeFiles, DamagedCompressedFilesLeaveNothing) {
  std::string lines;
  for (int i = 0; i < 40000; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
  const std::string gz = test::gzip(lines), zst = test::zstd(lines);
  write("good.jsonl", lines);
  write("cut.jsonl.gz", std::string_view(gz).substr(0, gz.size() / 2));
  write("cut.jsonl.zst", std::string_view(zst).substr(0, zst.size() / 2));
  for (const char* name : {"cut.jsonl.gz", "cut.jsonl.zst"}) {
    const std::string message = error_of(settings({"good.jsonl", name}));
    EXPECT_NE(message.find(std::string(name) + ": the "), std::string::npos) << message;
    EXPECT_NE(message.find("end early, at offset "), std::string::npos) << message;
  }
  // The content is checked as in a plain file: lines, kinds, bytes.
  write("bad.jsonl.gz", test::gzip(lines + "{\"text\": 5}\n"));
  EXPECT_NE(error_of(settings({"bad.jsonl.gz"})).find("bad.jsonl.gz:40001: "), std::string::npos);
  write("lines.txt.gz", test::gzip(lines));
  EXPECT_NE(error_of(settings({"lines.txt.gz"})).find("give --json-key"), std::string::npos);
  write("twice.txt.gz", test::gzip(test::gzip("a text")));
  EXPECT_NE(error_of(settings({"twice.txt.gz"})).find("compressed by gzip"), std::string::npos);
  write("zero.txt.zst", test::zstd(std::string(500000, 'x') + '\0'));
  EXPECT_NE(error_of(settings({"zero.txt.zst"})).find("a zero byte at offset 500000"),
            std::string::npos);
}

// As in a text: a stray byte becomes U+FFFD, whatever the format of the file.
TEST_F(TokenizeFiles, AStrayByteOfJsonlBecomesAReplacementCharacter) {
  write("stray.jsonl", "{\"text\": \"caf\xE9 x\"}\n{\"text\": \"y\"}\n");
  DocumentReader reader({folder_ / "stray.jsonl"}, false);
  std::vector<std::string> documents;
  for_each_document(*reader.next(), "text", [&](std::string_view document, const DocumentPlace&) {
    documents.emplace_back(document);
  });
  EXPECT_EQ(documents, (std::vector<std::string>{"caf\uFFFD x", "y"}));
}

TEST_F(TokenizeFiles, AKeyThatIsThereTwiceIsRefused) {
  write("twice.jsonl", "{\"text\": \"a\", \"id\": 1, \"text\": \"b\"}\n");
  EXPECT_NE(error_of(settings({"twice.jsonl"})).find("twice.jsonl:1: the object has 'text' twice"),
            std::string::npos);
}

TEST_F(TokenizeFiles, StreamsAreCutIntoPiecesOfBoundedSize) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
  write("a.jsonl.gz", test::gzip(lines));
  DocumentReader reader({folder_ / "a.jsonl.gz"}, false, 1000);
  std::string together;
  int64_t line = 1;
  while (const auto piece = reader.next()) {
    EXPECT_LE(piece->text().size(), 3000u);
    EXPECT_EQ(piece->begin, together.size());
    EXPECT_EQ(piece->first_line, line);
    line += std::count(piece->text().begin(), piece->text().end(), '\n');
    together += piece->text();
  }
  EXPECT_EQ(together, lines);
  // A line may be longer than a piece, but not than the bound.
  write("long.jsonl.gz", test::gzip("{\"text\": \"" + std::string(20000, 'x') + "\"}\n"));
  EXPECT_EQ(DocumentReader({folder_ / "long.jsonl.gz"}, false, 1000).next()->text().size(), 20013u);
  DocumentReader bounded({folder_ / "long.jsonl.gz"}, false, 1000, 16000);
  EXPECT_THROW(bounded.next(), IoError);
}

TEST_F(TokenizeFiles, BytesWithoutATokenAreCountedOrRefusedWithTheirPlace) {
  // Replaces a tokenizer without 'q' in its vocabulary.
  const EncodeFunction encode = [](std::string_view text, int, std::vector<int32_t>& ids) {
    UnknownBytes unknown;
    for (const char c : text) {
      if (c != 'q') ids.push_back(static_cast<unsigned char>(c));
      if (c == 'q') unknown = {unknown.count + 1, 'q'};
    }
    return unknown;
  };
  write("a.txt", "fine\nqueue q\n");
  write("b.jsonl", "{\"text\": \"fine\"}\n{\"text\": \"a q\"}\n");
  TokenizeSettings some = settings({"b.jsonl", "a.txt"});
  const TokenizeResult result = tokenize_files(some, encode);
  EXPECT_EQ(result.unknown_bytes, 3);
  EXPECT_NE(result.first_unknown.find("b.jsonl:2: the vocabulary has no token for byte 0x71 at "
                                      "offset 2 of the document (whose line begins at offset 17)"),
            std::string::npos)
      << result.first_unknown;
  EXPECT_EQ(documents_in(folder_ / "out")[1], ids_of("a "));
  std::filesystem::remove(folder_ / "out.bin");
  std::filesystem::remove(folder_ / "out.idx");
  some.inputs.erase(some.inputs.begin());
  some.refuse_unknown_bytes = true;
  try {
    tokenize_files(some, encode);
    ADD_FAILURE() << "tokenized";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("a.txt:2: the vocabulary has no token for byte 0x71 "
                        "at offset 5"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.bin"));
}

TEST_F(TokenizeFiles, MalformedInputNamesFileAndLine) {
  const std::string good = "{\"text\": \"fine\"}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{\"text\": \"open", "bad.jsonl:3: "},
      {"[1]", "not a JSON object"},
      {"{\"txt\": \"a\"}", "no 'text'"},
      {"{\"text\": 5}", "expected a string"},
      {"{\"text\": {\"text\": \"a\"}}", "expected a string"},
      {"{} {}", "bad.jsonl:3: "},
      {"{\"a\": {\"text\": \"deep\"}}", "no 'text'"}};
  for (const auto& [line, words] : cases) {
    write("bad.jsonl", good + good + line + "\n" + good + "also bad\n");
    TokenizeSettings some = settings({"bad.jsonl"});
    some.workers = 2;
    const std::string message = error_of(some);
    EXPECT_NE(message.find(words), std::string::npos) << line << ": " << message;
    EXPECT_NE(message.find("bad.jsonl:3"), std::string::npos) << line << ": " << message;
  }
  EXPECT_THROW(tokenize_files(settings({"absent.txt"}), encode_bytes), ConfigError);
}

TEST_F(TokenizeFiles, ReproducesTheReferenceWithGpt2sTokenizer) {
  const Tokenizer tokenizer = load_tokenizer(test::test_data("tokenizer/gpt2"));
  const json documents = json::parse(read_file(test::test_data("indexed_dataset/docs_text.json")));
  const json& texts = documents.is_array() ? documents : documents.at("documents");
  std::string lines;
  for (const json& text : texts)
    lines += json{{"text", text.is_string() ? text : text.at("text")}}.dump() + "\n";
  write("docs.jsonl", lines);
  TokenizeSettings choice = settings({"docs.jsonl"});
  choice.type = token_type_for_vocabulary(tokenizer.vocab_size());
  choice.eod = tokenizer.special_ids().eod;
  choice.workers = 2;
  tokenize_files(choice, encode_function(tokenizer, 2));
  for (const char* suffix : {".bin", ".idx"}) {
    EXPECT_EQ(read_file((folder_ / "out").string() + suffix),
              read_file(test::test_data("indexed_dataset/docs_uint16").string() + suffix));
  }
}

TEST_F(TokenizeFiles, TheLargestTokenIsRemembered) {
  write("a.txt", "abc");
  tokenize_files(settings({"a.txt"}), encode_bytes);
  EXPECT_EQ(read_token_record(IndexedDataset(folder_ / "out"))->largest_token, 300);
  DatasetConfig config;
  config.blend.emplace({(folder_ / "out").string()});
  config.sequence_length = 2;
  ThreadPool pool(1);
  DatasetBuilder builder(config);
  EXPECT_NO_THROW(check_vocabulary(builder, 301, pool, 1));
  EXPECT_THROW(check_vocabulary(builder, 300, pool, 1), ConfigError);  // the token is not looked at
  // A record for other data, or a damaged record, counts as none.
  const std::string record = read_file(folder_ / "out.tokens.json");
  write("out.tokens.json", "{}");
  EXPECT_FALSE(read_token_record(IndexedDataset(folder_ / "out")));
  write("out.tokens.json", record);
  std::string tokens = read_file(folder_ / "out.bin");
  tokens[0] = 'x';
  write("out.bin", tokens);
  EXPECT_FALSE(read_token_record(IndexedDataset(folder_ / "out")));
}

TEST_F(TokenizeFiles, WhoseTokensTheyAreIsRemembered) {
  const Tokenizer gpt2 = load_tokenizer(test::test_data("tokenizer/gpt2"));
  write("a.txt", "To be, or not to be");
  TokenizeSettings choice = settings({"a.txt"});
  choice.eod.reset();
  choice.vocabulary = &gpt2;
  tokenize_files(choice, encode_function(gpt2, choice.workers));
  const IndexedDataset dataset(folder_ / "out");
  EXPECT_NO_THROW(check_tokenizer(dataset, {&gpt2, "gpt2"}));
  // Swaps the tokens of two ids that the data may contain; then those of two ids beyond them.
  const auto swapped = [&](int64_t id) {
    test::TemporaryFolder other;
    for (const char* name : {"vocab.json", "merges.txt"})
      write_file_atomically(other / name, read_file(test::test_data("tokenizer/gpt2") / name));
    json vocabulary = json::parse(read_file(other / "vocab.json"));
    for (auto& value : vocabulary) {
      if (value == id || value == id + 1) value = 2 * id + 1 - value.get<int64_t>();
    }
    write_file_atomically(other / "vocab.json", vocabulary.dump());
    return load_tokenizer(other.path());
  };
  const Tokenizer other = swapped(300),
                  longer = swapped(read_token_record(dataset)->largest_token + 1);
  EXPECT_THROW(check_tokenizer(dataset, {&other, "other"}), ConfigError);
  EXPECT_NO_THROW(check_tokenizer(dataset, {&longer, "longer"}));
  EXPECT_NO_THROW(check_tokenizer(dataset, {}));
  // The check of all files before training does the same.
  DatasetConfig config;
  config.blend.emplace({(folder_ / "out").string()});
  config.sequence_length = 2;
  ThreadPool pool(1);
  DatasetBuilder builder(config);
  EXPECT_NO_THROW(check_vocabulary(builder, gpt2.vocab_size(), pool, 1, {&longer, "longer"}));
  EXPECT_THROW(check_vocabulary(builder, gpt2.vocab_size(), pool, 1, {&other, "other"}),
               ConfigError);
  // Records of earlier versions lack this figure.
  json record = json::parse(read_file(folder_ / "out.tokens.json"));
  record.erase("vocabulary_hash");
  write("out.tokens.json", record.dump());
  EXPECT_NO_THROW(check_tokenizer(dataset, {&other, "other"}));
}

}  // namespace
}  // namespace viaduct
