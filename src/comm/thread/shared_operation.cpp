#include "comm/thread/shared_operation.h"

#include <sched.h>

#include <algorithm>

#include "base/clock.h"
#include "comm/thread/thread_world.h"

namespace viaduct {
namespace {

constexpr int kMaxPieces = 64;  // one bit each
// Minimum size of a piece: multiples of any cache line, in elements and in bytes. Small operations
// are split among the threads that happen to be awake, if that is faster than waking them.
constexpr int64_t kPieceUnits = 4096, kSmallSumUnits = 512, kSmallCopyUnits = 4096;
constexpr int64_t kSmallBytes = 1 << 17;  // moved in less time than it takes to wake a thread

}  // namespace

SharedOperation::SharedOperation(ThreadWorld& world,
                                 std::shared_ptr<const std::vector<int>> members)
    : world_(world), members_(std::move(members)), asks_(members_->size()) {}

void SharedOperation::renew(int64_t number) {
  constexpr auto relaxed = std::memory_order_relaxed;
  here_.store(0, relaxed);
  users_.store(static_cast<int>(asks_.size()), relaxed);
  taken_.store(0, relaxed);
  finished_.store(0, relaxed);
  begin_seconds_ = busy_seconds_ = 0;
  state_.store(State::collecting, relaxed);
  number_.store(number, std::memory_order_release);
}

bool SharedOperation::post(int party, const Ask& ask) {
  asks_[static_cast<size_t>(party)] = ask;
  return here_.fetch_add(1) + 1 == static_cast<int>(asks_.size());
}

bool SharedOperation::leave() {
  for (int here = here_.load(); here != static_cast<int>(asks_.size());) {
    if (!here_.compare_exchange_weak(here, here | kLeft)) continue;
    state_.store(State::left);
    return true;
  }
  return false;
}

bool SharedOperation::somebody_waits() const {
  return std::any_of(members_->begin(), members_->end(),
                     [&](int rank) { return world_.awaited(rank) == this; });
}

void SharedOperation::cut_into_pieces(bool small) {
  int64_t most = kMaxPieces, least = kPieceUnits;
  if (small) {
    const bool sums = asks_[0].collective == Collective::all_reduce ||
                      asks_[0].collective == Collective::reduce_scatter;
    most = std::min<int64_t>(static_cast<int64_t>(asks_.size()), world_.cores());
    least = sums ? kSmallSumUnits : kSmallCopyUnits;
  }
  const int64_t even = (units_ + most - 1) / most;
  piece_units_ = (even + least - 1) / least * least;
  pieces_ = static_cast<int>((units_ + piece_units_ - 1) / piece_units_);
}

void SharedOperation::begin(int party) {
  error_ = mismatch(asks_);
  if (!error_.empty()) return finish(State::mismatched);
  units_ = work_units(asks_);
  if (units_ == 0) return finish(State::done);
  const Ask& mine = asks_[static_cast<size_t>(party)];
  const bool small = std::max(mine.in_bytes, mine.out_bytes) <= kSmallBytes;
  cut_into_pieces(small);
  if (!small) begin_seconds_ = steady_seconds();
  state_.store(State::running);
  if (small) return help(party);
  if (somebody_waits()) return ring_all();
  for (size_t p = 0; p < members_->size(); ++p) {
    users_.fetch_add(1);  // a use by the progress thread
    world_.serve((*members_)[p], shared_from_this(), static_cast<int>(p));
  }
}

void SharedOperation::help(int party) {
  const size_t places = world_.crowded() ? static_cast<size_t>(world_.cores()) : asks_.size();
  const auto place = static_cast<size_t>(world_.crowded() ? sched_getcpu() : party) % places;
  const int first = static_cast<int>(place * static_cast<size_t>(pieces_) / places);
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
  if (begin_seconds_ > 0) busy_seconds_ = steady_seconds() - begin_seconds_;
  state_.store(state);
  ring_all();
}

void SharedOperation::ring_all() {
  for (const int rank : *members_) world_.bell(rank).ring();
}

}  // namespace viaduct
