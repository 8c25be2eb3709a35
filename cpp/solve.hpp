// One row from its cells to its new values: which finish it takes, what happens when that fails, what it reports.
#pragma once
#include "cg.hpp"
#include "dual.hpp"
#include "finish.hpp"
#include "labelled.hpp"
#include "philox.hpp"
#include "plq.hpp"
#include "smooth.hpp"
#include "subspace.hpp"
#include "wide.hpp"

namespace halfstep::HALFSTEP_ISA {

// a_i c_j of a cell: what an unobserved one would weigh in its place, in units of w0.
template <class T>
inline double relative(const Cells<T>& cells, int64_t i, int64_t k) {
  const HalfStep<T>& h = cells.h;
  const double own = h.own_background ? h.own_background[i] : 1;
  return h.other_background ? own * h.other_background[cells.indices[k]] : own;
}

// Adds what the cells k0..k1 of row i cost under the row's present values. plain : the scores of all columns, or null.
template <class T>
void evaluate_cells(const HalfStep<T>& h, int64_t i, int64_t k0, int64_t k1, Sums& sums, const T* plain = nullptr) {
  const Cells<T> cells(h, i, k0, k1);
  const bool weighed = h.weights || h.other_weights, uneven = h.own_background || h.other_background;
  const double eps = std::numeric_limits<T>::epsilon();
  using V = Vec<double>;
  V data = {}, squares = {}, scores = {}, shaken = {};
  double z[valued_cells], t[valued_cells], w[valued_cells], share[valued_cells], step[valued_cells];
  double value[valued_cells] = {}, moved[valued_cells] = {};
  for (int64_t first = 0; first < cells.n; first += valued_cells) {
    const int m = int(cells.n - first < valued_cells ? cells.n - first : valued_cells);
    const int whole = round_up(m, width<double>);
    for (int j = 0; j < m; ++j) {
      const int64_t k = first + j;
      if (!plain && k + prefetch_ahead < cells.n)
        prefetch_row(h.other + int64_t(cells.indices[k + prefetch_ahead]) * h.d, h.d);
      z[j] = plain ? plain[k] : dot(cells.own, h.other + int64_t(cells.indices[k]) * h.d, h.d);
    }
    for (int j = 0; j < m; ++j) w[j] = weighed ? cells.weight(first + j) : cells.row_weight * h.weight;
    for (int j = 0; j < m; ++j) t[j] = h.targets ? h.targets[cells.first + first + j] : h.target;
    for (int j = 0; j < m; ++j) share[j] = uneven ? relative(cells, i, first + j) : 1;
    for (int j = m; j < whole; ++j) z[j] = t[j] = w[j] = share[j] = 0;  // what fills the last vector counts nothing
    for (int j = 0; j < whole; j += width<double>) scores += load(share + j) * load(z + j) * load(z + j);
    for (int j = 0; h.offsets && j < m; ++j) z[j] += h.offsets[cells.first + first + j];
    for (int j = 0; j < whole; ++j) step[j] = eps * std::fabs(z[j]);
    loss_values(h.loss, m, z, t, step, value, moved);
    for (int j = 0; j < whole; j += width<double>) {
      const V miss = load(t + j) - load(z + j), by = load(w + j);
      squares += miss * miss, data += by * load(value + j), shaken += by * load(moved + j);
    }
  }
  sums.data += horizontal_sum<double>(data), sums.squares += horizontal_sum<double>(squares);
  sums.scores += horizontal_sum<double>(scores), sums.shaken += horizontal_sum<double>(shaken);
}

// Puts ws.b into the row, or reports the row as failed and leaves it as it was.
template <class T>
void put_row(const HalfStep<T>& h, int64_t i, bool solved, const Workspace<T>& ws, Sums& sums) {
  T* row = h.own + i * h.d + h.free_start;
  double change = 0, size = 0;
  for (int c = 0; c < h.free(); ++c) {
    const double step = double(ws.b[c]) - row[c];
    change += step * step, size += double(ws.b[c]) * ws.b[c];
  }
  if (!solved || !std::isfinite(size)) {
    if (sums.failed < 0 || i < sums.failed) sums.failed = i;
    return;
  }
  std::memcpy(row, ws.b, sizeof(T) * h.free());
  sums.change += change, sums.size += size;
}

// Solves the accumulated quadratic; `again` builds it anew for the float64 retry.
template <class T, class Again, class Between = Still>
bool solve_or_repair(const HalfStep<T>& h, int64_t i, Workspace<T>& ws, Sums& sums, Again again, Between between = {}) {
  const int f = h.free(), ld = panel_ld<T>(f);
  again();
  if (is_labelled(h, i)) return solve_labelled(h, i, ws);
  if (solve_quadratic(ws.quadratic, ld, f, ws.scratch, ws.b, between)) return true;
  again();
  ++sums.repaired;
  return solve_repaired(ws.quadratic, ld, f, ws.b, between);
}

// The same, leaving -|L^-1 q|^2 / 2 in ws.value, the value of the row beside that at zero; or a draw from the normal
// law with that quadratic: Q = L L', b = L'^-1 (L^-1 q + e), e standard normal.
template <class T, class Again>
bool finish_row(const HalfStep<T>& h, int64_t i, Workspace<T>& ws, Sums& sums, Again again) {
  if (h.method == Method::cg && !is_labelled(h, i)) {
    std::memcpy(ws.b, h.own + i * h.d + h.free_start, sizeof(T) * h.free());
    again();
    double gap = 0;
    sums.steps += solve_cg(h, ws, gap);
    if (gap > sums.gap) sums.gap = gap;
    return std::isfinite(gap);
  }
  if (h.method != Method::draw)
    return solve_or_repair(h, i, ws, sums, again, [&](int f, const auto* y) { ws.value = -dot(y, y, f) / 2; });
  return solve_or_repair(h, i, ws, sums, again, [&](int f, auto* b) { add_normals(h.noise, i, f, b); });
}

template <class T>
bool solve_squared(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Sums& sums) {
  const int f = h.free();
  const bool plain = !is_labelled(h, i);
  ws.value = INFINITY;  // not known
  ws.zero = linearise(cells, ws.s, ws.l);
  if (const T* mu = h.prior(i)) ws.zero += double(h.penalty(i)) / 2 * dot(mu, mu, f);
  const bool diagonal = h.w0 == 0 || h.spectrum;
  const double n = double(cells.n), primal = primal_work(n, f);
  const double short_work = diagonal && cells.n <= f && h.penalty(i) > 0 ? dual_work(n, f) : primal;
  if (plain && (h.method == Method::cg ||
                (h.method == Method::cheapest && cg_work(n, f, h.max_steps) < std::min(primal, short_work)))) {
    double gap = 0;
    const int steps = solve_cg(h, i, cells, ws, gap);
    sums.steps += steps, sums.coarse += h.method == Method::cheapest;
    if (gap > sums.gap) sums.gap = gap;
    return std::isfinite(gap);
  }
  if (plain && h.method == Method::subspace && f > h.block) {
    if (solve_subspace(h, i, cells, ws)) return true;
    linearise(cells, ws.s, ws.l);
  }
  bool dual = plain && diagonal && h.method != Method::cholesky && h.method != Method::draw && cells.n <= f &&
              h.penalty(i) > 0 && (h.method == Method::dual || short_work < primal);
  for (int64_t k = 0; dual && k < cells.n; ++k) dual = ws.s[k] > 0;
  if (dual) {
    if (solve_dual(h, i, cells, ws)) return true;
    linearise(cells, ws.s, ws.l);
  }
  const bool solved = finish_row(h, i, ws, sums, [&] {
    accumulate(cells.x, h.d, f, cells.indices, cells.n, ws.s, ws.l, ws.quadratic, ws.panel, following(h, i));
    add_base(h, i, ws.quadratic, ws.base);
  });
  if (!plain || h.method == Method::draw || (h.w0 > 0 && cells.has_pinned()))
    ws.value = INFINITY;
  else  // a row that had to be repaired is at the end of these numbers anyway
    ws.value = sums.repaired ? 0 : ws.zero + ws.value;
  return solved;
}

// A row by the finish that its loss has. Left in ws.value: its value.
template <class T>
bool solve_once(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Sums& sums) {
  if (h.is_quadratic()) return solve_squared(h, i, cells, ws, sums);
  if (h.loss.kind == LossKind::plq || h.loss.kind == LossKind::squared) return solve_plq(h, i, cells, ws, sums);
  return solve_smooth(h, i, cells, ws, sums);
}

template <class T>
void solve_row(const HalfStep<T>& h, int64_t i, bool evaluate, Workspace<T>& ws, Sums& sums) {
  const Cells<T> cells(h, i);
  std::memcpy(ws.b, h.own + i * h.d + h.free_start, sizeof(T) * h.free());
  Sums mine;
  const bool solved = solve_once(h, i, cells, ws, mine);
  if (sizeof(T) < sizeof(double) && solved && (mine.stalled >= 0 || is_coarse(h, ws)))
    solve_wide(h, i, cells, ws, mine, [](const auto& h, const auto& cells, auto& ws, Sums& sums) {
      return solve_once(h, 0, cells, ws, sums);
    });
  sums.add(mine);
  put_row(h, i, solved, ws, sums);
  if (!evaluate) return;
  const bool turned = !h.is_quadratic();  // its cells still lie side by side
  if (turned) Turned<T>(cells, ws).scores(cells.own, 0, h.d, ws.z);
  evaluate_cells(h, i, h.indptr[i], h.indptr[i + 1], sums, turned ? ws.z : nullptr);
}

// A chunk of a long row: its quadratic, without the terms that do not come from cells.
template <class T>
void accumulate_part(const HalfStep<T>& h, int64_t i, int64_t k0, int64_t k1, Workspace<T>& ws, T* out) {
  const Cells<T> cells(h, i, k0, k1);
  linearise(cells, ws.s, ws.l);
  accumulate(cells.x, h.d, h.free(), cells.indices, cells.n, ws.s, ws.l, out, ws.panel);
}

// Adds a chunk's quadratic to `out`, (f + 1) x f: the lower triangle, then the linear terms.
template <class T>
void add_part(int f, const T* part, double* out) {
  for (int r = 0; r <= f; ++r)
    for (int c = 0; c < f && c <= r; ++c) out[ptrdiff_t(r) * f + c] += part[ptrdiff_t(r) * panel_ld<T>(f) + c];
}

// A long row from the quadratics of its chunks, added in their order.
template <class T>
void finish_parts(const HalfStep<T>& h, int64_t i, T* const* parts, int count, Workspace<T>& ws, Sums& sums) {
  const int f = h.free(), ld = panel_ld<T>(f);
  const bool solved = finish_row(h, i, ws, sums, [&] {
    std::memcpy(ws.quadratic, parts[0], sizeof(T) * quadratic_size<T>(f));
    for (int p = 1; p < count; ++p)
      for (int r = 0; r <= f; ++r)
        axpy(T(1), parts[p] + ptrdiff_t(r) * ld, ws.quadratic + ptrdiff_t(r) * ld, r < f ? r + 1 : f);
    add_base(h, i, ws.quadratic, ws.base);
  });
  put_row(h, i, solved, ws, sums);
}

// A row from the quadratic of all its cells, which add_part has made, wherever they are.
template <class T>
void finish_quadratic(const HalfStep<T>& h, int64_t i, const double* whole, Workspace<T>& ws, Sums& sums) {
  const int f = h.free(), ld = panel_ld<T>(f);
  const bool solved = finish_row(h, i, ws, sums, [&] {
    for (int r = 0; r <= f; ++r)
      for (int c = 0; c < f && c <= r; ++c) ws.quadratic[ptrdiff_t(r) * ld + c] = T(whole[ptrdiff_t(r) * f + c]);
    add_base(h, i, ws.quadratic, ws.base);
  });
  put_row(h, i, solved, ws, sums);
}

}  // namespace halfstep::HALFSTEP_ISA
