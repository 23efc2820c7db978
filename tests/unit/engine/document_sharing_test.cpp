#include "engine/document_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"

namespace viaduct {
namespace {

using Lengths = std::vector<int64_t>;
using testing::HasSubstr;
using testing::ThrowsMessage;

double cost(int64_t tokens) {
  const auto t = static_cast<double>(tokens);
  return 100 * t + t * t;
}

SharingSettings settings(int ranks, int64_t tokens) {
  return {ranks, tokens, cost};
}

TEST(DocumentSharing, ADocumentGetsAsManyRanksAsHoldIt) {
  const Lengths lengths{100, 101, 200, 201, 400, 1};
  for (const SharedDocuments& shared : share_documents(lengths, settings(4, 100))) {
    for (const int64_t document : shared.documents) {
      const int64_t length = lengths[static_cast<size_t>(document)];
      EXPECT_EQ(shared.ranks, length <= 100 ? 1 : length <= 200 ? 2 : 4) << length;
    }
  }
}

TEST(DocumentSharing, GoesToWhoHasLeastToDo) {
  // Two ranks share the long document; the others process the short ones meanwhile.
  EXPECT_EQ(share_documents(Lengths{50, 180, 60, 70}, settings(4, 100)),
            (std::vector<SharedDocuments>{{0, 2, {1}}, {2, 1, {3}}, {3, 1, {2}}, {3, 1, {0}}}));
}

TEST(DocumentSharing, ShortOnesShareAMicroBatchAndIdleRanksHaveAnEmptyOne) {
  EXPECT_EQ(share_documents(Lengths{60, 0, 30, 50, 10}, settings(4, 100)),
            (std::vector<SharedDocuments>{{0, 1, {0, 2, 4}}, {1, 1, {3}}, {2, 1, {}}, {3, 1, {}}}));
  EXPECT_EQ(share_documents(Lengths{}, settings(1, 8)), (std::vector<SharedDocuments>{{0, 1, {}}}));
}

TEST(DocumentSharing, HoldsOnRandomLengths) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 << (random() % 6);
    const auto tokens = static_cast<int64_t>(1 + random() % 100);
    Lengths lengths(random() % 300);
    for (int64_t& length : lengths)
      length = static_cast<int64_t>(random() % static_cast<unsigned>(tokens * ranks + 1));
    std::vector<int> seen(lengths.size());
    std::vector<double> load(static_cast<size_t>(ranks));
    std::vector<int> micro_batches(load.size());
    double all = 0, largest = 0;
    for (const SharedDocuments& shared : share_documents(lengths, settings(ranks, tokens))) {
      ASSERT_EQ(shared.first_rank % shared.ranks, 0);
      ASSERT_LE(shared.first_rank + shared.ranks, ranks);
      int64_t held = 0;
      double work = 0;
      for (const int64_t document : shared.documents) {
        ++seen[static_cast<size_t>(document)];
        held += lengths[static_cast<size_t>(document)];
        work += cost(lengths[static_cast<size_t>(document)]);
      }
      ASSERT_LE(held, tokens * shared.ranks);
      if (shared.ranks > 1) {
        ASSERT_GT(held, tokens * shared.ranks / 2) << "fewer ranks would suffice";
      }
      for (int r = shared.first_rank; r < shared.first_rank + shared.ranks; ++r) {
        load[static_cast<size_t>(r)] += work / shared.ranks;
        ++micro_batches[static_cast<size_t>(r)];
      }
      all += work;
      largest = std::max(largest, work / shared.ranks);
    }
    for (size_t d = 0; d < lengths.size(); ++d) ASSERT_EQ(seen[d], lengths[d] > 0 ? 1 : 0);
    ASSERT_GE(*std::min_element(micro_batches.begin(), micro_batches.end()), 1);
    // Greedy (Graham 1969): no rank's load exceeds the mean by more than a micro-batch of each
    // size.
    const double sizes = 1 + std::log2(ranks);
    ASSERT_LE(*std::max_element(load.begin(), load.end()), all / ranks + sizes * largest);
  }
}

TEST(DocumentSharing, ADocumentThatFitsNowhereIsNamedWithBothNumbers) {
  EXPECT_THAT([] { share_documents(Lengths{401}, settings(4, 100)); },
              ThrowsMessage<ShapeError>(
                  HasSubstr("a document of 401 tokens does not fit 4 data and context ranks of 100 "
                            "tokens each (model.max_seqlen_per_dp_cp_rank)")));
}

}  // namespace
}  // namespace viaduct
