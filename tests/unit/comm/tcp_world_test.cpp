// Host groups of processes connected over TCP on this machine: their calls, and how processes end
// when one does not start, fails or is killed.

#include "comm/tcp/tcp_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/error.h"
#include "comm/tcp/frame.h"
#include "comm/world.h"
#include "support/free_port.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Main = std::function<void(std::shared_ptr<Communicator> world)>;

struct Processes {
  int ranks = 4;
  double timeout_seconds = 60;
  std::vector<int> start = {};  // the ranks to start; none: all
  int port = test::free_port();
  /// The rank that a process announces, if it is not its own.
  std::function<TcpPlace(TcpPlace place)> place = nullptr;
};

/// Runs `main` as ranks in separate processes. By rank, the message of the exception that ended it,
/// "" if there was none, "killed" if it was killed.
std::vector<std::string> run_processes(const Processes& run, const Main& main) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> started(static_cast<size_t>(run.ranks), -1);
  for (int rank = 0; rank < run.ranks; ++rank) {
    if (!run.start.empty() && std::count(run.start.begin(), run.start.end(), rank) == 0) continue;
    const pid_t child = ::fork();
    if (child == 0) {
      std::ofstream out(folder.path() / std::to_string(rank));
      try {
        TcpPlace place{rank, run.ranks, {"127.0.0.1", run.port}};
        if (run.place) place = run.place(place);
        run_tcp_rank(place, {.timeout_seconds = run.timeout_seconds}, main);
      } catch (const std::exception& error) {
        out << error.what();
      }
      out.close();
      ::_exit(0);
    }
    started[static_cast<size_t>(rank)] = child;
  }
  std::vector<std::string> said;
  for (int rank = 0; rank < run.ranks; ++rank) {
    const pid_t child = started[static_cast<size_t>(rank)];
    if (child < 0) {
      said.emplace_back("not started");
      continue;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    std::ifstream in(folder.path() / std::to_string(rank));
    std::stringstream text;
    text << in.rdbuf();
    said.push_back(WIFSIGNALED(status) ? "killed" : text.str());
  }
  return said;
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw Error("not so: " + what);
}

TEST(TcpWorld, HostsTellEachOtherWhatThreadsWould) {
  const Main main = [](std::shared_ptr<Communicator> world) {
    HostGroup& host = world->host();
    const int rank = world->rank(), size = world->size();
    expect(host.sum(0.1 * rank) == 0.1 * 0 + 0.1 * 1 + (0.1 * 2 + 0.1 * 3),
           "a sum in the tree's order");
    expect(host.most(rank) == size - 1, "the most");
    expect(host.text_of_rank_0(rank == 0 ? "id" : "no") == "id", "rank 0's text");
    const std::string long_text(300'000, static_cast<char>('a' + rank));
    const auto on_0 = host.texts_on_rank_0(long_text);
    expect(on_0.size() == (rank == 0 ? 4u : 0u), "texts on rank 0");
    expect(rank != 0 || on_0[3] == std::string(300'000, 'd'), "a long text");
    expect(host.texts_on_all(std::to_string(rank)) == std::vector<std::string>{"0", "1", "2", "3"},
           "texts on all");
    const auto first = host.first_text(rank >= 2 ? "stop" : "");
    expect(first && first->rank == 2 && first->text == "stop", "the first text");
    // Groups of the two halves, twice, with calls that do not wait for the other half.
    for (int time = 0; time < 2; ++time) {
      const std::vector<int> members = rank < 2 ? std::vector{0, 1} : std::vector{2, 3};
      const auto half = world->split(members, "half");
      if (rank >= 2) expect(half->host().sum(rank) == 5, "a sum of a half");
      world->barrier();
      if (rank < 2) expect(half->host().sum(rank) == 1, "a sum of a half");
      half->barrier();
    }
    // Posted calls complete in any order.
    const HostFigure one{1.0, true}, two{2.0, true};
    PendingFigures a = host.post(std::span(&one, 1)), b = host.post(std::span(&two, 1));
    expect(b.wait()[0].sum == 8, "the later call");
    expect(a.wait()[0].sum == 4, "the earlier call");
    for (int call = 0; call < 200; ++call) expect(host.sum(call) == 4 * call, "many calls");
  };
  EXPECT_THAT(run_processes({}, main), testing::Each(""));
  run_thread_ranks(4, {}, [&](std::shared_ptr<Communicator> world) { main(world); });
}

TEST(TcpWorld, ARankThatDoesNotComeIsNamed) {
  const auto said = run_processes({.timeout_seconds = 0.7, .start = {0, 1, 3}}, [](auto) {});
  for (const int rank : {0, 1, 3})
    EXPECT_THAT(
        said[static_cast<size_t>(rank)],
        AllOf(HasSubstr("meeting at 127.0.0.1:"), HasSubstr("rank 2 of 4 did not come in 0.7 s")));
}

TEST(TcpWorld, WithoutRank0NobodyListens) {
  const auto said = run_processes({.timeout_seconds = 0.5, .start = {1}}, [](auto) {});
  EXPECT_THAT(said[1], AllOf(HasSubstr("no connection to rank 0 at 127.0.0.1:"),
                             HasSubstr("in 0.5 s: Connection refused"), HasSubstr("MASTER_PORT")));
}

TEST(TcpWorld, APortThatAnotherProgramHasIsAnError) {
  Processes run{.ranks = 2, .timeout_seconds = 0.5, .start = {0}};
  const TcpSocket other = listen_at(run.port);
  EXPECT_THAT(run_processes(run, [](auto) {})[0],
              AllOf(HasSubstr("cannot listen at port " + std::to_string(run.port)),
                    HasSubstr("Address already in use"), HasSubstr("MASTER_PORT")));
}

TEST(TcpWorld, TheFirstCauseIsThatOfAllRanks) {
  const auto said = run_processes({}, [](std::shared_ptr<Communicator> world) {
    if (world->rank() == 2) throw IoError("the disk is full");
    world->host().sum(1);
  });
  for (const std::string& one : said) EXPECT_EQ(one, "rank 2: the disk is full");
}

TEST(TcpWorld, AKilledProcessEndsTheOthers) {
  for (const int killed : {0, 2}) {
    const auto said = run_processes({}, [&](std::shared_ptr<Communicator> world) {
      world->barrier();
      if (world->rank() == killed) ::raise(SIGKILL);
      world->host().sum(1);
    });
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_THAT(said[static_cast<size_t>(rank)],
                  rank == killed
                      ? testing::Matcher<std::string>("killed")
                      : HasSubstr(fmt::format("rank {}: its process has ended", killed)));
  }
}

TEST(TcpWorld, ACallThatARankDoesNotJoinNamesIt) {
  const auto said = run_processes({.timeout_seconds = 1}, [](std::shared_ptr<Communicator> world) {
    if (world->rank() == 0) return;
    const auto part = world->split({1, 2, 3}, "part");
    if (part->rank() < 2) part->host().sum(1);
  });
  EXPECT_THAT(said[1] + said[2],
              AllOf(HasSubstr("figures on rank"), HasSubstr("not complete after 1 s"),
                    HasSubstr("rank 3 did not join")));
}

TEST(TcpWorld, DifferentCallsAreAnError) {
  const auto said = run_processes({.ranks = 2}, [](std::shared_ptr<Communicator> world) {
    if (world->rank() == 0)
      world->host().sum(1);
    else
      world->host().texts_on_all("x");
  });
  EXPECT_THAT(said[0], HasSubstr("where another rank calls"));
  EXPECT_EQ(said[0], said[1]);
}

TEST(TcpWorld, PlacesThatDoNotFitAreRefused) {
  Processes run{.ranks = 2, .timeout_seconds = 0.5};
  run.place = [](TcpPlace place) {
    if (place.rank == 1) place.ranks = 3;
    return place;
  };
  EXPECT_THAT(run_processes(run, [](auto) {})[1], HasSubstr("rank 1 expects 3 ranks, rank 0 2"));
  run = {.ranks = 3, .timeout_seconds = 0.5};
  run.place = [](TcpPlace place) {
    place.rank = std::min(place.rank, 1);
    return place;
  };
  const auto said = run_processes(run, [](auto) {});
  EXPECT_THAT(said[1] + said[2], HasSubstr("two processes are rank 1 of 3 (RANK)"));
  EXPECT_THAT(said[0], HasSubstr("rank 2 of 3 did not come"));
}

TEST(TcpWorld, StrangersAreNoRanks) {
  Processes run{.ranks = 2};
  run.place = [&](TcpPlace place) {
    if (place.rank == 0) return place;
    for (const std::string& says :
         {std::string("GET / HTTP/1.1\r\n\r\n"), FrameWriter(FrameKind::said).text("world").take(),
          FrameWriter(FrameKind::hello).text("other").number(1).take(),
          FrameWriter(FrameKind::hello).text("viaduct hosts 1").take(),
          std::string(10'000, '\0')}) {
      TcpSocket socket = connect_to(place.meeting, 30);
      socket.send_all(says);
      std::string answer;
      while (socket.receive_some(answer)) {
      }
      if (!answer.empty()) throw Error("a stranger has got an answer");
    }
    return place;
  };
  const auto said =
      run_processes(run, [](std::shared_ptr<Communicator> world) { world->host().sum(1); });
  EXPECT_THAT(said, testing::Each(""));
}

TEST(TcpWorld, TensorsAreNotExchanged) {
  const auto said = run_processes({.ranks = 2}, [](std::shared_ptr<Communicator> world) {
    const Tensor tensor = host_tensor(DType::f32, {4});
    world->all_reduce(tensor, ReduceOp::sum).wait();
  });
  EXPECT_THAT(said[0],
              HasSubstr("all_reduce over world: processes that talk over TCP exchange no"));
}

TEST(TcpFrame, ReadsWhatWasWrittenAndNothingElse) {
  std::string bytes = FrameWriter(FrameKind::said).text("group").number(-7).text("").take() +
                      FrameWriter(FrameKind::bye).take();
  bytes.pop_back();
  std::string frame;
  ASSERT_TRUE(take_frame(bytes, frame));
  FrameReader reader(frame);
  EXPECT_EQ(reader.kind(), FrameKind::said);
  EXPECT_EQ(reader.text(), "group");
  EXPECT_EQ(reader.number(), -7);
  EXPECT_EQ(reader.text(), "");
  EXPECT_THROW(reader.number(), CommError);
  EXPECT_THROW(reader.text(), CommError);
  EXPECT_FALSE(take_frame(bytes, frame)) << "it is incomplete";
  bytes = std::string(4, '\0');
  EXPECT_THROW(take_frame(bytes, frame), CommError);
  bytes = std::string(4, '\xff');
  EXPECT_THROW(take_frame(bytes, frame), CommError);
  const std::string short_text("\1\x10\0\0\0ab", 7);
  EXPECT_THROW(FrameReader(short_text).text(), CommError);
}

}  // namespace
}  // namespace viaduct
