#include "checkpoint/logical_gather.h"

#include <cstring>
#include <map>

#include "base/error.h"
#include "checkpoint/checkpoint_index.h"

namespace viaduct {
namespace {

/// Tensors are moved together up to this many elements.
constexpr int64_t kBatchElements = int64_t{1} << 22;

/// A piece that this rank contributes.
struct Given {
  const StoredRun* stored;
  LogicalPiece piece;
};
using GivenByName = std::map<std::string, std::vector<Given>>;

GivenByName given_pieces(const std::vector<StoredRun>& runs) {
  GivenByName given;
  for (const StoredRun& stored : runs) {
    for (const LogicalPiece& piece : logical_pieces(stored.run)) {
      if (piece.part->owned) given[piece.part->name].push_back({&stored, piece});
    }
  }
  return given;
}

/// Numbers and names as bytes, between programs of one run.
class Packer {
 public:
  void number(int64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void shape(const Shape& shape) {
    number(shape.rank());
    for (int64_t size : shape) number(size);
  }
  void name(const std::string& name) {
    number(static_cast<int64_t>(name.size()));
    text_ += name;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Unpacker {
 public:
  explicit Unpacker(const std::string& text) : next_(text.data()), end_(next_ + text.size()) {}
  bool done() const { return next_ == end_; }
  int64_t number() {
    int64_t value = 0;
    std::memcpy(&value, next_, sizeof value);
    next_ += sizeof value;
    return value;
  }
  Shape shape() {
    Shape shape;
    for (int64_t rank = number(); rank > 0; --rank) shape.append(number());
    return shape;
  }
  std::string name() {
    const auto size = static_cast<size_t>(number());
    next_ += size;
    return {next_ - size, size};
  }

 private:
  const char *next_, *end_;
};

/// The pieces of all ranks by tensor, in each rank's order; `shard` of a piece is its rank.
CheckpointIndex exchange_pieces(Communicator& world, const GivenByName& given) {
  Packer packer;
  for (const auto& [name, pieces] : given) {
    packer.name(name);
    packer.shape(pieces.front().piece.part->logical_shape);
    packer.number(static_cast<int64_t>(pieces.size()));
    for (const Given& one : pieces) {
      packer.shape(one.piece.piece.box.begin);
      packer.shape(one.piece.piece.box.size);
      packer.number(one.piece.piece.begin);
      packer.number(one.piece.piece.end);
    }
  }
  CheckpointIndex index;
  size_t rank = 0;
  for (const std::string& text : world.host().texts_on_all(packer.text())) {
    for (Unpacker unpacker(text); !unpacker.done();) {
      const std::string name = unpacker.name();
      const Shape shape = unpacker.shape();
      StoredTensor& tensor =
          index.tensors.try_emplace(name, StoredTensor{DType::f32, shape, {}}).first->second;
      VIADUCT_CHECK(ShapeError, tensor.shape == shape, "gather: {} is {} on rank {}, {} on others",
                    name, to_string(shape), rank, to_string(tensor.shape));
      for (int64_t count = unpacker.number(); count > 0; --count) {
        StoredPiece piece;
        piece.piece.box.begin = unpacker.shape();
        piece.piece.box.size = unpacker.shape();
        piece.piece.begin = unpacker.number();
        piece.piece.end = unpacker.number();
        piece.shard = rank;
        tensor.pieces.push_back(piece);
      }
    }
    ++rank;
  }
  try {
    check_complete(index, "gather");
  } catch (const IoError& error) {  // nothing was read: the layout is invalid
    fail<ShapeError>("{}", error.what());
  }
  return index;
}

using Tensors = std::map<std::string, StoredTensor>;

/// Moves the values of the tensors [first, last) to rank 0 and calls `visit` there.
void move_batch(Communicator& world, Device& device, const GivenByName& given,
                Tensors::const_iterator first, Tensors::const_iterator last, double factor,
                FunctionRef<void(const std::string&, const Tensor&)> visit) {
  const auto ranks = static_cast<size_t>(world.size());
  std::vector<int64_t> counts(ranks, 0);  // elements contributed by each rank
  for (auto tensor = first; tensor != last; ++tensor) {
    for (const StoredPiece& piece : tensor->second.pieces)
      counts[piece.shard] += piece.piece.elements();
  }
  const bool root = world.rank() == 0;
  const int64_t mine = counts[static_cast<size_t>(world.rank())];
  std::vector<int64_t> send(ranks, 0), receive(ranks, 0);
  send[0] = mine;
  if (root) receive = counts;
  int64_t received = 0;
  for (int64_t count : receive) received += count;

  const Tensor out = host_tensor(DType::f32, {mine}), in = host_tensor(DType::f32, {received});
  float* next = out.data<float>();
  for (auto tensor = first; tensor != last; ++tensor) {
    const auto found = given.find(tensor->first);
    if (found == given.end()) continue;
    for (const Given& one : found->second) {
      const Tensor values = read_logical(device, *one.stored, one.piece, factor);
      std::memcpy(next, values.raw(), static_cast<size_t>(values.bytes()));
      next += values.elements();
    }
  }
  world.all_to_all(out, in, send, receive).wait_host();
  if (!root) return;

  std::vector<const float*> from(ranks);  // the next piece of each rank
  const float* begin = in.data<float>();
  for (size_t rank = 0; rank < ranks; ++rank) {
    from[rank] = begin;
    begin += counts[rank];
  }
  for (auto tensor = first; tensor != last; ++tensor) {
    const Tensor whole = host_tensor(DType::f32, tensor->second.shape);
    const Piece all = whole_piece(whole_box(whole.shape()));
    for (const StoredPiece& piece : tensor->second.pieces) {
      copy_shared(piece.piece, reinterpret_cast<const std::byte*>(from[piece.shard]), all,
                  static_cast<std::byte*>(whole.raw()), sizeof(float));
      from[piece.shard] += piece.piece.elements();
    }
    visit(tensor->first, whole);
  }
}

}  // namespace

void gather_logical(Communicator& world, Device& device, const std::vector<StoredRun>& runs,
                    double factor,
                    FunctionRef<void(const std::string& name, const Tensor& tensor)> visit) {
  const GivenByName given = given_pieces(runs);
  const CheckpointIndex index = exchange_pieces(world, given);
  for (auto first = index.tensors.begin(); first != index.tensors.end();) {
    auto last = first;
    for (int64_t elements = 0; last != index.tensors.end(); ++last) {
      elements += last->second.shape.elements();
      if (last != first && elements > kBatchElements) break;
    }
    move_batch(world, device, given, first, last, factor, visit);
    first = last;
  }
}

}  // namespace viaduct
