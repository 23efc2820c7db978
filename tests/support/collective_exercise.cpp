#include "support/collective_exercise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace viaduct::test {
namespace {

/// Element `index` of the input of rank `rank` to collective `turn`. Magnitudes differ, so that the
/// order of a sum matters.
double value(int rank, int turn, int64_t index) {
  const uint64_t mixed = (static_cast<uint64_t>(index) * 31 + static_cast<uint64_t>(rank) * 1009 +
                          static_cast<uint64_t>(turn) * 100003) *
                         0x9e3779b97f4a7c15ull;
  const double unit = static_cast<double>(mixed >> 40) / (1 << 24) - 0.5;
  return unit * static_cast<double>(1 << ((mixed >> 8) % 11));
}

template <class F>
void with_type(DType dtype, F f) {
  if (dispatch_floating(dtype, f)) return;
  switch (dtype) {
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
      return f(uint8_t{});
    default:
      throw std::runtime_error("exercise: dtype");
  }
}

template <class T>
T element(int rank, int turn, int64_t index) {
  const double v = value(rank, turn, index);
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>)
    return static_cast<T>(static_cast<float>(v));
  else if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<T>(static_cast<int64_t>(v * 100) & 255);
  else if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<T>(v * 1e6);
  else
    return static_cast<T>(v);
}

void fill(const Tensor& tensor, int rank, int turn, int64_t first = 0) {
  with_type(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* data = static_cast<T*>(tensor.raw());
    for (int64_t i = 0; i < tensor.elements(); ++i) data[i] = element<T>(rank, turn, first + i);
  });
}

void expect_bytes(const Tensor& found, const Tensor& expected, const std::string& what) {
  if (std::memcmp(found.raw(), expected.raw(), static_cast<size_t>(found.bytes())) != 0)
    throw std::runtime_error(
        fmt::format("{}: {} is not what plain loops give", what, describe(found)));
}

/// Elements [first, first + elements) of the reduction of all ranks' inputs.
Tensor reduced(DType dtype, ReduceOp op, int ranks, int turn, int64_t first, int64_t elements) {
  Tensor out = host_tensor(dtype, {elements});
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, int64_t>, T, float>;
    for (int64_t i = 0; i < elements; ++i) {
      A sum = static_cast<A>(element<T>(0, turn, first + i));
      for (int rank = 1; rank < ranks; ++rank) {
        const A next = static_cast<A>(element<T>(rank, turn, first + i));
        sum = op == ReduceOp::max ? std::max(sum, next) : sum + next;
      }
      if (op == ReduceOp::average) sum = sum / static_cast<A>(ranks);
      static_cast<T*>(out.raw())[i] = static_cast<T>(sum);
    }
  });
  return out;
}

const DType kSummed[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64};
const DType kMoved[] = {DType::f32, DType::bf16, DType::u8};

/// A group of ranks that all perform the same turns.
class Exercise {
 public:
  explicit Exercise(Communicator& group) : group_(group) {}

  void all() {
    for (const DType dtype : kSummed) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
        for (const int64_t elements : {1, 3, 1000, 4097}) all_reduce(dtype, op, elements);
        for (const int64_t elements : {1, 1003}) reduce_scatter(dtype, op, elements, elements > 1);
      }
      all_reduce(dtype, ReduceOp::sum, 70001);
      reduce_scatter(dtype, ReduceOp::sum, 30011, false);
    }
    // More than the number of chunks in flight at a time.
    all_reduce(DType::f32, ReduceOp::sum, 1200017);
    reduce_scatter(DType::bf16, ReduceOp::sum, 700003, true);
    for (const DType dtype : kMoved) {
      for (const int64_t elements : {0, 1, 5001, 70003}) {
        all_gather(dtype, elements, false);
        all_gather(dtype, elements, true);
        for (int root = 0; root < group_.size(); ++root) broadcast(dtype, elements, root);
      }
      for (const int64_t row : {1, 33, 4096}) all_to_all(dtype, row);
    }
    messages();
    overlapped();
    group_.barrier();
  }

  /// With the algorithms for large groups: a chain, trees, gathers.
  void few() {
    for (const DType dtype : kSummed) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
        for (const int64_t elements : {1, 160, 1000}) all_reduce(dtype, op, elements);
        reduce_scatter(dtype, op, 103, op == ReduceOp::sum);
      }
      all_reduce(dtype, ReduceOp::average, 9001);
      all_reduce(dtype, ReduceOp::max, 40009);
      reduce_scatter(dtype, ReduceOp::sum, 1501, false);
    }
    // More chunks than are in flight at a time.
    all_reduce(DType::f32, ReduceOp::sum, 400009);
    for (const DType dtype : kMoved) {
      for (const int64_t elements : {0, 1, 5001}) {
        all_gather(dtype, elements, elements > 1);
        for (const int root : {0, 5 % group_.size(), group_.size() - 1})
          broadcast(dtype, elements * 100, root);
      }
    }
    all_to_all(DType::f32, 33);
    messages();
    group_.barrier();
  }

 private:
  std::string what(const char* name) const {
    return fmt::format("{} over {}, rank {} of {}, turn {}", name, group_.name(), group_.rank(),
                       group_.size(), turn_);
  }

  void all_reduce(DType dtype, ReduceOp op, int64_t elements) {
    ++turn_;
    const Tensor tensor = host_tensor(dtype, {elements});
    fill(tensor, group_.rank(), turn_);
    group_.all_reduce(tensor, op).wait();
    expect_bytes(tensor, reduced(dtype, op, group_.size(), turn_, 0, elements), what("all_reduce"));
  }

  void reduce_scatter(DType dtype, ReduceOp op, int64_t elements, bool in_place) {
    ++turn_;
    const Tensor in = host_tensor(dtype, {group_.size() * elements});
    fill(in, group_.rank(), turn_);
    const int64_t first = group_.rank() * elements;
    const Tensor out = in_place ? in.slice(0, first, elements) : host_tensor(dtype, {elements});
    group_.reduce_scatter(in, out, op).wait();
    expect_bytes(out, reduced(dtype, op, group_.size(), turn_, first, elements),
                 what("reduce_scatter"));
  }

  void all_gather(DType dtype, int64_t elements, bool in_place) {
    ++turn_;
    const Tensor out = host_tensor(dtype, {group_.size() * elements});
    const Tensor in = in_place ? out.slice(0, group_.rank() * elements, elements)
                               : host_tensor(dtype, {elements});
    fill(in, group_.rank(), turn_);
    group_.all_gather(in, out).wait();
    const Tensor expected = host_tensor(dtype, {group_.size() * elements});
    for (int rank = 0; rank < group_.size(); ++rank)
      fill(expected.slice(0, rank * elements, elements), rank, turn_);
    expect_bytes(out, expected, what("all_gather"));
  }

  void broadcast(DType dtype, int64_t elements, int root) {
    ++turn_;
    const Tensor tensor = host_tensor(dtype, {elements}), expected = host_tensor(dtype, {elements});
    fill(tensor, group_.rank(), turn_);
    fill(expected, root, turn_);
    group_.broadcast(tensor, root).wait();
    expect_bytes(tensor, expected, what("broadcast"));
  }

  // Rank a sends rank b (3a + 2b) mod 5 rows, some pairs none. Elements of a's message to b are
  // numbered from 1000 b.
  void all_to_all(DType dtype, int64_t row) {
    ++turn_;
    const auto rows = [](int from, int to) {
      return static_cast<int64_t>((3 * from + 2 * to) % 5);
    };
    std::vector<int64_t> send, receive;
    int64_t sent = 0, received = 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      sent += send.emplace_back(rows(group_.rank(), rank));
      received += receive.emplace_back(rows(rank, group_.rank()));
    }
    const Tensor in = host_tensor(dtype, {sent, row}), out = host_tensor(dtype, {received, row});
    const Tensor expected = host_tensor(dtype, {received, row});
    int64_t from = 0, to = 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      fill(in.slice(0, from, send[r]), group_.rank(), turn_, 1000 * rank);
      fill(expected.slice(0, to, receive[r]), rank, turn_, 1000 * group_.rank());
      from += send[r];
      to += receive[r];
    }
    group_.all_to_all(in, out, send, receive).wait();
    expect_bytes(out, expected, what("all_to_all"));
    if (dtype == DType::f32) rows_by_number(in, expected, send, receive);
  }

  // The same rows taken from the input, and put into the output, in another order. With both orders
  // reversed, the rows of each pair of ranks are those in order, each at the place that its
  // receiver gives it.
  void rows_by_number(const Tensor& in, const Tensor& expected, const std::vector<int64_t>& send,
                      const std::vector<int64_t>& receive) {
    const auto copy_row = [](const Tensor& from, int64_t row, const Tensor& to, int64_t place) {
      std::memcpy(to.slice(0, place, 1).raw(), from.slice(0, row, 1).raw(),
                  static_cast<size_t>(from.slice(0, row, 1).bytes()));
    };
    const auto backwards = [](int64_t rows) {
      const Tensor order = host_tensor(DType::i32, {rows});
      for (int64_t r = 0; r < rows; ++r)
        order.data<int32_t>()[r] = static_cast<int32_t>(rows - 1 - r);
      return order;
    };
    const auto turned = [&](const Tensor& rows) {
      const Tensor out = host_tensor(rows.dtype(), rows.shape());
      for (int64_t r = 0; r < rows.dim(0); ++r) copy_row(rows, r, out, rows.dim(0) - 1 - r);
      return out;
    };
    const Tensor reversed = turned(in), put = turned(expected);
    const Tensor from = backwards(in.dim(0)), to = backwards(expected.dim(0));
    const Tensor out = host_tensor(in.dtype(), expected.shape());
    group_.all_to_all(reversed, out, send, receive, {from, to}).wait();
    expect_bytes(out, put, what("all_to_all by number"));
    group_.all_to_all(reversed, out, send, receive, {from, {}}).wait();
    expect_bytes(out, expected, what("all_to_all from numbered rows"));
    group_.all_to_all(in, out, send, receive, {{}, to}).wait();
    expect_bytes(out, put, what("all_to_all to numbered rows"));
  }

  // Several messages in order to the next and the previous rank at once, in both flows.
  void messages() {
    if (group_.size() == 1) return;
    const int next = (group_.rank() + 1) % group_.size();
    const int previous = (group_.rank() + group_.size() - 1) % group_.size();
    ++turn_;
    struct Received {
      Tensor tensor, expected;
    };
    std::vector<CommHandle> handles;
    std::vector<Received> received;
    std::vector<Tensor> sent;
    int64_t first = 0;
    for (const int64_t elements : {3, 0, 100000, 1}) {
      for (const Flow flow : {Flow::activations, Flow::gradients}) {
        const int to = flow == Flow::activations ? next : previous;
        const int from = flow == Flow::activations ? previous : next;
        first += 1000000;
        Received& r = received.emplace_back(
            Received{host_tensor(DType::f32, {elements}), host_tensor(DType::f32, {elements})});
        fill(r.expected, from, turn_, first);
        fill(sent.emplace_back(host_tensor(DType::f32, {elements})), group_.rank(), turn_, first);
        handles.push_back(group_.send(sent.back(), to, flow));
        handles.push_back(group_.receive(r.tensor, from, flow));
      }
    }
    for (CommHandle& handle : handles) handle.wait();
    for (const Received& r : received) expect_bytes(r.tensor, r.expected, what("messages"));
  }

  // Several collectives and a message in flight, waited for from last to first.
  void overlapped() {
    std::vector<CommHandle> handles;
    std::vector<Tensor> tensors;
    const int first_turn = turn_ + 1;
    for (const int64_t elements : {50000, 1, 300, 200000, 7}) {
      ++turn_;
      fill(tensors.emplace_back(host_tensor(DType::f32, {elements})), group_.rank(), turn_);
      handles.push_back(group_.all_reduce(tensors.back(), ReduceOp::sum));
    }
    const Tensor message = host_tensor(DType::f32, {64});
    if (group_.size() > 1 && group_.rank() == 0) {
      fill(message, 0, turn_, 5);
      handles.push_back(group_.send(message, 1, Flow::activations));
    } else if (group_.rank() == 1) {
      handles.push_back(group_.receive(message, 0, Flow::activations));
    }
    std::reverse(handles.begin(), handles.end());
    for (CommHandle& handle : handles) {
      while (group_.rank() == 1 && !handle.ready()) {
      }
      handle.wait();
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int turn = first_turn + static_cast<int>(i);
      expect_bytes(
          tensors[i],
          reduced(DType::f32, ReduceOp::sum, group_.size(), turn, 0, tensors[i].elements()),
          what("overlapped all_reduce"));
    }
    if (group_.rank() == 1) {
      const Tensor expected = host_tensor(DType::f32, {64});
      fill(expected, 0, turn_, 5);
      expect_bytes(message, expected, what("overlapped message"));
    }
  }

  Communicator& group_;
  int turn_ = 0;
};

void expect(bool holds, const HostGroup& host, const char* what) {
  if (!holds) throw std::runtime_error(fmt::format("{} on rank {}", what, host.rank()));
}

}  // namespace

void exercise_large(Communicator& world) {
  Exercise(world).few();
}

void exercise_hosts(HostGroup& host) {
  const int n = host.size(), rank = host.rank();
  const HostFigure mine[] = {{rank + 0.5, rank % 2 == 0}, {static_cast<double>((rank * 7) % n)}};
  PendingFigures pending = host.post(mine);
  // Texts that fit into one message and texts that do not, at the same time.
  const auto text = [](int r) {
    const size_t size = r % 4 == 0 ? 0 : r % 4 == 1 ? 10 : r % 4 == 2 ? 1016 : 5000;
    return std::string(size, static_cast<char>('a' + r % 26));
  };
  std::vector<std::string> all;
  for (int r = 0; r < n; ++r) all.push_back(text(r));
  expect(host.texts_on_all(text(rank)) == all, host, "texts_on_all");
  const auto on_first = host.texts_on_rank_0(text(rank));
  expect(rank == 0 ? on_first == all : on_first.empty(), host, "texts_on_rank_0");
  const auto first = host.first_text(text(rank));
  expect(n == 1 ? !first : first && first->rank == 1 && first->text == all[1], host, "first_text");
  expect(host.text_of_rank_0("from " + std::to_string(rank)) == "from 0", host, "text_of_rank_0");
  std::vector<std::string> letters;
  for (int r = 0; r < n; ++r) letters.emplace_back(1, static_cast<char>('a' + r % 26));
  const HostGroup::Merge in_brackets = [](std::string lower, const std::string& upper) {
    return "(" + lower + upper + ")";
  };
  const std::string merged = host.merge_on_rank_0(letters[static_cast<size_t>(rank)], in_brackets);
  expect(merged == (rank == 0 ? merge_along_tree(letters, in_brackets) : ""), host,
         "the order of merges");
  const auto figures = pending.wait();
  double sum = 0;
  for (int r = 0; r < n; r += 2) sum += r + 0.5;
  expect(figures[0].sum == sum && figures[0].counted == (n + 1) / 2, host, "a sum of figures");
  expect(figures[0].most_rank == n - 1 && figures[0].least_rank == 0, host, "extremes of figures");
  expect(figures[1].least == 0 && figures[1].least_rank == 0, host, "the lowest of equal figures");
  expect(host.most(rank) == n - 1 && host.sum(1) == n, host, "one figure");
}

void exercise(const std::shared_ptr<Communicator>& world) {
  Exercise(*world).all();
  exercise_hosts(world->host());
  // A group of the first and last rank and one of the others; then each of them together with all
  // ranks again.
  const int last = world->size() - 1;
  std::vector<int> ends{0, last}, inner;
  for (int rank = 1; rank < last; ++rank) inner.push_back(rank);
  const bool at_end = world->rank() == 0 || world->rank() == last;
  const auto part = world->split(at_end ? ends : inner, at_end ? "ends" : "inner");
  Exercise(*part).all();
  exercise_hosts(part->host());
  // Operations of two groups and the world in flight at once.
  const Tensor of_part = host_tensor(DType::f32, {30011}),
               of_world = host_tensor(DType::f32, {40009});
  fill(of_part, part->rank(), 1);
  fill(of_world, world->rank(), 2);
  CommHandle first = part->all_reduce(of_part, ReduceOp::sum);
  CommHandle second = world->all_reduce(of_world, ReduceOp::sum);
  second.wait();
  first.wait();
  expect_bytes(of_part, reduced(DType::f32, ReduceOp::sum, part->size(), 1, 0, 30011), "part");
  expect_bytes(of_world, reduced(DType::f32, ReduceOp::sum, world->size(), 2, 0, 40009), "world");
  world->barrier();
}

}  // namespace viaduct::test
