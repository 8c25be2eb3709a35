// Blocked left-looking Cholesky of a lower row-major matrix. Rows below the matrix are solved along: with the right-hand
// side as the row after the last, the forward substitution costs nothing of its own.
#pragma once
#include <cmath>
#include <limits>

#include "tiles.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
constexpr int cholesky_block = tile_columns<T>;
// Scratch of the factorisation of n columns: the transposed block row, the block, its inverse.
template <class T>
constexpr size_t cholesky_scratch(int n) {
  return size_t(round_up(n, cholesky_block<T>) + 2 * cholesky_block<T>) * cholesky_block<T>;
}

// Factors the symmetric positive definite nb x nb block (both triangles given) as U'U and inverts U. False: not definite.
template <class T>
inline bool factor_block(int nb, T (*u)[cholesky_block<T>], T (*inverse)[cholesky_block<T>], const T* smallest) {
  constexpr int B = cholesky_block<T>, w = width<T>;
  for (int k = 0; k < nb; ++k) {
    const T pivot = u[k][k];
    if (!(pivot > smallest[k]) || !std::isfinite(pivot)) return false;
    const T scale = T(1) / std::sqrt(pivot);
#pragma GCC unroll 2
    for (int v = 0; v < B; v += w) store(&u[k][v], load(&u[k][v]) * scale);
    for (int r = k + 1; r < nb; ++r) {
      const T by = u[k][r];
#pragma GCC unroll 2
      for (int v = 0; v < B; v += w) store(&u[r][v], load(&u[r][v]) - by * load(&u[k][v]));
    }
  }
  for (int k = B - 1; k >= 0; --k) {
    Vec<T> row[2] = {};
    T unit[B] = {};
    if (k < nb) {
      unit[k] = T(1);
      row[0] = load(unit), row[1] = load(unit + w);
      for (int c = k + 1; c < nb; ++c) {
        row[0] -= u[k][c] * load(&inverse[c][0]);
        row[1] -= u[k][c] * load(&inverse[c][w]);
      }
      const T scale = T(1) / u[k][k];
      row[0] *= scale, row[1] *= scale;
    }
    store(&inverse[k][0], row[0]), store(&inverse[k][w], row[1]);
  }
  return true;
}

// a: `rows` x n, rows >= n, lower part of the first n rows; overwritten by L, and the further rows by themselves times
// L^-T. A pivot below `n eps` of its diagonal counts as not definite.
template <class T>
bool cholesky(T* a, int lda, int n, int rows, T* scratch) {
  constexpr int B = cholesky_block<T>;
  T* const turned = scratch;
  auto block = reinterpret_cast<T(*)[B]>(scratch + size_t(round_up(n, B)) * B);
  auto inverse = block + B;
  const T relative = T(4) * std::numeric_limits<T>::epsilon();
  for (int j = 0; j < n; j += B) {
    const int nb = n - j < B ? n - j : B;
    T smallest[B];
    for (int c = 0; c < nb; ++c) smallest[c] = relative * a[ptrdiff_t(j + c) * lda + j + c];
    if (j > 0) {
      pack_transposed<T>(
          B, j, [&](int r) { return a + ptrdiff_t(j + r < rows ? j + r : rows - 1) * lda; }, [](int) { return T(1); },
          static_cast<const T*>(nullptr), turned, B);
      for (int i = j; i < rows; i += tile_rows) {
        T* row = a + ptrdiff_t(i) * lda;
        tile<T, 2, Put::subtract>(j, row, lda, 1, turned, B, row + j, lda);
      }
    }
    for (int r = 0; r < B; ++r)
      for (int c = r; c < B; ++c) block[r][c] = c < nb ? a[ptrdiff_t(j + c) * lda + j + r] : T(0);
    for (int r = 1; r < B; ++r)
      for (int c = 0; c < r; ++c) block[r][c] = T(0);
    if (!factor_block<T>(nb, block, inverse, smallest)) return false;
    for (int r = 0; r < nb; ++r)
      for (int c = 0; c <= r; ++c) a[ptrdiff_t(j + r) * lda + j + c] = block[c][r];
    for (int i = j + nb; i < rows; i += tile_rows) {
      T* row = a + ptrdiff_t(i) * lda + j;
      tile<T, 2, Put::set>(nb, row, lda, 1, &inverse[0][0], B, row, lda);  // what lies behind nb may be anything
    }
  }
  return true;
}

// x = L^-T y, in place on x.
template <class T>
inline void solve_transposed(const T* l, int ldl, int n, T* x) {
  for (int i = n - 1; i >= 0; --i) {
    const T* row = l + ptrdiff_t(i) * ldl;
    x[i] /= row[i];
    axpy(-x[i], row, x, i);
  }
}

// x = L^-1 y, in place on x.
template <class T>
inline void solve_lower(const T* l, int ldl, int n, T* x) {
  for (int i = 0; i < n; ++i) {
    const T* row = l + ptrdiff_t(i) * ldl;
    x[i] = (x[i] - dot(row, x, i)) / row[i];
  }
}

}  // namespace halfstep::HALFSTEP_ISA
