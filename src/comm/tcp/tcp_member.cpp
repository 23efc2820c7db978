#include "comm/tcp/tcp_member.h"

#include <chrono>
#include <sstream>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "comm/tcp/tcp_hub.h"

namespace viaduct {
namespace {

/// What the hub needs to say who is missing, and more than it needs to say so of the start.
constexpr double kAnswerSeconds = 5;

std::chrono::duration<double> seconds(double count) {
  return std::chrono::duration<double>(count);
}

}  // namespace

TcpMember::TcpMember(const TcpAddress& hub, int rank, int ranks, double timeout_seconds)
    : rank_(rank),
      ranks_(ranks),
      timeout_seconds_(timeout_seconds),
      socket_(connect_to(hub, timeout_seconds)) {
  send(FrameWriter(FrameKind::hello).text(kTcpProtocol).number(rank).number(ranks).take());
  reader_ = Thread([this] { read(); });
  Lock lock(mutex_);
  changed_.wait_for(lock, seconds(timeout_seconds_ + kAnswerSeconds),
                    [&] { return all_here_ || !cause_.empty(); });
  if (all_here_) return;  // what has failed since is said by the next call
  const std::string why = !cause_.empty() ? cause_ : "whoever listens there does not answer";
  lock.unlock();
  socket_.shut_down();
  reader_.join();
  viaduct::fail<CommError>("meeting at {}: {}", to_text(hub), why);
}

TcpMember::~TcpMember() {
  socket_.shut_down();
  if (reader_.joinable()) reader_.join();
}

void TcpMember::send(const std::string& frame) {
  const std::lock_guard lock(sending_);
  // If it cannot be sent, the reader hears of the end of the connection.
  static_cast<void>(socket_.send_all(frame));
}

void TcpMember::set_failure(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty() && !all_over_) cause_ = cause;
  changed_.notify_all();
}

void TcpMember::read() {
  try {
    std::string bytes, frame;
    while (socket_.receive_some(bytes))
      while (take_frame(bytes, frame)) handle(FrameReader(frame));
    set_failure("rank 0: its process has ended or cannot be reached");
  } catch (const std::exception& error) {
    set_failure(error.what());
  }
}

void TcpMember::handle(FrameReader frame) {
  const auto found_call = [&]() -> std::shared_ptr<Call> {
    std::string group = frame.text();
    const int64_t number = frame.number();
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find({std::move(group), number});
    return found == calls_.end() ? nullptr : found->second;
  };
  switch (frame.kind()) {
    case FrameKind::welcome: {
      const std::lock_guard lock(mutex_);
      all_here_ = true;
      break;
    }
    case FrameKind::bye: {
      const std::lock_guard lock(mutex_);
      all_over_ = true;
      break;
    }
    case FrameKind::failed:
      return set_failure(frame.text());
    case FrameKind::texts: {
      const std::shared_ptr<Call> call = found_call();
      VIADUCT_CHECK(CommError, call != nullptr, "hosts over TCP: texts of no call");
      std::vector<std::string> texts;
      for (int64_t left = frame.number(); left > 0; --left) texts.push_back(frame.text());
      std::string merged = merge_along_tree(std::move(texts), call->merge);
      if (call->to_all) {
        send(FrameWriter(FrameKind::merged)
                 .text(call->group)
                 .number(call->number)
                 .text(merged)
                 .take());
      }
      const std::lock_guard lock(mutex_);
      call->merged = std::move(merged);
      calls_.erase({call->group, call->number});
      break;
    }
    case FrameKind::merged: {
      const std::shared_ptr<Call> call = found_call();
      VIADUCT_CHECK(CommError, call != nullptr, "hosts over TCP: an answer to no call");
      const std::lock_guard lock(mutex_);
      call->merged = frame.text();
      calls_.erase({call->group, call->number});
      break;
    }
    case FrameKind::missing: {
      const std::shared_ptr<Call> call = found_call();
      if (call == nullptr) return;  // it has come meanwhile
      const std::lock_guard lock(mutex_);
      call->missing = frame.text();
      break;
    }
    case FrameKind::hello:
    case FrameKind::said:
      viaduct::fail<CommError>("hosts over TCP: a message of an unknown kind");
  }
  changed_.notify_all();
}

std::shared_ptr<TcpMember::Call> TcpMember::say(Call call, std::string_view text) {
  auto said = std::make_shared<Call>(std::move(call));
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) throw CommError(cause_);
    if (said->gets) calls_[{said->group, said->number}] = said;
  }
  send(FrameWriter(FrameKind::said)
           .text(said->group)
           .number(said->number)
           .number(said->place)
           .number(said->size)
           .number(said->to_all ? 1 : 0)
           .text(said->what)
           .text(text)
           .take());
  return said;
}

std::string TcpMember::wait(Call& call, int (*name_of_place)(const void* group, int place),
                            const void* group) {
  if (!call.gets) return "";
  Lock lock(mutex_);
  const auto over = [&] { return call.merged.has_value() || !cause_.empty(); };
  changed_.wait_for(lock, seconds(timeout_seconds_), over);
  if (!over()) {
    lock.unlock();
    send(FrameWriter(FrameKind::missing).text(call.group).number(call.number).take());
    lock.lock();
    changed_.wait_for(lock, seconds(kAnswerSeconds), [&] { return over() || call.missing; });
  }
  if (call.merged) return std::move(*call.merged);
  if (!cause_.empty()) throw CommError(cause_);
  std::string names;
  int missing = 0;
  std::istringstream places(call.missing.value_or(""));
  for (int place = 0; places >> place; ++missing)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of_place(group, place));
  viaduct::fail<CommError>(
      "{} on rank {}: not complete after {:g} s (dist.distributed_timeout_minutes): {}", call.what,
      rank_, timeout_seconds_,
      missing == 0   ? "rank 0 does not pass it on"
      : missing == 1 ? "rank " + names + " did not join"
                     : "ranks " + names + " did not join");
}

void TcpMember::fail(const std::string& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = cause;
  }
  changed_.notify_all();
  send(FrameWriter(FrameKind::failed).text(cause).take());
}

std::string TcpMember::failure() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

void TcpMember::end_together() {
  send(FrameWriter(FrameKind::bye).take());
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return all_over_ || !cause_.empty(); });
  if (!cause_.empty()) throw CommError(cause_);
}

}  // namespace viaduct
