// Rows of a table, one in each lane of a group of two vectors. The quadratics of a group are one matrix product: the
// products x_r x_c of a panel of cells, made once for all rows of a block, times the weights of these cells. The result
// is factored as it stands (lane_factor.hpp).
//
//   columns    d x panel             the other side, turned; its free range is x
//   products   triangle x panel      x_r x_c, c <= r, at r (r + 1)/2 + c
//   weights, targets, linear         panel x group: the cells of a group
//   own, label                       d x group, f x group
//   sums       entries x group       the quadratics of one group of a block after another
#pragma once
#include "lane_factor.hpp"
#include "solve.hpp"

namespace halfstep::HALFSTEP_ISA {

// Cells of a panel: as many as leave its products in cache.
template <class T>
inline int lane_panel(int f) {
  return triangle_entries(f) * sizeof(T) <= 4096 ? 64 : 16;
}

// A worker's scratch for tables.
template <class T>
struct LaneRoom {
  T *columns, *products, *weights, *targets, *linear, *scores, *own, *label, *sums;
  void* memory = nullptr;

  explicit LaneRoom(const HalfStep<T>& h) {
    if (!h.is_table()) return;
    const int f = h.free();
    const size_t panel = lane_panel<T>(f), lanes = lane_group<T>;
    const size_t sizes[] = {h.d * panel,
                            triangle_entries(f) * panel,
                            panel * lanes,
                            panel * lanes,
                            panel * lanes,
                            panel * lanes,
                            h.d * lanes,
                            f * lanes,
                            lane_sums<T>(f, block_rows(h))};
    T** const places[] = {&columns, &products, &weights, &targets, &linear, &scores, &own, &label, &sums};
    memory = carve(sizes, places);
  }
  ~LaneRoom() { std::free(memory); }
  LaneRoom(const LaneRoom&) = delete;
  LaneRoom& operator=(const LaneRoom&) = delete;
};

template <class T>
struct Lanes {
  static constexpr int w = width<T>, group = lane_group<T>;
  const HalfStep<T>& h;
  LaneRoom<T>& room;
  const int f, panel;
  // n cells of a group, one after another.
  struct View {
    const T* at;
    int64_t step;
  };
  View targets = {};  // of the cells read

  Lanes(const HalfStep<T>& h, LaneRoom<T>& room) : h(h), room(room), f(h.free()), panel(lane_panel<T>(f)) {}

  LaneQuadratics<T> quadratics(T* sums, int64_t number) const { return {sums + number * lane_entries(f) * group, f}; }

  // task(i, count, number) for the groups of rows first..last.
  template <class Task>
  static void each_group(int64_t first, int64_t last, Task task) {
    for (int64_t i = first, number = 0; i < last; i += group, ++number)
      task(i, int(last - i < group ? last - i : group), number);
  }

  // The n cells from k on of the other side, turned.
  void turn(int64_t k, int n) {
    pack_transposed<T>(
        n, h.d, [&](int r) { return h.other + (k + r) * h.d; }, [](int) { return T(1); },
        static_cast<const T*>(nullptr), room.columns, panel);
  }
  void multiply(int n) {
    T* to = room.products;
    for (int r = 0; r < f; ++r)
      for (int c = 0; c <= r; ++c, to += panel) {
        const T *x = room.columns + (h.free_start + r) * panel, *y = room.columns + (h.free_start + c) * panel;
        for (int k = 0; k < n; k += w) store(to + k, load(x + k) * load(y + k));
      }
  }
  void turn_own(int64_t i, int count) {
    pack_transposed<T>(
        count, h.d, [&](int r) { return h.own + (i + r) * h.d; }, [](int) { return T(1); },
        static_cast<const T*>(nullptr), room.own, group);
  }

  // n cells from k on of the values of rows i.., a lane each, one cell after another; copied to `room` unless they lie
  // so already. What stands in lanes of no row does not matter.
  View view(const T* values, int64_t i, int count, int64_t k, int n, T* room) {
    values += i * h.row_step + k * h.cell_step;
    if (h.cell_step == 1) {
      pack_transposed<T>(
          count, n, [&](int r) { return values + r * h.row_step; }, [](int) { return T(1); },
          static_cast<const T*>(nullptr), room, group);
      return {room, group};
    }
    for (int c = 0; c < n; ++c)
      __builtin_prefetch(values + (panel + c) * h.cell_step);  // no stream the machine foresees
    if (count % w == 0) return {values, h.cell_step};
    for (int c = 0; c < n; ++c)
      for (int lane = 0; lane < count; ++lane) room[c * group + lane] = values[c * h.cell_step + lane];
    return {room, group};
  }

  // Targets and weights of n cells of a group, and their linear coefficients w (t - pinned part). A target that is not
  // a number, as in lanes of no row, weighs 0. Needs the own side turned.
  void read(int64_t i, int count, int64_t k, int n) {
    targets = view(h.targets, i, count, k, n, room.targets);
    const View given = h.weights ? view(h.weights, i, count, k, n, room.weights) : View{nullptr, 0};
    for (int c = 0; c < n && count % w; ++c)
      for (int lane = count; lane < round_up(count, w); ++lane)
        room.targets[c * group + lane] = std::numeric_limits<T>::quiet_NaN();
    for (int v = 0; v < count; v += w)
      for (int c = 0; c < n; ++c) {
        Vec<T> t = load(targets.at + c * targets.step + v);
        const Vec<T> weight = h.weights ? load(given.at + c * given.step + v) : Vec<T>{} + h.weight;
        const Vec<T> kept = t == t ? weight : Vec<T>{};
        t = t == t ? t : Vec<T>{};
        for (int p = 0; p < h.free_start; ++p) t -= load(room.own + p * group + v) * room.columns[p * panel + c];
        for (int p = h.free_stop; p < h.d; ++p) t -= load(room.own + p * group + v) * room.columns[p * panel + c];
        store(room.weights + c * group + v, kept);
        store(room.linear + c * group + v, kept * t);
      }
  }

  void add(Put put, int count, int n, LaneQuadratics<T> to) {
    const T* x = room.columns + h.free_start * panel;
    product(put, triangle_entries(f), count, n, room.products, panel, 1, room.weights, group, to.sums, group);
    product(put, f, count, n, x, panel, 1, room.linear, group, to.right(0), group);
  }

  // The quadratics of rows first..last on their cells k0..k1.
  void accumulate(int64_t first, int64_t last, int64_t k0, int64_t k1, T* sums) {
    for (int64_t k = k0; k < k1; k += panel) {
      const int n = int(k1 - k < panel ? k1 - k : panel);
      turn(k, n);
      multiply(n);
      each_group(first, last, [&](int64_t i, int count, int64_t number) {
        turn_own(i, count);
        read(i, count, k, n);
        const LaneQuadratics<T> to = quadratics(sums, number);
        add(k == k0 ? Put::set : Put::add, count, n, to);
      });
    }
  }

  // Adds what the n cells read cost. Needs the own side turned.
  void add_cost(int count, int n, Sums& total) {
    product(Put::set, n, count, h.d, room.columns, 1, panel, room.own, group, room.scores, group);
    Vec<T> data = {}, squares = {}, scores = {}, shaken = {};
    for (int v = 0; v < count; v += w)
      for (int c = 0; c < n; ++c) {
        const int at = c * group + v;
        const Vec<T> t = load(targets.at + c * targets.step + v), z = t == t ? load(room.scores + at) : Vec<T>{};
        const Vec<T> gap = t == t ? t - z : Vec<T>{};
        const Vec<T> weighed = load(room.weights + at) * gap, moved = weighed * z;
        data += weighed * gap, squares += gap * gap, scores += z * z, shaken += moved < 0 ? -moved : moved;
      }
    for (int lane = 0; lane < w; ++lane) {
      total.data += data[lane], total.squares += squares[lane], total.scores += scores[lane];
      total.shaken += 2 * std::numeric_limits<T>::epsilon() * shaken[lane];
    }
  }
  void evaluate(int64_t first, int64_t last, int64_t k0, int64_t k1, Sums& total) {
    for (int64_t k = k0; k < k1; k += panel) {
      const int n = int(k1 - k < panel ? k1 - k : panel);
      turn(k, n);
      each_group(first, last, [&](int64_t i, int count, int64_t) {
        turn_own(i, count);
        read(i, count, k, n);
        add_cost(count, n, total);
      });
    }
  }

  // Penalties and priors; see add_base.
  void add_base(int64_t i, int count, LaneQuadratics<T> q) {
    T ridge[group] = {};
    for (int lane = 0; lane < count; ++lane) {
      const T lam = h.penalty(i + lane), *mu = h.prior(i + lane);
      for (int r = 0; mu && r < f; ++r) q.right(r)[lane] += lam * mu[r];
      ridge[lane] = lam;
      if (lam > 0) continue;
      double trace = 0;
      for (int r = 0; r < f; ++r) trace += q.entry(r, r)[lane];
      ridge[lane] += T(64 * std::numeric_limits<T>::epsilon() * trace / f);
    }
    for (int r = 0; r < f; ++r)
      for (int v = 0; v < count; v += w) {
        T* at = q.entry(r, r) + v;
        store(at, load(at) + load(ridge + v));
      }
  }

  // labelled.hpp, with the factor at hand; z = L^-1 q stands in the right-hand side.
  template <int NV>
  void add_labels(int64_t i, int count, LaneQuadratics<T> q) {
    bool any = false;
    for (int lane = 0; lane < count; ++lane) any |= is_labelled(h, i + lane);
    if (!any) return;
    const T* vector = h.label_vector;
    for (int r = 0; r < f; ++r)
      for (int v = 0; v < NV; ++v) store(room.label + r * group + v * w, Vec<T>{} + vector[h.free_start + r]);
    q.template forward<NV>(room.label);
    T cross[group] = {}, square[group] = {}, by[group] = {};
    for (int r = 0; r < f; ++r)
      for (int lane = 0; lane < NV * w; ++lane) {
        const T x = room.label[r * group + lane];
        cross[lane] += x * q.right(r)[lane], square[lane] += x * x;
      }
    for (int lane = 0; lane < count; ++lane) {
      if (!is_labelled(h, i + lane)) continue;
      const T* own = h.own + (i + lane) * h.d;
      const double pinned =
          dot(own, vector, h.free_start) + dot(own + h.free_stop, vector + h.free_stop, h.d - h.free_stop);
      const double half = 0.5 * h.label_weights[i + lane], t = h.label_targets[i + lane];
      const double z = label_score(pinned + cross[lane], half * square[lane], t);
      by[lane] = T(half * (sigmoid(z) - t));
    }
    for (int r = 0; r < f; ++r)
      for (int lane = 0; lane < NV * w; ++lane) q.right(r)[lane] -= by[lane] * room.label[r * group + lane];
  }

  template <int NV>
  void solve(int64_t i, int count, LaneQuadratics<T> q) {
    add_base(i, count, q);
    q.template factor<NV>();
    q.template forward<NV>(q.right(0));
    if (h.label_vector) add_labels<NV>(i, count, q);
    q.template backward<NV>(q.right(0));
  }

  // The new values of a group from its quadratics, which are overwritten. A row that fails is solved alone.
  void finish_group(int64_t i, int count, LaneQuadratics<T> q, Workspace<T>& ws, Sums& total) {
    count > w ? solve<2>(i, count, q) : solve<1>(i, count, q);
    turn_own(i, count);
    T change[group] = {}, size[group] = {};
    for (int r = 0; r < f; ++r)
      for (int v = 0; v < count; v += w) {
        const Vec<T> now = load(q.right(r) + v), step = now - load(room.own + (h.free_start + r) * group + v);
        store(change + v, load(change + v) + step * step), store(size + v, load(size + v) + now * now);
      }
    for (int lane = 0; lane < count; ++lane) {
      if (!std::isfinite(size[lane])) {
        solve_alone(i + lane, ws, total);
        continue;
      }
      T* row = h.own + (i + lane) * h.d + h.free_start;
      for (int r = 0; r < f; ++r) row[r] = q.right(r)[lane];
      total.change += change[lane], total.size += size[lane];
    }
  }
  void finish(int64_t first, int64_t last, T* sums, Workspace<T>& ws, Sums& total) {
    each_group(first, last, [&](int64_t i, int count, int64_t number) {
      finish_group(i, count, quadratics(sums, number), ws, total);
    });
  }
  // The same from the quadratics of several ranges of cells, added in their order.
  void finish_parts(int64_t first, int64_t last, T* const* parts, int count, Workspace<T>& ws, Sums& total) {
    const size_t size = lane_sums<T>(f, last - first);
    for (int p = 1; p < count; ++p)
      for (size_t k = 0; k < size; k += w) store(parts[0] + k, load(parts[0] + k) + load(parts[p] + k));
    finish(first, last, parts[0], ws, total);
  }
  // Rows first..last, from their cells to their new values.
  void solve_rows(int64_t first, int64_t last, bool evaluating, Workspace<T>& ws, Sums& total) {
    if (h.n_other > panel) {
      accumulate(first, last, 0, h.n_other, room.sums);
      finish(first, last, room.sums, ws, total);
      if (evaluating) evaluate(first, last, 0, h.n_other, total);
      return;
    }
    const int n = int(h.n_other);  // one panel: a group is finished while its cells are at hand
    turn(0, n);
    multiply(n);
    each_group(first, last, [&](int64_t i, int count, int64_t) {
      turn_own(i, count);
      read(i, count, 0, n);
      add(Put::set, count, n, quadratics(room.sums, 0));
      finish_group(i, count, quadratics(room.sums, 0), ws, total);
      if (!evaluating) return;
      turn_own(i, count);
      add_cost(count, n, total);
    });
  }

  // The ordinary way, with its repair.
  void solve_alone(int64_t i, Workspace<T>& ws, Sums& total) {
    const T* own = h.own + i * h.d;
    for (int64_t k = 0; k < h.n_other; ++k) {
      const int64_t at = i * h.row_step + k * h.cell_step;
      const T t = h.targets[at], *other = h.other + k * h.d;
      const T pinned = dot(own, other, h.free_start) + dot(own + h.free_stop, other + h.free_stop, h.d - h.free_stop);
      ws.s[k] = t == t ? (h.weights ? h.weights[at] : h.weight) : T(0);
      ws.l[k] = t == t ? ws.s[k] * (t - pinned) : T(0);
    }
    std::memcpy(ws.b, own + h.free_start, sizeof(T) * f);
    const bool solved = solve_or_repair(h, i, ws, total, [&] {
      HALFSTEP_ISA::accumulate(h.other + h.free_start, h.d, f, h.indices, h.n_other, ws.s, ws.l, ws.quadratic,
                               ws.panel);
      HALFSTEP_ISA::add_base(h, i, ws.quadratic, ws.base);
    });
    put_row(h, i, solved, ws, total);
  }

  // Adds the quadratics of `rows` rows to `out`, rows x (f + 1) x f: lower triangle, then linear terms.
  void add_quadratics(int64_t rows, T* sums, double* out) {
    each_group(0, rows, [&](int64_t i, int count, int64_t number) {
      const LaneQuadratics<T> q = quadratics(sums, number);
      for (int lane = 0; lane < count; ++lane) {
        double* to = out + (i + lane) * (f + 1) * f;
        for (int r = 0; r < f; ++r)
          for (int c = 0; c <= r; ++c) to[r * f + c] += q.entry(r, c)[lane];
        for (int c = 0; c < f; ++c) to[f * f + c] += q.right(c)[lane];
      }
    });
  }
};

}  // namespace halfstep::HALFSTEP_ISA
