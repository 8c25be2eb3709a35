// The Python face of the core. Checks shapes and releases the GIL; no arithmetic of its own. Arrays are taken as they
// are, never converted: a silent copy of `own` would swallow the result.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "csr.hpp"
#include "driver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace halfstep {
namespace {

std::vector<const InstructionSet*> available() {
  std::vector<const InstructionSet*> sets;
#if defined(HALFSTEP_HAS_avx512)
  if (__builtin_cpu_supports("x86-64-v4")) sets.push_back(&avx512::instruction_set());
#endif
#if defined(HALFSTEP_HAS_avx2)
  if (__builtin_cpu_supports("x86-64-v3")) sets.push_back(&avx2::instruction_set());
#endif
  sets.push_back(&baseline::instruction_set());
  return sets;
}

const InstructionSet* active = nullptr;

template <class T>
const Kernels<T>& kernels() {
  if constexpr (sizeof(T) == 4)
    return active->single;
  else
    return active->twice;
}

template <class T>
using Array = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;
template <class T>
using In = Array<const T>;
template <class T>
using MaybeIn = std::optional<In<T>>;
template <class T>
using Values = std::optional<nb::ndarray<const T, nb::numpy, nb::device::cpu>>;  // of cells: flat, or a table

template <class T>
Array<T> make(std::vector<size_t> shape) {
  size_t size = 1;
  for (size_t s : shape) size *= s;
  T* data = new T[size ? size : 1];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Array<T>(data, shape.size(), shape.data(), owner);
}

void expect(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}

template <class Arrays>
auto per_cell(const Arrays& values, size_t cells, const char* what) -> decltype(values->data()) {
  if (!values) return nullptr;
  expect(values->ndim() == 1 && values->shape(0) == cells && (cells < 2 || values->stride(0) == 1), what);
  return values->data();
}

Loss loss_from(const nb::tuple& native) {
  Loss loss;
  loss.kind = LossKind(nb::cast<int>(native[0]));
  loss.margin = nb::cast<int>(native[1]) == 1;
  auto breaks = nb::cast<In<double>>(native[2]);
  auto table = nb::cast<In<double>>(native[3]);
  expect(breaks.ndim() == 1 && breaks.shape(0) <= size_t(max_breaks), "loss: at most 15 breaks");
  loss.n_breaks = int(breaks.shape(0));
  for (int k = 0; k < loss.n_breaks; ++k) loss.breaks[k] = breaks.data()[k];
  if (loss.kind != LossKind::plq) return loss;
  expect(table.ndim() == 2 && table.shape(0) == breaks.shape(0) + 1 && table.shape(1) == 3,
         "loss: coefficients must be (breaks + 1, 3)");
  for (int k = 0; k <= loss.n_breaks; ++k)
    loss.a[k] = table.data()[3 * k], loss.b[k] = table.data()[3 * k + 1], loss.c[k] = table.data()[3 * k + 2];
  return loss;
}

nb::dict report(const Sums& sums) {
  nb::dict out;
  out["data"] = sums.data, out["squares"] = sums.squares, out["scores"] = sums.scores;
  out["change"] = sums.change, out["size"] = sums.size, out["gap"] = sums.gap, out["steps"] = sums.steps;
  out["failed"] = sums.failed, out["repaired"] = sums.repaired;
  return out;
}

// Cells without indptr: targets, and weights if there are any, are (rows of own, rows of other) in the same order.
template <class T>
void read_table(HalfStep<T>& h, const Values<T>& targets, const Values<T>& weights) {
  expect(bool(targets), "cells without indptr and indices are a table and need targets");
  for (const Values<T>* values : {&targets, &weights}) {
    if (!*values) continue;
    const auto& v = **values;
    expect(v.ndim() == 2 && int64_t(v.shape(0)) == h.n_own && int64_t(v.shape(1)) == h.n_other,
           "a table must have a row for each row of own and a column for each row of other");
    expect((h.n_own == 1 || v.stride(0) == targets->stride(0)) && (h.n_other == 1 || v.stride(1) == targets->stride(1)),
           "weights of a table must be in the order of its targets");
  }
  // Along an axis of length 1 every step is as good as 1.
  h.row_step = h.n_own == 1 ? 1 : targets->stride(0);
  h.cell_step = h.n_other == 1 ? 1 : targets->stride(1);
  expect(h.row_step == 1 || h.cell_step == 1, "a table must be contiguous along its rows or its columns");
  expect(h.loss.kind == LossKind::squared, "a table needs the squared loss");
  h.targets = targets->data(), h.weights = weights ? weights->data() : nullptr;
}

template <class T>
HalfStep<T> sides(const Array<T>& own, const In<T>& other, const MaybeIn<int64_t>& indptr,
                  const MaybeIn<int32_t>& indices, const Values<T>& targets, const Values<T>& weights,
                  const MaybeIn<T>& offsets, double target, double weight, const nb::tuple& loss) {
  expect(own.ndim() == 2 && other.ndim() == 2, "own and other must be two-dimensional");
  expect(own.shape(1) == other.shape(1), "own and other must have the same number of columns");
  HalfStep<T> h;
  h.n_own = int64_t(own.shape(0)), h.n_other = int64_t(other.shape(0));
  h.d = int(own.shape(1)), h.free_stop = h.d;
  h.own = own.data(), h.other = other.data();
  h.target = T(target), h.weight = T(weight);
  h.loss = loss_from(loss);
  expect(bool(indptr) == bool(indices), "indptr and indices go together");
  if (!indptr) {
    expect(!offsets, "a table has no offsets");
    read_table(h, targets, weights);
    return h;
  }
  expect(indptr->ndim() == 1 && indptr->shape(0) == own.shape(0) + 1,
         "indptr must have one entry more than own has rows");
  const size_t cells = indices->shape(0);
  h.indptr = indptr->data(), h.indices = indices->data();
  expect(h.indptr[0] == 0 && size_t(h.indptr[h.n_own]) == cells, "indptr does not match indices");
  for (int64_t i = 0; i < h.n_own; ++i) expect(h.indptr[i] <= h.indptr[i + 1], "indptr must not fall");
  for (size_t k = 0; k < cells; ++k)
    expect(h.indices[k] >= 0 && h.indices[k] < h.n_other, "indices must be rows of other");
  h.targets = per_cell(targets, cells, "targets must have one value for each cell");
  h.weights = per_cell(weights, cells, "weights must have one value for each cell");
  h.offsets = per_cell(offsets, cells, "offsets must have one value for each cell");
  return h;
}

template <class T>
void bind_number(nb::module_& m) {
  m.def(
      "half_step",
      [](Array<T> own, In<T> other, MaybeIn<int64_t> indptr, MaybeIn<int32_t> indices, Values<T> targets,
         Values<T> weights, MaybeIn<T> offsets, double target, double weight, nb::tuple loss, int free_start,
         int free_stop, MaybeIn<T> lam, double lam_all, MaybeIn<T> mu, double w0, MaybeIn<T> gram_matrix,
         MaybeIn<T> spectrum, std::optional<Array<T>> duals, MaybeIn<T> label_vector, MaybeIn<T> label_targets,
         MaybeIn<T> label_weights, int method, int nonnegative_start, int nonnegative_stop, double tolerance,
         int max_steps, int block, bool evaluate, int n_threads) {
        HalfStep<T> h = sides(own, other, indptr, indices, targets, weights, offsets, target, weight, loss);
        expect(0 <= free_start && free_start < free_stop && free_stop <= h.d, "free must be a range of columns");
        h.free_start = free_start, h.free_stop = free_stop;
        const size_t f = size_t(h.free());
        h.lam = per_cell(lam, own.shape(0), "lam must have one value for each row of own");
        h.lam_all = T(lam_all), h.w0 = T(w0);
        if (mu) {
          expect(mu->ndim() == 2 && mu->shape(1) == f && (mu->shape(0) == own.shape(0) || mu->shape(0) == 1),
                 "mu must have one row, or one for each row of own, over the free columns");
          h.mu = mu->data(), h.mu_stride = mu->shape(0) == 1 ? 0 : int64_t(f);
        }
        if (w0 > 0) {
          expect(gram_matrix && gram_matrix->ndim() == 2 && gram_matrix->shape(0) == size_t(h.d) &&
                     gram_matrix->shape(1) == size_t(h.d),
                 "gram must be d x d where w0 > 0");
          h.gram = gram_matrix->data();
          h.spectrum = per_cell(spectrum, f, "spectrum must have one value for each free column");
        }
        if (duals) {
          expect(duals->ndim() == 1 && indices && duals->shape(0) == indices->shape(0),
                 "duals must have one value for each cell");
          h.duals = duals->data();
        }
        if (label_vector) {
          expect(h.loss.kind == LossKind::squared && nonnegative_stop <= nonnegative_start,
                 "a label cell needs the squared loss without constraints");
          h.label_vector = per_cell(label_vector, own.shape(1), "label_vector must have one value for each column");
          h.label_targets = per_cell(label_targets, own.shape(0), "label_targets must have one value for each row");
          h.label_weights = per_cell(label_weights, own.shape(0), "label_weights must have one value for each row");
          expect(h.label_targets && h.label_weights, "label_vector needs label_targets and label_weights");
        }
        h.method = Method(method);
        expect(0 <= nonnegative_start && nonnegative_start <= nonnegative_stop && nonnegative_stop <= h.free(),
               "nonnegative must be a range within the free columns");
        h.nonnegative = nonnegative_stop > nonnegative_start;
        h.nonnegative_start = nonnegative_start, h.nonnegative_stop = nonnegative_stop;
        h.tolerance = tolerance, h.max_steps = max_steps, h.block = block;
        expect(!h.is_table() || (w0 == 0 && !h.nonnegative && h.method <= Method::cholesky),
               "a table needs exact rows without background or constraints");
        Sums sums;
        {
          nb::gil_scoped_release released;
          sums = half_step(kernels<T>(), h, evaluate, n_threads);
        }
        return report(sums);
      },
      nb::kw_only(), "own"_a.noconvert(), "other"_a.noconvert(), "indptr"_a.noconvert() = nb::none(),
      "indices"_a.noconvert() = nb::none(), "targets"_a.noconvert() = nb::none(), "weights"_a.noconvert() = nb::none(),
      "offsets"_a.noconvert() = nb::none(), "target"_a, "weight"_a, "loss"_a, "free_start"_a, "free_stop"_a,
      "lam"_a.noconvert() = nb::none(), "lam_all"_a, "mu"_a.noconvert() = nb::none(), "w0"_a,
      "gram"_a.noconvert() = nb::none(), "spectrum"_a.noconvert() = nb::none(), "duals"_a.noconvert() = nb::none(),
      "label_vector"_a.noconvert() = nb::none(), "label_targets"_a.noconvert() = nb::none(),
      "label_weights"_a.noconvert() = nb::none(), "method"_a, "nonnegative_start"_a = 0, "nonnegative_stop"_a = 0,
      "tolerance"_a, "max_steps"_a, "block"_a, "evaluate"_a, "n_threads"_a,
      "Solve every row of `own` in place; returns the sums over rows. cpp/row.hpp has the dimensions.");

  m.def(
      "evaluate",
      [](Array<T> own, In<T> other, MaybeIn<int64_t> indptr, MaybeIn<int32_t> indices, Values<T> targets,
         Values<T> weights, MaybeIn<T> offsets, double target, double weight, nb::tuple loss, int n_threads) {
        const HalfStep<T> h = sides(own, other, indptr, indices, targets, weights, offsets, target, weight, loss);
        Sums sums;
        {
          nb::gil_scoped_release released;
          sums = evaluate(kernels<T>(), h, n_threads);
        }
        return report(sums);
      },
      nb::kw_only(), "own"_a.noconvert(), "other"_a.noconvert(), "indptr"_a.noconvert() = nb::none(),
      "indices"_a.noconvert() = nb::none(), "targets"_a.noconvert() = nb::none(), "weights"_a.noconvert() = nb::none(),
      "offsets"_a.noconvert() = nb::none(), "target"_a, "weight"_a, "loss"_a, "n_threads"_a,
      "What the rows of `own` cost on their cells; solves nothing.");

  m.def(
      "quadratics",
      [](Array<T> own, In<T> other, MaybeIn<int64_t> indptr, MaybeIn<int32_t> indices, Values<T> targets,
         Values<T> weights, MaybeIn<T> offsets, double target, double weight, nb::tuple loss, int free_start,
         int free_stop, double w0, int n_threads) {
        HalfStep<T> h = sides(own, other, indptr, indices, targets, weights, offsets, target, weight, loss);
        expect(h.loss.kind == LossKind::squared, "only the squared loss is a quadratic");
        expect(!h.is_table() || w0 == 0, "a table has no background");
        expect(0 <= free_start && free_start < free_stop && free_stop <= h.d, "free must be a range of columns");
        h.free_start = free_start, h.free_stop = free_stop, h.w0 = T(w0);
        const size_t f = size_t(h.free());
        auto out = make<double>({own.shape(0), f + 1, f});
        std::fill(out.data(), out.data() + out.size(), 0.0);
        {
          nb::gil_scoped_release released;
          quadratics(kernels<T>(), h, out.data(), n_threads);
        }
        return out;
      },
      nb::kw_only(), "own"_a.noconvert(), "other"_a.noconvert(), "indptr"_a.noconvert() = nb::none(),
      "indices"_a.noconvert() = nb::none(), "targets"_a.noconvert() = nb::none(), "weights"_a.noconvert() = nb::none(),
      "offsets"_a.noconvert() = nb::none(), "target"_a, "weight"_a, "loss"_a, "free_start"_a, "free_stop"_a, "w0"_a,
      "n_threads"_a = 1,
      "What the cells of each row add to its quadratic, (rows, f + 1, f) float64: lower triangle, then linear terms.");

  m.def(
      "gram",
      [](In<T> x, int n_threads) {
        expect(x.ndim() == 2, "x must be two-dimensional");
        const int d = int(x.shape(1));
        auto out = make<double>({size_t(d), size_t(d)});
        {
          nb::gil_scoped_release released;
          gram(kernels<T>(), x.data(), int64_t(x.shape(0)), d, out.data(), n_threads);
        }
        return out;
      },
      "x"_a.noconvert(), "n_threads"_a, "x'x in float64, the same bits for any number of threads.");

  m.def(
      "rotate",
      [](Array<T> x, In<T> basis, int start, int n_threads) {
        expect(x.ndim() == 2 && basis.ndim() == 2 && basis.shape(0) == basis.shape(1), "basis must be square");
        const int d = int(x.shape(1)), f = int(basis.shape(0));
        expect(start >= 0 && start + f <= d, "basis must fit into the columns of x");
        const int64_t n = int64_t(x.shape(0)), share = 4096;
        nb::gil_scoped_release released;
        parallel(n_threads, (n + share - 1) / share, [&](int, int64_t task) {
          const int64_t first = task * share;
          kernels<T>().rotate(x.data() + first * d, std::min(share, n - first), d, start, f, basis.data());
        });
      },
      "x"_a.noconvert(), "basis"_a.noconvert(), "start"_a, "n_threads"_a, "x[:, start:start+f] @= basis, in place.");

  m.def(
      "top_k",
      [](In<T> left, In<T> right, int k, MaybeIn<int64_t> rows, MaybeIn<int64_t> seen_indptr,
         MaybeIn<int32_t> seen_indices, int n_threads) {
        expect(left.ndim() == 2 && right.ndim() == 2 && left.shape(1) == right.shape(1),
               "left and right must have the same number of columns");
        expect(k > 0, "k must be positive");
        const size_t n = rows ? rows->shape(0) : left.shape(0);
        for (size_t r = 0; rows && r < n; ++r)
          expect(rows->data()[r] >= 0 && size_t(rows->data()[r]) < left.shape(0), "rows must be rows of left");
        auto scores = make<T>({n, size_t(k)});
        auto indices = make<int32_t>({n, size_t(k)});
        TopK<T> t;
        t.left = left.data(), t.right = right.data(), t.rows = rows ? rows->data() : nullptr;
        t.n_right = int64_t(right.shape(0)), t.d = int(left.shape(1)), t.k = k;
        t.scores = scores.data(), t.indices = indices.data();
        if (seen_indptr && seen_indices) {
          expect(seen_indptr->shape(0) == n + 1 && size_t(seen_indptr->data()[n]) == seen_indices->shape(0),
                 "seen must have one row for each answered row");
          for (size_t s = 0; s < seen_indices->shape(0); ++s)
            expect(seen_indices->data()[s] >= 0 && seen_indices->data()[s] < t.n_right, "seen must be rows of right");
          t.seen_indptr = seen_indptr->data(), t.seen_indices = seen_indices->data();
        }
        {
          nb::gil_scoped_release released;
          const int64_t share = 256;
          parallel(n_threads, (int64_t(n) + share - 1) / share, [&](int, int64_t task) {
            kernels<T>().top(t, task * share, std::min(task * share + share, int64_t(n)));
          });
        }
        return nb::make_tuple(indices, scores);
      },
      "left"_a.noconvert(), "right"_a.noconvert(), "k"_a, "rows"_a.noconvert() = nb::none(),
      "seen_indptr"_a.noconvert() = nb::none(), "seen_indices"_a.noconvert() = nb::none(), "n_threads"_a,
      "Indices and scores of the best k rows of `right` for rows of `left`; sorted `seen` indices are left out; short "
      "lists end in -1 and NaN.");

  m.def(
      "pair_scores",
      [](In<T> left, In<T> right, In<int64_t> rows, In<int64_t> columns, int n_threads) {
        expect(left.ndim() == 2 && right.ndim() == 2 && left.shape(1) == right.shape(1) &&
                   rows.shape(0) == columns.shape(0),
               "left and right must have the same number of columns, rows and columns the same length");
        const int64_t n = int64_t(rows.shape(0)), share = 65536;
        for (int64_t p = 0; p < n; ++p)
          expect(rows.data()[p] >= 0 && size_t(rows.data()[p]) < left.shape(0) && columns.data()[p] >= 0 &&
                     size_t(columns.data()[p]) < right.shape(0),
                 "rows and columns must be rows of left and right");
        auto out = make<T>({size_t(n)});
        {
          nb::gil_scoped_release released;
          parallel(n_threads, (n + share - 1) / share, [&](int, int64_t task) {
            const int64_t first = task * share;
            kernels<T>().pairs(left.data(), right.data(), int(left.shape(1)), rows.data() + first,
                               columns.data() + first, std::min(share, n - first), out.data() + first);
          });
        }
        return out;
      },
      "left"_a.noconvert(), "right"_a.noconvert(), "rows"_a.noconvert(), "columns"_a.noconvert(), "n_threads"_a,
      "left[rows[p]] . right[columns[p]] for every p.");
}

// Values of cells (float32 or float64), moved to where their keys put them.
template <class T>
nb::object moved(const nb::object& values, const In<int32_t>& keys, int64_t n_groups, const int64_t* indptr) {
  auto in = nb::cast<In<T>>(values);
  expect(in.shape(0) == keys.shape(0), "values must have one entry for each cell");
  auto out = make<T>({keys.shape(0)});
  place_cells(keys.data(), int64_t(keys.shape(0)), n_groups, indptr,
              [&](int64_t k, int64_t to) { out.data()[to] = in.data()[k]; });
  return nb::cast(out);
}

nb::list move_all(const nb::list& values, const In<int32_t>& keys, int64_t n_groups, const int64_t* indptr) {
  nb::list out;
  for (nb::handle v : values) {
    nb::object value = nb::borrow(v);
    if (nb::isinstance<In<float>>(value))
      out.append(moved<float>(value, keys, n_groups, indptr));
    else if (nb::isinstance<In<double>>(value))
      out.append(moved<double>(value, keys, n_groups, indptr));
    else
      throw nb::type_error("values must be float32 or float64 arrays");
  }
  return out;
}

void bind_cells(nb::module_& m) {
  m.def(
      "group_cells",
      [](In<int32_t> keys, In<int32_t> indices, int64_t n_groups, nb::list values) {
        const int64_t n = int64_t(keys.shape(0));
        expect(indices.shape(0) == keys.shape(0), "keys and indices must have the same length");
        auto indptr = make<int64_t>({size_t(n_groups + 1)});
        auto out = make<int32_t>({size_t(n)});
        count_groups(keys.data(), n, n_groups, indptr.data());
        place_cells(keys.data(), n, n_groups, indptr.data(),
                    [&](int64_t k, int64_t to) { out.data()[to] = indices.data()[k]; });
        return nb::make_tuple(indptr, out, move_all(values, keys, n_groups, indptr.data()));
      },
      "keys"_a.noconvert(), "indices"_a.noconvert(), "n_groups"_a, "values"_a,
      "Cells (keys[k], indices[k]) grouped by key in linear time, order kept: (indptr, indices, values).");
  m.def(
      "transpose",
      [](In<int64_t> indptr, In<int32_t> indices, int64_t n_columns, nb::list values) {
        const int64_t n_rows = int64_t(indptr.shape(0)) - 1, n = int64_t(indices.shape(0));
        expect(n_rows >= 0 && indptr.data()[n_rows] == n, "indptr does not match indices");
        auto out_indptr = make<int64_t>({size_t(n_columns + 1)});
        auto out = make<int32_t>({size_t(n)});
        count_groups(indices.data(), n, n_columns, out_indptr.data());
        int64_t row = 0;
        place_cells(indices.data(), n, n_columns, out_indptr.data(), [&](int64_t k, int64_t to) {
          while (k >= indptr.data()[row + 1]) ++row;
          out.data()[to] = int32_t(row);
        });
        return nb::make_tuple(out_indptr, out, move_all(values, indices, n_columns, out_indptr.data()));
      },
      "indptr"_a.noconvert(), "indices"_a.noconvert(), "n_columns"_a, "values"_a,
      "The other orientation of CSR cells in linear time; indices come out sorted: (indptr, indices, values).");
}

}  // namespace

NB_MODULE(_core, m) {
  active = available().front();
  bind_number<float>(m);
  bind_number<double>(m);
  bind_cells(m);
  m.def("instruction_set", [] { return std::string(active->name); }, "The path in use.");
  m.def(
      "instruction_sets",
      [] {
        std::vector<std::string> names;
        for (auto* set : available()) names.push_back(set->name);
        return names;
      },
      "The paths this CPU can run, best first.");
  m.def(
      "use_instruction_set",
      [](const std::string& name) {
        for (auto* set : available())
          if (name == set->name) {
            active = set;
            return;
          }
        throw nb::value_error("this CPU or build has no such instruction set");
      },
      "name"_a, "Take another path; for tests and benchmarks.");
  m.attr("long_row") = long_row;
  m.attr("chunk_cells") = chunk_cells;
}

}  // namespace halfstep
