// Sparse cells into rows and back, in linear time. Values travel with their cells.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfstep {

// Where the groups of cells begin: indptr (n_groups + 1) from the `keys` of the cells, each below n_groups.
template <class Key>
void count_groups(const Key* keys, int64_t n, int64_t n_groups, int64_t* indptr) {
  std::fill(indptr, indptr + n_groups + 1, 0);
  for (int64_t k = 0; k < n; ++k) {
    if (keys[k] < 0 || int64_t(keys[k]) >= n_groups)
      throw std::out_of_range("index " + std::to_string(keys[k]) + " at cell " + std::to_string(k) + " is outside 0.." +
                              std::to_string(n_groups - 1));
    ++indptr[keys[k] + 1];
  }
  for (int64_t g = 0; g < n_groups; ++g) indptr[g + 1] += indptr[g];
}

// Calls `place(cell, position)` once for each cell in order; cells keep their order within a group. Walking the keys
// again for each array that moves costs no more time than remembering the positions, and eight bytes a cell less.
template <class Key, class Place>
void place_cells(const Key* keys, int64_t n, int64_t n_groups, const int64_t* indptr, Place place) {
  std::vector<int64_t> next(indptr, indptr + n_groups);
  for (int64_t k = 0; k < n; ++k) place(k, next[keys[k]]++);
}

}  // namespace halfstep
