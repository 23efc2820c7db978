// Models that get further tokens: rows, configuration and tokenizer, through every format.

#include "checkpoint/extend_vocabulary.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::bytes_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::ThrowsMessage;

constexpr const char *kTable = "model.embed_tokens.weight", *kHead = "lm_head.weight";

/// A golden model of 59 tokens with a tokenizer of single characters from 'A' on, and <e>.
class ExtendVocabulary : public testing::Test {
 protected:
  void write_model(const std::string& golden, int letters = 58) {
    std::filesystem::create_directories(folder_ / "model");
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(test::test_data("golden") / golden / "model" / name,
                                 folder_ / "model" / name);
    json vocabulary = json::object();
    for (int i = 0; i < letters; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
    const json tokenizer{
        {"added_tokens",
         json::array({json{{"id", letters}, {"content", "<e>"}, {"special", true}}})},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
    write_file_atomically(folder_ / "model/tokenizer.json",
                          test::whole_tokenizer(tokenizer).dump(1));
  }
  Converted convert(const std::string& from, const std::string& to, const std::string& tokens,
                    ModelFormat format, NewRowStart start = NewRowStart::pieces) {
    ConvertSettings settings;
    settings.from = folder_ / from, settings.to = folder_ / to, settings.format = format;
    if (!tokens.empty()) {
      write_file_atomically(folder_ / "tokens.txt", tokens);
      settings.new_tokens = NewTokensRequest{folder_ / "tokens.txt", start};
    }
    return convert_model(settings);
  }
  Tensor tensor(const std::string& model, const char* name) const {
    return open_weights(resolve_model_folder(folder_ / model))->tensor(name);
  }
  /// Row `row` of `now` is the mean of the rows `of` of `before`.
  static void expect_mean(const Tensor& now, int64_t row, const Tensor& before,
                          const std::vector<int64_t>& of) {
    const int64_t width = before.dim(1);
    for (int64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (const int64_t each : of) sum += before.data<float>()[each * width + i];
      ASSERT_EQ(now.data<float>()[row * width + i],
                static_cast<float>(sum / static_cast<double>(of.size())))
          << i;
    }
  }
  static void expect_begins_with(const Tensor& now, const Tensor& before) {
    EXPECT_EQ(bytes_of(now).substr(0, static_cast<size_t>(before.bytes())), bytes_of(before));
  }
  static std::vector<int64_t> all(int64_t rows) {
    std::vector<int64_t> every(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) every[static_cast<size_t>(i)] = i;
    return every;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ExtendVocabulary, RowsAreTheMeansOfTheirPieces) {
  write_model("olmo2");
  const Converted made = convert("model", "more", "ABA\nzC\n", ModelFormat::hugging_face);
  EXPECT_THAT(made.vocabulary, AllOf(HasSubstr("2 new tokens (ids 59 to 60)"),
                                     HasSubstr("have 61 rows instead of 59")));
  for (const char* name : {kTable, kHead}) {
    SCOPED_TRACE(name);
    const Tensor before = tensor("model", name), now = tensor("more", name);
    ASSERT_EQ(now.shape(), (Shape{61, before.dim(1)}));
    expect_begins_with(now, before);
    expect_mean(now, 59, before, {0, 1, 0});
    expect_mean(now, 60, before, {'z' - 'A', 2});
  }
  const json config = json::parse(read_file(folder_ / "more/config.json"));
  json same = json::parse(read_file(folder_ / "model/config.json"));
  same["vocab_size"] = 61;
  EXPECT_EQ(config, same);
  const Tokenizer tokenizer = open_tokenizer(folder_ / "more");
  EXPECT_EQ(tokenizer.encode("BABAzC<e>"), (std::vector<int32_t>{1, 59, 60, 58}));
}

TEST_F(ExtendVocabulary, ATiedTableStaysTied) {
  write_model("qwen3");
  convert("model", "more", "AB\n", ModelFormat::hugging_face, NewRowStart::all);
  const ModelFolder more = resolve_model_folder(folder_ / "more");
  EXPECT_TRUE(read_model_config(more).tied_embeddings);
  EXPECT_EQ(open_weights(more)->contains(kHead),
            open_weights(resolve_model_folder(folder_ / "model"))->contains(kHead));
  const Tensor before = tensor("model", kTable);
  expect_mean(tensor("more", kTable), 59, before, all(59));
}

TEST_F(ExtendVocabulary, RowsBeyondTheTokenizerAreUsedFirst) {
  write_model("olmo2", 56);  // 57 tokens for 59 rows
  const Converted made = convert("model", "more", "AB\nBC\nCD\n", ModelFormat::hugging_face);
  EXPECT_THAT(made.vocabulary, AllOf(HasSubstr("3 new tokens (ids 57 to 59)"),
                                     HasSubstr("2 of them in rows that the model had"),
                                     HasSubstr("60 rows instead of 59")));
  const Tensor before = tensor("model", kTable), now = tensor("more", kTable);
  expect_mean(now, 57, before, {0, 1});
  expect_mean(now, 59, before, {2, 3});
  const Converted two = convert("model", "two", "AB\n", ModelFormat::hugging_face);
  EXPECT_THAT(two.vocabulary, HasSubstr("keep their 59 rows"));
  EXPECT_EQ(read_file(folder_ / "two/config.json"), read_file(folder_ / "model/config.json"));
}

TEST_F(ExtendVocabulary, ThroughCheckpointsAndGguf) {
  write_model("qwen3");
  convert("model", "save", "AB\n", ModelFormat::checkpoint);
  convert("save", "back", "", ModelFormat::hugging_face);
  const Tensor rows = tensor("back", kTable);
  EXPECT_EQ(rows.dim(0), 60);
  EXPECT_EQ(open_tokenizer(folder_ / "back").find("AB"), 59);
  convert("model", "more.gguf", "AB\n", ModelFormat::gguf);
  EXPECT_EQ(bytes_of(tensor("more.gguf", kTable)), bytes_of(rows));
  EXPECT_EQ(open_tokenizer(folder_ / "more.gguf").encode("AB"), (std::vector<int32_t>{59}));
  convert("more.gguf", "again", "CD\n", ModelFormat::hugging_face);
  expect_begins_with(tensor("again", kTable), rows);
  expect_mean(tensor("again", kTable), 60, rows, {2, 3});
  EXPECT_EQ(open_tokenizer(folder_ / "again").encode("ABCD"), (std::vector<int32_t>{59, 60}));
  // A checkpoint with new tokens would have moments without rows for them.
  EXPECT_THAT([&] { convert("save", "other", "XY\n", ModelFormat::checkpoint); },
              ThrowsMessage<ConfigError>(HasSubstr("moments")));
}

TEST_F(ExtendVocabulary, WhatIsUnusualIsSaid) {
  write_model("olmo2");
  const Converted made =
      convert("model", "more", "A<e>B\nA\xC3\xA9\n\xC3\xA9\n", ModelFormat::hugging_face);
  EXPECT_THAT(made.notes,
              IsSupersetOf({HasSubstr("special token inside"), HasSubstr("does not have"),
                            HasSubstr("mean of all rows: \"\xC3\xA9\"")}));
  std::filesystem::remove(folder_ / "model/tokenizer.json");
  EXPECT_THAT([&] { convert("model", "none", "AB\n", ModelFormat::hugging_face); },
              ThrowsMessage<ConfigError>(HasSubstr("no tokenizer to add them to")));
}

TEST_F(ExtendVocabulary, PiecesOfGrownTables) {
  write_model("olmo2");
  const ModelFolder folder = resolve_model_folder(folder_ / "model");
  const auto grown = grow_tables(open_weights(folder), read_model_config(folder), 63,
                                 {{57, {1}}, {59, {0}}, {60, {}}, {61, {2, 3}}, {62, {4}}});
  const Tensor whole = grown->tensor(kTable);
  ASSERT_EQ(whole.dim(0), 63);
  expect_mean(whole, 57, tensor("model", kTable), {1});
  // Any piece of it is that of the whole: before, across and behind the border.
  for (const auto& [row, rows] : {std::pair<int64_t, int64_t>{3, 10}, {50, 13}, {60, 3}, {57, 1}})
    for (const int64_t cut : {0, 3}) {
      Piece piece = whole_piece({{row, 4}, {rows, 8}});
      piece.begin += cut, piece.end -= cut;
      const Tensor part = host_tensor(DType::f32, {piece.elements()});
      const Tensor expected = host_tensor(DType::f32, {piece.elements()});
      grown->read_into(kTable, piece, static_cast<std::byte*>(part.raw()));
      copy_shared(whole_piece(whole_box(whole.shape())), static_cast<const std::byte*>(whole.raw()),
                  piece, static_cast<std::byte*>(expected.raw()), 4);
      EXPECT_EQ(bytes_of(part), bytes_of(expected)) << row << " " << cut;
    }
  EXPECT_THROW(grown->read_into(kTable, whole_piece({{62, 0}, {2, 8}}), nullptr), ShapeError);
}

}  // namespace
}  // namespace viaduct
