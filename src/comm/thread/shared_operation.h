#pragma once
// One operation as all its ranks see it: the request of each, its state, and the work that is left.
// The last rank to arrive starts it; then every free thread takes pieces.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/thread/joint_work.h"

namespace viaduct {

class ThreadWorld;

class SharedOperation : public std::enable_shared_from_this<SharedOperation> {
 public:
  enum class State {
    collecting,  // not all ranks have posted
    running,     // pieces are being done
    done,
    mismatched,  // the ranks' requests differ: see `error`
    left,        // a rank has left before all had posted: it will never run
  };

  /// `members`: the ranks in the world, in the order of the parties.
  SharedOperation(ThreadWorld& world, std::shared_ptr<const std::vector<int>> members);

  State state() const { return state_.load(); }
  const std::string& error() const { return error_; }
  double busy_seconds() const { return busy_seconds_; }
  /// The rank in the world of a party.
  int member(int party) const { return (*members_)[static_cast<size_t>(party)]; }

  /// Makes it the operation `number` of the lane. Only when `unused`, under the lane's lock.
  void renew(int64_t number);
  int64_t number() const { return number_.load(std::memory_order_acquire); }
  /// No party or progress thread uses it.
  bool unused() const { return users_.load() == 0; }
  /// The request and its buffers stay valid until the operation is done, mismatched or left. True
  /// for the last party.
  bool post(int party, const Ask& ask);
  /// The party stops waiting. False if all have posted: then it must wait, because its buffers are
  /// being read.
  bool leave();

  /// Called once, by the last party: checks that all requests match and starts the work. Small work
  /// is done at once; else the threads that wait for it are woken or, if there are none, the
  /// progress threads of all ranks.
  void begin(int party);
  /// Does pieces until none is left; starts with those of `party`, or of this core if ranks share
  /// cores.
  void help(int party);
  /// A party that posted it, or a progress thread, no longer uses it.
  void release() { users_.fetch_sub(1); }

 private:
  static constexpr int kLeft = 1 << 30;
  bool somebody_waits() const;
  void cut_into_pieces(bool small);
  void finish(State state);
  void ring_all();

  // State that waiting threads poll, that changes while ranks arrive, and that changes during the
  // work is kept in separate cache lines.
  alignas(64) std::atomic<State> state_{State::collecting};
  std::atomic<int64_t> number_{-1};
  alignas(64) std::atomic<int> here_{0};  // parties that have posted it, and kLeft
  std::atomic<int> users_{0};
  ThreadWorld& world_;
  std::shared_ptr<const std::vector<int>> members_;
  std::vector<Ask> asks_;                       // by party
  alignas(64) std::atomic<uint64_t> taken_{0};  // bit per piece
  std::atomic<int> finished_{0};
  int pieces_ = 0;
  int64_t units_ = 0, piece_units_ = 0;
  double begin_seconds_ = 0, busy_seconds_ = 0;
  std::string error_;
};

}  // namespace viaduct
