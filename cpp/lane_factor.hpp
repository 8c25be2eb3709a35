// The quadratics of a group of rows, a row in each lane of two vectors, and their Cholesky factors: a vector operation
// where a row alone costs a scalar one. Knows nothing of cells.
#pragma once
#include <cmath>
#include <limits>

#include "tiles.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
constexpr int lane_group = tile_columns<T>;
constexpr int triangle_entries(int f) { return f * (f + 1) / 2; }
constexpr int lane_entries(int f) { return triangle_entries(f) + f; }
// Values of the quadratics of some rows.
template <class T>
inline size_t lane_sums(int f, int64_t rows) {
  return size_t(rows + lane_group<T> - 1) / lane_group<T> * lane_group<T> * lane_entries(f);
}

// sums: entries x group, the triangle of Q with entry (r, c), c <= r, at r (r + 1)/2 + c, then q. NV: vectors in use.
template <class T>
struct LaneQuadratics {
  static constexpr int w = width<T>, group = lane_group<T>;
  T* sums;
  int f;

  T* entry(int r, int c) const { return sums + (r * (r + 1) / 2 + c) * group; }
  T* right(int r) const { return sums + (triangle_entries(f) + r) * group; }

  // R rows of lanes against C rows c.. of the factor: their columns c.. of the factor, from what stands there.
  template <int R, int C, int NV>
  void substitute(T* const (&rows)[R], int c) const {
    const T* up[C];
    for (int j = 0; j < C; ++j) up[j] = entry(c + j, 0);
    Vec<T> s[R][C][NV];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j)
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) s[i][j][v] = load(rows[i] + (c + j) * group + v * w);
    for (int k = 0; k < c; ++k) {
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j)
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) {
          const Vec<T> by = load(up[j] + k * group + v * w);
#pragma GCC unroll 8
          for (int i = 0; i < R; ++i) s[i][j][v] -= load(rows[i] + k * group + v * w) * by;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j)
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) {
          for (int k = 0; k < j; ++k) s[i][j][v] -= s[i][k][v] * load(up[j] + (c + k) * group + v * w);
          s[i][j][v] *= load(up[j] + (c + j) * group + v * w);
          store(rows[i] + (c + j) * group + v * w, s[i][j][v]);
        }
  }
  // 1 / sqrt of the pivot, or not a number where it is no more than a few roundings of the diagonal.
  template <int NV>
  static void invert_pivot(T* row, int r) {
    const T relative = T(4) * std::numeric_limits<T>::epsilon();
    for (int v = 0; v < NV; ++v) {
      T* at = row + r * group + v * w;
      const Vec<T> diagonal = load(at);
      Vec<T> s = diagonal;
      for (int k = 0; k < r; ++k) s -= load(row + k * group + v * w) * load(row + k * group + v * w);
      s = s > relative * diagonal ? s : Vec<T>{} - 1;
      T pivot[w];
      store(pivot, s);
      for (int lane = 0; lane < w; ++lane) pivot[lane] = T(1) / std::sqrt(pivot[lane]);
      store(at, load(pivot));
    }
  }

  // L in place of the triangle, its diagonal inverted. A lane that is not positive definite comes out not finite.
  template <int NV>
  void factor() const {
    for (int r = 0; r < f; r += 2) {
      T* const rows[2] = {entry(r, 0), entry(r + 1, 0)};
      T *const upper[1] = {rows[0]}, *const lower[1] = {rows[1]};
      for (int c = 0; c < r; c += 2) r + 1 < f ? substitute<2, 2, NV>(rows, c) : substitute<1, 2, NV>(upper, c);
      invert_pivot<NV>(rows[0], r);
      if (r + 1 == f) break;
      substitute<1, 1, NV>(lower, r);
      invert_pivot<NV>(rows[1], r + 1);
    }
  }
  // x = L^-1 x and x = L^-T x, for f x group values.
  template <int NV>
  void forward(T* x) const {
    T* const row[1] = {x};
    for (int c = 0; c < f; c += 2) c + 1 < f ? substitute<1, 2, NV>(row, c) : substitute<1, 1, NV>(row, c);
  }
  template <int NV>
  void backward(T* x) const {
    for (int r = f - 1; r >= 0; --r) {
      const T* row = entry(r, 0);
      Vec<T> s[NV];
      for (int v = 0; v < NV; ++v) {
        s[v] = load(x + r * group + v * w) * load(row + r * group + v * w);
        store(x + r * group + v * w, s[v]);
      }
      for (int k = 0; k < r; ++k)
        for (int v = 0; v < NV; ++v) {
          T* to = x + k * group + v * w;
          store(to, load(to) - load(row + k * group + v * w) * s[v]);
        }
    }
  }
};

}  // namespace halfstep::HALFSTEP_ISA
