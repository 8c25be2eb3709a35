// Whole-matrix work: Gram matrices, rotations, and scores of pairs.
#pragma once
#include <cstring>

#include "accumulate.hpp"
#include "kernels.hpp"

namespace halfstep::HALFSTEP_ISA {

// Adds x'x of n rows (both triangles) to `out` (d x d, float64). Partial sums of T are short, so they stay accurate.
template <class T>
void gram_rows(const T* x, int64_t n, int d, double* out) {
  constexpr int64_t flush_rows = 16 * panel_cells;
  const int ld = panel_ld<T>(d);
  const Room<T> room(size_t(panel_cells) * ld + quadratic_size<T>(d));
  T *panel = room.at, *part = panel + size_t(panel_cells) * ld;
  for (int64_t first = 0; first < n; first += flush_rows) {
    const int64_t last = first + flush_rows < n ? first + flush_rows : n;
    for (int64_t i = first; i < last; i += panel_cells) {
      const int count = int(last - i < panel_cells ? last - i : panel_cells);
      for (int k = 0; k < count; ++k) scaled_copy(x + (i + k) * d, T(1), panel + ptrdiff_t(k) * ld, d);
      panel_gram(i == first ? Put::set : Put::add, count, panel, ld, d, d, part, ld, nothing);
    }
    for (int r = 0; r < d; ++r)
      for (int c = 0; c <= r; ++c) out[ptrdiff_t(r) * d + c] += part[ptrdiff_t(r) * ld + c];
  }
}

// x[:, start:start+f] of n rows becomes itself times `basis` (f x f).
template <class T>
void rotate_rows(T* x, int64_t n, int d, int start, int f, const T* basis) {
  const int ld = panel_ld<T>(f), rows = panel_cells + tile_rows;
  const Room<T> room(size_t(ld) * (f + 2 * rows));
  T *turned = room.at, *in = turned + size_t(ld) * f, *out = in + size_t(ld) * rows;
  for (int r = 0; r < f; ++r) std::memcpy(turned + ptrdiff_t(r) * ld, basis + ptrdiff_t(r) * f, sizeof(T) * f);
  for (int64_t i = 0; i < n; i += panel_cells) {
    const int count = int(n - i < panel_cells ? n - i : panel_cells);
    for (int k = 0; k < count; ++k) std::memcpy(in + ptrdiff_t(k) * ld, x + (i + k) * d + start, sizeof(T) * f);
    product(Put::set, count, f, f, in, ld, 1, turned, ld, out, ld);
    for (int k = 0; k < count; ++k) std::memcpy(x + (i + k) * d + start, out + ptrdiff_t(k) * ld, sizeof(T) * f);
  }
}

// out[p] = left[rows[p]] . right[columns[p]].
template <class T>
void pair_scores(const T* left, const T* right, int d, const int64_t* rows, const int64_t* columns, int64_t n, T* out) {
  for (int64_t p = 0; p < n; ++p) out[p] = dot(left + rows[p] * d, right + columns[p] * d, d);
}

}  // namespace halfstep::HALFSTEP_ISA
