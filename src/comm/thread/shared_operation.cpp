#include "comm/thread/shared_operation.h"

#include <algorithm>
#include <chrono>

#include "comm/thread/thread_world.h"

namespace viaduct {
namespace {

constexpr int kMaxPieces = 64;            // one bit each
constexpr int64_t kPieceUnits = 4096;     // a multiple of any cache line, in elements and in bytes
constexpr int64_t kSmallBytes = 1 << 17;  // moved in less time than a thread takes to wake

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

SharedOperation::SharedOperation(ThreadWorld& world,
                                 std::shared_ptr<const std::vector<int>> members)
    : world_(world), members_(std::move(members)), asks_(members_->size()) {}

void SharedOperation::renew(int64_t number) {
  number_ = number;
  here_ = 0;
  users_.store(static_cast<int>(asks_.size()));
  waiting_.store(0);
  for (Ask& ask : asks_) ask.request = nullptr;
  taken_.store(0);
  finished_.store(0);
  begin_seconds_ = busy_seconds_ = 0;
  state_.store(State::collecting);
}

bool SharedOperation::post(int party, const Ask& ask) {
  if (state() == State::left) return false;
  asks_[static_cast<size_t>(party)] = ask;
  return ++here_ == static_cast<int>(asks_.size());
}

bool SharedOperation::leave() {
  if (here_ == static_cast<int>(asks_.size())) return false;
  state_.store(State::left);
  return true;
}

void SharedOperation::begin(int party) {
  error_ = mismatch(asks_);
  if (!error_.empty()) return finish(State::mismatched);
  units_ = work_units(asks_);
  if (units_ == 0) return finish(State::done);
  const int64_t least = (units_ + kMaxPieces - 1) / kMaxPieces;
  piece_units_ = (std::max(least, int64_t{1}) + kPieceUnits - 1) / kPieceUnits * kPieceUnits;
  pieces_ = static_cast<int>((units_ + piece_units_ - 1) / piece_units_);
  const Ask& mine = asks_[static_cast<size_t>(party)];
  const bool small = std::max(mine.in_bytes, mine.out_bytes) <= kSmallBytes;
  if (!small) begin_seconds_ = now();
  state_.store(State::running);
  if (small) return help(party);
  if (waiting_.load() > 0) return ring_all();
  for (size_t p = 0; p < members_->size(); ++p) {
    users_.fetch_add(1);  // of the progress thread
    world_.serve((*members_)[p], shared_from_this(), static_cast<int>(p));
  }
}

void SharedOperation::help(int party) {
  const int first =
      static_cast<int>(static_cast<size_t>(party) * static_cast<size_t>(pieces_) / asks_.size());
  int done = 0;
  for (int i = 0; i < pieces_; ++i) {
    const int piece = (first + i) % pieces_;
    const uint64_t bit = uint64_t{1} << piece;
    if ((taken_.load(std::memory_order_relaxed) & bit) != 0 || (taken_.fetch_or(bit) & bit) != 0)
      continue;
    const int64_t begin = piece * piece_units_;
    do_work(asks_, begin, std::min(units_, begin + piece_units_));
    ++done;
  }
  if (done > 0 && finished_.fetch_add(done) + done == pieces_) finish(State::done);
}

void SharedOperation::finish(State state) {
  if (begin_seconds_ > 0) busy_seconds_ = now() - begin_seconds_;
  state_.store(state);
  ring_all();
}

void SharedOperation::ring_all() {
  for (const int rank : *members_) world_.bell(rank).ring();
}

}  // namespace viaduct
