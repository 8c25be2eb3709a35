// The cells of one row, column by column within groups of `width` cells: scores and pulls need no horizontal sums.
//
//   z_k = s_k x_k'v          v = sum_k pull_k s_k x_k,          s_k = 1, or the margin's target
//
// The last group is filled with cells at zero. A row that does not fit is walked by its indices from there on.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
class Turned {
 public:
  Turned(const Cells<T>& cells, const T* sign, int f, Workspace<T>& ws)
      : cells(cells),
        sign(sign),
        f(f),
        n(cells.n),
        whole(round_up(cells.n)),
        inside(whole < ws.turned_cells ? whole : ws.turned_cells),
        x(ws.turned) {}

  // Reads the x of all cells, once their signs are known.
  void turn() {
    for (int64_t k = 0; k < inside; k += w) {
      const int m = int(n - k < w ? n - k : w);
      for (int64_t next = k + w; next < k + 2 * w && next < n; ++next) prefetch_row(cells.row(next), f);
      pack_transposed<T>(
          m, f, [&](int r) { return cells.row(k + r); }, [&](int r) { return sign[k + r]; },
          static_cast<const T*>(nullptr), x + k * f, w);
    }
  }

  // What arrays of cells are filled up to.
  static int64_t round_up(int64_t n) { return (n + w - 1) / w * w; }

  // z of every cell.
  void scores(const T* v, T* z) const {
    int64_t k = 0;
    for (; k < inside; k += w) {
      const T* at = x + k * f;
      Vec<T> even = {}, odd = {};
      int c = 0;
      for (; c + 2 <= f; c += 2) even += v[c] * load(at + c * w), odd += v[c + 1] * load(at + (c + 1) * w);
      if (c < f) even += v[c] * load(at + c * w);
      store(z + k, even + odd);
    }
    for (; k < n; ++k) {
      if (k + prefetch_ahead < n) prefetch_row(cells.row(k + prefetch_ahead), f);
      z[k] = sign[k] * dot(cells.row(k), v, f);
    }
    for (; k < whole; ++k) z[k] = 0;
  }

  // v of these pulls. `blocked` columns at a time, whose sums stay in registers.
  void pulled(const T* pull, T* v) const {
    constexpr int blocked = 8;
    for (int c = 0; c < f; c += blocked) {
      const int m = f - c < blocked ? f - c : blocked;
      Vec<T> sum[blocked] = {};
      for (int64_t k = 0; k < inside; k += w) {
        const Vec<T> by = load(pull + k);
        const T* at = x + k * f + c * w;
#pragma GCC unroll 8
        for (int j = 0; j < blocked; ++j) sum[j] += by * load(at + (j < m ? j : 0) * w);
      }
      for (int j = 0; j < m; ++j) v[c + j] = horizontal_sum<T>(sum[j]);
    }
    for (int64_t k = inside; k < n; ++k)
      if (pull[k] != 0) axpy(pull[k] * sign[k], cells.row(k), v, f);
  }

 private:
  static constexpr int w = width<T>;
  const Cells<T>& cells;
  const T* sign;
  const int f;
  const int64_t n, whole, inside;
  T* const x;
};

}  // namespace halfstep::HALFSTEP_ISA
