// The cells of one row, column by column within groups of `width` cells: scores and pulls need no horizontal sums.
//
//   z_k = x_k'v          v = sum_k pull_k x_k,          x_k any range of columns of the other side's row
//
// The last group is filled with cells at zero. A row that does not fit is walked by its indices from there on.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
class Turned {
 public:
  Turned(const Cells<T>& cells, Workspace<T>& ws)
      : cells(cells),
        d(cells.h.d),
        n(cells.n),
        whole(round_up(cells.n)),
        inside(whole < ws.turned_cells ? whole : ws.turned_cells),
        x(ws.turned) {}

  // Reads all columns of all cells.
  void turn() {
    for (int64_t k = 0; k < inside; k += w) {
      const int m = int(n - k < w ? n - k : w);
      for (int64_t next = k + w; next < k + 2 * w && next < n; ++next) prefetch_row(row(next), d);
      pack_transposed<T>(
          m, d, [&](int r) { return row(k + r); }, [](int) { return T(1); }, static_cast<const T*>(nullptr), x + k * d,
          w);
    }
  }

  // What arrays of cells are filled up to.
  static int64_t round_up(int64_t n) { return (n + w - 1) / w * w; }

  // z of every cell, over f columns from the first one on.
  void scores(const T* v, int first, int f, T* z) const {
    int64_t k = 0;
    for (; k < inside; k += w) {
      const T* at = x + k * d + first * w;
      Vec<T> even = {}, odd = {};
      int c = 0;
      for (; c + 2 <= f; c += 2) even += v[c] * load(at + c * w), odd += v[c + 1] * load(at + (c + 1) * w);
      if (c < f) even += v[c] * load(at + c * w);
      store(z + k, even + odd);
    }
    for (; k < n; ++k) {
      if (k + prefetch_ahead < n) prefetch_row(row(k + prefetch_ahead) + first, f);
      z[k] = dot(row(k) + first, v, f);
    }
    for (; k < whole; ++k) z[k] = 0;
  }

  // v of these pulls, which is zero behind f up to a whole block. `pulled_columns` at a time, whose sums stay in
  // registers; what the last ones read behind f is dropped.
  void pulled(const T* pull, int first, int f, T* v) const {
    constexpr int blocked = pulled_columns, summed = w < blocked ? w : blocked;
    for (int c = 0; c < f; c += blocked) {
      Vec<T> sum[blocked] = {};
      for (int64_t k = 0; k < inside; k += w) {
        const Vec<T> by = load(pull + k);
        const T* at = x + k * d + (first + c) * w;
#pragma GCC unroll 8
        for (int j = 0; j < blocked; ++j) sum[j] += by * load(at + j * w);
      }
      for (int j = 0; j < blocked; j += summed) {
        const Vec<T> together = sum_each<T, summed>(*reinterpret_cast<Vec<T>(*)[summed]>(sum + j));
        if constexpr (summed == w)
          store(v + c + j, together);
        else
          HalfVec<T>::store(v + c + j, __builtin_shufflevector(together, together, 0, 1, 2, 3, 4, 5, 6, 7));
      }
    }
    for (int c = f; c % blocked != 0; ++c) v[c] = 0;
    for (int64_t k = inside; k < n; ++k)
      if (pull[k] != 0) axpy(pull[k], row(k) + first, v, f);
  }

 private:
  static constexpr int w = width<T>;
  const Cells<T>& cells;
  const int d;
  const int64_t n, whole, inside;
  T* const x;

  const T* row(int64_t k) const { return cells.h.other + int64_t(cells.indices[k]) * d; }
};

}  // namespace halfstep::HALFSTEP_ISA
