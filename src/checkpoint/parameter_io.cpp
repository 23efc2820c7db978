#include "checkpoint/parameter_io.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "base/error.h"

namespace viaduct {
namespace {

template <class T>
double widen(T value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<float>(value);
}

template <class T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<T>(static_cast<float>(value));
}

template <class From, class To>
void convert_typed(ThreadPool& pool, const Tensor& from, const Tensor& to, double factor) {
  constexpr int64_t kBlock = 64;  // neither side is read against the grain for long
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t rows = to.dim(0), columns = to.dim(1);
  const int64_t from_row = from.stride(0), from_column = from.stride(1);
  const int64_t to_row = to.stride(0), to_column = to.stride(1);
  pool.run((rows + kBlock - 1) / kBlock, [&](int64_t block, int) {
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      for (int64_t r = block * kBlock; r < std::min(rows, (block + 1) * kBlock); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kBlock); ++c) {
          target[r * to_row + c * to_column] =
              narrow<To>(factor * widen(source[r * from_row + c * from_column]));
        }
      }
    }
  });
}

/// to[r, c] = factor · from[r, c], or from[c, r] where transposed; rank 1 or 2, any strides, any
/// floating dtypes, on the host.
void convert_matrix(ThreadPool& pool, Tensor from, Tensor to, bool transposed, double factor) {
  if (transposed) from = from.transposed(0, 1);
  if (to.rank() == 1) from = from.view({from.dim(0), 1}), to = to.view({to.dim(0), 1});
  dispatch_floating(from.dtype(), [&](auto source) {
    dispatch_floating(to.dtype(), [&](auto target) {
      convert_typed<decltype(source), decltype(target)>(pool, from, to, factor);
    });
  });
}

std::string strip(const std::string& name, const std::string& prefix) {
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// The name under which `source` has a logical tensor: as it is, or without the prefix that some
/// checkpoints leave out.
std::string stored_name(const TensorSource& source, const std::string& name,
                        const TensorNames& names) {
  if (!source.contains(name) && source.contains(strip(name, names.optional_prefix)))
    return strip(name, names.optional_prefix);
  return name;
}

bool ignored(const std::string& name, const TensorNames& names, bool tied) {
  if (tied && (name == names.head + ".weight")) return true;
  return std::any_of(names.ignored_suffixes.begin(), names.ignored_suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

}  // namespace

void check_tensors_fit(const std::vector<const Parameter*>& parameters, const TensorSource& source,
                       const TensorNames& names, bool tied_embeddings) {
  std::vector<std::string> problems;
  std::set<std::string> used;
  for (const Parameter* parameter : parameters) {
    for (const Part& part : parameter->parts) {
      const std::string name = stored_name(source, part.name, names);
      const TensorInfo* info = source.find(name);
      used.insert(name);
      if (info == nullptr) {
        problems.push_back(fmt::format("{} is missing", part.name));
      } else if (!is_floating(info->dtype) || !(info->shape == part.logical_shape)) {
        problems.push_back(fmt::format("{} is {} {}, expected a floating tensor {}", part.name,
                                       dtype_name(info->dtype), to_string(info->shape),
                                       to_string(part.logical_shape)));
      }
    }
  }
  for (const TensorInfo& info : source.tensors()) {
    if (!used.contains(info.name) && !ignored(info.name, names, tied_embeddings)) {
      problems.push_back(fmt::format("{} belongs to no parameter of the model", info.name));
    }
  }
  if (!problems.empty()) {
    std::string text = fmt::format("{}: {} tensors do not fit the configuration: ", source.where(),
                                   problems.size());
    for (size_t i = 0; i < std::min<size_t>(problems.size(), 8); ++i)
      text += (i > 0 ? "; " : "") + problems[i];
    if (problems.size() > 8) text += "; …";
    throw IoError(text);
  }
}

void load_parameters(OpContext& context, ParameterStore& store, const TensorSource& source,
                     const TensorNames& names, bool tied_embeddings) {
  check_tensors_fit(store.parameters(), source, names, tied_embeddings);
  fill_from_logical(
      context.device, store.parameters(), [&](const Parameter& p) { return store.master(p); },
      [&](const std::string& name) { return source.tensor(stored_name(source, name, names)); });
  store.publish_masters(context);
}

void fill_from_logical(Device& device, const std::vector<const Parameter*>& parameters,
                       FunctionRef<Tensor(const Parameter&)> of,
                       FunctionRef<Tensor(const std::string& name)> get) {
  for (const Parameter* parameter : parameters) {
    const Tensor target = of(*parameter);
    Tensor host = host_tensor(target.dtype(), target.shape());
    for (const Part& part : parameter->parts) {
      Tensor logical = get(part.name);
      VIADUCT_CHECK(ShapeError, logical.shape() == part.logical_shape, "{} is {}, expected {}",
                    part.name, describe(logical), to_string(part.logical_shape));
      for (int d = 0; d < logical.rank(); ++d)
        logical = logical.slice(d, part.box.begin[d], part.box.size[d]);
      convert_matrix(device.pool(), logical, host.slice(0, part.storage_row, part.rows()),
                     part.transposed, 1);
    }
    device.copy_from_host(host, target);
  }
}

void for_each_logical_tensor(Device& device, const std::vector<const Parameter*>& parameters,
                             FunctionRef<Tensor(const Parameter&)> of, double factor,
                             FunctionRef<void(const std::string&, const Tensor&)> visit) {
  for (const Parameter* parameter : parameters) {
    const Tensor stored = of(*parameter);
    Tensor host = host_tensor(stored.dtype(), stored.shape());
    device.copy_to_host(stored, host);
    for (const Part& part : parameter->parts) {
      VIADUCT_CHECK(ShapeError, part.box.size == part.logical_shape,
                    "{}: this rank holds {} of {}: not the whole tensor", part.name,
                    to_string(part.box.size), to_string(part.logical_shape));
      const Tensor logical = host_tensor(DType::f32, part.logical_shape);
      convert_matrix(device.pool(), host.slice(0, part.storage_row, part.rows()), logical,
                     part.transposed, factor);
      visit(part.name, logical);
    }
  }
}

}  // namespace viaduct
