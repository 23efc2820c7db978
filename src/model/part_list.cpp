#include "model/part_list.h"

#include <utility>

namespace viaduct {

void append_part(std::vector<Part>& parts, Part part) {
  if (!parts.empty()) {
    Part& last = parts.back();
    const int dim = dim_of_rows(part);
    if (last.name == part.name && last.replicas == part.replicas && last.owned == part.owned &&
        last.storage_row + last.rows() == part.storage_row &&
        last.box.begin[dim] + last.box.size[dim] == part.box.begin[dim]) {
      last.box.size[dim] += part.box.size[dim];
      return;
    }
  }
  parts.push_back(std::move(part));
}

}  // namespace viaduct
