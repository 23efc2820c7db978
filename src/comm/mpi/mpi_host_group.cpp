#include "comm/mpi/mpi_host_group.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"

namespace viaduct {
namespace {

// Tags of successive calls, above those of collectives (mpi_communicator.cpp).
constexpr int kFirstTag = 20000;
constexpr int64_t kTurns = 4096;

// A text is sent with its length in a first message of this size, which MPI sends at once, and the
// rest in a second one.
constexpr size_t kFirstBytes = 1024;
using First = std::array<std::byte, kFirstBytes>;

/// One merge along the binomial tree rooted at rank 0: rank r has the children r + 1, r + 2, r + 4
/// … below the lowest set bit of r, so a subtree is a contiguous range of ranks and merges keep
/// their order.
class TreeMerge final : public MpiOperation {
 public:
  TreeMerge(const MpiGroup& group, std::string_view what, std::string mine, HostGroup::Merge merge,
            bool to_all, int tag)
      : MpiOperation(group, what, static_cast<int64_t>(mine.size())),
        merge_(merge),
        to_all_(to_all),
        tag_(tag),
        text_(std::move(mine)) {
    const int rank = group.rank();
    for (int step = 1; rank + step < group.size() && (rank & step) == 0; step *= 2)
      children_.push_back({rank + step, {}, "", false});
    if (rank > 0) parent_ = rank & (rank - 1);
  }

  /// The merged text, once done.
  std::string take_text() { return std::move(text_); }

 private:
  /// A text being sent; MPI reads it until the operation is done.
  struct Outgoing {
    First first;
    std::string text;
  };
  struct Child {
    int rank;
    First first;
    std::string text;
    bool whole;
  };
  enum Label : int64_t { kUp = 0, kUpRest = 1000, kDown = 2000, kDownRest, kSent };

  void post() override {
    for (size_t i = 0; i < children_.size(); ++i) {
      transfers_.receive(children_[i].first.data(), kFirstBytes, children_[i].rank, tag_,
                         kUp + static_cast<int64_t>(i));
    }
    merge_children();
  }

  void prepare(Outgoing& out, std::string text) {
    out.text = std::move(text);
    const uint64_t size = out.text.size();
    std::memcpy(out.first.data(), &size, sizeof size);
    std::memcpy(out.first.data() + sizeof size, out.text.data(),
                std::min(out.text.size(), kFirstBytes - sizeof size));
  }

  void send(const Outgoing& out, int to) {
    const size_t inside = std::min(out.text.size(), kFirstBytes - sizeof(uint64_t));
    transfers_.send(out.first.data(), kFirstBytes, to, tag_, kSent);
    if (inside == out.text.size()) return;
    transfers_.send(out.text.data() + inside, static_cast<int64_t>(out.text.size() - inside), to,
                    tag_, kSent);
  }

  /// Reads a first message; true if it held the whole text, else posts a receive for the rest.
  bool take_first(const First& first, int from, int64_t rest_label, std::string& text) {
    uint64_t size = 0;
    std::memcpy(&size, first.data(), sizeof size);
    const size_t inside = std::min<size_t>(size, kFirstBytes - sizeof size);
    text.resize(size);
    std::memcpy(text.data(), first.data() + sizeof size, inside);
    if (inside == size) return true;
    transfers_.receive(text.data() + inside, static_cast<int64_t>(size - inside), from, tag_,
                       rest_label);
    return false;
  }

  void arrived(const Transfer& transfer) override {
    if (transfer.sending) return;
    if (transfer.label == kDown) {
      if (take_first(in_, parent_, kDownRest, text_)) pass_down();
    } else if (transfer.label == kDownRest) {
      pass_down();
    } else {
      const bool rest = transfer.label >= kUpRest;
      const auto i = static_cast<size_t>(transfer.label - (rest ? kUpRest : kUp));
      Child& child = children_[i];
      child.whole = rest || take_first(child.first, child.rank, kUpRest + static_cast<int64_t>(i),
                                       child.text);
      merge_children();
    }
  }

  void merge_children() {
    for (; merged_ < children_.size() && children_[merged_].whole; ++merged_) {
      text_ = merge_(std::move(text_), children_[merged_].text);
      children_[merged_].text.clear();
    }
    if (merged_ < children_.size() || up_) return;
    up_ = true;
    if (parent_ < 0) return pass_down();
    prepare(up_text_, std::move(text_));
    send(up_text_, parent_);
    if (to_all_) transfers_.receive(in_.data(), kFirstBytes, parent_, tag_, kDown);
  }

  // The farthest child first: its subtree is the largest.
  void pass_down() {
    if (!to_all_ || children_.empty()) return;
    prepare(down_text_, text_);
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      send(down_text_, child->rank);
  }

  const HostGroup::Merge merge_;
  const bool to_all_;
  const int tag_;
  int parent_ = -1;
  std::vector<Child> children_;
  size_t merged_ = 0;
  bool up_ = false;
  std::string text_;  // so far
  Outgoing up_text_, down_text_;
  First in_;
};

class MpiHostCall final : public HostCall {
 public:
  MpiHostCall(std::shared_ptr<MpiEngine> engine, std::shared_ptr<MpiQueue> queue,
              std::shared_ptr<const MpiGroup> group, std::shared_ptr<TreeMerge> merge, bool gets)
      : engine_(std::move(engine)),
        queue_(std::move(queue)),
        group_(std::move(group)),
        merge_(std::move(merge)),
        gets_(gets) {}
  ~MpiHostCall() override { engine_->forget(*merge_); }

  std::string wait() override {
    engine_->wait(*merge_, queue_.get(), steady_seconds());
    return gets_ ? merge_->take_text() : "";
  }

 private:
  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<MpiQueue> queue_;
  std::shared_ptr<const MpiGroup> group_;
  std::shared_ptr<TreeMerge> merge_;
  const bool gets_;
};

class MpiHostGroup final : public HostGroup {
 public:
  MpiHostGroup(std::shared_ptr<MpiEngine> engine, std::shared_ptr<const MpiGroup> group)
      : HostGroup(group->rank(), group->size()),
        engine_(std::move(engine)),
        group_(std::move(group)) {}

 private:
  std::unique_ptr<HostCall> start(Request request) override {
    const int tag = kFirstTag + static_cast<int>(calls_++ % kTurns);
    const bool gets = request.to_all || rank() == 0;
    auto merge = std::make_shared<TreeMerge>(*group_, request.what, std::move(request.mine),
                                             request.merge, request.to_all, tag);
    engine_->start(merge, queue_, true);
    return std::make_unique<MpiHostCall>(engine_, queue_, group_, std::move(merge), gets);
  }

  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<const MpiGroup> group_;
  std::shared_ptr<MpiQueue> queue_ = std::make_shared<MpiQueue>();
  int64_t calls_ = 0;
};

}  // namespace

std::shared_ptr<HostGroup> make_mpi_host_group(std::shared_ptr<MpiEngine> engine,
                                               std::shared_ptr<const MpiGroup> group) {
  return std::make_shared<MpiHostGroup>(std::move(engine), std::move(group));
}

}  // namespace viaduct
