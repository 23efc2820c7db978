// Rows of conversations with a mask.

#include "data/conversation_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>

#include "base/error.h"
#include "data/blended_dataset.h"
#include "data/conversation_check.h"
#include "data/conversation_figures.h"
#include "data/dataset_builder.h"
#include "data/empty_split.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_record.h"
#include "data/tokenizer/tokenizer.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::conversations_of;
using test::MaskedTokens;
using test::random_lengths;
using test::write_conversations;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr PackingAlgorithm kPacked[] = {PackingAlgorithm::first_fit_decreasing,
                                        PackingAlgorithm::first_fit_shuffle,
                                        PackingAlgorithm::sequential};

class Conversations : public testing::Test {
 protected:
  DatasetConfig config(const std::vector<std::string>& prefixes, int64_t length) const {
    DatasetConfig config;
    config.blend = prefixes;
    config.split = "1,0,0";
    config.sequence_length.resolve(length);
    return config;
  }
  DatasetConfig packed(const std::vector<std::string>& prefixes, int64_t length,
                       PackingAlgorithm algorithm = PackingAlgorithm::first_fit_decreasing) const {
    DatasetConfig packed = config(prefixes, length);
    packed.packing.packed_sequence_size = length;
    packed.packing.packing_algorithm = algorithm;
    return packed;
  }
  std::string write(const char* name, const std::vector<MaskedTokens>& conversations) const {
    return write_conversations(folder / name, conversations);
  }
  static std::shared_ptr<const SampleSource> source(const DatasetConfig& config,
                                                    std::optional<int64_t> rows = std::nullopt) {
    DatasetBuilder builder(config, 64);
    return builder.build(Split::train, rows);
  }
  template <class Error>
  static std::string error_of(const DatasetConfig& config) {
    try {
      source(config)->get(0);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  /// The documents of a row without padding, by their tokens.
  static std::vector<MaskedTokens> documents(const Sample& row) {
    std::vector<MaskedTokens> found;
    for (size_t d = 1; d < row.cu_seqlens.size(); ++d) {
      MaskedTokens one;
      for (auto t = static_cast<size_t>(row.cu_seqlens[d - 1]);
           t < static_cast<size_t>(row.cu_seqlens[d]); ++t) {
        EXPECT_TRUE(row.padding[t] == 0 || row.loss_mask[t] == 0);
        if (row.padding[t] != 0) continue;
        EXPECT_EQ(row.position_ids[t], static_cast<int32_t>(one.tokens.size()));
        one.tokens.push_back(row.tokens[t]);
        one.mask.push_back(row.loss_mask[t] > 0);
      }
      if (!one.tokens.empty()) found.push_back(std::move(one));
    }
    return found;
  }

  test::TemporaryFolder folder;
};

TEST_F(Conversations, EachIsARowWithPadding) {
  const MaskedTokens one{{5, 6, 7, 8}, {0, 0, 1, 1}};
  const Sample row = source(config({write("a", {one})}, 6))->get(0);
  EXPECT_THAT(row.tokens, ElementsAre(5, 6, 7, 8, 0, 0));
  EXPECT_THAT(row.loss_mask, ElementsAre(0, 1, 1, 0, 0, 0));
  EXPECT_EQ(row.labels[1], 7);
  EXPECT_EQ(row.labels[2], 8);
  EXPECT_THAT(row.cu_seqlens, ElementsAre(0, 4, 6));
  EXPECT_THAT(row.padding, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(row.position_ids, ElementsAre(0, 1, 2, 3, 0, 0));
  const Sample full = source(config({write("a", {one})}, 4))->get(0);
  EXPECT_THAT(full.cu_seqlens, ElementsAre(0, 4));
}

TEST_F(Conversations, AllAreScoredIfTheMaskIsNotUsed) {
  DatasetConfig all = config({write("a", {{{5, 6, 7}, {0, 0, 1}}})}, 5);
  all.packing.answer_only_loss = false;
  EXPECT_THAT(source(all)->get(0).loss_mask, ElementsAre(1, 1, 0, 0, 0));
}

TEST_F(Conversations, PackedRowsHoldEachOnceAnEpoch) {
  const auto all = conversations_of(random_lengths(80, 1, 40));
  const std::string prefix = write("a", all);
  for (const PackingAlgorithm algorithm : kPacked) {
    for (const int64_t multiple : {1, 4}) {
      DatasetConfig settings = packed({prefix}, 48, algorithm);
      settings.packing.pad_seq_to_mult = multiple;
      const auto rows = source(settings);
      EXPECT_LT(rows->size(), 70);
      std::map<std::vector<int32_t>, int> seen;
      for (int64_t r = 0; r < rows->size(); ++r) {
        const Sample row = rows->get(r);
        for (const int32_t border : row.cu_seqlens) EXPECT_EQ(border % multiple, 0);
        for (const MaskedTokens& one : documents(row)) ++seen[one.tokens];
      }
      for (const MaskedTokens& one : all) {
        EXPECT_EQ(seen[one.tokens], std::ranges::count_if(all, [&](const MaskedTokens& other) {
                    return other.tokens == one.tokens;
                  }));
      }
    }
  }
}

TEST_F(Conversations, ScoresArePackedAsTheyAreNot) {
  const std::string prefix = write("a", conversations_of(random_lengths(50, 10, 40)));
  const auto scores = [&](const DatasetConfig& settings) {
    std::map<std::vector<int32_t>, std::vector<int32_t>> masks;
    const auto rows = source(settings);
    for (int64_t r = 0; r < rows->size(); ++r)
      for (MaskedTokens& one : documents(rows->get(r))) masks[one.tokens] = one.mask;
    return masks;
  };
  EXPECT_EQ(scores(packed({prefix}, 64)), scores(config({prefix}, 40)));
}

TEST_F(Conversations, SplitOnesPredictEachTokenOnce) {
  const auto all = conversations_of({100, 7, 60, 33, 1, 150});
  const std::string prefix = write("a", all);
  int64_t scored = 0;
  for (const MaskedTokens& one : all)
    scored += std::accumulate(one.mask.begin() + 1, one.mask.end(), int64_t{0});
  EXPECT_THAT(error_of<ConfigError>(packed({prefix}, 32)), HasSubstr("longer than a row"));
  for (const PackingAlgorithm algorithm : kPacked) {
    DatasetConfig settings = packed({prefix}, 32, algorithm);
    settings.packing.packing_split = true;
    const auto rows = source(settings);
    int64_t found = 0, tokens = 0;
    for (int64_t r = 0; r < rows->size(); ++r) {
      const Sample row = rows->get(r);
      for (size_t t = 0; t < 32; ++t) {
        found += row.loss_mask[t] > 0 ? 1 : 0;
        tokens += row.padding[t] == 0 ? 1 : 0;
        if (t + 1 < 32 && row.loss_mask[t] > 0 && row.position_ids[t + 1] > 0) {
          EXPECT_EQ(row.labels[t], row.tokens[t + 1]);
        }
      }
    }
    EXPECT_EQ(found, scored) << choice_name(algorithm);
    EXPECT_EQ(tokens, 351) << choice_name(algorithm);
  }
}

TEST_F(Conversations, ALongerRunBeginsWithTheSameRows) {
  const std::string prefix = write("a", conversations_of(random_lengths(30, 5, 40)));
  for (const DatasetConfig& settings : {config({prefix}, 40), packed({prefix}, 64),
                                        packed({prefix}, 64, PackingAlgorithm::first_fit_shuffle),
                                        packed({prefix}, 64, PackingAlgorithm::sequential)}) {
    const auto epoch = source(settings);
    const int64_t rows = epoch->size();
    const auto longer = source(settings, 3 * rows);
    EXPECT_GE(longer->size(), 3 * rows);
    std::map<std::vector<int32_t>, int> seen;
    bool other = false;
    for (int64_t r = 0; r < rows; ++r) {
      const Sample row = longer->get(r);
      EXPECT_EQ(row.tokens, epoch->get(r).tokens);
      other |= row.tokens != longer->get(rows + r).tokens;
    }
    EXPECT_TRUE(other) << "epochs are shuffled anew";
    DatasetBuilder builder(settings, 64);
    EXPECT_TRUE(builder.same_order(*longer, Split::train, rows));
  }
}

TEST_F(Conversations, MaskOfOtherDataIsRefused) {
  const auto all = conversations_of({10, 12, 14});
  const std::string prefix = write("a", all);
  const auto write_mask = [&](const std::vector<int64_t>& lengths, TokenType type, int32_t value) {
    IndexedDatasetWriter writer(prefix + ".mask", type);
    for (const int64_t length : lengths)
      writer.add_document(std::vector<int32_t>(static_cast<size_t>(length), value));
    writer.finish();
  };
  write_mask({10, 12}, TokenType::uint8, 1);
  EXPECT_THAT(error_of<IoError>(config({prefix}, 16)),
              AllOf(HasSubstr(prefix + ".idx has 3 sequences"), HasSubstr(".mask.idx has 2")));
  write_mask({10, 13, 13}, TokenType::uint8, 1);
  EXPECT_THAT(error_of<IoError>(config({prefix}, 16)),
              AllOf(HasSubstr(prefix + ".idx: sequence 1 has 12 tokens"),
                    HasSubstr(prefix + ".mask.idx 13 entries")));
  write_mask({10, 12, 14}, TokenType::uint16, 1);
  EXPECT_THAT(error_of<IoError>(config({prefix}, 16)), HasSubstr("expected uint8"));
  write_mask({10, 12, 14}, TokenType::uint8, 2);
  EXPECT_THAT(error_of<IoError>(config({prefix}, 16)), HasSubstr("is 2, expected 0 or 1"));
}

TEST_F(Conversations, TooLongOnesAreCountedBeforeTheFirstRow) {
  const std::string prefix = write("a", conversations_of({10, 40, 12, 33}));
  const auto expected = AllOf(HasSubstr("2 of 4 conversations"), HasSubstr("a row of 32 tokens"),
                              HasSubstr("the longest has 40 tokens (sequence 1)"),
                              HasSubstr("viaduct data chat … --max-length 32"));
  EXPECT_THAT(error_of<ConfigError>(config({prefix}, 32)), expected);
  EXPECT_THAT(error_of<ConfigError>(packed({prefix}, 32)), expected);
  DatasetConfig positions = packed({prefix}, 64);
  positions.packing.limits.longest = 35;
  EXPECT_THAT(error_of<ConfigError>(positions),
              AllOf(HasSubstr("1 of 4 conversations"), HasSubstr("the 35 tokens")));
  EXPECT_EQ(error_of<ConfigError>(config({prefix}, 40)), "no error");
}

TEST_F(Conversations, OfAnotherTokenizerSaySoBeforeTheirLengths) {
  const std::string prefix = write("other", conversations_of({5, 40}));
  TokenRecord record;
  record.largest_token = 90;
  record.vocabulary = 1;
  write_token_record(prefix, record);
  const Tokenizer gpt2 = load_tokenizer(test::test_data("tokenizer/gpt2"));
  const std::vector<Split> train{Split::train};
  DatasetConfig settings = config({prefix}, 32);
  settings.packing.conversations = true;
  EXPECT_THAT(
      [&] {
        check_conversations(settings, train, {&gpt2, "gpt2"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("the tokens of another tokenizer than gpt2")));
  EXPECT_THAT([&] { check_conversations(settings, train); },
              ThrowsMessage<ConfigError>(HasSubstr("1 of 2 conversations")));
}

TEST_F(Conversations, AreCheckedBeforeARun) {
  const std::string fits = write("fits", conversations_of({5, 31, 32})),
                    longer = write("longer", conversations_of({5, 40})),
                    blank = write("blank", {{{1, 2, 3}, {1, 0, 0}}, {{4}, {1}}});
  const std::vector<Split> train{Split::train};
  const auto check = [&](DatasetConfig settings) {
    settings.packing.conversations = true;
    return check_conversations(settings, train);
  };
  EXPECT_THAT(check(config({fits}, 32)), IsEmpty());
  EXPECT_THAT(
      [&] {
        check(config({fits, longer}, 32));
      },
      ThrowsMessage<ConfigError>(HasSubstr(longer + ": 1 of 2 conversations")));
  EXPECT_THAT([&] { check(packed({longer}, 32)); },
              ThrowsMessage<ConfigError>(HasSubstr("dataset.packed_sequence_size=40")));
  DatasetConfig split = packed({longer}, 32);
  split.packing.limits.length_given_by = "--sequence-length ";
  EXPECT_THAT([&] { check(split); },
              ThrowsMessage<ConfigError>(HasSubstr("rows for it (--sequence-length 40)")));
  split.packing.packing_split = true;
  EXPECT_THAT(check(split), IsEmpty());
  // It acts on packed rows alone.
  split.packing.packed_sequence_size.reset();
  EXPECT_THROW(check(split), ConfigError);
  EXPECT_THAT([&] { check(config({blank}, 32)); },
              ThrowsMessage<ConfigError>(HasSubstr("no token of the train split is scored")));
  EXPECT_THAT(check(config({fits, blank}, 32)),
              ElementsAre(AllOf(HasSubstr(blank), HasSubstr("its rows change nothing"))));
  DatasetConfig all = config({blank}, 32);
  all.packing.answer_only_loss = false;
  EXPECT_THAT(check(all), IsEmpty());
  // What cannot be read is reported where it is opened.
  EXPECT_THAT(check(config({(folder / "absent").string()}, 32)), IsEmpty());
}

TEST_F(Conversations, TooLongOnesHaveAdviceThatCanBeFollowed) {
  const std::string prefix = write("a", conversations_of({5, 40}));
  const auto expected = [&](DatasetConfig settings, const ConversationLimits& limits) {
    settings.packing.limits = limits;
    const std::string error = error_of<ConfigError>(settings);
    const size_t begin = error.find("Expected "), end = error.find(", or shorter");
    return begin == std::string::npos ? error : error.substr(begin + 9, end - begin - 9);
  };
  EXPECT_EQ(expected(config({prefix}, 32), {.positions = 64}),
            "rows for it (dataset.sequence_length=40)");
  EXPECT_EQ(expected(packed({prefix}, 32), {.positions = 64, .row_multiple = 16}),
            "rows for it (dataset.packed_sequence_size=48)");
  // Rows are long enough, but conversations are limited.
  const std::vector<std::pair<std::string, int64_t>> length{{"model.seq_length", 32}},
      both{{"dataset.sequence_length", 32}, {"model.seq_length", 32}};
  EXPECT_EQ(expected(packed({prefix}, 64), {.longest = 32, .positions = 64, .also_given = length}),
            "model.seq_length=40");
  EXPECT_EQ(expected(packed({prefix}, 36), {.longest = 32, .positions = 64, .also_given = length}),
            "rows for it (dataset.packed_sequence_size=40 model.seq_length=40)");
  // A larger model.seq_length than that of rows limits longer ones.
  EXPECT_EQ(expected(packed({prefix}, 24), {.positions = 64, .also_given = length}),
            "rows for it (dataset.packed_sequence_size=40 model.seq_length=40)");
  EXPECT_EQ(
      expected(
          config({prefix}, 32),
          {.positions = 64, .length_given_by = "dataset.sequence_length=", .also_given = both}),
      "rows for it (dataset.sequence_length=40 model.seq_length=40)");
  // No row that the model can read holds it.
  const std::string cut =
      "dataset.packing_split=true, which cuts it, as the model has 34 positions";
  EXPECT_EQ(expected(packed({prefix}, 32), {.positions = 34}), cut);
  EXPECT_EQ(expected(config({prefix}, 32), {.positions = 34}),
            "dataset.packed_sequence_size=32 " + cut);
  EXPECT_EQ(expected(packed({prefix}, 64), {.longest = 34,
                                            .positions = 34,
                                            .row_multiple = 4,
                                            .length_given_by = "--sequence-length "}),
            "--sequence-length 32 " + cut);
}

TEST_F(Conversations, AnEmptySplitHasAWayOut) {
  DatasetConfig settings = config({write("a", conversations_of({5, 6, 7, 8, 9, 10}))}, 32);
  settings.split = "969,30,1";
  const auto problem = [&](Split split) -> std::string {
    try {
      DatasetBuilder(settings).build(split, 4);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(
      problem(Split::valid),
      HasSubstr("(4 rows asked for); expected larger parts (dataset.split=90,10,0), data for "
                "each split (dataset.blend_per_split), or a training without evaluation "
                "(validation.eval_iters=0)"));
  settings.split = "90,10,0";
  EXPECT_EQ(problem(Split::valid), "no error");
  // Of two, and of one that cannot be divided.
  EXPECT_THAT(empty_split_advice(Split::train, {0, 0}, 2),
              "; expected larger parts (dataset.split=50,50,0), data for each split "
              "(dataset.blend_per_split)");
  EXPECT_THAT(empty_split_advice(Split::train, {0, 0}, 1),
              "; expected data for each split (dataset.blend_per_split)");
  EXPECT_EQ(empty_split_advice(Split::valid, {0, 3}, 3), "");
}

TEST_F(Conversations, PadCuSeqlensMakesRowsOfEquallyManyDocuments) {
  DatasetConfig settings = packed({write("a", conversations_of(random_lengths(60, 3, 40)))}, 64);
  const auto rows = source(settings);
  settings.packing.pad_cu_seqlens = true;
  const auto same = source(settings);
  std::map<size_t, int> counts;
  for (int64_t r = 0; r < rows->size(); ++r) {
    const Sample padded = same->get(r);
    EXPECT_EQ(padded.tokens, rows->get(r).tokens);
    EXPECT_EQ(padded.cu_seqlens.back(), 64);
    EXPECT_TRUE(std::ranges::is_sorted(padded.cu_seqlens));
    ++counts[padded.cu_seqlens.size()];
  }
  EXPECT_EQ(counts.size(), 1u);
}

TEST_F(Conversations, BlendWithPlainData) {
  const std::string chat = write("chat", conversations_of(random_lengths(40, 5, 30)));
  IndexedDatasetWriter writer(folder / "plain", TokenType::uint16);
  writer.add_document(std::vector<int32_t>(1000, 9));
  writer.finish();
  const DatasetConfig settings = packed({"0.5", chat, "0.5", (folder / "plain").string()}, 32);
  const auto rows = source(settings, 40);
  int64_t with = 0;
  for (int64_t r = 0; r < 40; ++r) {
    const Sample row = rows->get(r);
    with += row.padding.empty() ? 0 : 1;
    if (!row.padding.empty()) continue;
    EXPECT_THAT(row.cu_seqlens, ElementsAre(0, 32));
  }
  EXPECT_EQ(with, 20);
}

TEST_F(Conversations, SplitsAreRangesOfThem) {
  const auto all = conversations_of(random_lengths(50, 5, 30));
  DatasetConfig settings = config({write("a", all)}, 30);
  settings.split = "80,20,0";
  DatasetBuilder builder(settings, 64);
  EXPECT_EQ(builder.build(Split::train, std::nullopt)->size(), 40);
  EXPECT_EQ(builder.build(Split::valid, std::nullopt)->size(), 10);
  EXPECT_FALSE(builder.has_data(Split::test));
}

TEST_F(Conversations, OrderIsKeptInFiles) {
  const std::string prefix = write("a", conversations_of(random_lengths(60, 3, 40)));
  DatasetConfig settings = packed({prefix}, 64);
  const auto expected = source(settings, 100);
  settings.path_to_cache = (folder / "cache").string();
  const auto check = [&](const char* what) {
    const auto rows = source(settings, 100);
    ASSERT_EQ(rows->size(), expected->size()) << what;
    for (int64_t r = 0; r < rows->size(); ++r)
      ASSERT_EQ(rows->get(r).tokens, expected->get(r).tokens) << what;
  };
  check("built");
  const auto written = [&] {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& entry : std::filesystem::directory_iterator(*settings.path_to_cache))
      if (entry.path().extension() == ".npy")
        times[entry.path().filename()] = entry.last_write_time();
    return times;
  };
  const auto first = written();
  EXPECT_EQ(first.size(), 2u);
  check("mapped");
  settings.defer_npy_index_mmap = true;
  check("mapped later");
  settings.fast_cache_load = true;
  check("trusted");
  EXPECT_EQ(written(), first);
  // Another packing has another order.
  settings.fast_cache_load = settings.defer_npy_index_mmap = false;
  settings.packing.packing_algorithm = PackingAlgorithm::sequential;
  EXPECT_GT(source(settings, 100)->size(), 0);
  EXPECT_EQ(written().size(), 4u);
}

TEST_F(Conversations, SayWhatAnEpochHolds) {
  const std::string prefix =
      write("a", {{{1, 2, 3, 4}, {0, 0, 1, 1}}, {{1, 2, 3, 4}, {1, 1, 0, 0}}, {{5, 6}, {0, 1}}});
  DatasetConfig settings = packed({prefix}, 8);
  const auto rows = source(settings, 10);
  const ConversationUse use = dynamic_cast<const ConversationDataset&>(*rows).use();
  EXPECT_EQ(use.conversations, 3);
  EXPECT_EQ(use.tokens, 10);
  EXPECT_EQ(use.rows, 2);
  EXPECT_DOUBLE_EQ(use.padding, 6.0 / 16);
  EXPECT_DOUBLE_EQ(use.scored, 4.0 / 10);  // the first token of the second is not predicted
}

TEST_F(Conversations, FiguresDescribeTheRows) {
  DatasetConfig settings = packed({write("a", conversations_of(random_lengths(200, 5, 30)))}, 64);
  EXPECT_FALSE(conversation_figures(settings)) << "no rows hold conversations";
  settings.packing.conversations = true;
  const auto figures = conversation_figures(settings);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->conversations, 200);
  EXPECT_EQ(std::accumulate(figures->row_documents.begin(), figures->row_documents.end(), 0), 64);
  EXPECT_EQ(figures->row_squares.size(), static_cast<size_t>(source(settings)->size()));
  EXPECT_LT(figures->padding, 0.1);
  settings.packing.packed_sequence_size.reset();
  const auto unpacked = conversation_figures(settings);
  EXPECT_GT(unpacked->padding, 0.5);
  EXPECT_EQ(unpacked->padding_packed, figures->padding);
  settings.blend = {(folder / "absent").string()};
  EXPECT_FALSE(conversation_figures(settings));
}

}  // namespace
}  // namespace viaduct
