// A small quadratic under bounds: minimise 1/2 y'Hy - c'y with b + y >= 0 in some columns, by exchanging blocks of
// them.
#pragma once
#include "cholesky.hpp"

namespace halfstep::HALFSTEP_ISA {

// h: lower part of H in rows 0..f-1, c in row f, both kept. `work` has the room of h; y and fixed have f values.
// Columns start..stop are bounded. Leaves y; b + y may miss a bound by rounding. False: H is not positive definite.
template <class T>
bool solve_bounded(const T* h, int ld, int f, const T* b, int start, int stop, T* work, T* scratch, T* y, T* fixed) {
  const T* c = h + ptrdiff_t(f) * ld;
  for (int k = 0; k < f; ++k) fixed[k] = k >= start && k < stop && b[k] <= 0 && c[k] < 0;
  int fewest = f + 1, patience = 3;
  for (int round = 0; round < 20 + 4 * f; ++round) {
    // A fixed column moves to its bound: its row is y_k = -b_k, and what it pulls on the others goes to their right
    // side.
    T* right = work + ptrdiff_t(f) * ld;
    for (int r = 0; r < f; ++r) {
      right[r] = fixed[r] ? -b[r] : c[r];
      for (int k = 0; k <= r; ++k)
        work[ptrdiff_t(r) * ld + k] = fixed[r] || fixed[k] ? T(r == k) : h[ptrdiff_t(r) * ld + k];
    }
    for (int r = 0; r < f; ++r)
      for (int k = 0; k < r; ++k) {
        const T pull = h[ptrdiff_t(r) * ld + k];
        if (fixed[k] && !fixed[r]) right[r] += pull * b[k];
        if (fixed[r] && !fixed[k]) right[k] += pull * b[r];
      }
    if (!cholesky(work, ld, f, f + 1, scratch)) return false;
    std::memcpy(y, work + ptrdiff_t(f) * ld, sizeof(T) * f);
    solve_transposed(work, ld, f, y);
    T size = 0;
    for (int k = 0; k < f; ++k) size = std::fmax(size, std::fabs(b[k] + y[k]));
    const T small = T(16) * std::numeric_limits<T>::epsilon();
    int wrong = 0, last = -1;
    T* const flip = right;  // read already
    for (int k = 0; k < f; ++k) {
      flip[k] = 0;
      if (k < start || k >= stop) continue;
      if (fixed[k]) {
        T gradient = -c[k], terms = std::fabs(c[k]);
        for (int r = 0; r < f; ++r) {
          const T term = (r < k ? h[ptrdiff_t(k) * ld + r] : h[ptrdiff_t(r) * ld + k]) * y[r];
          gradient += term, terms += std::fabs(term);
        }
        flip[k] = gradient < -small * terms;
      } else {
        flip[k] = b[k] + y[k] < -small * size;
      }
      if (flip[k] != 0) ++wrong, last = k;
    }
    if (wrong == 0) break;
    // Exchange all that are wrong while their number falls; otherwise the last one, which cannot go on for ever.
    const bool falls = wrong < fewest;
    if (falls)
      fewest = wrong, patience = 3;
    else if (patience > 0)
      --patience;
    const bool all = falls || patience > 0;
    for (int k = 0; k < f; ++k)
      if (flip[k] != 0 && (all || k == last)) fixed[k] = T(fixed[k] == 0);
  }
  for (int k = start; k < stop; ++k)
    if (b[k] + y[k] < 0) y[k] = -b[k];
  return true;
}

}  // namespace halfstep::HALFSTEP_ISA
