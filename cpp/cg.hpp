// Conjugate gradients on the row's quadratic without forming it: warm start from the old row, diagonal preconditioner,
// stopped by the residual. In a rotated basis the background is diagonal and costs nothing.
#pragma once
#include "finish.hpp"
#include "groups.hpp"

namespace halfstep::HALFSTEP_ISA {

// out = (lam I + w0 G) v, the part of the quadratic without cells.
template <class T>
inline void apply_base(const HalfStep<T>& h, int64_t i, const T* v, T* out) {
  const int f = h.free();
  const T lam = h.penalty(i), w0 = h.background(i);
  for (int c = 0; c < f; ++c) out[c] = (lam + (h.spectrum ? w0 * h.spectrum[c] : T(0))) * v[c];
  if (w0 > 0 && !h.spectrum)
    for (int c = 0; c < f; ++c) out[c] += w0 * dot(h.gram + ptrdiff_t(h.free_start + c) * h.d + h.free_start, v, f);
}

// right += sum l x,  r += sum (l - s x'b) x  and  diagonal += sum s x^2 of one group of cells.
template <class T>
inline void start_group(const Group<T>& x, const T* s, const T* l, const T* b, int f, T* right, T* r, T* diagonal) {
  constexpr int G = group_cells<T>, w = width<T>;
  T z[G];
  group_scores<T>(x, b, f, z);
  for (int g = 0; g < G; ++g) z[g] = l[g] - s[g] * z[g];
  int c = 0;
  for (; c + w <= f; c += w) {
    Vec<T> to_right = load(right + c), to_r = load(r + c), to_diagonal = load(diagonal + c);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const Vec<T> at = load(x[g] + c);
      to_right += l[g] * at, to_r += z[g] * at, to_diagonal += s[g] * at * at;
    }
    store(right + c, to_right), store(r + c, to_r), store(diagonal + c, to_diagonal);
  }
  for (; c < f; ++c)
    for (int g = 0; g < G; ++g) {
      const T at = x[g][c];
      right[c] += l[g] * at, r[c] += z[g] * at, diagonal[c] += s[g] * at * at;
    }
}

// Steps from b, whose residual is r, with `apply` for the quadratic times a vector; ws.diagonal is that of the
// quadratic. Returns their number; `gap` is the relative residual reached. `right` is overwritten.
template <class T, class Apply>
int descend(const HalfStep<T>& h, Workspace<T>& ws, T* right, double& gap, Apply apply) {
  const int f = h.free();
  T *b = ws.b, *r = ws.r, *p = ws.p, *image = ws.v, *inverse = ws.diagonal, *z = right;
  for (int c = 0; c < f; ++c) {
    inverse[c] = inverse[c] > 0 ? T(1) / inverse[c] : T(1);
    p[c] = inverse[c] * right[c];
  }
  const double right_size = dot(right, p, f), start = right_size > 0 ? right_size : 1;
  const double goal = h.tolerance * h.tolerance * start;
  for (int c = 0; c < f; ++c) p[c] = inverse[c] * r[c];
  double rz = dot(r, p, f);

  int step = 0;
  for (; step < h.max_steps && rz > goal; ++step) {
    apply(p, image);
    const double curvature = dot(p, image, f);
    if (!(curvature > 0)) break;
    const T alpha = T(rz / curvature);
    for (int c = 0; c < f; ++c) {
      b[c] += alpha * p[c];
      r[c] -= alpha * image[c];
      z[c] = inverse[c] * r[c];
    }
    const double next = dot(r, z, f);
    const T beta = T(next / rz);
    for (int c = 0; c < f; ++c) p[c] = z[c] + beta * p[c];
    rz = next;
  }
  gap = std::sqrt(rz / start);
  return step;
}

// ws.b: start in, solution out. Reads ws.s and ws.l. Returns the number of steps; `gap` is the relative residual
// reached.
template <class T>
int solve_cg(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, double& gap) {
  constexpr int G = group_cells<T>;
  const int f = h.free();
  const int64_t n = cells.n;
  const T lam = h.penalty(i), w0 = h.background(i);
  T *b = ws.b, *r = ws.r, *image = ws.v, *diagonal = ws.diagonal, *right = ws.base;
  const auto row = [&](int64_t k) { return cells.row(k); };
  for (int64_t k = n; k < n + G; ++k) ws.s[k] = ws.l[k] = T(0);  // the repeated rows of the last group

  base_terms(h, i, right);
  apply_base(h, i, b, image);
  for (int c = 0; c < f; ++c) {
    r[c] = right[c] - image[c];
    diagonal[c] = lam + (h.spectrum ? w0 * h.spectrum[c]
                         : w0 > 0   ? w0 * h.gram[ptrdiff_t(h.free_start + c) * (h.d + 1)]
                                    : T(0));
  }
  for_groups<T>(n, row, [&](int64_t k, const Group<T>& x) {
    for (int64_t next = k + G; next < k + 2 * G && next < n; ++next) prefetch_row(cells.row(next), f);
    start_group<T>(x, ws.s + k, ws.l + k, b, f, right, r, diagonal);
  });
  Ahead<T> ahead(cells.x, h.d, f, cells.indices + n, following(h, i), int(n / G));
  return descend(h, ws, right, gap, [&](const T* p, T* out) {
    apply_base(h, i, p, out);
    for_groups<T>(n, row, [&](int64_t k, const Group<T>& x) {
      T by[G];
      ahead();
      group_scores<T>(x, p, f, by);
      for (int g = 0; g < G; ++g) by[g] *= ws.s[k + g];
      add_group<T>(x, by, f, out);
    });
  });
}

// The same for a row whose quadratic is there, in ws.quadratic: a long one, put together from parts.
template <class T>
int solve_cg(const HalfStep<T>& h, Workspace<T>& ws, double& gap) {
  const int f = h.free(), ld = panel_ld<T>(f);
  const auto apply = [&](const T* v, T* out) {
    for (int r = 0; r < f; ++r) {
      const T* lower = ws.quadratic + ptrdiff_t(r) * ld;
      out[r] = dot(lower, v, r + 1);
      axpy(v[r], lower, out, r);
    }
  };
  T* right = ws.base;
  std::memcpy(right, ws.quadratic + ptrdiff_t(f) * ld, sizeof(T) * f);
  apply(ws.b, ws.v);
  for (int c = 0; c < f; ++c) {
    ws.r[c] = right[c] - ws.v[c];
    ws.diagonal[c] = ws.quadratic[ptrdiff_t(c) * ld + c];
  }
  return descend(h, ws, right, gap, apply);
}

}  // namespace halfstep::HALFSTEP_ISA
