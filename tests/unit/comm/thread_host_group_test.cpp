// HostGroup on threads: figures, texts, and a rank that does not join.

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/host_group.h"
#include "comm/world.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

void on_ranks(int ranks, FunctionRef<void(HostGroup& host)> body, double timeout_seconds = 60) {
  run_thread_ranks(ranks, {.timeout_seconds = timeout_seconds},
                   [&](std::shared_ptr<Communicator> world) { body(world->host()); });
}

class HostGroups : public testing::TestWithParam<int> {};

TEST_P(HostGroups, FiguresAreOfAllRanks) {
  const int n = GetParam();
  on_ranks(n, [&](HostGroup& host) {
    const int rank = host.rank();
    EXPECT_EQ(host.size(), n);
    // Even ranks are counted; of equal extremes the lowest rank is reported.
    const HostFigure mine[] = {
        {rank + 1.0, rank % 2 == 0}, {rank == 0 ? 5.0 : 3.0}, {-1.0 * rank}, {2}};
    PendingFigures pending = host.post(mine);
    const auto all = pending.wait();
    ASSERT_EQ(all.size(), 4u);
    double sum = 0;
    for (int r = 0; r < n; r += 2) sum += r + 1;
    EXPECT_EQ(all[0].sum, sum);
    EXPECT_EQ(all[0].counted, (n + 1) / 2);
    EXPECT_EQ(all[0].mean(), sum / ((n + 1) / 2));
    EXPECT_EQ(all[0].most, n);
    EXPECT_EQ(all[0].most_rank, n - 1);
    EXPECT_EQ(all[0].least_rank, 0);
    EXPECT_EQ(all[1].most_rank, 0);
    EXPECT_EQ(all[1].least_rank, n > 1 ? 1 : 0);
    EXPECT_EQ(all[2].least_rank, n - 1);
    EXPECT_EQ(all[3].most_rank, 0);
    EXPECT_EQ(all[3].least_rank, 0);
    EXPECT_EQ(host.sum(rank), n * (n - 1) / 2);
    EXPECT_EQ(host.most(rank), n - 1);
  });
}

TEST_P(HostGroups, TextsGoWhereTheyAreWanted) {
  using namespace std::string_literals;
  const int n = GetParam();
  std::vector<std::string> texts;
  for (int r = 0; r < n; ++r)
    texts.push_back(r % 3 == 0 ? "" : r % 3 == 1 ? "with\0zero"s : std::string(3000, 'x'));
  on_ranks(n, [&](HostGroup& host) {
    const std::string& mine = texts[static_cast<size_t>(host.rank())];
    EXPECT_EQ(host.texts_on_all(mine), texts);
    const auto on_first = host.texts_on_rank_0(mine);
    if (host.rank() == 0)
      EXPECT_EQ(on_first, texts);
    else
      EXPECT_THAT(on_first, IsEmpty());
    EXPECT_EQ(host.text_of_rank_0(host.rank() == 0 ? "said" : "not heard"), "said");
    const auto first = host.first_text(mine);
    if (n > 1) {
      ASSERT_TRUE(first);
      EXPECT_EQ(first->rank, 1);
      EXPECT_EQ(first->text, texts[1]);
    }
    EXPECT_FALSE(host.first_text(""));
    // The results of lower and upper ranks, in order.
    const std::string letters = host.merge_on_rank_0(
        std::string(1, static_cast<char>('a' + host.rank() % 26)),
        [](std::string lower, const std::string& upper) { return lower + upper; });
    std::string expected;
    for (int r = 0; r < n && host.rank() == 0; ++r) expected += static_cast<char>('a' + r % 26);
    EXPECT_EQ(letters, expected);
  });
}

TEST_P(HostGroups, CallsAreUnderWayBesideOthers) {
  on_ranks(GetParam(), [&](HostGroup& host) {
    for (int round = 0; round < 50; ++round) {
      const HostFigure a{static_cast<double>(round)}, b{host.rank() * 1.0};
      PendingFigures first = host.post({&a, 1}), second = host.post({&b, 1});
      EXPECT_EQ(host.text_of_rank_0(std::to_string(round)), std::to_string(round));
      EXPECT_EQ(second.wait().at(0).most, host.size() - 1);
      EXPECT_EQ(first.wait().at(0).sum, round * host.size());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostGroups, testing::Values(1, 2, 3, 5, 8, 13));

// Sums do not depend on the ranks' timing; they follow the tree that all backends use.
TEST(HostGroup, SumsHaveOneOrder) {
  std::vector<double> found(6);
  for (int round = 0; round < 5; ++round) {
    on_ranks(6, [&](HostGroup& host) {
      if ((host.rank() + round) % 3 == 0) std::this_thread::yield();
      found[static_cast<size_t>(host.rank())] = host.sum(std::pow(0.1, host.rank()));
    });
    const auto v = [](int rank) { return std::pow(0.1, rank); };
    EXPECT_THAT(found, Each(((v(0) + v(1)) + (v(2) + v(3))) + (v(4) + v(5))));
  }
}

TEST(HostGroup, WhoDoesNotComeIsNamed) {
  const auto late = [] {
    on_ranks(
        3,
        [](HostGroup& host) {
          if (host.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(2));
          host.sum(1);
        },
        0.3);
  };
  EXPECT_THAT(late,
              ThrowsMessage<CommError>(AllOf(HasSubstr("figures of the hosts of world (3 ranks)"),
                                             HasSubstr("after 0.3 s rank 2 did not come"))));
  const auto gone = [] {
    on_ranks(3, [](HostGroup& host) {
      if (host.rank() != 1) host.sum(1);
    });
  };
  EXPECT_THAT(gone, ThrowsMessage<CommError>(HasSubstr("rank 1 ended without it")));
  const auto failed = [] {
    on_ranks(3, [](HostGroup& host) {
      if (host.rank() == 1) throw IoError("the disk of rank 1 is full");
      host.sum(1);
    });
  };
  EXPECT_THAT(failed, ThrowsMessage<IoError>(HasSubstr("rank 1: the disk of rank 1 is full")));
}

TEST(HostGroup, CallsOfDifferentKindsAreRefused) {
  const auto different = [] {
    on_ranks(2, [](HostGroup& host) {
      if (host.rank() == 0)
        host.sum(1);
      else
        host.first_text("a");
    });
  };
  EXPECT_THAT(different, ThrowsMessage<CommError>(HasSubstr("one rank calls")));
  const auto unequal = [] {
    on_ranks(2, [](HostGroup& host) {
      const HostFigure figures[] = {{1}, {2}};
      host.post({figures, static_cast<size_t>(1 + host.rank())}).wait();
    });
  };
  EXPECT_THAT(unequal, ThrowsMessage<CommError>(HasSubstr("one rank gives 1 of them, another 2")));
}

TEST(HostGroup, ThoughtOfRanksAreSpokenForByThisOne) {
  const auto host = make_stated_host_group(3, 16384);
  const HostFigure mine{7, false};
  EXPECT_EQ(host->post({&mine, 1}).wait().at(0).sum, 7);
  EXPECT_EQ(host->most(2), 2);
  EXPECT_THAT(host->texts_on_rank_0("x"), IsEmpty());
  EXPECT_EQ(host->first_text("mine")->rank, 3);
}

// Some of the ranks have a group of their own in addition to that of all.
TEST(HostGroup, PartsOfTheWorld) {
  run_thread_ranks(4, {.timeout_seconds = 60}, [](std::shared_ptr<Communicator> world) {
    const bool low = world->rank() < 2;
    const auto part =
        world->split(low ? std::vector{0, 1} : std::vector{2, 3}, low ? "low" : "high");
    EXPECT_EQ(part->host().sum(world->rank()), low ? 1 : 5);
    EXPECT_EQ(world->host().sum(1), 4);
  });
}

}  // namespace
}  // namespace viaduct
