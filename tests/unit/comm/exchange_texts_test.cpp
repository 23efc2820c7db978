// Texts of any length between ranks.

#include "comm/exchange_texts.h"

#include <gmock/gmock.h>

#include "comm/world.h"

namespace viaduct {
namespace {

TEST(ExchangeTexts, EveryRankHasAllInOrder) {
  using namespace std::string_literals;
  const std::vector<std::string> texts{"", "one", "with\0zero"s, std::string(1000, 'x')};
  run_thread_ranks(4, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    EXPECT_EQ(exchange_texts(*world, texts[static_cast<size_t>(world->rank())]), texts);
    EXPECT_THAT(exchange_texts(*world, ""), testing::Each(""));
  });
  EXPECT_THAT(exchange_texts(*make_self_communicator(), "alone"), testing::ElementsAre("alone"));
}

}  // namespace
}  // namespace viaduct
